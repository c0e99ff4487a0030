//! A simulated disk that loses power, tears what was not synced, fails any call and fills up.
//!
//! Everything is kept in memory and follows from one seed and the sequence of calls, so a failure
//! is reproduced by running again. The disk keeps two worlds apart: what the system shows (every
//! write and name so far) and what the device holds for sure (what a sync that succeeded covered).
//!
//! | event | what is left |
//! |---|---|
//! | [`FaultStorage::crash`], a power loss | the device's state and a random part of what was on its way there |
//! | [`FaultStorage::kill`], a process death | the system's state, but for bytes that a writer still gathered |
//! | a failed sync | the system's state; but what that sync covered may be missing after a power loss, even if a later sync succeeds |
//!
//! What was on its way survives a power loss in all the ways that file systems allow:
//!
//! * an unsynced append as a prefix, which may hold sectors of zeros or obsolete data;
//! * an unsynced write into a log sector by sector: old, new, or new up to some byte and old after
//!   it, whichever the order of the writes was;
//! * a part that was freed as an unsynced write of zeros;
//! * a change of names either done or not, each for itself, as long as some order of them explains
//!   what is left; a rename is never half done.
//!
//! A sector is 512 bytes. Bytes that were synced never change, not even next to torn ones.
//!
//! After either event every handle from before, the storage itself included, fails each call: the
//! one that the event returns is the next process's.
//!
//! Faults strike *mutating calls*, which are counted ([`FaultStorage::operations`]): creating,
//! appending, writing, syncing, recycling, renaming, removing and freeing a part. So a harness that has counted the
//! calls of a run can repeat it and cut it at each of them:
//!
//! ```
//! use esker_base::{FileKind, WriteHint, Rng};
//! use esker_storage::{FaultStorage, Storage};
//!
//! fn run(storage: &FaultStorage) -> esker_base::Result<()> {
//!     let mut file = storage.create("a", WriteHint::of(FileKind::Meta))?;
//!     file.append(b"bytes")?;
//!     file.sync()?;
//!     storage.sync_names()
//! }
//!
//! let whole = FaultStorage::new(Rng::new(7));
//! run(&whole).unwrap();
//! for calls in 0..whole.operations() {
//!     let storage = FaultStorage::new(Rng::new(7));
//!     storage.crash_after(calls);
//!     run(&storage).unwrap_err();
//!     let rebooted = storage.crash();
//!     assert!(rebooted.read_all("a").is_none_or(|bytes| bytes.len() <= 5));
//! }
//! ```

mod disk;
mod file;
mod handle;
mod names;
mod plan;
mod storage;

pub use plan::FaultKind;

use disk::Disk;
use esker_base::Rng;
use parking_lot::{Mutex, MutexGuard};
use std::sync::Arc;

/// A process's view of a simulated disk. Clones belong to the same process.
///
/// The methods here are the harness's and work at any time; those of [`Storage`](crate::Storage)
/// are the engine's and fail after this process's end.
#[derive(Clone, Debug)]
pub struct FaultStorage {
    disk: Arc<Mutex<Disk>>,
    /// Which process this is. The disk serves only the latest.
    process: u64,
}

impl FaultStorage {
    /// An empty disk. All its randomness comes from `rng`.
    pub fn new(rng: Rng) -> Self {
        FaultStorage::running(Disk::new(rng))
    }

    fn running(disk: Disk) -> Self {
        let process = disk.process();
        FaultStorage { disk: Arc::new(Mutex::new(disk)), process }
    }

    fn disk(&self) -> MutexGuard<'_, Disk> {
        self.disk.lock()
    }

    /// Loses power and comes back. Planned faults are forgotten; a space limit stays.
    #[must_use = "the storage that this is called on is dead afterwards"]
    pub fn crash(&self) -> FaultStorage {
        let process = self.disk().lose_power();
        FaultStorage { disk: self.disk.clone(), process }
    }

    /// Ends the process and starts the next one, on a machine that keeps running. Planned faults
    /// are forgotten; a space limit stays.
    #[must_use = "the storage that this is called on is dead afterwards"]
    pub fn kill(&self) -> FaultStorage {
        let process = self.disk().end_process();
        FaultStorage { disk: self.disk.clone(), process }
    }

    /// What a power loss now could leave, on a disk of its own, with randomness from `rng`: this
    /// process goes on undisturbed, so one point in time can be examined many times.
    pub fn crash_image(&self, rng: Rng) -> FaultStorage {
        let mut image = self.disk().clone();
        image.reseed(rng);
        image.lose_power();
        FaultStorage::running(image)
    }

    /// Cuts the power in the middle of the mutating call that follows `calls` more of them: it has
    /// reached the system, its caller gets an error, and so does every call after it, until
    /// [`crash`](Self::crash) restores the power.
    pub fn crash_after(&self, calls: u64) {
        self.disk().plan().lose_power_after(calls);
    }

    /// Whether a planned power loss has happened.
    pub fn has_lost_power(&self) -> bool {
        !self.disk().is_powered()
    }

    /// Makes the mutating call that follows `calls` more of them fail, once. Several such faults
    /// may be planned.
    pub fn fail_after(&self, calls: u64, kind: FaultKind) {
        self.disk().plan().fail_after(calls, kind);
    }

    /// Makes the read that follows `reads` more of them fail, once.
    pub fn fail_read_after(&self, reads: u64) {
        self.disk().plan().fail_read_after(reads);
    }

    /// Lets all files together take at most `bytes` from now on, or any number of them. Creating
    /// and appending beyond that fail, after taking what is left; logs that exist still take writes.
    pub fn set_space_limit(&self, bytes: Option<u64>) {
        self.disk().set_space_limit(bytes);
    }

    /// From now on a file that is written is [quiescent](crate::Storage::is_settled) only `calls` mutating calls after its
    /// last byte, or with the next process, which knows nothing of when it was written.
    pub fn settle_after(&self, calls: u64) {
        self.disk().settle_after(calls);
    }

    /// The bytes that all files take.
    pub fn used_bytes(&self) -> u64 {
        self.disk().used_bytes()
    }

    /// The mutating calls so far, failed ones included.
    pub fn operations(&self) -> u64 {
        self.disk().plan().operations()
    }

    /// The names that the system shows, in order.
    pub fn files(&self) -> Vec<String> {
        self.disk().list()
    }

    /// The bytes of `name` that the system shows.
    pub fn read_all(&self, name: &str) -> Option<Vec<u8>> {
        self.disk().content(name)
    }

    /// Puts `bytes` under `name`, durably, in place of what was there.
    pub fn write_all(&self, name: &str, bytes: &[u8]) {
        self.disk().put_content(name, bytes);
    }

    /// Flips bit `bit` of the byte at `offset` of `name`, as the device may in silence. Panics if
    /// there is no such byte.
    pub fn bit_flip(&self, name: &str, offset: u64, bit: u8) {
        self.disk().flip(name, offset, bit);
    }
}
