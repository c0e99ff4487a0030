//! Group commit: one writer at a time, the leader, appends the completed bytes of all writers to the
//! log file, and syncs them together if anybody asks.
//!
//! A writer whose bytes are not down yet becomes the leader if nobody is, and waits otherwise. The
//! leader's append covers every frame in a row that is complete, whoever wrote it; so while one sync
//! runs, the next group gathers by itself.

use esker_base::{Error, Result, Seqno};
use esker_memtable::{MemTable, Position};
use esker_storage::LogFile;
use parking_lot::{Condvar, Mutex};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
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
    // Who leads.
    leading: AtomicBool,
    waiting: AtomicUsize,
    lock: Mutex<()>,
    done: Condvar,

    // How far the log is. Written by the leader only.
    appended: AtomicU64,
    synced: AtomicU64,
    failure: OnceLock<Error>,
    failed: AtomicBool,

    // Segments that come after the appender's. Pushed under the tail's lock.
    queue: Mutex<VecDeque<LogSegment>>,
    // Locked by the leader only, so never contended.
    appender: Mutex<Appender>,

    bytes: AtomicU64,
    appends: AtomicU64,
    syncs: AtomicU64,
}

/// The leader's place in the log.
#[derive(Default)]
struct Appender {
    current: Option<(LogSegment, Position)>,
    /// Files of earlier segments with bytes that no sync has covered.
    unsynced: Vec<Arc<dyn LogFile>>,
    /// Whether the current file has such bytes.
    dirty: bool,
}

impl Group {
    pub(crate) fn new(last_seqno: Seqno) -> Self {
        Group {
            leading: AtomicBool::new(false),
            waiting: AtomicUsize::new(0),
            lock: Mutex::new(()),
            done: Condvar::new(),
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

    /// Returns once everything up to `seqno` is in the operating system's hands.
    #[inline]
    pub(crate) fn append_through(&self, seqno: Seqno) -> Result<()> {
        self.reach(seqno, &self.appended, false)
    }

    /// Returns once everything up to `seqno` survives power loss.
    pub(crate) fn sync_through(&self, seqno: Seqno) -> Result<()> {
        self.reach(seqno, &self.synced, true)
    }

    fn reach(&self, seqno: Seqno, mark: &AtomicU64, sync: bool) -> Result<()> {
        loop {
            if mark.load(Ordering::Acquire) >= seqno {
                return Ok(());
            }
            if self.has_failed() {
                return Err(self.failure().expect("the cause is stored before the flag"));
            }
            let free =
                self.leading.compare_exchange(false, true, Ordering::SeqCst, Ordering::SeqCst);
            if free.is_err() {
                self.wait_for_leader(|| mark.load(Ordering::SeqCst) >= seqno);
                continue;
            }
            let led = self.lead(sync);
            self.leading.store(false, Ordering::SeqCst);
            if self.waiting.load(Ordering::SeqCst) > 0 {
                drop(self.lock.lock());
                self.done.notify_all();
            }
            led?;
            if mark.load(Ordering::Acquire) < seqno {
                // A frame before ours is reserved but not filled yet. Its writer needs a core.
                std::thread::yield_now();
            }
        }
    }

    fn wait_for_leader(&self, done: impl Fn() -> bool) {
        let mut guard = self.lock.lock();
        self.waiting.fetch_add(1, Ordering::SeqCst);
        while self.leading.load(Ordering::SeqCst) && !done() && !self.has_failed() {
            self.done.wait(&mut guard);
        }
        self.waiting.fetch_sub(1, Ordering::SeqCst);
    }

    /// Appends what is complete, then syncs it if asked.
    fn lead(&self, sync: bool) -> Result<()> {
        let mut appender = self.appender.lock();
        let outcome = self.append_complete(&mut appender).and_then(|appended| {
            if !sync || self.synced.load(Ordering::Relaxed) >= appended {
                return Ok(());
            }
            self.sync_files(&mut appender)?;
            self.synced.store(appended, Ordering::SeqCst);
            Ok(())
        });
        if let Err(error) = &outcome {
            let _ = self.failure.set(error.clone());
            self.failed.store(true, Ordering::SeqCst);
        }
        outcome
    }

    /// Writes every complete frame in a row, across segments. Returns the last seqno appended.
    fn append_complete(&self, appender: &mut Appender) -> Result<Seqno> {
        loop {
            if appender.current.is_none() {
                let Some(segment) = self.queue.lock().pop_front() else { break };
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
            if !sealed || end.next_seqno() <= segment.memtable.last_seqno() {
                break;
            }
            if std::mem::take(&mut appender.dirty) {
                appender.unsynced.push(file.clone());
            }
            appender.current = None;
        }
        Ok(self.appended.load(Ordering::Relaxed))
    }

    fn sync_files(&self, appender: &mut Appender) -> Result<()> {
        // Oldest first, so that a later file never survives an earlier one's failure unnoticed.
        while let Some(file) = appender.unsynced.first() {
            file.sync()?;
            self.syncs.fetch_add(1, Ordering::Relaxed);
            appender.unsynced.remove(0);
        }
        if appender.dirty {
            let (segment, _) = appender.current.as_ref().expect("a dirty file is current");
            segment.file.as_ref().expect("only segments with files are queued").sync()?;
            self.syncs.fetch_add(1, Ordering::Relaxed);
            appender.dirty = false;
        }
        Ok(())
    }
}
