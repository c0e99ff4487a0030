//! The thread that reads for others, over a reactor.
//!
//! A request owns its buffer and keeps its file open. It is answered in any case: if the thread ends
//! early, the way back is closed, and the caller that waits there reads the range itself.

use super::{ReadPath, ReadRequest};
use esker_base::background::Running;
use esker_base::{Background, Priority};
use esker_uring::{Buffer, Completion, Descriptor, Engine, Operation, Reactor, SubmitError, Waker};
use parking_lot::Mutex;
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::ops::{Deref, Range};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, SyncSender, TryRecvError, channel, sync_channel};

/// Reads in progress at once: more than the queues of most devices serve at once.
const DEPTH: u32 = 128;

/// A range of an open file, and the aligned range around it.
pub(super) struct Place {
    file: Descriptor,
    start: u64,
    buffer_bytes: usize,
    wanted: Range<usize>,
}

impl Place {
    /// `None` if the system does not have the file, or no file can have the range.
    pub(super) fn of(request: &ReadRequest<'_>) -> Option<Place> {
        let raw = request.file.raw()?;
        let end = request.offset.checked_add(request.bytes as u64)?;
        let (start, end) = (
            request.offset / raw.alignment * raw.alignment,
            end.checked_next_multiple_of(raw.alignment).filter(|&end| end <= i64::MAX as u64)?,
        );
        let skipped = (request.offset - start) as usize;
        let wanted = skipped..skipped + request.bytes;
        let buffer_bytes = usize::try_from(end - start).ok()?;
        Some(Place { file: raw.descriptor.clone(), start, buffer_bytes, wanted })
    }

    pub(super) fn buffer_bytes(&self) -> usize {
        self.buffer_bytes
    }
}

/// A buffer with a range that was read.
pub(super) struct Filled {
    buffer: Buffer,
    wanted: Range<usize>,
}

impl Deref for Filled {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &self.buffer[self.wanted.clone()]
    }
}

/// The way back of a request.
pub(super) struct Reply {
    way: Receiver<Filled>,
}

impl Reply {
    pub(super) fn wait(self) -> Option<Filled> {
        self.way.recv().ok()
    }
}

struct Job {
    place: Place,
    buffer: Buffer,
    reply: SyncSender<Filled>,
}

pub(super) struct Queue {
    /// Taken to end the thread.
    jobs: Mutex<Option<Sender<Job>>>,
    waker: Waker,
    path: ReadPath,
    thread: Mutex<Option<Box<dyn Running>>>,
    /// The process that started the thread. A forked child does not have it.
    pid: u32,
}

impl Queue {
    /// Starts the thread. `None` if no thread or no reactor is available.
    pub(super) fn start(background: &Arc<dyn Background>, may_use_ring: bool) -> Option<Queue> {
        let (jobs, inbox) = channel();
        let (started, starts) = sync_channel(1);
        let files = background.clone();
        let body = Box::new(move || {
            let made = match may_use_ring {
                true => Reactor::new(DEPTH, &*files),
                false => Reactor::with_engine(Engine::Blocking, DEPTH, &*files),
            };
            let Ok(reactor) = made else { return };
            let path = match reactor.engine() {
                Engine::Ring => ReadPath::Ring,
                Engine::Blocking => ReadPath::Threads,
            };
            if started.send((reactor.waker(), path)).is_ok() {
                // It fails if the kernel's ring does. Then callers read for themselves.
                let _ = serve(reactor, &inbox);
            }
        });
        let thread = background.spawn("esker-reads", Priority::Normal, body).ok().flatten()?;
        match starts.recv() {
            Ok((waker, path)) => {
                let (jobs, thread) = (Mutex::new(Some(jobs)), Mutex::new(Some(thread)));
                let pid = std::process::id();
                Some(Queue { jobs, waker, path, thread, pid })
            }
            Err(_) => {
                thread.join();
                None
            }
        }
    }

    pub(super) fn path(&self) -> ReadPath {
        self.path
    }

    /// Hands a request over. `None` if the thread has ended.
    pub(super) fn push(&self, place: Place) -> Option<Reply> {
        let (reply, way) = sync_channel(1);
        let buffer = Buffer::zeroed(place.buffer_bytes);
        self.jobs.lock().as_ref()?.send(Job { place, buffer, reply }).ok()?;
        Some(Reply { way })
    }

    pub(super) fn wake(&self) {
        self.waker.wake();
    }
}

impl Queue {
    /// Ends the thread when it has answered what was handed over.
    pub(super) fn close(&self) {
        drop(self.jobs.lock().take());
        self.waker.wake();
        let thread = self.thread.lock().take();
        if let Some(thread) = thread {
            thread.join();
        }
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        match self.pid == std::process::id() {
            true => self.close(),
            // Its locks and its thread are the parent's.
            false => std::mem::forget(self.thread.get_mut().take()),
        }
    }
}

/// Where the bytes of a read in progress go.
struct UnderWay {
    wanted: Range<usize>,
    reply: SyncSender<Filled>,
}

/// Serves requests until no more can come and the last is answered.
fn serve(mut reactor: Reactor, inbox: &Receiver<Job>) -> io::Result<()> {
    let (mut waiting, mut under_way) = (VecDeque::new(), BTreeMap::new());
    let (mut completions, mut next_token, mut is_open) = (Vec::new(), 0, true);
    loop {
        while is_open {
            match inbox.try_recv() {
                Ok(job) => waiting.push_back(job),
                Err(TryRecvError::Empty) => break,
                Err(TryRecvError::Disconnected) => is_open = false,
            }
        }
        while let Some(Job { place, buffer, reply }) = waiting.pop_front() {
            let Place { file, start, wanted, buffer_bytes } = place;
            let read = Operation::ReadAt { file, offset: start, into: buffer.whole() };
            match reactor.submit(next_token, read) {
                Ok(_) => {
                    under_way.insert(next_token, UnderWay { wanted, reply });
                    next_token += 1;
                }
                Err(SubmitError(Operation::ReadAt { file, into, .. })) => {
                    let place = Place { file, start, wanted, buffer_bytes };
                    waiting.push_front(Job { place, buffer: into.into_buffer(), reply });
                    break;
                }
                Err(_) => unreachable!("what was not taken on comes back"),
            }
        }
        if !is_open && waiting.is_empty() && under_way.is_empty() {
            return Ok(());
        }
        reactor.wait(None, &mut completions)?;
        for Completion { token, result, operation, .. } in completions.drain(..) {
            let Some(UnderWay { wanted, reply }) = under_way.remove(&token) else { continue };
            let is_whole = result.is_ok_and(|bytes| bytes >= wanted.end);
            if let Some(buffer) = operation.into_buffer().filter(|_| is_whole) {
                // The caller may have gone.
                let _ = reply.send(Filled { buffer, wanted });
            }
        }
    }
}
