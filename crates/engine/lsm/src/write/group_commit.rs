//! Group commit: one writer at a time appends the complete frames of all writers to the log file,
//! and one at a time syncs what was appended.
//!
//! A writer whose frames are not appended takes the turn if it is free, and waits otherwise. An
//! append covers every complete frame in a row, of all writers. A sync covers everything appended
//! when it starts, so the next group gathers while it runs. The two turns are separate: a sync,
//! which waits for the device, never delays a writer that only needs an append.

use super::leader::LeaderElection;
use crate::log::segment_provider::LogSegment;
use crate::primitives::{AtomicBool, AtomicU64, Mutex, Ordering, yield_now};
use esker_base::{Error, Result, Seqno};
use esker_memtable::LogPosition;
use esker_storage::LogFile;
use std::collections::VecDeque;
use std::sync::atomic::AtomicU64 as Counter;
use std::sync::{Arc, OnceLock};

/// A segment as the group sees it: entries that become complete in order, and a file for them.
pub(crate) trait Segment: Clone {
    /// A place between two frames.
    type Place: Copy;

    /// The log file, if there is a log.
    fn file(&self) -> Option<&Arc<dyn LogFile>>;
    /// The place before the first frame.
    fn start(&self) -> Self::Place;
    /// The place after the last frame in a row from `from` on that is complete.
    fn completed(&self, from: Self::Place) -> Self::Place;
    /// The bytes between two places.
    fn bytes(&self, from: Self::Place, to: Self::Place) -> &[u8];
    /// Whether it takes no further frame.
    fn is_sealed(&self) -> bool;
    /// The last seqno reserved in it.
    fn last_seqno(&self) -> Seqno;
    /// Where in the file `place` is, and the seqno that follows it.
    fn at(place: Self::Place) -> (u64, Seqno);
    /// The last seqno of the last batch that ends in the segment before `place`, if one does.
    fn last_of_whole(place: Self::Place) -> Option<Seqno>;
}

impl Segment for LogSegment {
    type Place = LogPosition;

    fn file(&self) -> Option<&Arc<dyn LogFile>> {
        self.file.as_ref()
    }
    fn start(&self) -> LogPosition {
        self.memtable.start()
    }
    #[inline]
    fn completed(&self, from: LogPosition) -> LogPosition {
        self.memtable.completed(from)
    }
    fn bytes(&self, from: LogPosition, to: LogPosition) -> &[u8] {
        self.memtable.bytes(from, to)
    }
    fn is_sealed(&self) -> bool {
        self.memtable.is_sealed()
    }
    fn last_seqno(&self) -> Seqno {
        self.memtable.last_seqno()
    }
    fn at(place: LogPosition) -> (u64, Seqno) {
        (place.offset(), place.next_seqno())
    }
    #[inline]
    fn last_of_whole(place: LogPosition) -> Option<Seqno> {
        place.last_of_whole()
    }
}

/// What was sent to log files.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct LogWriteStats {
    pub(crate) bytes: u64,
    pub(crate) appends: u64,
    pub(crate) syncs: u64,
}

/// See the file's head.
pub(crate) struct GroupCommit<S: Segment = LogSegment> {
    append_turn: LeaderElection,
    sync_turn: LeaderElection,

    // How far the log is. They only rise, and `synced` never passes `appended`, except that what is
    // in tables counts as synced. Both are the ends of batches: of one that has several frames, no
    // reader may see a part.
    appended: AtomicU64,
    synced: AtomicU64,
    failure: OnceLock<Error>,
    failed: AtomicBool,

    // Segments that come after the appender's. Pushed under the tail's lock.
    queue: Mutex<VecDeque<S>>,
    appender: Mutex<Appender<S>>,

    bytes: Counter,
    appends: Counter,
    syncs: Counter,
}

/// The place in the log. Locked for an append, never for a sync.
struct Appender<S: Segment> {
    current: Option<(S, S::Place)>,
    /// Whether the current file has bytes that no sync has begun to cover.
    dirty: bool,
    /// Earlier files with such bytes, oldest first.
    unsynced: Vec<Finished>,
}

impl<S: Segment> Default for Appender<S> {
    fn default() -> Self {
        Appender { current: None, dirty: false, unsynced: Vec::new() }
    }
}

/// A log file that takes no further bytes.
struct Finished {
    file: Arc<dyn LogFile>,
    last_seqno: Seqno,
    /// The last seqno of the last batch that ends in it or before.
    whole: Seqno,
}

impl<S: Segment> GroupCommit<S> {
    pub(crate) fn new(last_seqno: Seqno) -> Self {
        GroupCommit {
            append_turn: LeaderElection::default(),
            sync_turn: LeaderElection::default(),
            appended: AtomicU64::new(last_seqno),
            synced: AtomicU64::new(last_seqno),
            failure: OnceLock::new(),
            failed: AtomicBool::new(false),
            queue: Mutex::new(VecDeque::new()),
            appender: Mutex::new(Appender::default()),
            bytes: Counter::new(0),
            appends: Counter::new(0),
            syncs: Counter::new(0),
        }
    }

    /// Says that `segment` takes the frames after those of the segments pushed before.
    pub(crate) fn push(&self, segment: S) {
        if segment.file().is_some() {
            self.queue.lock().push_back(segment);
        }
    }

    /// The last seqno in the operating system's hands.
    #[inline]
    pub(crate) fn appended(&self) -> Seqno {
        self.appended.load(Ordering::Acquire)
    }

    /// The last seqno that survives power loss.
    #[inline]
    pub(crate) fn synced(&self) -> Seqno {
        self.synced.load(Ordering::Acquire)
    }

    #[inline]
    pub(crate) fn has_failed(&self) -> bool {
        self.failed.load(Ordering::Acquire)
    }

    pub(crate) fn failure(&self) -> Option<Error> {
        self.failure.get().cloned()
    }

    pub(crate) fn traffic(&self) -> LogWriteStats {
        LogWriteStats {
            bytes: self.bytes.load(Ordering::Relaxed),
            appends: self.appends.load(Ordering::Relaxed),
            syncs: self.syncs.load(Ordering::Relaxed),
        }
    }

    /// Says that everything up to `seqno` is in tables, so that no log file is needed for it.
    pub(crate) fn flushed_through(&self, seqno: Seqno) {
        let appender = &mut *self.appender.lock();
        appender.unsynced.retain(|finished| finished.last_seqno > seqno);
        let is_over = |segment: &S| segment.is_sealed() && segment.last_seqno() <= seqno;
        if appender.current.take_if(|(segment, _)| is_over(segment)).is_some() {
            // Until another segment is written to, its file would be kept open, and its space with it.
            appender.dirty = false;
        }
        self.synced.fetch_max(seqno, Ordering::SeqCst);
    }

    /// Lets go of all segments, if the log has failed: nothing more is appended.
    pub(crate) fn release_failed(&self) {
        if self.has_failed() {
            self.queue.lock().clear();
            *self.appender.lock() = Appender::default();
        }
    }

    /// Returns once everything up to `seqno` is in the operating system's hands.
    #[inline]
    pub(crate) fn append_through(&self, seqno: Seqno) -> Result<()> {
        self.reach(seqno, &self.appended, &self.append_turn, || {
            self.append_complete(&mut self.appender.lock())
        })
    }

    /// Returns once everything up to `seqno` survives power loss.
    pub(crate) fn sync_through(&self, seqno: Seqno) -> Result<()> {
        // Whoever has the turn appends for all: one write a group.
        self.reach(seqno, &self.synced, &self.sync_turn, || {
            self.append_through(seqno)?;
            self.sync_appended(seqno)
        })
    }

    /// Waits until `mark` is at `seqno`, or takes the turn and does `work` until it is.
    #[inline]
    fn reach(
        &self,
        seqno: Seqno,
        mark: &AtomicU64,
        turn: &LeaderElection,
        work: impl Fn() -> Result<()>,
    ) -> Result<()> {
        let is_over = || mark.load(Ordering::SeqCst) >= seqno || self.has_failed();
        let mut is_next = false;
        loop {
            let achieved = mark.load(Ordering::Acquire);
            let failed = self.has_failed();
            if achieved >= seqno || failed {
                if is_next {
                    turn.pass_on(if failed { Seqno::MAX } else { achieved });
                }
                if achieved >= seqno {
                    return Ok(());
                }
                return Err(self.failure().expect("the cause is stored before the flag"));
            }
            if !turn.take() {
                is_next = turn.wait(seqno, is_over);
                continue;
            }
            if self.has_failed() {
                // It failed between the look and the turn: what it left behind is not to be trusted.
                turn.give_back(Seqno::MAX);
                continue;
            }
            let worked = work();
            if let Err(error) = &worked {
                let _ = self.failure.set(error.clone());
                self.failed.store(true, Ordering::SeqCst);
            }
            // After a failure there is nothing left to wait for.
            let achieved = if worked.is_ok() { mark.load(Ordering::SeqCst) } else { Seqno::MAX };
            turn.give_back(achieved);
            worked?;
            if achieved >= seqno {
                return Ok(());
            }
            // A frame before ours is reserved but not filled yet. Its writer needs a core.
            yield_now();
        }
    }

    /// Writes every complete frame in a row, across segments.
    fn append_complete(&self, appender: &mut Appender<S>) -> Result<()> {
        loop {
            if appender.current.is_none() {
                let Some(segment) = self.queue.lock().pop_front() else { return Ok(()) };
                let start = segment.start();
                appender.current = Some((segment, start));
            }
            let (segment, position) = appender.current.as_mut().expect("it was just set");
            let file = segment.file().expect("only segments with files are queued");
            // Before `completed`: a segment that is sealed now takes no further frame.
            let sealed = segment.is_sealed();
            let end = segment.completed(*position);
            let ((offset, _), (end_offset, next_seqno)) = (S::at(*position), S::at(end));
            if end_offset > offset {
                let bytes = segment.bytes(*position, end);
                file.write_at(offset, bytes)?;
                self.bytes.fetch_add(bytes.len() as u64, Ordering::Relaxed);
                self.appends.fetch_add(1, Ordering::Relaxed);
                *position = end;
                appender.dirty = true;
                if let Some(whole) = S::last_of_whole(end) {
                    self.appended.store(whole, Ordering::SeqCst);
                }
            }
            let last_seqno = next_seqno - 1;
            if !sealed || last_seqno < segment.last_seqno() {
                return Ok(());
            }
            if std::mem::take(&mut appender.dirty) && last_seqno > self.synced() {
                let (file, whole) = (file.clone(), self.appended());
                appender.unsynced.push(Finished { file, last_seqno, whole });
            }
            appender.current = None;
        }
    }

    /// Syncs what was appended, up to `seqno` at least. Finished files go oldest first; the current
    /// one only if `seqno` is in it.
    fn sync_appended(&self, seqno: Seqno) -> Result<()> {
        let (finished, current, mark) = {
            let mut appender = self.appender.lock();
            let finished = std::mem::take(&mut appender.unsynced);
            let covered = finished.last().map_or(0, |last| last.whole);
            if seqno <= covered {
                (finished, None, covered)
            } else {
                let dirty = std::mem::take(&mut appender.dirty);
                let current = appender.current.as_ref().filter(|_| dirty);
                let file = current.and_then(|(segment, _)| segment.file().cloned());
                (finished, file, self.appended.load(Ordering::SeqCst))
            }
        };
        for file in finished.into_iter().map(|finished| finished.file).chain(current) {
            file.sync()?;
            self.syncs.fetch_add(1, Ordering::Relaxed);
        }
        self.synced.fetch_max(mark, Ordering::SeqCst);
        Ok(())
    }
}

/// Every interleaving that loom explores:
/// `RUSTFLAGS="--cfg loom" cargo test -p esker-lsm --release --lib group_commit::loom_tests`
#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;
    use loom::thread;

    const FRAMES: usize = 2;
    static BYTES: [u8; FRAMES] = [1; FRAMES];

    /// A file that says how many frames the system has, and how many the device.
    struct File {
        system: AtomicU64,
        device: AtomicU64,
    }

    impl LogFile for File {
        fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<()> {
            self.system.fetch_max(offset + bytes.len() as u64, Ordering::SeqCst);
            Ok(())
        }
        fn sync(&self) -> Result<()> {
            let covered = self.system.load(Ordering::SeqCst);
            self.device.fetch_max(covered, Ordering::SeqCst);
            Ok(())
        }
        fn name(&self) -> &str {
            "a model"
        }
    }

    /// Frames of one byte, each filled by its own writer.
    #[derive(Clone)]
    struct Frames {
        filled: Arc<[AtomicBool; FRAMES]>,
        file: Arc<dyn LogFile>,
    }

    impl Segment for Frames {
        type Place = u64;

        fn file(&self) -> Option<&Arc<dyn LogFile>> {
            Some(&self.file)
        }
        fn start(&self) -> u64 {
            0
        }
        fn completed(&self, from: u64) -> u64 {
            let rest = self.filled[from as usize..].iter();
            from + rest.take_while(|filled| filled.load(Ordering::Acquire)).count() as u64
        }
        fn bytes(&self, from: u64, to: u64) -> &[u8] {
            &BYTES[from as usize..to as usize]
        }
        fn is_sealed(&self) -> bool {
            false
        }
        fn last_seqno(&self) -> Seqno {
            FRAMES as Seqno
        }
        fn at(place: u64) -> (u64, Seqno) {
            (place, place + 1)
        }
        fn last_of_whole(place: u64) -> Option<Seqno> {
            Some(place)
        }
    }

    fn model(writer: fn(&GroupCommit<Frames>, &File, u64)) {
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(2);
        model.check(move || {
            let file = Arc::new(File { system: AtomicU64::new(0), device: AtomicU64::new(0) });
            let filled = Arc::new(std::array::from_fn(|_| AtomicBool::new(false)));
            let group = Arc::new(GroupCommit::new(0));
            group.push(Frames { filled: filled.clone(), file: file.clone() });
            let write = move |group: &GroupCommit<Frames>, file: &File, number: usize| {
                let filled: &[AtomicBool; FRAMES] = &filled;
                filled[number].store(true, Ordering::Release);
                writer(group, file, number as u64 + 1);
            };
            let other = {
                let (group, file, write) = (group.clone(), file.clone(), write.clone());
                thread::spawn(move || write(&group, &file, 1))
            };
            write(&group, &file, 0);
            other.join().unwrap();
        });
    }

    #[test]
    fn what_is_reported_synced_is_on_the_device() {
        model(|group, file, seqno| {
            group.sync_through(seqno).unwrap();
            let synced = group.synced();
            assert!(synced >= seqno && file.device.load(Ordering::SeqCst) >= synced);
        });
    }

    #[test]
    fn what_is_appended_beside_a_sync_is_not_reported_synced() {
        model(|group, file, seqno| {
            match seqno {
                1 => group.sync_through(seqno).unwrap(),
                _ => group.append_through(seqno).unwrap(),
            }
            let synced = group.synced();
            assert!(file.device.load(Ordering::SeqCst) >= synced);
        });
    }

    #[test]
    fn what_is_reported_appended_is_in_the_file() {
        model(|group, file, seqno| {
            group.append_through(seqno).unwrap();
            let appended = group.appended();
            assert!(appended >= seqno && file.system.load(Ordering::SeqCst) >= appended);
        });
    }
}
