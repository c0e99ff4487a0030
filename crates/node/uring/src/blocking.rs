//! The engine without `io_uring`: sockets are asked by `poll` and served without blocking; files
//! are served by threads ([`workers`]).
//!
//! It is for kernels and containers that have no ring. It does what the ring does, in the same order
//! of events; it is not fast: each wait inspects every socket that an operation waits for.

mod sockets;
mod workers;

use crate::operation::cancelled;
use crate::pending::{Next, Pending};
use crate::slots::Slots;
use crate::{Completion, Descriptor, Operation, OperationId, SubmitError, Waker};
use esker_base::Background;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::collections::HashMap;
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::time::Duration;
use workers::Workers;

#[derive(Debug)]
enum State {
    /// A worker has it.
    Away,
    /// It waits for its socket to be ready, or its time to be over.
    Waits { pending: Pending, end: Option<Duration> },
}

/// What a poll is about.
#[derive(Default)]
struct Asked {
    descriptors: Vec<(Descriptor, PollFlags)>,
    /// The operations that wait, the places of their descriptors, and for what.
    waiting: Vec<(OperationId, usize, PollFlags)>,
    /// The timeouts, and when they are over.
    ends: Vec<(OperationId, Duration)>,
}

pub(crate) struct Blocking {
    slots: Slots<State>,
    /// The slots that wait, in the order in which they came.
    waiting: Vec<OperationId>,
    /// What was done outside of a poll.
    done: Vec<Completion>,
    workers: Workers,
    waker: Waker,
}

impl std::fmt::Debug for Blocking {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Blocking({} in flight)", self.in_flight())
    }
}

impl Blocking {
    pub fn new(in_flight: u32, waker: Waker, background: &dyn Background) -> io::Result<Self> {
        let workers = Workers::start(waker.clone(), background)?;
        let slots = Slots::new(in_flight.max(1));
        Ok(Blocking { slots, waiting: Vec::new(), done: Vec::new(), workers, waker })
    }

    pub fn in_flight(&self) -> usize {
        self.slots.len() + self.done.len()
    }

    pub fn submit(&mut self, token: u64, operation: Operation) -> Result<OperationId, SubmitError> {
        let is_file = matches!(
            operation,
            Operation::ReadAt { .. }
                | Operation::WriteAt { .. }
                | Operation::WriteDurablyAt { .. }
                | Operation::WriteGatheredAt { .. }
                | Operation::SyncData { .. }
                | Operation::Deallocate { .. }
        );
        let id = self.slots.insert(State::Away).map_err(|_| ());
        let Ok(id) = id else { return Err(SubmitError(operation)) };
        let pending = Pending::new(token, operation);
        if is_file {
            self.workers.give(id, pending);
            return Ok(id);
        }
        let end = sockets::end_of(&pending.operation);
        *self.slots.get_mut(id).expect("it was just taken") = State::Waits { pending, end };
        self.waiting.push(id);
        Ok(id)
    }

    pub fn cancel(&mut self, id: OperationId) {
        if matches!(self.slots.get_mut(id), Some(State::Waits { .. })) {
            self.waiting.retain(|waiting| *waiting != id);
            let Some(State::Waits { pending, .. }) = self.slots.remove(id) else { return };
            self.done.push(pending.complete(Err(cancelled())));
        }
    }

    /// Takes what is done, after waiting for it if nothing is.
    pub fn poll(&mut self, timeout: Option<Duration>, out: &mut Vec<Completion>) -> io::Result<()> {
        let before = out.len();
        self.take_done(out);
        let timeout = if out.len() == before { timeout } else { Some(Duration::ZERO) };
        for id in self.ready(timeout)? {
            self.serve(id, out);
        }
        self.take_done(out);
        Ok(())
    }

    fn take_done(&mut self, out: &mut Vec<Completion>) {
        out.append(&mut self.done);
        while let Some((id, completion)) = self.workers.take() {
            self.slots.remove(id);
            out.push(completion);
        }
    }

    /// The waiting slots that can go on.
    fn ready(&mut self, timeout: Option<Duration>) -> io::Result<Vec<OperationId>> {
        let Asked { descriptors, waiting, ends } = self.asked();
        let now = sockets::now();
        let first_end = ends.iter().map(|(_, end)| end.saturating_sub(now)).min();
        let timeout = timeout.into_iter().chain(first_end).min().map(|timeout| Timespec {
            tv_sec: i64::try_from(timeout.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: i64::from(timeout.subsec_nanos()),
        });
        let event = self.waker.event();
        let mut asked: Vec<_> =
            descriptors.iter().map(|(descriptor, flags)| PollFd::new(descriptor, *flags)).collect();
        asked.push(PollFd::from_borrowed_fd(event, PollFlags::IN));
        match poll(&mut asked, timeout.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        if asked.last().is_some_and(|last| !last.revents().is_empty()) {
            rustix::io::read(event, &mut [0; 8])?;
        }
        let now = sockets::now();
        let over = ends.iter().filter(|(_, end)| *end <= now).map(|(id, _)| *id);
        let failures = PollFlags::ERR | PollFlags::HUP | PollFlags::NVAL;
        let is_ready = |(_, place, flags): &&(OperationId, usize, PollFlags)| {
            asked[*place].revents().intersects(*flags | failures)
        };
        Ok(waiting.iter().filter(is_ready).map(|(id, ..)| *id).chain(over).collect())
    }

    /// What there is to wait for. Each descriptor once, whatever operations wait for it: the system takes no
    /// more entries than a process may have descriptors.
    fn asked(&mut self) -> Asked {
        let mut places: HashMap<RawFd, usize> = HashMap::new();
        let mut asked = Asked::default();
        for &id in &self.waiting {
            match self.slots.get_mut(id) {
                Some(State::Waits { end: Some(end), .. }) => asked.ends.push((id, *end)),
                Some(State::Waits { pending, .. }) => {
                    let (descriptor, flags) = sockets::awaited(pending);
                    let next = asked.descriptors.len();
                    let place = *places.entry(descriptor.as_raw_fd()).or_insert(next);
                    match asked.descriptors.get_mut(place) {
                        Some((_, all)) => *all |= flags,
                        None => asked.descriptors.push((descriptor, flags)),
                    }
                    asked.waiting.push((id, place, flags));
                }
                _ => {}
            }
        }
        asked
    }

    fn serve(&mut self, id: OperationId, out: &mut Vec<Completion>) {
        let Some(State::Waits { pending, .. }) = self.slots.get_mut(id) else { return };
        let Next::End(result) = sockets::step(pending) else { return };
        self.waiting.retain(|waiting| *waiting != id);
        if let Some(State::Waits { pending, .. }) = self.slots.remove(id) {
            out.push(pending.complete(result));
        }
    }
}
