//! Purges of the log that wait for the install of a snapshot.
//!
//! openraft queues the install of a snapshot, and purges the entries that the snapshot contains while
//! the install runs. A node that crashes in between has acknowledged those entries, and must still have
//! them. So a purge of entries that are not applied only hides them, and the batch of the install
//! deletes them.
//!
//! Such a purge can leave a gap: the log ends before the snapshot does. openraft then appends the
//! entries that follow the snapshot. They must not be durable before the snapshot is, so their append
//! waits for the install.

use crate::error::{Error, Result};
use std::sync::{Condvar, Mutex, MutexGuard};

/// Entries that are hidden.
#[derive(Clone)]
pub struct Hidden {
    /// The index of the last one.
    pub index: u64,
    /// Its ID, encoded.
    pub log_id: Vec<u8>,
    /// Whether the log ends before it.
    pub leaves_gap: bool,
}

/// What the purges have left to an install.
#[derive(Default)]
pub struct Left {
    pub hidden: Option<Hidden>,
    /// The state machine is dropped: it installs no snapshot any more.
    is_abandoned: bool,
}

/// Log and state machine meet here. The lock is held while a purge or the batch of an install is
/// written.
#[derive(Default)]
pub struct Purges {
    left: Mutex<Left>,
    changed: Condvar,
}

impl Purges {
    pub fn lock(&self) -> MutexGuard<'_, Left> {
        self.left.lock().unwrap()
    }

    /// The index of the first entry that may be read.
    pub fn first_visible(&self) -> u64 {
        self.lock().hidden.as_ref().map_or(0, |hidden| hidden.index + 1)
    }

    /// Waits until no gap is before the entries to append.
    pub fn wait_for_no_gap(&self) -> Result<()> {
        let has_gap = |left: &mut Left| {
            !left.is_abandoned && left.hidden.as_ref().is_some_and(|hidden| hidden.leaves_gap)
        };
        let left = self.changed.wait_while(self.lock(), has_gap).unwrap();
        match &left.hidden {
            Some(hidden) if hidden.leaves_gap => Err(Error::NotInstalled { index: hidden.index }),
            _ => Ok(()),
        }
    }

    /// Says that all entries up to `index` are deleted. `left` is what [`Purges::lock`] returned.
    pub fn purged(&self, left: &mut Left, index: u64) {
        if left.hidden.as_ref().is_some_and(|hidden| hidden.index <= index) {
            left.hidden = None;
            self.changed.notify_all();
        }
    }

    /// Says that no install will come.
    pub fn abandon(&self) {
        // A thread that panicked with the lock leaves what is right at each of its steps.
        self.left.lock().unwrap_or_else(|left| left.into_inner()).is_abandoned = true;
        self.changed.notify_all();
    }
}
