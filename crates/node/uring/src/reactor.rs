//! The reactor: one interface, and under it the engine that the system offers.

use crate::blocking::Blocking;
use crate::ring::Ring;
use crate::{Completion, Operation, OperationId, Waker};
use esker_base::Background;
use std::io;
use std::marker::PhantomData;
use std::time::Duration;

/// What does a reactor's work.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Engine {
    /// `io_uring`.
    Ring,
    /// `poll` for sockets and threads for files.
    Blocking,
}

/// An operation that was not begun, because as many as there may be are in progress.
#[derive(Debug)]
pub struct SubmitError(pub Operation);

/// Does operations, for the thread that made it.
///
/// Dropping it cancels what is in progress and waits until the kernel is done with it; what was
/// written then may or may not have been.
#[derive(Debug)]
pub struct Reactor {
    worker: Worker,
    waker: Waker,
    /// A ring serves one thread only.
    of_one_thread: PhantomData<*const ()>,
}

#[derive(Debug)]
enum Worker {
    Ring(Box<Ring>),
    Blocking(Blocking),
}

impl Reactor {
    /// A reactor with the best engine there is, for at most `in_flight` operations at a time.
    /// `background` gives the blocking engine its threads.
    pub fn new(in_flight: u32, background: &dyn Background) -> io::Result<Self> {
        Self::with_engine(Engine::Ring, in_flight, background)
            .or_else(|_| Self::with_engine(Engine::Blocking, in_flight, background))
    }

    /// The same with a given engine. Fails if the system does not offer it.
    pub fn with_engine(
        engine: Engine,
        in_flight: u32,
        background: &dyn Background,
    ) -> io::Result<Self> {
        let waker = Waker::new()?;
        let worker = match engine {
            Engine::Ring => Worker::Ring(Box::new(Ring::new(in_flight, waker.clone())?)),
            Engine::Blocking => {
                Worker::Blocking(Blocking::new(in_flight, waker.clone(), background)?)
            }
        };
        Ok(Reactor { worker, waker, of_one_thread: PhantomData })
    }

    /// The engine at work.
    pub fn engine(&self) -> Engine {
        match self.worker {
            Worker::Ring(_) => Engine::Ring,
            Worker::Blocking(_) => Engine::Blocking,
        }
    }

    /// What is at work, in words.
    pub fn describe(&self) -> &'static str {
        match &self.worker {
            Worker::Ring(ring) => ring.describe(),
            Worker::Blocking(_) => "poll and threads",
        }
    }

    /// Takes an operation on. It is begun by the next [`poll`](Self::poll) or [`wait`](Self::wait),
    /// if not before, and then comes back with `token`.
    pub fn submit(&mut self, token: u64, operation: Operation) -> Result<OperationId, SubmitError> {
        match &mut self.worker {
            Worker::Ring(ring) => ring.submit(token, operation),
            Worker::Blocking(blocking) => blocking.submit(token, operation),
        }
    }

    /// Asks that an operation end early. It comes back either way, as cancelled or as done. One that
    /// came back already is left alone.
    pub fn cancel(&mut self, id: OperationId) {
        match &mut self.worker {
            Worker::Ring(ring) => ring.cancel(id),
            Worker::Blocking(blocking) => blocking.cancel(id),
        }
    }

    /// The operations taken on that did not come back yet.
    pub fn in_flight(&self) -> usize {
        match &self.worker {
            Worker::Ring(ring) => ring.in_flight(),
            Worker::Blocking(blocking) => blocking.in_flight(),
        }
    }

    /// Begins what was submitted of files, for who has something else to do before the next [`wait`](Self::wait).
    pub fn begin(&mut self) -> io::Result<()> {
        match &mut self.worker {
            Worker::Ring(ring) => ring.begin(),
            // Its workers have begun.
            Worker::Blocking(_) => Ok(()),
        }
    }

    /// Begins what was submitted and appends to `out` what is done, without waiting.
    pub fn poll(&mut self, out: &mut Vec<Completion>) -> io::Result<()> {
        match &mut self.worker {
            Worker::Ring(ring) => ring.poll(out),
            Worker::Blocking(blocking) => blocking.poll(Some(Duration::ZERO), out),
        }
    }

    /// The same, and if nothing is done waits until something is, until a [`Waker`] wakes it, or
    /// for `timeout`. It may also end early: inspect what came, and go round again.
    pub fn wait(&mut self, timeout: Option<Duration>, out: &mut Vec<Completion>) -> io::Result<()> {
        self.wait_for(1, timeout, out)
    }

    /// As [`wait`](Self::wait), for who can do nothing before `completions` operations are done: fewer
    /// system calls. A wake counts as one of them, and is so noticed at the end of `timeout` at the
    /// latest.
    pub fn wait_for(
        &mut self,
        completions: usize,
        timeout: Option<Duration>,
        out: &mut Vec<Completion>,
    ) -> io::Result<()> {
        // What was submitted is begun by the same system call that waits.
        if self.is_something_done() || !self.waker.fall_asleep() {
            return self.poll(out);
        }
        let outcome = match &mut self.worker {
            Worker::Ring(ring) => ring.wait_for(completions, timeout, out),
            Worker::Blocking(blocking) => blocking.poll(timeout, out),
        };
        self.waker.wake_up();
        outcome
    }

    fn is_something_done(&mut self) -> bool {
        match &mut self.worker {
            Worker::Ring(ring) => ring.is_something_done(),
            // Its wait looks first.
            Worker::Blocking(_) => false,
        }
    }

    /// Takes notice of all wakes so far: the next [`wait`](Self::wait) waits in spite of them. A thread that empties the inbox after this
    /// misses nothing.
    pub fn heed(&self) {
        self.waker.wake_up();
    }

    /// What wakes this reactor, for other threads.
    pub fn waker(&self) -> Waker {
        self.waker.clone()
    }
}
