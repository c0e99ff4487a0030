//! The part of a manifest's state that change feeds use.

use super::feed_changes::{ConsumerRecord, FeedChange, KeptLog, KeyspaceEvent};
use super::manifest_state::LogRecord;
use esker_base::Seqno;
use std::collections::BTreeMap;

/// The kept logs, the consumers, and the history of keyspaces.
///
/// Kept logs follow each other without a gap, and the last one ends with the last write in tables. As
/// long as there are consumers, the history reaches back to the first kept log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct FeedState {
    /// Logs that only consumers need, by epoch.
    pub kept: BTreeMap<u32, KeptLog>,
    /// The consumers, by name.
    pub consumers: BTreeMap<String, ConsumerRecord>,
    /// Keyspaces that were created or dropped, in this order.
    pub events: Vec<KeyspaceEvent>,
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
            FeedChange::Keyspace(event) => self.events.push(event.clone()),
        }
        Ok(())
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
        if self.consumers.is_empty() {
            self.events.clear();
        } else if !self.events.is_empty() {
            let oldest = self.oldest(flushed_through);
            self.events.retain(|event| event.at + 1 >= oldest);
        }
    }

    /// Moves the events of keyspaces to where the log ends at an open. Writes that were lost come before none: the next
    /// ones get their sequence numbers, and may be of a keyspace whose creation was not lost.
    pub(crate) fn end_at(&mut self, last_seqno: Seqno) {
        self.events.iter_mut().for_each(|event| event.at = event.at.min(last_seqno));
    }

    /// The first seqno of the kept logs, or the first one that is not in tables.
    pub(crate) fn oldest(&self, flushed_through: Seqno) -> Seqno {
        self.kept.values().next().map_or(flushed_through + 1, |log| log.first_seqno)
    }

    /// From where on the history of keyspaces is complete. `None`: there is none.
    pub(crate) fn history_from(&self) -> Option<Seqno> {
        self.consumers.values().map(|consumer| consumer.registered).min()
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
        let events = self.events.iter().cloned().map(FeedChange::Keyspace);
        kept.chain(self.consumers.iter().map(consumer)).chain(events)
    }
}
