//! What a target has done. Counted by each reactor for itself, and added up when a caller asks.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// One reactor's counters: written by its thread only.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) connections_opened: AtomicU64,
    pub(crate) connections_closed: AtomicU64,
    pub(crate) terminated: AtomicU64,
    pub(crate) commands: AtomicU64,
    pub(crate) failed: AtomicU64,
    pub(crate) received_bytes: AtomicU64,
    pub(crate) sent_bytes: AtomicU64,
    pub(crate) visits: AtomicU64,
    pub(crate) stalled: AtomicU64,
    pub(crate) tls_refused: AtomicU64,
    /// Now, not so far.
    pub(crate) held_bytes: AtomicU64,
}

/// Adds to a counter that one thread writes.
pub(crate) fn add(counter: &AtomicU64, more: u64) {
    counter.store(counter.load(Relaxed) + more, Relaxed);
}

/// A target's counters, from its start.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Totals {
    /// Connections taken.
    pub connections_opened: u64,
    /// Connections that ended.
    pub connections_closed: u64,
    /// Connections that the target ended because the peer broke the protocol.
    pub terminated: u64,
    /// Commands received.
    pub commands: u64,
    /// Commands that did not succeed.
    pub failed: u64,
    /// Payload bytes of sockets, in.
    pub received_bytes: u64,
    /// Payload bytes of sockets, out.
    pub sent_bytes: u64,
    /// How often a connection was looked after: because something came or was answered, or its time was over.
    pub visits: u64,
    /// Connections that the target ended because a transfer stalled.
    pub stalled: u64,
    /// TLS connections that failed: usually because the host has no key of this node.
    pub tls_refused: u64,
    /// Bytes of data in flight that connections hold now.
    pub held_bytes: u64,
}

impl Totals {
    pub(crate) fn add(&mut self, counters: &Counters) {
        self.connections_opened += counters.connections_opened.load(Relaxed);
        self.connections_closed += counters.connections_closed.load(Relaxed);
        self.terminated += counters.terminated.load(Relaxed);
        self.commands += counters.commands.load(Relaxed);
        self.failed += counters.failed.load(Relaxed);
        self.received_bytes += counters.received_bytes.load(Relaxed);
        self.sent_bytes += counters.sent_bytes.load(Relaxed);
        self.visits += counters.visits.load(Relaxed);
        self.stalled += counters.stalled.load(Relaxed);
        self.tls_refused += counters.tls_refused.load(Relaxed);
        self.held_bytes += counters.held_bytes.load(Relaxed);
    }
}
