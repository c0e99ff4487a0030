//! Log files: names, creation, reuse.
//!
//! A log file holds the bytes of a segment. Its name is its epoch, which is never reused. Its
//! length and its header are durable before the manifest lists it, and the manifest lists it before
//! any sequence number is reserved in it. So a listed log that is missing or has no header is
//! damaged. Each step of the file is allocated before any sequence number is reserved in it. So a
//! full disk is detected in the background.

use super::IF_LOST;
use esker_base::{Error, FileKind, Result, WriteHint};
use esker_memtable::{SegmentHeader, ZEROS_BEYOND};
use esker_storage::{LogFile, Storage};
use parking_lot::Mutex;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Frames in log files start at multiples of this.
pub(crate) const LOG_ALIGNMENT: u32 = 8;

/// Files kept for reuse: one being replaced while another is waiting.
const RETIRED_MAX: usize = 2;

/// In a log directory of its own: which database it belongs to.
const OWNER: &str = "OWNER";

/// The name of the log file with this epoch.
pub fn log_file_name(epoch: u32) -> String {
    format!("{epoch:08}.log")
}

/// The epoch in a name that [`log_file_name`] made.
pub fn parse_log_file_name(name: &str) -> Option<u32> {
    let digits = name.strip_suffix(".log")?;
    (digits.len() >= 8).then(|| digits.parse().ok()).flatten()
}

/// Makes and retires log files.
pub(crate) struct WalFiles {
    storage: Arc<dyn Storage>,
    segment_bytes: u64,
    retired: Mutex<Vec<u32>>,
    /// Those of the files in use that are allocated as a whole: only they are kept for reuse.
    whole: Mutex<BTreeSet<u32>>,
    /// The storage gives no part of a file back.
    keeps_space: AtomicBool,
}

impl WalFiles {
    pub(crate) fn new(storage: Arc<dyn Storage>, segment_bytes: usize) -> Self {
        let (retired, whole) = (Mutex::default(), Mutex::default());
        let (segment_bytes, keeps_space) = (segment_bytes as u64, AtomicBool::new(false));
        WalFiles { storage, segment_bytes, retired, whole, keeps_space }
    }

    /// The size of a segment, and so of a log file.
    pub(crate) fn segment_bytes(&self) -> usize {
        self.segment_bytes as usize
    }

    /// The log file for `header`, which is durable in it, with the first `prepared` bytes allocated. An old
    /// file is used again if there is one; that is allocated as a whole. The header of a new one says that
    /// all the rest is zeros.
    pub(crate) fn create(
        &self,
        mut header: SegmentHeader,
        prepared: u64,
    ) -> Result<(SegmentHeader, Arc<dyn LogFile>)> {
        let name = log_file_name(header.epoch);
        let (file, prepared) = match self.recycle(&name)? {
            Some(file) => (file, self.segment_bytes),
            None => {
                header.flags |= ZEROS_BEYOND;
                (self.create_new(&name, prepared)?, prepared)
            }
        };
        if prepared >= self.segment_bytes {
            self.note_whole(header.epoch);
        }
        // The one sync is for the header, and for the length and the zeros of a new file.
        let begun = file
            .write_at(0, &header.encode())
            .and_then(|()| file.sync())
            .and_then(|()| self.storage.sync_names());
        match begun {
            Ok(()) => Ok((header, file)),
            Err(error) => {
                // Give the space back, or every further try would take more.
                let _ = self.storage.remove(&name);
                Err(error)
            }
        }
    }

    fn recycle(&self, name: &str) -> Result<Option<Arc<dyn LogFile>>> {
        // The oldest first: those that stay are next to the logs in use.
        let epoch = {
            let mut retired = self.retired.lock();
            if retired.is_empty() {
                return Ok(None);
            }
            retired.remove(0)
        };
        let old = log_file_name(epoch);
        match self.storage.recycle_log(&old, name, self.segment_bytes) {
            Ok(Some(file)) => Ok(Some(file)),
            Ok(None) => {
                self.storage.remove(&old)?;
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// Records that the file of `epoch` is allocated as a whole.
    pub(crate) fn note_whole(&self, epoch: u32) {
        self.whole.lock().insert(epoch);
    }

    /// Whether the file of `epoch`, which is in use, is allocated as a whole.
    pub(crate) fn is_whole(&self, epoch: u32) -> bool {
        self.whole.lock().contains(&epoch)
    }

    /// Records that the file of `epoch`, which is in use, is about to give space back: it is never used
    /// again.
    pub(crate) fn forget_whole(&self, epoch: u32) {
        self.whole.lock().remove(&epoch);
    }

    /// Frees the space of `file` from `from` on. Its epoch is not [whole](WalFiles::forget_whole): another
    /// epoch must not have the file meanwhile. Returns false if the storage never does that.
    pub(crate) fn give_back(&self, file: &dyn LogFile, from: u32) -> bool {
        let gave = file.give_back(from.into());
        self.keeps_space.fetch_or(!gave, Ordering::Relaxed);
        gave
    }

    /// Whether files give space back, as far as is known.
    pub(crate) fn gives_back(&self) -> bool {
        !self.keeps_space.load(Ordering::Relaxed)
    }

    /// Whether files are kept for reuse.
    pub(crate) fn has_retired(&self) -> bool {
        !self.retired.lock().is_empty()
    }

    fn create_new(&self, name: &str, prepared: u64) -> Result<Arc<dyn LogFile>> {
        let created = self.storage.create_log_in_steps(name, self.segment_bytes, prepared);
        if created.is_err() && self.storage.exists(name).unwrap_or(false) {
            // Half-allocated: give the space back. If that fails too, the next open does it.
            let _ = self.storage.remove(name);
        }
        created
    }

    /// Takes back the file of `epoch`, which the manifest does not list any more.
    pub(crate) fn retire(&self, epoch: u32) {
        let is_whole = self.whole.lock().remove(&epoch);
        {
            let mut retired = self.retired.lock();
            if is_whole && retired.len() < RETIRED_MAX && self.storage.recycles_logs() {
                retired.push(epoch);
                return;
            }
        }
        // If it can't be removed now, the next open does it.
        let _ = self.storage.remove(&log_file_name(epoch));
    }

    /// Removes the file of `epoch`, which the manifest does not list any more.
    pub(crate) fn discard(&self, epoch: u32) {
        self.whole.lock().remove(&epoch);
        // If it can't be removed now, the next open does it.
        let _ = self.storage.remove(&log_file_name(epoch));
    }

    /// Removes the files kept for reuse.
    pub(crate) fn remove_retired(&self) {
        // To remove a large file takes long, and the scheduler asks for the list.
        let retired = std::mem::take(&mut *self.retired.lock());
        for epoch in retired {
            let _ = self.storage.remove(&log_file_name(epoch));
        }
    }
}

/// Claims a log directory of its own for the database `identity`, unless it has that claim already.
/// A database that has logs has claimed the directory that they are in.
pub(crate) fn claim_directory(storage: &dyn Storage, identity: u64, has_logs: bool) -> Result<()> {
    let claim = claim_of(identity);
    match read_claim(storage)? {
        Some(found) if found == claim.as_bytes() => {
            if !storage.has_old_key(OWNER)? {
                return Ok(());
            }
            // It is written again, with the key of new files.
        }
        None if has_logs => {
            return Err(unfit(
                storage,
                &format!(
                    "this database has logs, and they are not here; open it with the pool, or the \
                     directory, that they are in, close it, and then give another; {IF_LOST}"
                ),
            ));
        }
        _ => check_unclaimed(storage)?,
    }
    let temporary = "OWNER.new";
    if storage.exists(temporary)? {
        storage.remove(temporary)?;
    }
    let mut file = storage.create(temporary, WriteHint::of(FileKind::Meta))?;
    file.append(claim.as_bytes())?;
    file.sync()?;
    storage.rename(temporary, OWNER)?;
    storage.sync_names()
}

/// Fails unless a log directory of its own belongs to the database `identity`.
pub(crate) fn check_claim(storage: &dyn Storage, identity: u64) -> Result<()> {
    match read_claim(storage)? {
        Some(found) if found == claim_of(identity).as_bytes() => Ok(()),
        Some(_) => Err(unfit(storage, "it belongs to another database")),
        None => Err(unfit(
            storage,
            "it belongs to no database; if this one's logs are next to its tables, leave --log-dir out",
        )),
    }
}

/// The database that a log directory says it belongs to.
pub(crate) fn owner(storage: &dyn Storage) -> Option<u64> {
    let claim = read_claim(storage).ok()??;
    u64::from_str_radix(std::str::from_utf8(&claim).ok()?.trim_end(), 16).ok()
}

/// What a log directory of the database `identity` says.
fn claim_of(identity: u64) -> String {
    format!("{identity:016x}\n")
}

/// Fails if a log directory belongs to some database.
pub(crate) fn check_unclaimed(storage: &dyn Storage) -> Result<()> {
    let taken = |reason| Err(unfit(storage, reason));
    if storage.exists(OWNER)? {
        return taken(
            "it belongs to another database; give each database a log directory of its own",
        );
    }
    if storage.list()?.iter().any(|name| parse_log_file_name(name).is_some()) {
        return taken("it holds log files, and does not say of which database; use another");
    }
    Ok(())
}

fn unfit(storage: &dyn Storage, reason: &str) -> Error {
    Error::InvalidSetting {
        setting: "log directory",
        value: storage.describe(),
        reason: reason.into(),
    }
}

fn read_claim(storage: &dyn Storage) -> Result<Option<Vec<u8>>> {
    if !storage.exists(OWNER)? {
        return Ok(None);
    }
    let file = storage.open(OWNER)?;
    let mut found = vec![0; file.len()?.min(64) as usize];
    file.read_exact_at(0, &mut found)?;
    Ok(Some(found))
}
