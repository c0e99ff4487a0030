//! Sockets and timers, without ever blocking.

use crate::pending::{Next, Pending};
use crate::{Descriptor, Operation};
use rustix::event::PollFlags;
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, SocketFlags, accept_with, recv, send};
use rustix::time::{ClockId, clock_gettime};
use std::time::Duration;

/// The system's monotonic clock.
pub(super) fn now() -> Duration {
    let now = clock_gettime(ClockId::Monotonic);
    Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
}

/// When a timeout is over. It takes no descriptor: there may be none left.
pub(super) fn end_of(operation: &Operation) -> Option<Duration> {
    let Operation::Timeout { after } = operation else { return None };
    Some(now().saturating_add(*after))
}

/// What has to become ready, and for what.
pub(super) fn awaited(pending: &Pending) -> (Descriptor, PollFlags) {
    match &pending.operation {
        Operation::Accept { listener } => (listener.clone(), PollFlags::IN),
        Operation::Receive { socket, .. } => (socket.clone(), PollFlags::IN),
        Operation::Send { socket, .. } => (socket.clone(), PollFlags::OUT),
        _ => unreachable!("files' operations are the workers', and a timeout has an end"),
    }
}

/// Does as much as can be done at once.
pub(super) fn step(pending: &mut Pending) -> Next {
    loop {
        match attempt(pending) {
            Ok(bytes) => match pending.advance(bytes) {
                Next::Rest => {}
                end => return end,
            },
            Err(Errno::AGAIN) => return Next::Rest,
            Err(Errno::INTR) => {}
            Err(error) => return Next::End(Err(error.into())),
        }
    }
}

fn attempt(pending: &mut Pending) -> Result<usize, Errno> {
    let done = pending.done;
    match &mut pending.operation {
        Operation::Accept { listener } => {
            // A connection that was ready may be gone again, and then an accept would block.
            fcntl_setfl(&*listener, fcntl_getfl(&*listener)? | OFlags::NONBLOCK)?;
            let accepted = accept_with(&*listener, SocketFlags::CLOEXEC)?;
            pending.accepted = Some(accepted.into());
            Ok(0)
        }
        Operation::Receive { socket, into, .. } => {
            recv(&*socket, &mut into[done..], RecvFlags::DONTWAIT).map(|(bytes, _)| bytes)
        }
        Operation::Send { socket, from } => {
            let mut skip = done;
            let parts = from.iter().map(|slice| {
                let skipped = skip.min(slice.len());
                skip -= skipped;
                &slice[skipped..]
            });
            let mut parts = parts.filter(|part| !part.is_empty());
            let Some(part) = parts.next() else { return Ok(0) };
            let more = if parts.next().is_some() { SendFlags::MORE } else { SendFlags::empty() };
            send(&*socket, part, SendFlags::DONTWAIT | SendFlags::NOSIGNAL | more)
        }
        _ => Ok(0),
    }
}
