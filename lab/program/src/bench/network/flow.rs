//! What one connection sends in one direction: taken from a socket into a pipe, and from there to the other socket once it has
//! arrived. The bytes stay in the kernel, which moves its pages on (`splice(2)`), so that they are copied no more often than without a
//! relay.

use rustix::io::Errno;
use rustix::pipe::{PipeFlags, SpliceFlags, fcntl_setpipe_size, pipe_with, splice};
use std::io;
use std::net::{Shutdown, TcpStream};
use std::os::fd::OwnedFd;

/// At most so much is one piece: what comes after it need not wait for longer than that takes.
const PIECE_BYTES: usize = 64 << 10;

/// What a pipe has space for, in pages' worth of pieces, if the system allows; as it comes otherwise.
const PIPE_BYTES: usize = 256 << 10;

pub struct Flow {
    inlet: OwnedFd,
    outlet: OwnedFd,
    /// What has arrived at the far end, and is not given to the socket there.
    arrived_bytes: usize,
    /// What is in the pipe.
    held_bytes: usize,
    /// The sender has sent its last.
    is_closed: bool,
    /// And the receiver has it.
    is_over: bool,
}

impl Flow {
    pub fn new() -> io::Result<Self> {
        let (outlet, inlet) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
        // What it has by default works too.
        let _ = fcntl_setpipe_size(&inlet, PIPE_BYTES);
        Ok(Flow {
            inlet,
            outlet,
            arrived_bytes: 0,
            held_bytes: 0,
            is_closed: false,
            is_over: false,
        })
    }

    /// Takes a piece from its sender: `Some(0)` is the end. `None` if there is nothing now, or no space for it.
    pub fn take(&mut self, from: &TcpStream) -> io::Result<Option<usize>> {
        if self.is_closed {
            return Ok(None);
        }
        let flags = SpliceFlags::MOVE | SpliceFlags::NONBLOCK;
        match splice(from, None, &self.inlet, None, PIECE_BYTES, flags) {
            Ok(bytes) => {
                self.held_bytes += bytes;
                self.is_closed = bytes == 0;
                Ok(Some(bytes))
            }
            Err(Errno::AGAIN) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// So many of the bytes taken have arrived.
    pub fn arrive(&mut self, bytes: usize) {
        self.arrived_bytes += bytes;
        self.is_over |= bytes == 0;
    }

    /// Gives the receiver what has arrived, as far as it takes it. Says whether that has made space for more.
    pub fn give(&mut self, to: &TcpStream) -> io::Result<bool> {
        let mut has_given = false;
        while self.arrived_bytes > 0 {
            let flags = SpliceFlags::MOVE | SpliceFlags::NONBLOCK;
            match splice(&self.outlet, None, to, None, self.arrived_bytes, flags) {
                Ok(bytes) => {
                    self.arrived_bytes -= bytes;
                    self.held_bytes -= bytes;
                    has_given = true;
                }
                Err(Errno::AGAIN) => return Ok(has_given),
                Err(error) => return Err(error.into()),
            }
        }
        if self.is_over() {
            // It may be gone already.
            let _ = to.shutdown(Shutdown::Write);
        }
        Ok(has_given)
    }

    /// Whether the receiver has all that was sent, and no more comes.
    pub fn is_over(&self) -> bool {
        self.is_over && self.held_bytes == 0
    }
}
