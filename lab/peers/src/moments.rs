//! The snapshots that are held of a peer, by number.
//!
//! [`Ordered::get_at`](esker_api::Ordered::get_at) is given a snapshot as nothing but its seqno, so
//! the peer's own snapshot is found again by that. The numbers are ours: they count snapshots, so a
//! later one is greater, and say nothing of how many writes came between.

use esker_api::Snapshot;
use esker_base::{Error, Result, Seqno};
use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The held snapshots of one store, each an `S`.
pub(crate) struct Moments<S> {
    state: Mutex<State<S>>,
}

struct State<S> {
    newest: Seqno,
    held: HashMap<Seqno, Arc<S>>,
}

impl<S> Moments<S> {
    pub(crate) fn new() -> Self {
        Moments { state: Mutex::new(State { newest: 0, held: HashMap::new() }) }
    }

    /// Holds a snapshot until the result is dropped.
    pub(crate) fn hold(&self, snapshot: S) -> Held<'_, S> {
        let mut state = self.lock();
        state.newest += 1;
        let seqno = state.newest;
        state.held.insert(seqno, Arc::new(snapshot));
        Held { moments: self, seqno }
    }

    /// The peer's snapshot that `snapshot` stands for.
    pub(crate) fn find(&self, snapshot: &dyn Snapshot) -> Result<Arc<S>> {
        let seqno = snapshot.seqno();
        self.lock().held.get(&seqno).cloned().ok_or_else(|| {
            let why = io::Error::new(io::ErrorKind::NotFound, "this store does not hold it");
            Error::io("read at", format!("snapshot {seqno}"), why)
        })
    }

    fn lock(&self) -> MutexGuard<'_, State<S>> {
        // Nothing panics between two changes that belong together.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A snapshot that is held.
pub(crate) struct Held<'a, S> {
    moments: &'a Moments<S>,
    seqno: Seqno,
}

impl<S: Send + Sync> Snapshot for Held<'_, S> {
    fn seqno(&self) -> Seqno {
        self.seqno
    }
}

impl<S> Drop for Held<'_, S> {
    fn drop(&mut self) {
        let released = self.moments.lock().held.remove(&self.seqno);
        // The peer's own release may take a lock of its peer's: not under ours.
        drop(released);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_snapshot_is_found_until_it_is_dropped() {
        let moments = Moments::new();
        let (first, second) = (moments.hold("first"), moments.hold("second"));
        assert!(first.seqno() < second.seqno());
        assert_eq!(*moments.find(&first).unwrap(), "first");
        let elsewhere = Moments::new();
        let foreign = elsewhere.hold("foreign");
        drop(first);
        assert!(moments.find(&foreign).is_err());
        assert_eq!(*moments.find(&second).unwrap(), "second");
    }
}
