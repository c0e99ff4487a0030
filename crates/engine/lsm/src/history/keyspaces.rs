//! When keyspaces were created and dropped, in the order of writes.
//!
//! The log does not say so: only the manifest does. So each creation and each drop is noted with the
//! last seqno that was given out before. What was noted since the open is here; as long as there are
//! consumers, it is in the manifest as well.

use crate::manifest::feed_changes::KeyspaceEvent;
use crate::manifest::feed_state::FeedState;
use esker_base::Seqno;
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};

/// The most events in memory. Who drops and creates keyspaces all the time loses the oldest.
const EVENTS_MAX: usize = 1 << 16;

/// See the file's head.
pub(crate) struct KeyspaceHistory {
    noted: Mutex<Noted>,
    /// The number of events ever noted, for a look without the lock.
    count: AtomicU64,
}

struct Noted {
    events: VecDeque<KeyspaceEvent>,
    /// How many came before these.
    before: u64,
    /// All events after this seqno are here.
    known_from: Seqno,
}

impl KeyspaceHistory {
    /// The history of a database that was just opened, whose last write is `last_seqno`.
    pub(crate) fn new(feed: &FeedState, last_seqno: Seqno) -> Self {
        let events: VecDeque<_> = feed.events.iter().cloned().collect();
        let count = AtomicU64::new(events.len() as u64);
        let known_from = feed.history_from().unwrap_or(last_seqno);
        KeyspaceHistory { noted: Mutex::new(Noted { events, before: 0, known_from }), count }
    }

    /// Notes an event. Called before a reader can see the edit.
    pub(crate) fn note(&self, mut event: KeyspaceEvent) {
        let mut noted = self.noted.lock();
        event.at = noted.events.back().map_or(event.at, |last| last.at.max(event.at));
        if noted.events.len() == EVENTS_MAX
            && let Some(oldest) = noted.events.pop_front()
        {
            noted.before += 1;
            noted.known_from = noted.known_from.max(oldest.at + 1);
        }
        noted.events.push_back(event);
        self.count.store(noted.before + noted.events.len() as u64, Ordering::Release);
    }

    /// The number of events so far.
    #[inline]
    pub(crate) fn count(&self) -> u64 {
        self.count.load(Ordering::Acquire)
    }

    /// The number of the first event after the writes up to `seqno`, and from where on all are known.
    pub(crate) fn position_after(&self, seqno: Seqno) -> (u64, Seqno) {
        let noted = self.noted.lock();
        let passed = noted.events.partition_point(|event| event.at < seqno);
        (noted.before + passed as u64, noted.known_from)
    }

    /// The event with this number, or the first one that is still known, with its number.
    pub(crate) fn event(&self, number: u64) -> Option<(u64, KeyspaceEvent)> {
        let noted = self.noted.lock();
        let number = number.max(noted.before);
        let event = noted.events.get((number - noted.before) as usize)?;
        Some((number, event.clone()))
    }

    /// Calls `visit` with all events.
    pub(crate) fn for_each(&self, visit: impl FnMut(&KeyspaceEvent)) {
        self.noted.lock().events.iter().for_each(visit);
    }
}
