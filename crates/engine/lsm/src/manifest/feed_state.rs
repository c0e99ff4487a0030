//! The part of a manifest's state that change feeds use.

use super::feed_changes::{ConsumerRecord, FeedChange, KeptLog, KeyspaceEvent};
use super::manifest_state::LogRecord;
use crate::reserved::is_reserved;
use esker_base::Seqno;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// The most events in a manifest. Of a program that creates and drops keyspaces all the time, the oldest
/// ones are forgotten, and its consumers are notified of that.
const EVENTS_MAX: usize = 1 << 12;

/// The kept logs, the consumers, and the history of keyspaces.
///
/// Kept logs follow each other without a gap, and the last one ends with the last write in tables. As
/// long as there are consumers, the history reaches back to the first kept log, or has as many events as it may.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct FeedState {
    /// Logs that only consumers need, by epoch.
    pub kept: BTreeMap<u32, KeptLog>,
    /// The consumers, by name.
    pub consumers: BTreeMap<String, ConsumerRecord>,
    /// Keyspaces that were created or dropped, in this order. Shared: a state is copied at every edit.
    pub events: VecDeque<Arc<KeyspaceEvent>>,
}

impl FeedState {
    /// Applies `change`. `logs` are those that recovery needs.
    pub(super) fn apply(
        &mut self,
        change: &FeedChange,
        logs: &mut BTreeMap<u32, LogRecord>,
    ) -> Result<(), String> {
        match change {
            FeedChange::KeepLog { epoch, log } => {
                let (first, last) = (log.first_seqno, log.end.last_seqno);
                let follows = |before: &KeptLog| before.end.last_seqno + 1 == first;
                if first > last || !self.kept.values().next_back().is_none_or(follows) {
                    let what = "does not follow the log before";
                    return Err(format!(
                        "log {epoch} with seqnos {first} to {last} is kept and {what}"
                    ));
                }
                logs.remove(epoch);
                self.kept.insert(*epoch, *log);
            }
            FeedChange::DropConsumer(name) if !self.consumers.contains_key(name) => {
                return Err(format!("consumer {name:?} is dropped but not there"));
            }
            FeedChange::Consumer { .. } | FeedChange::DropConsumer(_) => self.set_consumer(change),
            FeedChange::Keyspace(event) => self.note(event),
        }
        Ok(())
    }

    fn note(&mut self, event: &KeyspaceEvent) {
        if self.events.len() == EVENTS_MAX {
            self.events.pop_front();
        }
        self.events.push_back(Arc::new(event.clone()));
    }

    /// Applies a change of a consumer. Others change nothing.
    pub(crate) fn set_consumer(&mut self, change: &FeedChange) {
        match change {
            FeedChange::Consumer { name, record } => {
                self.consumers.insert(name.clone(), *record);
            }
            FeedChange::DropConsumer(name) => drop(self.consumers.remove(name)),
            FeedChange::KeepLog { .. } | FeedChange::Keyspace(_) => {}
        }
    }

    /// Forgets the history of keyspaces that no reader needs, at the end of an edit.
    pub(super) fn trim(&mut self, flushed_through: Seqno) {
        let has_consumers = !self.consumers.is_empty();
        let oldest = self.oldest(flushed_through);
        self.events.retain(|event| {
            event.at + 1 >= oldest && (has_consumers || names_engine_entries(event))
        });
    }

    /// Moves the events of keyspaces to where the log ends at an open. Writes that were lost come before none: the next
    /// ones get their sequence numbers, and may be of a keyspace whose creation was not lost.
    pub(crate) fn end_at(&mut self, last_seqno: Seqno) {
        for event in self.events.iter_mut().filter(|event| event.at > last_seqno) {
            Arc::make_mut(event).at = last_seqno;
        }
    }

    /// The first seqno of the kept logs, or the first one that is not in tables.
    pub(crate) fn oldest(&self, flushed_through: Seqno) -> Seqno {
        self.kept.values().next().map_or(flushed_through + 1, |log| log.first_seqno)
    }

    /// From where on the history of keyspaces is complete. `None`: there is none.
    pub(crate) fn history_from(&self) -> Option<Seqno> {
        let registered = self.consumers.values().map(|consumer| consumer.registered).min()?;
        let is_full = self.events.len() == EVENTS_MAX;
        let first = self.events.front().filter(|_| is_full).map_or(0, |first| first.at + 1);
        Some(registered.max(first))
    }

    /// The kept log with the entry `seqno`.
    pub(crate) fn log_with(&self, seqno: Seqno) -> Option<(u32, KeptLog)> {
        let mut kept = self.kept.iter();
        let found = kept.find(|(_, log)| (log.first_seqno..=log.end.last_seqno).contains(&seqno));
        found.map(|(&epoch, &log)| (epoch, log))
    }

    /// The changes that make this state out of nothing.
    pub(super) fn snapshot(&self) -> impl Iterator<Item = FeedChange> {
        let kept = self.kept.iter().map(|(&epoch, &log)| FeedChange::KeepLog { epoch, log });
        let consumer = |(name, record): (&String, &ConsumerRecord)| FeedChange::Consumer {
            name: name.clone(),
            record: *record,
        };
        let event = |event: &Arc<KeyspaceEvent>| FeedChange::Keyspace((**event).clone());
        let events = self.events.iter().map(event);
        kept.chain(self.consumers.iter().map(consumer)).chain(events)
    }
}

/// Whether the event is the drop of a keyspace of the engine's own, by which readers know that entries in logs
/// that are not flushed are not the user's. Such events are noted without consumers, too.
pub(crate) fn names_engine_entries(event: &KeyspaceEvent) -> bool {
    event.created.is_none() && is_reserved(&event.name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use esker_base::KeyspaceId;

    fn drop_of(name: &str, at: Seqno) -> FeedChange {
        let (keyspace, name) = (KeyspaceId(7), name.to_owned());
        FeedChange::Keyspace(KeyspaceEvent { at, keyspace, name, created: None })
    }

    #[test]
    fn the_history_of_keyspaces_is_bounded_and_says_from_where_it_is_whole() {
        let mut feed = FeedState::default();
        let record = ConsumerRecord { registered: 5, acknowledged: 5, bound_bytes: 1 << 30 };
        feed.set_consumer(&FeedChange::Consumer { name: "c".into(), record });
        let events = EVENTS_MAX as Seqno;
        for at in 10..10 + events + 3 {
            assert_eq!(
                feed.history_from(),
                Some(if at < 10 + events { 5 } else { at - events + 1 })
            );
            feed.apply(&drop_of("users", at), &mut BTreeMap::new()).unwrap();
            feed.trim(0);
        }
        assert_eq!((feed.events.len(), feed.events[0].at), (EVENTS_MAX, 13));
        // What is flushed needs none, and the rest is whole.
        feed.trim(20);
        assert_eq!((feed.events[0].at, feed.history_from()), (20, Some(5)));
    }

    #[test]
    fn without_consumers_the_drop_of_an_index_is_known_until_it_is_flushed() {
        let mut feed = FeedState::default();
        for name in ["users", &crate::reserved::index_keyspace(KeyspaceId(1), "age")] {
            feed.apply(&drop_of(name, 10), &mut BTreeMap::new()).unwrap();
        }
        feed.trim(9);
        assert_eq!(feed.events.len(), 1);
        assert!(is_reserved(&feed.events[0].name));
        feed.trim(11);
        assert!(feed.events.is_empty());
    }
}
