//! Reads many ranges of files at once.
//!
//! ```text
//! threads that read ── requests ──► thread "esker-reads": io_uring, or a few threads
//!          ◄──── bytes or nothing ──────────┘
//! ```
//!
//! The thread starts when the first request needs it. A caller reads a range itself, as without this
//! type, if
//!
//! * the range is in the page cache;
//! * the file is not one of the system: in memory, on a simulated disk, on a block device;
//! * the background has no threads, or the memory for buffers is used up;
//! * the thread could not read it.
//!
//! So a simulation reads in one thread and in one order. The last case also means that every error
//! comes from [`ReadableFile::read_exact_at`], which names the file and the offset.

#[cfg(target_os = "linux")]
mod queue;
#[cfg(not(target_os = "linux"))]
#[path = "wide_reader/no_queue.rs"]
mod queue;

use crate::ReadableFile;
use esker_base::{Background, Result};
use queue::{Place, Queue, Reply};
use std::ops::Deref;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

/// Fewer ranges than this are read by the caller: to hand them over costs as much as they do.
const RANGES_MIN: usize = 3;

/// One in so many bytes of the memory for buffers is for a piece that is read ahead.
const PIECES: usize = 8;

/// Where wide reads are done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReadPath {
    /// No wide read was needed so far, or all were done by their callers.
    Callers,
    /// By `io_uring`.
    Ring,
    /// By a few threads, because the kernel offers no `io_uring`.
    Threads,
}

impl std::fmt::Display for ReadPath {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(match self {
            ReadPath::Callers => "pread",
            ReadPath::Ring => "io_uring",
            ReadPath::Threads => "threads",
        })
    }
}

/// A range of a file to read.
#[derive(Clone, Copy)]
pub struct ReadRequest<'a> {
    /// The file.
    pub file: &'a dyn ReadableFile,
    /// Where the range starts, in bytes.
    pub offset: u64,
    /// How long it is.
    pub bytes: usize,
}

impl ReadRequest<'_> {
    /// Reads the range in this thread.
    fn read_alone(&self) -> Result<Vec<u8>> {
        let mut bytes = vec![0; self.bytes];
        self.file.read_exact_at(self.offset, &mut bytes)?;
        Ok(bytes)
    }

    fn read_cached(&self) -> Option<Vec<u8>> {
        let mut bytes = vec![0; self.bytes];
        self.file.read_cached_at(self.offset, &mut bytes).then_some(bytes)
    }
}

/// The bytes of a range that was read.
pub struct ReadBytes(Held);

enum Held {
    Own(Vec<u8>, #[expect(dead_code, reason = "held for its drop")] Option<Permit>),
    Buffer(queue::Filled, #[expect(dead_code, reason = "held for its drop")] Permit),
}

impl Deref for ReadBytes {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        match &self.0 {
            Held::Own(bytes, _) => bytes,
            Held::Buffer(filled, _) => filled,
        }
    }
}

impl std::fmt::Debug for ReadBytes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ReadBytes({} bytes)", self.len())
    }
}

/// A part of the memory for buffers.
struct Permit {
    used: Arc<AtomicUsize>,
    bytes: usize,
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.used.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// A read that was begun. Dropped, it is done for nothing.
pub struct PendingRead {
    state: State,
    /// For bytes that the caller has, or reads.
    permit: Option<Permit>,
}

enum State {
    Done(Vec<u8>),
    UnderWay(Reply, Permit),
    /// The caller does it.
    Later,
}

impl PendingRead {
    /// Waits for the bytes. `request` is the one that was begun.
    pub fn wait(self, request: &ReadRequest<'_>) -> Result<ReadBytes> {
        let PendingRead { state, permit } = self;
        let held = match state {
            State::Done(bytes) => Held::Own(bytes, permit),
            State::UnderWay(reply, permit) => match reply.wait().pop().flatten() {
                Some(filled) => Held::Buffer(filled, permit),
                None => Held::Own(request.read_alone()?, Some(permit)),
            },
            State::Later => Held::Own(request.read_alone()?, permit),
        };
        Ok(ReadBytes(held))
    }
}

/// See the file's head. Threads may share it.
pub struct WideReader {
    /// `None`: all is read by the callers.
    background: Option<Arc<dyn Background>>,
    limit_bytes: usize,
    /// Whether `io_uring` is used where there is one.
    may_use_ring: bool,
    used: Arc<AtomicUsize>,
    queue: OnceLock<Option<Queue>>,
    /// Whether a buffer was ever needed.
    is_charged: AtomicBool,
    has_just_started: AtomicBool,
}

impl std::fmt::Debug for WideReader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let used = self.used.load(Ordering::Relaxed);
        write!(f, "WideReader({}, {used} of {} bytes)", self.path(), self.limit_bytes)
    }
}

impl WideReader {
    /// A reader with threads from `background`, whose buffers take at most `limit_bytes`.
    pub fn new(background: Arc<dyn Background>, limit_bytes: usize) -> Self {
        WideReader { background: Some(background), limit_bytes, ..Self::without_threads() }
    }

    /// A reader that leaves all reads to the callers.
    pub fn without_threads() -> Self {
        WideReader {
            background: None,
            limit_bytes: 0,
            may_use_ring: true,
            used: Arc::default(),
            queue: OnceLock::new(),
            is_charged: AtomicBool::new(false),
            has_just_started: AtomicBool::new(false),
        }
    }

    /// The same without `io_uring`, as on a kernel that has none. For tests and measurements.
    #[doc(hidden)]
    #[must_use]
    pub fn without_ring(self) -> Self {
        WideReader { may_use_ring: false, ..self }
    }

    /// Where reads are done.
    pub fn path(&self) -> ReadPath {
        match self.queue.get() {
            Some(Some(queue)) => queue.path(),
            _ => ReadPath::Callers,
        }
    }

    /// Ends the thread if there is one. Callers read everything from then on.
    pub fn close(&self) {
        if let Some(queue) = self.queue.get_or_init(|| None) {
            queue.close();
        }
    }

    /// The memory that its buffers may take: none before the first is needed.
    pub fn charged_bytes(&self) -> usize {
        if self.is_charged.load(Ordering::Relaxed) { self.limit_bytes } else { 0 }
    }

    /// What buffers take now, in bytes.
    pub fn used_bytes(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }

    /// Whether buffers were needed for the first time since this was asked last.
    #[inline]
    pub fn has_just_started(&self) -> bool {
        let has = &self.has_just_started;
        has.load(Ordering::Relaxed) && has.swap(false, Ordering::Relaxed)
    }

    /// Reads all ranges. Results come in the order of the requests, each for itself.
    pub fn read_all(&self, requests: &[ReadRequest<'_>]) -> Vec<Result<ReadBytes>> {
        let cached = |request: &ReadRequest<'_>| request.read_cached();
        let mut found: Vec<Option<Held>> = Vec::with_capacity(requests.len());
        found.extend(requests.iter().map(|it| cached(it).map(|bytes| Held::Own(bytes, None))));
        let missing: Vec<usize> = (0..found.len()).filter(|&at| found[at].is_none()).collect();
        if missing.len() >= RANGES_MIN {
            let place = |at| Some((at, self.place(&requests[at], self.limit_bytes)?));
            let placed: Vec<_> = missing.into_iter().filter_map(place).collect();
            let (mut places, mut takers) = (Vec::new(), Vec::new());
            for (at, (place, permit)) in placed {
                places.push(place);
                takers.push((at, permit));
            }
            let filled = self.push(places).map_or_else(Vec::new, Reply::wait);
            for ((at, permit), filled) in takers.into_iter().zip(filled) {
                found[at] = filled.map(|filled| Held::Buffer(filled, permit));
            }
        }
        let alone = |request: &ReadRequest<'_>| Ok(Held::Own(request.read_alone()?, None));
        let results = found.into_iter().zip(requests);
        results.map(|(held, it)| held.map_or_else(|| alone(it), Ok).map(ReadBytes)).collect()
    }

    /// The most that one [`start`](WideReader::start) should ask for, in bytes, so that several cursors
    /// can.
    pub fn piece_bytes_max(&self) -> usize {
        self.limit_bytes / PIECES
    }

    /// Begins to read a range that is needed soon. `None` if the memory for that is used up.
    pub fn start(&self, request: &ReadRequest<'_>) -> Option<PendingRead> {
        // The other half is for those that wait.
        let limit = self.limit_bytes / 2;
        if let Some((place, permit)) = self.place(request, limit) {
            return Some(match request.read_cached() {
                Some(bytes) => PendingRead { state: State::Done(bytes), permit: Some(permit) },
                None => self.hand_over(place, permit),
            });
        }
        let permit = self.permit(request.bytes, limit)?;
        request.file.read_ahead(request.offset, request.bytes as u64);
        Some(PendingRead { state: State::Later, permit: Some(permit) })
    }

    /// As [`start`](WideReader::start), for a range that is waited for at once. The caller reads it.
    pub fn leave_to_caller(&self, request: &ReadRequest<'_>) -> Option<PendingRead> {
        let permit = self.permit(request.bytes, self.limit_bytes / 2)?;
        Some(PendingRead { state: State::Later, permit: Some(permit) })
    }

    /// As [`start`](WideReader::start), for a range that is small. The page cache reads it ahead for the
    /// caller, who then needs no other thread.
    pub fn start_early(&self, request: &ReadRequest<'_>) -> Option<PendingRead> {
        if Place::is_direct(request) {
            return self.start(request);
        }
        let begun = self.leave_to_caller(request)?;
        request.file.read_ahead(request.offset, request.bytes as u64);
        Some(begun)
    }

    /// As [`start_early`](WideReader::start_early), for a compaction. It leaves three quarters of the memory
    /// to reads, and does without if the rest is used up.
    pub fn start_for_compaction(&self, request: &ReadRequest<'_>) -> PendingRead {
        let place = || self.place(request, self.limit_bytes / 4);
        match Place::is_direct(request).then(place).flatten() {
            Some((place, permit)) => self.hand_over(place, permit),
            None => {
                request.file.read_ahead(request.offset, request.bytes as u64);
                PendingRead { state: State::Later, permit: None }
            }
        }
    }

    fn hand_over(&self, place: Place, permit: Permit) -> PendingRead {
        match self.push(vec![place]) {
            Some(reply) => PendingRead { state: State::UnderWay(reply, permit), permit: None },
            None => PendingRead { state: State::Later, permit: Some(permit) },
        }
    }

    /// The request as one for the thread, if that can do it.
    fn place(&self, request: &ReadRequest<'_>, limit: usize) -> Option<(Place, Permit)> {
        let place = Place::of(request)?;
        let permit = self.permit(place.buffer_bytes(), limit)?;
        Some((place, permit))
    }

    /// Hands `places` over to the thread, unless there are none.
    fn push(&self, places: Vec<Place>) -> Option<Reply> {
        if places.is_empty() {
            return None;
        }
        let background = self.background.as_ref()?;
        let queue = self.queue.get_or_init(|| Queue::start(background, self.may_use_ring));
        queue.as_ref()?.push(places)
    }

    fn permit(&self, bytes: usize, limit: usize) -> Option<Permit> {
        let more = |used: usize| used.checked_add(bytes).filter(|&used| used <= limit);
        self.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).ok()?;
        if !self.is_charged.load(Ordering::Relaxed) {
            self.is_charged.store(true, Ordering::Relaxed);
            self.has_just_started.store(true, Ordering::Relaxed);
        }
        Some(Permit { used: self.used.clone(), bytes })
    }
}
