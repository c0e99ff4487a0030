//! Writes that no caller waits for yet: a thread, and a bounded queue before it.
//!
//! What is appended to a file reaches the device while the writer goes on, as it does behind a system's page cache. When
//! the queue is full the writer waits for space. A sync waits for what its file has in progress.

use super::inode::Inode;
use esker_base::background::Running;
use esker_base::{Background, Error, Priority, Result};
use parking_lot::{Condvar, Mutex};
use std::collections::VecDeque;
use std::sync::Arc;

/// What may be queued: enough that a writer seldom waits, little enough that a sync is short.
const QUEUE_BYTES: usize = 8 << 20;

/// What one file has in progress.
#[derive(Default)]
pub(super) struct InFlightWrites {
    state: Mutex<(usize, Option<Error>)>,
    done: Condvar,
}

impl InFlightWrites {
    /// Waits until nothing is in progress. The first failure stays.
    pub(super) fn wait(&self) -> Result<()> {
        let mut state = self.state.lock();
        self.done.wait_while(&mut state, |(count, _)| *count > 0);
        state.1.clone().map_or(Ok(()), Err)
    }

    fn has_failed(&self) -> bool {
        self.state.lock().1.is_some()
    }

    fn finish(&self, outcome: Result<()>) {
        let mut state = self.state.lock();
        state.0 -= 1;
        if let Err(error) = outcome {
            state.1.get_or_insert(error);
        }
        self.done.notify_all();
    }
}

struct Job {
    body: Arc<Inode>,
    offset: u64,
    blocks: Vec<u8>,
    /// The file's length when this is written.
    len: u64,
    underway: Arc<InFlightWrites>,
}

impl Job {
    fn run(self) {
        let written = self.body.write(self.offset, &self.blocks);
        // What is behind a failed write is not there to read: the file would have a hole.
        if written.is_ok() && !self.underway.has_failed() {
            self.body.wrote(self.len);
        }
        // Before anybody hears of it, so that the one who waits holds the last handle.
        drop(self.body);
        self.underway.finish(written);
    }
}

#[derive(Default)]
struct Queue {
    state: Mutex<State>,
    filled: Condvar,
    emptied: Condvar,
}

#[derive(Default)]
struct State {
    jobs: VecDeque<Job>,
    bytes: usize,
    /// No thread serves it, or not for long.
    closed: bool,
}

pub(super) struct WriteBehind {
    queue: Arc<Queue>,
    thread: Mutex<Option<Box<dyn Running>>>,
}

impl WriteBehind {
    pub(super) fn start(background: &dyn Background) -> Result<Self> {
        let queue = Arc::new(Queue::default());
        let served = queue.clone();
        let body = Box::new(move || serve(&served));
        let thread = background.spawn("esker-write-behind", Priority::Normal, body)?;
        // Without threads everything is written at once.
        queue.state.lock().closed = thread.is_none();
        Ok(WriteBehind { queue, thread: Mutex::new(thread) })
    }

    /// Writes `blocks` at `offset` of `body`, sooner or later, after which the file has `len` bytes.
    pub(super) fn write(
        &self,
        body: &Arc<Inode>,
        offset: u64,
        blocks: Vec<u8>,
        len: u64,
        underway: &Arc<InFlightWrites>,
    ) {
        underway.state.lock().0 += 1;
        let (body, underway) = (body.clone(), underway.clone());
        let job = Job { body, offset, blocks, len, underway };
        let mut state = self.queue.state.lock();
        let is_full = |state: &mut State| state.bytes >= QUEUE_BYTES && !state.closed;
        self.queue.emptied.wait_while(&mut state, is_full);
        if state.closed {
            drop(state);
            return job.run();
        }
        state.bytes += job.blocks.len();
        state.jobs.push_back(job);
        self.queue.filled.notify_one();
    }

    /// Writes what is queued, and ends the thread. Later writes are done at once.
    pub(super) fn close(&self) {
        self.queue.state.lock().closed = true;
        self.queue.filled.notify_one();
        self.queue.emptied.notify_all();
        if let Some(thread) = self.thread.lock().take() {
            thread.join();
        }
    }
}

fn serve(queue: &Queue) {
    let mut state = queue.state.lock();
    loop {
        if let Some(job) = state.jobs.pop_front() {
            state.bytes -= job.blocks.len();
            drop(state);
            queue.emptied.notify_all();
            job.run();
            state = queue.state.lock();
        } else if state.closed {
            return;
        } else {
            queue.filled.wait(&mut state);
        }
    }
}
