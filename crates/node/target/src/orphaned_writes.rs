//! Changes of connections that are gone, which their namespaces may still carry out: by whose they were.
//!
//! A host that lost a connection connects again, and resends changes whose end it does not know. If the old change ran after the
//! resent one, it would undo it. So a Connect waits until all changes that its host left behind are done, for as long as a
//! connection may take to connect.
//!
//! With several controllers a host resends on another path at once; so its I/O queues wait too.

use esker_nvme::Nqn;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

/// A host: its name (HOSTNQN), and the id (HOSTID) that distinguishes those that share a name.
pub(crate) type Host = (Nqn, [u8; 16]);

#[derive(Default)]
pub(crate) struct OrphanedWrites {
    /// Of all hosts.
    all: AtomicUsize,
    /// How many, if there are any.
    by_host: Mutex<HashMap<Host, usize>>,
}

impl OrphanedWrites {
    /// A connection of `host` is gone that had so many changes in progress.
    pub(crate) fn add(&self, host: &Host, changes: usize) {
        if changes > 0 {
            self.all.fetch_add(changes, SeqCst);
            *self.by_host.lock().entry(host.clone()).or_default() += changes;
        }
    }

    /// One of them is done.
    pub(crate) fn done(&self, host: &Host) {
        let mut by_host = self.by_host.lock();
        if let Some(left) = by_host.get_mut(host) {
            *left -= 1;
            self.all.fetch_sub(1, SeqCst);
            if *left == 0 {
                by_host.remove(host);
            }
        }
    }

    /// Whether some of any host are not done: without a lock, for each command asks.
    pub(crate) fn is_empty(&self) -> bool {
        self.all.load(SeqCst) == 0
    }

    /// Whether some of `host` are not done.
    pub(crate) fn has_any(&self, host: &Host) -> bool {
        self.by_host.lock().contains_key(host)
    }
}
