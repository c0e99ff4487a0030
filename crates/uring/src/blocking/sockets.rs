//! Sockets and timers, without ever blocking.

use crate::pending::{Next, Pending};
use crate::{Descriptor, Operation};
use rustix::event::PollFlags;
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, SocketFlags, accept_with, recv, send};
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};
use std::io;
use std::time::Duration;

/// The timer that a timeout waits for: a descriptor that becomes readable.
pub(super) fn timer_of(operation: &Operation) -> io::Result<Option<Descriptor>> {
    let Operation::Timeout { after } = operation else { return Ok(None) };
    // A timer of zero never goes off.
    let after = (*after).max(Duration::from_nanos(1));
    let timer = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::CLOEXEC)?;
    let value = Timespec {
        tv_sec: i64::try_from(after.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: i64::from(after.subsec_nanos()),
    };
    let once = Itimerspec { it_interval: Timespec { tv_sec: 0, tv_nsec: 0 }, it_value: value };
    timerfd_settime(&timer, TimerfdTimerFlags::empty(), &once)?;
    Ok(Some(timer.into()))
}

/// What has to become ready, and for what.
pub(super) fn awaited(pending: &Pending, timer: &Option<Descriptor>) -> (Descriptor, PollFlags) {
    match &pending.operation {
        Operation::Accept { listener } => (listener.clone(), PollFlags::IN),
        Operation::Receive { socket, .. } => (socket.clone(), PollFlags::IN),
        Operation::Send { socket, .. } => (socket.clone(), PollFlags::OUT),
        _ => (timer.clone().expect("what is no socket's is a timer's"), PollFlags::IN),
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
