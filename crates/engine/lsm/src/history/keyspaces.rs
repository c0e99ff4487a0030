//! When keyspaces were created and dropped, in the order of writes.
//!
//! The log does not say so: only the manifest does. So each creation and each drop is noted with the
//! last seqno that was given out before. What was noted since the open is here; as long as there are
//! consumers, it is in the manifest as well.

use crate::manifest::feed_changes::KeyspaceEvent;
use crate::manifest::feed_state::FeedState;
use esker_base::Seqno;
use parking_lot::Mutex;
use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};

/// The most events in memory. A program that drops and creates keyspaces all the time loses the oldest.
const EVENTS_MAX: usize = 1 << 16;

/// See the file's head.
pub(crate) struct KeyspaceHistory {
    noted: Mutex<Noted>,
    /// The number of events ever noted, for a look without the lock.
    count: AtomicU64,
    /// Readers of changes yield no write after this one: an event that comes before it may follow.
    held_at: AtomicU64,
}

struct Noted {
    events: VecDeque<KeyspaceEvent>,
    /// How many came before these.
    before: u64,
    /// All events after this seqno are here.
    known_from: Seqno,
    /// The places of events whose edit is not decided yet, by number.
    undecided: BTreeMap<u64, Seqno>,
    /// The number of the next of them.
    next_undecided: u64,
}

impl Noted {
    fn held_at(&self) -> Seqno {
        self.undecided.values().copied().min().unwrap_or(Seqno::MAX)
    }
}

impl KeyspaceHistory {
    /// The history of a database that was just opened, whose last write is `last_seqno`.
    pub(crate) fn new(feed: &FeedState, last_seqno: Seqno) -> Self {
        let events: VecDeque<_> = feed.events.iter().map(|event| (**event).clone()).collect();
        let count = AtomicU64::new(events.len() as u64);
        let known_from = feed.history_from().unwrap_or(last_seqno);
        let noted =
            Noted { events, before: 0, known_from, undecided: BTreeMap::new(), next_undecided: 0 };
        let held_at = AtomicU64::new(Seqno::MAX);
        KeyspaceHistory { noted: Mutex::new(noted), count, held_at }
    }

    /// Announces events whose edit is not decided yet. Returns their place, and the number to
    /// [decide](KeyspaceHistory::decide) them by.
    ///
    /// A consumer that got a write after that place could acknowledge it before the events are noted, and would never
    /// get them after a restart. So readers stop at the place meanwhile: they load the visible seqno before
    /// [`KeyspaceHistory::held_at`], and this loads it again after it has stopped them.
    pub(crate) fn announce(&self, visible: impl Fn() -> Seqno) -> (Seqno, u64) {
        let mut noted = self.noted.lock();
        let number = noted.next_undecided;
        noted.next_undecided += 1;
        noted.undecided.insert(number, visible());
        self.held_at.store(noted.held_at(), Ordering::SeqCst);
        let at = visible();
        noted.undecided.insert(number, at);
        self.held_at.store(noted.held_at(), Ordering::SeqCst);
        (at, number)
    }

    /// The announced events are noted, or will not happen.
    pub(crate) fn decide(&self, number: u64) {
        let mut noted = self.noted.lock();
        noted.undecided.remove(&number);
        self.held_at.store(noted.held_at(), Ordering::SeqCst);
    }

    /// No write after this one may be yielded yet. To be loaded after the visible seqno.
    pub(crate) fn held_at(&self) -> Seqno {
        self.held_at.load(Ordering::SeqCst)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readers_stop_at_events_that_are_not_decided() {
        let history = KeyspaceHistory::new(&FeedState::default(), 0);
        assert_eq!(history.held_at(), Seqno::MAX);
        let (first, number) = history.announce(|| 10);
        assert_eq!((first, history.held_at()), (10, 10));
        let (_, later) = history.announce(|| 20);
        assert_eq!(history.held_at(), 10);
        history.decide(number);
        assert_eq!(history.held_at(), 20);
        history.decide(later);
        assert_eq!(history.held_at(), Seqno::MAX);
    }

    /// What becomes visible meanwhile may have been yielded, so the event comes after it.
    #[test]
    fn an_event_comes_after_what_readers_may_have_got_before_they_were_stopped() {
        let history = KeyspaceHistory::new(&FeedState::default(), 0);
        let visible = std::cell::Cell::new(10);
        let (at, _) = history.announce(|| visible.replace(11));
        assert_eq!((at, history.held_at()), (11, 11));
    }
}
