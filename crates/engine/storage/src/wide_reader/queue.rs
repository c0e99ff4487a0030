//! The thread that reads for others, over a reactor.
//!
//! Requests come in groups, and a group is answered when all of it is read: its caller is woken once.
//! A request owns its buffer and keeps its file open. A group is answered in any case: if the thread
//! ends early, the way back is closed, and the caller that waits there reads the ranges itself.

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
use std::time::Duration;

/// Reads in progress at once: more than the queues of most devices serve at once.
const DEPTH: u32 = 128;

/// A group that comes while the thread waits for several reads of another one is begun after this time
/// at the latest.
const BEGIN_DELAY_MAX: Duration = Duration::from_micros(100);

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
        Some(Place { file: raw.descriptor, start, buffer_bytes, wanted })
    }

    /// Whether the file is read past the page cache.
    pub(super) fn is_direct(request: &ReadRequest<'_>) -> bool {
        request.file.raw().is_some_and(|raw| raw.alignment > 1)
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

/// The way back of a group.
pub(super) struct Reply {
    way: Receiver<Vec<Option<Filled>>>,
}

impl Reply {
    /// Waits for the ranges, in the order of their places: `None` for those that could not be read, or
    /// no ranges if the thread has ended.
    pub(super) fn wait(self) -> Vec<Option<Filled>> {
        self.way.recv().unwrap_or_default()
    }
}

struct Job {
    parts: Vec<(Place, Buffer)>,
    reply: SyncSender<Vec<Option<Filled>>>,
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

    /// Hands a group over. `None` if the thread has ended.
    pub(super) fn push(&self, places: Vec<Place>) -> Option<Reply> {
        let (reply, way) = sync_channel(1);
        let parts = places.into_iter().map(|place| {
            let buffer = Buffer::zeroed(place.buffer_bytes);
            (place, buffer)
        });
        let parts = parts.collect();
        self.jobs.lock().as_ref()?.send(Job { parts, reply }).ok()?;
        self.waker.wake();
        Some(Reply { way })
    }

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

/// A range that the reactor has not taken on.
struct Waiting {
    group: u64,
    part: usize,
    place: Place,
    buffer: Buffer,
}

/// Where the bytes of a read in progress go.
struct UnderWay {
    group: u64,
    part: usize,
    wanted: Range<usize>,
}

/// A group that is not answered yet.
struct Group {
    filled: Vec<Option<Filled>>,
    /// Its ranges that are not done.
    left: usize,
    reply: SyncSender<Vec<Option<Filled>>>,
}

/// What the thread works on.
#[derive(Default)]
struct Work {
    waiting: VecDeque<Waiting>,
    under_way: BTreeMap<u64, UnderWay>,
    groups: BTreeMap<u64, Group>,
    next_group: u64,
    next_token: u64,
}

/// Serves requests until no more can come and the last is answered.
fn serve(mut reactor: Reactor, inbox: &Receiver<Job>) -> io::Result<()> {
    let (mut work, mut completions, mut is_open) = (Work::default(), Vec::new(), true);
    loop {
        while is_open {
            match inbox.try_recv() {
                Ok(job) => work.take_on(job),
                Err(TryRecvError::Empty) => break,
                Err(TryRecvError::Disconnected) => is_open = false,
            }
        }
        work.submit(&mut reactor);
        if !is_open && work.groups.is_empty() {
            return Ok(());
        }
        match work.completions_needed() {
            1 => reactor.wait(None, &mut completions)?,
            many => reactor.wait_for(many, Some(BEGIN_DELAY_MAX), &mut completions)?,
        }
        completions.drain(..).for_each(|completion| work.finish(completion));
    }
}

impl Work {
    fn take_on(&mut self, Job { parts, reply }: Job) {
        let group = self.next_group;
        self.next_group += 1;
        let filled = parts.iter().map(|_| None).collect();
        self.groups.insert(group, Group { filled, left: parts.len(), reply });
        let parts = parts.into_iter().enumerate();
        let waiting = parts.map(|(part, (place, buffer))| Waiting { group, part, place, buffer });
        self.waiting.extend(waiting);
    }

    /// Gives the reactor as much as it takes.
    fn submit(&mut self, reactor: &mut Reactor) {
        while let Some(Waiting { group, part, place, buffer }) = self.waiting.pop_front() {
            let Place { file, start, wanted, buffer_bytes } = place;
            let read = Operation::ReadAt { file, offset: start, into: buffer.whole() };
            match reactor.submit(self.next_token, read) {
                Ok(_) => {
                    self.under_way.insert(self.next_token, UnderWay { group, part, wanted });
                    self.next_token += 1;
                }
                Err(SubmitError(Operation::ReadAt { file, into, .. })) => {
                    let place = Place { file, start, wanted, buffer_bytes };
                    let buffer = into.into_buffer();
                    self.waiting.push_front(Waiting { group, part, place, buffer });
                    break;
                }
                Err(_) => unreachable!("what was not taken on comes back"),
            }
        }
    }

    /// With fewer completions, no group is answered, and no range that waits is begun.
    fn completions_needed(&self) -> usize {
        match self.waiting.is_empty() {
            true => self.groups.values().map(|group| group.left).min().unwrap_or(1),
            false => 1,
        }
    }

    fn finish(&mut self, Completion { token, result, operation, .. }: Completion) {
        let Some(UnderWay { group, part, wanted }) = self.under_way.remove(&token) else { return };
        let Some(found) = self.groups.get_mut(&group) else { return };
        let is_whole = result.is_ok_and(|bytes| bytes >= wanted.end);
        let buffer = operation.into_buffer().filter(|_| is_whole);
        found.filled[part] = buffer.map(|buffer| Filled { buffer, wanted });
        found.left -= 1;
        if found.left == 0
            && let Some(Group { filled, reply, .. }) = self.groups.remove(&group)
        {
            // The caller may have gone.
            let _ = reply.send(filled);
        }
    }
}
