//! Which association acknowledged writes that no flush covers yet.
//!
//! A node that lost power between two associations lost what its cache had, and a flush on the new one succeeds and covers
//! nothing of it. So a flush counts only for the association that acknowledged the writes; if that is gone they may be,
//! too, and from then on every flush fails: who asks again must not be answered that all is well.

use crate::association::Association;
use parking_lot::Mutex;
use std::sync::{Arc, Weak};

#[derive(Default)]
pub(crate) struct FlushTracker(Mutex<State>);

#[derive(Default)]
struct State {
    /// The one that acknowledged the last write.
    association: Weak<Association>,
    /// Writes that were acknowledged, and how many of them a flush covers.
    written: u64,
    flushed: u64,
    is_lost: bool,
}

impl State {
    fn check(&mut self, association: &Arc<Association>) {
        let is_same = std::ptr::eq(self.association.as_ptr(), Arc::as_ptr(association));
        self.is_lost |= self.written > self.flushed && !is_same;
    }
}

impl FlushTracker {
    /// `association` acknowledged a write into its cache.
    pub(crate) fn wrote(&self, association: &Arc<Association>) {
        let mut state = self.0.lock();
        state.check(association);
        state.association = Arc::downgrade(association);
        state.written += 1;
    }

    /// The writes that a flush on `association` covers if it begins now; none if one of another may be lost.
    pub(crate) fn covered(&self, association: &Arc<Association>) -> Option<u64> {
        let mut state = self.0.lock();
        state.check(association);
        (!state.is_lost).then_some(state.written)
    }

    /// A flush that covers so many writes was done.
    pub(crate) fn flushed(&self, covered: u64) {
        let mut state = self.0.lock();
        state.flushed = state.flushed.max(covered);
    }
}
