//! What was written to each key, as far as a reader needs to know it.
//!
//! Invariants, with **one writer a key at a time**:
//! 1. a key's versions only grow; odd ones are puts, even ones deletes, and 0 is "never written";
//! 2. acknowledged <= begun;
//! 3. a write is begun here before the store knows of it, and acknowledged here after the store did.
//!
//! So a read that starts after a floor was taken must see that version or a later one, and none that
//! was not begun by the time it ended. Writes that failed may or may not have happened: they stay
//! begun, never acknowledged, and the next write of the key overtakes them.

use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

/// The number of a write to a key.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Version(pub u64);

impl Version {
    /// Whether this version is a value rather than a delete or nothing.
    pub fn is_put(self) -> bool {
        self.0 % 2 == 1
    }
}

/// What a write does to its key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Write {
    /// Gives it a value.
    Put,
    /// Takes it away.
    Delete,
}

#[derive(Debug, Default)]
struct Key {
    begun: AtomicU64,
    begun_delete: AtomicU64,
    acknowledged: AtomicU64,
}

/// The versions of keys 0 to n. Shared between threads.
#[derive(Debug)]
pub struct Ledger {
    keys: Box<[Key]>,
}

impl Ledger {
    /// For `keys` keys, none of them written yet.
    pub fn new(keys: u64) -> Self {
        Ledger { keys: (0..keys).map(|_| Key::default()).collect() }
    }

    /// The number of keys.
    pub fn keys(&self) -> u64 {
        self.keys.len() as u64
    }

    /// Notes that a write of `number` is about to be made, and gives it its version.
    pub fn begin(&self, number: u64, write: Write) -> Version {
        let key = &self.keys[number as usize];
        let last = key.begun.load(SeqCst);
        let is_same_kind = (write == Write::Put) == Version(last).is_put();
        let version = last + if is_same_kind { 2 } else { 1 };
        if write == Write::Delete {
            key.begun_delete.store(version, SeqCst);
        }
        key.begun.store(version, SeqCst);
        Version(version)
    }

    /// Notes that the store has acknowledged `version` of `number`.
    pub fn acknowledge(&self, number: u64, version: Version) {
        self.keys[number as usize].acknowledged.store(version.0, SeqCst);
    }

    /// The oldest version of `number` that a read starting now may see.
    pub fn floor(&self, number: u64) -> Version {
        Version(self.keys[number as usize].acknowledged.load(SeqCst))
    }

    /// Whether a read of `number` that has just ended, and began after `floor` was taken, may have
    /// seen `seen`.
    pub fn allows(&self, number: u64, floor: Version, seen: Option<Version>) -> bool {
        let key = &self.keys[number as usize];
        match seen {
            Some(version) => {
                version.is_put() && floor <= version && version.0 <= key.begun.load(SeqCst)
            }
            None => !floor.is_put() || key.begun_delete.load(SeqCst) > floor.0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(ledger: &Ledger, write: Write) -> Version {
        let version = ledger.begin(0, write);
        ledger.acknowledge(0, version);
        version
    }

    #[test]
    fn a_key_never_written_must_be_absent() {
        let ledger = Ledger::new(1);
        assert!(ledger.allows(0, ledger.floor(0), None));
        assert!(!ledger.allows(0, ledger.floor(0), Some(Version(1))));
    }

    #[test]
    fn after_an_acknowledged_put_only_that_version_is_allowed() {
        let ledger = Ledger::new(1);
        let old = write(&ledger, Write::Put);
        let new = write(&ledger, Write::Put);
        let floor = ledger.floor(0);
        assert!(ledger.allows(0, floor, Some(new)));
        assert!(!ledger.allows(0, floor, Some(old)), "stale");
        assert!(!ledger.allows(0, floor, None), "lost");
        assert!(!ledger.allows(0, floor, Some(Version(new.0 + 2))), "never written");
    }

    #[test]
    fn after_an_acknowledged_delete_no_value_is_allowed() {
        let ledger = Ledger::new(1);
        let put = write(&ledger, Write::Put);
        let delete = write(&ledger, Write::Delete);
        assert!(ledger.allows(0, ledger.floor(0), None));
        assert!(!ledger.allows(0, ledger.floor(0), Some(put)), "a deleted value is back");
        assert!(!ledger.allows(0, ledger.floor(0), Some(delete)), "a delete has no value");
    }

    #[test]
    fn while_a_write_is_on_its_way_both_sides_of_it_are_allowed() {
        let ledger = Ledger::new(1);
        let old = write(&ledger, Write::Put);
        let floor = ledger.floor(0);
        let new = ledger.begin(0, Write::Put);
        assert!(ledger.allows(0, floor, Some(old)) && ledger.allows(0, floor, Some(new)));
        assert!(!ledger.allows(0, floor, None), "no delete was begun");
        ledger.begin(0, Write::Delete);
        assert!(ledger.allows(0, floor, None));
    }

    #[test]
    fn a_version_acknowledged_after_the_read_began_is_no_floor() {
        let ledger = Ledger::new(1);
        let old = write(&ledger, Write::Put);
        let floor = ledger.floor(0);
        write(&ledger, Write::Put);
        assert!(ledger.allows(0, floor, Some(old)));
    }
}
