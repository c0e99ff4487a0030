//! What s2n reads from and writes to.
#![allow(unsafe_code, reason = "s2n's callbacks get a pointer")]

use errno::{Errno, set_errno};
use s2n_tls::connection::Connection;
use s2n_tls::error::Error;
use std::ffi::{c_int, c_void};
use std::ptr::NonNull;

/// EAGAIN: nothing is there to be read.
const AGAIN: Errno = Errno(11);

/// Bytes of both directions. Owned by a pointer, which s2n has a copy of.
pub(super) struct Pipes(NonNull<Both>);

#[derive(Default)]
struct Both {
    /// From the peer, and how much of it was read.
    incoming: Vec<u8>,
    read: usize,
    /// For the peer.
    outgoing: Vec<u8>,
}

// SAFETY: the pointer is the only way to what it points to, but for s2n's copy, which s2n uses only
// in calls on the connection. Pipes and connection are fields of one struct, and move together.
unsafe impl Send for Pipes {}

impl Pipes {
    /// Makes the connection read from these and write to these. They are to be dropped after it.
    pub(super) fn attach(connection: &mut Connection) -> Result<Self, Error> {
        let both = Box::into_raw(Box::<Both>::default());
        // SAFETY: a box is never null.
        let pipes = Pipes(unsafe { NonNull::new_unchecked(both) });
        connection.set_receive_callback(Some(receive))?;
        connection.set_send_callback(Some(send))?;
        // SAFETY: it points to what lives until these pipes are dropped, after the connection; and the
        // callbacks take it for what it is.
        unsafe { connection.set_receive_context(both.cast()) }?;
        // SAFETY: the same.
        unsafe { connection.set_send_context(both.cast()) }?;
        Ok(pipes)
    }

    fn both(&mut self) -> &mut Both {
        // SAFETY: it is alive until `drop`. Nobody else has a reference: the callbacks have one only
        // while a call on the connection runs, and this one ends before the next call begins, for its
        // life is in one call of `feed` or `take_output`.
        unsafe { self.0.as_mut() }
    }

    pub(super) fn feed(&mut self, bytes: &[u8]) {
        self.both().incoming.extend_from_slice(bytes);
    }

    pub(super) fn take_output(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.both().outgoing)
    }
}

impl Drop for Pipes {
    fn drop(&mut self) {
        // SAFETY: it came from a box, and the connection, which has the other pointer, is gone.
        drop(unsafe { Box::from_raw(self.0.as_ptr()) });
    }
}

/// Gives s2n what there is.
///
/// # Safety
///
/// `context` points to a `Both` that no other thread uses in this call, and `into` to `bytes` bytes that
/// may be written.
// SAFETY: s2n calls it so: the context is the one that `attach` gave it.
unsafe extern "C" fn receive(context: *mut c_void, into: *mut u8, bytes: u32) -> c_int {
    // SAFETY: as the contract says.
    let both = unsafe { &mut *context.cast::<Both>() };
    let there = &both.incoming[both.read..];
    let taken = there.len().min(bytes as usize);
    if taken == 0 {
        set_errno(AGAIN);
        return -1;
    }
    // SAFETY: `taken` bytes are there to be read, and may be written; a vector does not overlap with
    // what s2n owns.
    unsafe { into.copy_from_nonoverlapping(there.as_ptr(), taken) };
    both.read += taken;
    if both.read == both.incoming.len() {
        both.incoming.clear();
        both.read = 0;
    }
    taken as c_int
}

/// Takes what s2n has for the peer.
///
/// # Safety
///
/// `context` points to a `Both` that no other thread uses in this call, and `from` to `bytes` bytes.
// SAFETY: as above.
unsafe extern "C" fn send(context: *mut c_void, from: *const u8, bytes: u32) -> c_int {
    // SAFETY: as the contract says.
    let both = unsafe { &mut *context.cast::<Both>() };
    // SAFETY: the same.
    let from = unsafe { std::slice::from_raw_parts(from, bytes as usize) };
    both.outgoing.extend_from_slice(from);
    bytes as c_int
}
