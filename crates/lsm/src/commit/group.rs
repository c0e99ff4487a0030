//! Group commit: one writer at a time appends the completed bytes of all writers to the log file, and
//! one at a time syncs what was appended.
//!
//! A writer whose bytes are not down yet takes the turn if it is free, and waits otherwise. An append
//! covers every frame in a row that is complete, whoever wrote it; a sync covers everything appended
//! when it starts, so while one sync runs the next group gathers by itself. The two turns are separate:
//! a sync, which waits for the device, never holds up a writer that only needs its bytes appended.

use super::turn::Turn;
use esker_base::{Error, Result, Seqno};
use esker_memtable::{MemTable, Position};
use esker_storage::LogFile;
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

/// A MemTable and the log file that its bytes go to.
#[derive(Clone)]
pub(crate) struct LogSegment {
    pub(crate) memtable: Arc<MemTable>,
    /// `None`: no log.
    pub(crate) file: Option<Arc<dyn LogFile>>,
}

/// What was sent to log files.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Traffic {
    pub(crate) bytes: u64,
    pub(crate) appends: u64,
    pub(crate) syncs: u64,
}

/// See the file's head.
pub(crate) struct Group {
    append_turn: Turn,
    sync_turn: Turn,

    // How far the log is. They only rise, and `synced` never passes `appended`, except that what is
    // in tables counts as synced.
    appended: AtomicU64,
    synced: AtomicU64,
    failure: OnceLock<Error>,
    failed: AtomicBool,

    // Segments that come after the appender's. Pushed under the tail's lock.
    queue: Mutex<VecDeque<LogSegment>>,
    appender: Mutex<Appender>,

    bytes: AtomicU64,
    appends: AtomicU64,
    syncs: AtomicU64,
}

/// The place in the log. Locked for an append, never for a sync.
#[derive(Default)]
struct Appender {
    current: Option<(LogSegment, Position)>,
    /// Whether the current file has bytes that no sync has begun to cover.
    dirty: bool,
    /// Earlier files with such bytes, oldest first.
    unsynced: Vec<Finished>,
}

/// A log file that takes no further bytes.
struct Finished {
    file: Arc<dyn LogFile>,
    last_seqno: Seqno,
}

impl Group {
    pub(crate) fn new(last_seqno: Seqno) -> Self {
        Group {
            append_turn: Turn::default(),
            sync_turn: Turn::default(),
            appended: AtomicU64::new(last_seqno),
            synced: AtomicU64::new(last_seqno),
            failure: OnceLock::new(),
            failed: AtomicBool::new(false),
            queue: Mutex::new(VecDeque::new()),
            appender: Mutex::new(Appender::default()),
            bytes: AtomicU64::new(0),
            appends: AtomicU64::new(0),
            syncs: AtomicU64::new(0),
        }
    }

    /// Says that `segment` takes the frames after those of the segments pushed before.
    pub(crate) fn push(&self, segment: LogSegment) {
        if segment.file.is_some() {
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

    pub(crate) fn traffic(&self) -> Traffic {
        Traffic {
            bytes: self.bytes.load(Ordering::Relaxed),
            appends: self.appends.load(Ordering::Relaxed),
            syncs: self.syncs.load(Ordering::Relaxed),
        }
    }

    /// Says that everything up to `seqno` is in tables, so that no log file is needed for it.
    pub(crate) fn flushed_through(&self, seqno: Seqno) {
        let appender = &mut *self.appender.lock();
        appender.unsynced.retain(|finished| finished.last_seqno > seqno);
        let is_over = |memtable: &MemTable| memtable.is_sealed() && memtable.last_seqno() <= seqno;
        if appender.current.take_if(|(segment, _)| is_over(&segment.memtable)).is_some() {
            // Until another segment is written to, its file would be kept open, and its space with it.
            appender.dirty = false;
        }
        self.synced.fetch_max(seqno, Ordering::SeqCst);
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
        turn: &Turn,
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
            std::thread::yield_now();
        }
    }

    /// Writes every complete frame in a row, across segments.
    fn append_complete(&self, appender: &mut Appender) -> Result<()> {
        loop {
            if appender.current.is_none() {
                let Some(segment) = self.queue.lock().pop_front() else { return Ok(()) };
                let start = segment.memtable.start();
                appender.current = Some((segment, start));
            }
            let (segment, position) = appender.current.as_mut().expect("it was just set");
            let file = segment.file.as_ref().expect("only segments with files are queued");
            // Before `completed`: a segment that is sealed now takes no further frame.
            let sealed = segment.memtable.is_sealed();
            let end = segment.memtable.completed(*position);
            if end.offset() > position.offset() {
                let bytes = segment.memtable.bytes(*position, end);
                file.write_at(position.offset(), bytes)?;
                self.bytes.fetch_add(bytes.len() as u64, Ordering::Relaxed);
                self.appends.fetch_add(1, Ordering::Relaxed);
                *position = end;
                appender.dirty = true;
                self.appended.store(end.next_seqno() - 1, Ordering::SeqCst);
            }
            let last_seqno = end.next_seqno() - 1;
            if !sealed || last_seqno < segment.memtable.last_seqno() {
                return Ok(());
            }
            if std::mem::take(&mut appender.dirty) && last_seqno > self.synced() {
                appender.unsynced.push(Finished { file: file.clone(), last_seqno });
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
            let covered = finished.last().map_or(0, |last| last.last_seqno);
            if seqno <= covered {
                (finished, None, covered)
            } else {
                let dirty = std::mem::take(&mut appender.dirty);
                let current = appender.current.as_ref().filter(|_| dirty);
                let file = current.and_then(|(segment, _)| segment.file.clone());
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
