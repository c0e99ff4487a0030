//! Threads that read, write and sync files, and wake the reactor when they have.

use crate::pending::{Next, Pending};
use crate::slots::OperationId;
use crate::{Completion, Operation, Waker};
use esker_base::background::Running;
use esker_base::{Background, Priority};
use rustix::fs::FallocateFlags;
use rustix::io::{Errno, ReadWriteFlags, pread, pwrite, pwritev, pwritev2};
use std::io::{self, IoSlice};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};

/// Enough to keep a disk busy; a machine without a ring is not where speed is asked for.
const THREADS: usize = 4;

type Job = (OperationId, Pending);

pub(super) struct Workers {
    /// Dropped to end the threads.
    jobs: Option<Sender<Job>>,
    done: Receiver<(OperationId, Completion)>,
    /// What a thread, or without threads the caller, does its work with.
    shared: Shared,
    threads: Vec<Box<dyn Running>>,
}

#[derive(Clone)]
struct Shared {
    done: Sender<(OperationId, Completion)>,
    waker: Waker,
}

impl Workers {
    /// Starts threads. A background that has none leaves the work to the caller's own.
    pub fn start(waker: Waker, background: &dyn Background) -> io::Result<Self> {
        let (jobs, queue) = channel();
        let (sender, done) = channel();
        let shared = Shared { done: sender, waker };
        let queue = Arc::new(Mutex::new(queue));
        let mut threads = Vec::new();
        for _ in 0..THREADS {
            let (queue, shared) = (queue.clone(), shared.clone());
            let body = Box::new(move || work(&queue, &shared));
            let thread = background.spawn("esker-file-io", Priority::Normal, body);
            threads.extend(thread.map_err(io::Error::other)?);
        }
        let jobs = (!threads.is_empty()).then_some(jobs);
        Ok(Workers { jobs, done, shared, threads })
    }

    pub fn give(&self, id: OperationId, pending: Pending) {
        match &self.jobs {
            Some(jobs) => {
                let given = jobs.send((id, pending));
                given.expect("the workers end when this goes");
            }
            None => self.shared.finish(id, pending),
        }
    }

    /// The next operation that is done.
    pub fn take(&self) -> Option<(OperationId, Completion)> {
        self.done.try_recv().ok()
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        self.jobs = None;
        for thread in self.threads.drain(..) {
            thread.join();
        }
    }
}

fn work(queue: &Mutex<Receiver<Job>>, shared: &Shared) {
    loop {
        let job = queue.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok((id, pending)) = job else { return };
        shared.finish(id, pending);
    }
}

impl Shared {
    fn finish(&self, id: OperationId, mut pending: Pending) {
        let result = run(&mut pending);
        // The reactor is gone if nobody receives; then so is whoever asked.
        let _ = self.done.send((id, pending.complete(result)));
        self.waker.wake();
    }
}

fn run(pending: &mut Pending) -> io::Result<usize> {
    loop {
        match attempt(pending) {
            Ok(bytes) => match pending.advance(bytes) {
                Next::Rest => {}
                Next::End(result) => return result,
            },
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

fn attempt(pending: &mut Pending) -> Result<usize, Errno> {
    let done = pending.done;
    match &mut pending.operation {
        Operation::ReadAt { file, offset, into } => {
            pread(&*file, &mut into[done..], *offset + done as u64)
        }
        Operation::WriteAt { file, offset, from } => {
            pwrite(&*file, &from[done..], *offset + done as u64)
        }
        Operation::WriteDurablyAt { file, offset, from } => {
            let rest = [IoSlice::new(&from[done..])];
            pwritev2(&*file, &rest, *offset + done as u64, ReadWriteFlags::DSYNC)
        }
        Operation::WriteGatheredAt { file, offset, from } => {
            let mut parts: Vec<_> = from.iter().map(|slice| IoSlice::new(slice)).collect();
            let mut rest = &mut parts[..];
            IoSlice::advance_slices(&mut rest, done);
            // Of more than the system takes at a time, the rest comes next.
            pwritev(&*file, rest, *offset + done as u64)
        }
        Operation::SyncData { file } => rustix::fs::fdatasync(&*file).map(|()| 0),
        Operation::Deallocate { file, offset, bytes } => {
            let mode = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
            rustix::fs::fallocate(&*file, mode, *offset, *bytes).map(|()| 0)
        }
        _ => unreachable!("only files' operations come to a worker"),
    }
}
