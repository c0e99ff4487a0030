//! Memory that cursors, flushes and compactions hold while they last.
//!
//! Each adds what it holds to a sum of its database. The database charges the sum to its budget when
//! that has changed enough, so that a cursor costs two additions.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The memory of one database that its cursors and jobs hold now.
#[derive(Default)]
pub(crate) struct HeldSum {
    held: AtomicUsize,
    /// What was charged of it last.
    charged: AtomicUsize,
}

/// A part of it, which is given back when this is dropped.
#[derive(Default)]
pub(crate) struct HeldMemory {
    of: Option<Arc<HeldSum>>,
    bytes: usize,
}

/// A sum that differs less from what is charged stays as it is.
const STEP_BYTES: usize = 1 << 20;

impl HeldSum {
    /// Counts `bytes` as long as the result lives.
    pub(crate) fn hold(self: &Arc<Self>, bytes: usize) -> HeldMemory {
        self.held.fetch_add(bytes, Ordering::Relaxed);
        HeldMemory { of: Some(self.clone()), bytes }
    }

    /// Bytes that are held now.
    pub(crate) fn bytes(&self) -> usize {
        self.held.load(Ordering::Relaxed)
    }

    /// Whether the sum has changed so much, up or down, that it is to be charged anew: always if nothing
    /// is held any more.
    #[inline]
    pub(crate) fn is_due(&self) -> bool {
        let (held, charged) = (self.bytes(), self.charged.load(Ordering::Relaxed));
        held.abs_diff(charged) >= STEP_BYTES.max(charged / 4) || (held == 0 && charged > 0)
    }

    /// The bytes to charge from now on. Under the lock of what is charged: of two calls at once, the later
    /// one counts.
    pub(crate) fn to_charge(&self) -> usize {
        let bytes = self.bytes();
        self.charged.store(bytes, Ordering::Relaxed);
        bytes
    }
}

impl HeldMemory {
    /// Counts `bytes` in place of what was counted.
    pub(crate) fn set(&mut self, bytes: usize) {
        if let Some(of) = self.of.as_deref().filter(|_| bytes != self.bytes) {
            of.held.fetch_add(bytes.wrapping_sub(self.bytes), Ordering::Relaxed);
            self.bytes = bytes;
        }
    }
}

impl Drop for HeldMemory {
    fn drop(&mut self) {
        self.set(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_held_is_counted_until_it_is_dropped() {
        let memory = Arc::new(HeldSum::default());
        let mut first = memory.hold(100);
        let second = memory.hold(30);
        assert_eq!(memory.bytes(), 130);
        first.set(10);
        assert_eq!(memory.bytes(), 40);
        drop(first);
        drop(second);
        assert_eq!(memory.bytes(), 0);
    }

    #[test]
    fn only_a_large_change_is_due() {
        let memory = Arc::new(HeldSum::default());
        let mut held = memory.hold(STEP_BYTES - 1);
        assert!(!memory.is_due());
        held.set(STEP_BYTES * 100);
        assert!(memory.is_due());
        assert_eq!(memory.to_charge(), STEP_BYTES * 100);
        assert!(!memory.is_due());
        held.set(STEP_BYTES * 76);
        assert!(!memory.is_due(), "less than a quarter");
        held.set(STEP_BYTES * 75);
        assert!(memory.is_due());
        memory.to_charge();
        held.set(10);
        memory.to_charge();
        drop(held);
        assert!(memory.is_due(), "nothing is held any more");
    }
}
