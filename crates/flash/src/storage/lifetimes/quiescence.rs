//! Tracks which files are stored where nothing is written any more.
//!
//! Files of one lifetime class fill the same few units in sequence. A file is therefore in a unit
//! that is being written until about as much more data of its class was written as its units hold.
//! The policy determines that amount
//! ([`PlacementPolicy::settle_distance_chunks`](crate::placement::PlacementPolicy::settle_distance_chunks)).
//!
//! A caller that can keep reading the files being replaced waits for this
//! ([`Storage::is_settled`](esker_storage::Storage::is_settled)). Meanwhile both versions use
//! space, so the waiting data is limited to a small part of the free space.
//!
//! Callers ask often and hold locks of their own, so nothing here waits for the device.

use crate::placement::{LIFETIMES, Lifetime};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};

/// Files of one lifetime that are not quiescent take at most one part in so many of the chunks that deep tables may still
/// take.
pub(crate) const MAX_FRACTION_OF_FREE: u64 = 5;

/// See the file's head.
#[derive(Default)]
pub(crate) struct QuiescenceTracker {
    lifetimes: [LifetimeStream; LIFETIMES],
    /// Files that may not be quiescent: their lifetime, and the bytes written of it when they ended.
    files: Mutex<HashMap<String, (Lifetime, u64)>>,
}

/// What is written of a lifetime.
#[derive(Default)]
struct LifetimeStream {
    written: AtomicU64,
    /// How much behind a file has to be written until it is quiescent.
    held: AtomicU64,
}

impl LifetimeStream {
    fn is_past(&self, end: u64) -> bool {
        self.written.load(Ordering::Relaxed) - end >= self.held.load(Ordering::Relaxed)
    }
}

impl QuiescenceTracker {
    /// Sets how much is written behind a file until it is quiescent, in bytes.
    pub(crate) fn set_held(&self, lifetime: Lifetime, bytes: u64) {
        self.lifetimes[lifetime].held.store(bytes, Ordering::Relaxed);
    }

    /// So many bytes of a lifetime were written.
    pub(crate) fn wrote(&self, lifetime: Lifetime, bytes: u64) {
        self.lifetimes[lifetime].written.fetch_add(bytes, Ordering::Relaxed);
    }

    /// All of a file is written.
    pub(crate) fn ended(&self, name: &str, lifetime: Lifetime) {
        let end = self.lifetimes[lifetime].written.load(Ordering::Relaxed);
        let mut files = self.files.lock();
        files.retain(|_, (lifetime, end)| !self.lifetimes[*lifetime].is_past(*end));
        if !self.lifetimes[lifetime].is_past(end) {
            files.insert(name.to_owned(), (lifetime, end));
        }
    }

    /// A file has this name no more.
    pub(crate) fn forget(&self, name: &str) {
        self.files.lock().remove(name);
    }

    /// Whether a file is stored where nothing is written any more. Files present when the device
    /// was opened are.
    pub(crate) fn is_settled(&self, name: &str) -> bool {
        let files = self.files.lock();
        let ended = files.get(name);
        ended.is_none_or(|(lifetime, end)| self.lifetimes[*lifetime].is_past(*end))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Lifetime = LIFETIMES - 1;

    fn settling(held: u64) -> QuiescenceTracker {
        let settling = QuiescenceTracker::default();
        settling.set_held(LONG, held);
        settling
    }

    #[test]
    fn a_file_is_settled_when_enough_of_its_lifetime_was_written_behind_it() {
        let settling = settling(100);
        settling.wrote(LONG, 70);
        settling.ended("a", LONG);
        settling.wrote(LONG, 60);
        settling.ended("b", LONG);
        settling.wrote(LONG - 1, 1_000);
        assert!(!settling.is_settled("a"));
        settling.wrote(LONG, 40);
        assert!(settling.is_settled("a") && !settling.is_settled("b"));
    }

    #[test]
    fn files_are_settled_at_once_where_nothing_is_held() {
        let settling = settling(0);
        settling.ended("a", LONG);
        settling.ended("b", 1);
        assert!(settling.is_settled("a") && settling.is_settled("b"));
        assert!(settling.is_settled("one that was there"));
        assert!(settling.files.lock().is_empty());
    }

    #[test]
    fn less_room_settles_files_that_were_not() {
        let settling = settling(100);
        settling.ended("a", LONG);
        assert!(!settling.is_settled("a"));
        settling.set_held(LONG, 0);
        assert!(settling.is_settled("a"));
    }

    #[test]
    fn names_are_forgotten_with_the_file_and_when_it_is_settled() {
        let settling = settling(100);
        settling.ended("a", LONG);
        settling.forget("a");
        assert!(settling.is_settled("a"));
        settling.ended("b", LONG);
        settling.wrote(LONG, 100);
        settling.ended("c", LONG);
        assert_eq!(settling.files.lock().keys().collect::<Vec<_>>(), ["c"]);
    }
}
