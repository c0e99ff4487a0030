//! What a change feed yields: committed batches, and what else changes a database.

use crate::log::ingest_mark::IngestMark;
use crate::options::settings::KeyspaceSettings;
use crate::reserved::is_reserved;
use crate::user_keys::KeyFormat;
use esker_base::{Entry, KeyspaceId, Kind, Seqno, split_expiry};
use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

/// The names of keyspaces, those that were dropped included.
pub(crate) type KeyspaceNames = HashMap<KeyspaceId, Arc<str>>;

/// One step of a change feed.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum ChangeEvent {
    /// A batch was committed.
    Batch(ChangeBatch),
    /// A keyspace was created.
    KeyspaceCreated {
        /// It comes after the writes up to this one.
        at: Seqno,
        /// The id.
        keyspace: KeyspaceId,
        /// The name.
        name: Arc<str>,
        /// The settings.
        settings: KeyspaceSettings,
    },
    /// A keyspace was dropped, with all that is in it. Batches that were on their way may still name it;
    /// their changes to it have no effect.
    KeyspaceDropped {
        /// It comes after the writes up to this one.
        at: Seqno,
        /// The id.
        keyspace: KeyspaceId,
        /// The name.
        name: Arc<str>,
    },
    /// Tables were ingested, or would have been if the ingest had not failed. Their entries are not in the log: read
    /// the keyspaces.
    Ingested {
        /// The sequence number that the entries have.
        seqno: Seqno,
        /// The keyspaces. After an ingest into more than a hundred, all that the feed knows.
        keyspaces: Vec<IngestedKeyspace>,
    },
    /// Keyspaces may have been created and dropped between the start of the feed and this write, of
    /// which no record is left. Always the first event: [`Db::keyspaces`](crate::Db::keyspaces) lists those of now.
    KeyspacesUnknown {
        /// From here on, the feed says when a keyspace is created or dropped.
        through: Seqno,
    },
}

impl ChangeEvent {
    /// Returns the last sequence number that the event stands for. A consumer that has processed the event
    /// may acknowledge it.
    pub fn seqno(&self) -> Seqno {
        match self {
            ChangeEvent::Batch(batch) => batch.last_seqno(),
            ChangeEvent::KeyspaceCreated { at, .. } | ChangeEvent::KeyspaceDropped { at, .. } => {
                *at
            }
            ChangeEvent::Ingested { seqno, .. } => *seqno,
            // What comes next may be before it.
            ChangeEvent::KeyspacesUnknown { .. } => 0,
        }
    }
}

/// A keyspace that entries were ingested into.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct IngestedKeyspace {
    /// The ID.
    pub keyspace: KeyspaceId,
    /// The name, if it is known.
    pub name: Option<Arc<str>>,
}

/// A committed batch: all of its changes are visible at once.
///
/// A clone shares the bytes. As long as one lives, up to a quarter of a MiB of neighbors does.
#[derive(Clone)]
pub struct ChangeBatch {
    pub(crate) first_seqno: Seqno,
    pub(crate) count: u32,
    pub(crate) bytes: Arc<Vec<u8>>,
    /// Where its encoded entries are.
    pub(crate) entries: Range<usize>,
    pub(crate) names: Arc<KeyspaceNames>,
    pub(crate) keys: KeyFormat,
}

impl ChangeBatch {
    /// Returns the sequence number of the first change.
    pub fn first_seqno(&self) -> Seqno {
        self.first_seqno
    }

    /// Returns the sequence number of the last change. The next batch starts with the one after it.
    pub fn last_seqno(&self) -> Seqno {
        self.first_seqno + u64::from(self.count) - 1
    }

    /// Returns the changes in the order in which they apply.
    ///
    /// Entries of the engine itself, such as those of indexes, are left out: so a batch may have fewer
    /// changes than sequence numbers.
    pub fn changes(&self) -> impl Iterator<Item = Change<'_>> {
        self.entries().filter_map(|(seqno, entry)| {
            let name = self.names.get(&entry.keyspace).map(|name| &**name);
            let is_ours = name.is_some_and(is_reserved);
            (!is_ours).then(|| self.change(seqno, name, entry))
        })
    }

    /// The keyspaces of the ingest whose mark the batch is.
    pub(crate) fn ingested(&self) -> Option<Vec<IngestedKeyspace>> {
        let (_, entry) = self.entries().next()?;
        let with_name = |keyspace: KeyspaceId| {
            let name = self.names.get(&keyspace).cloned();
            IngestedKeyspace { keyspace, name }
        };
        Some(match IngestMark::of(&entry, self.count)? {
            IngestMark::Into(keyspaces) => keyspaces.into_iter().map(with_name).collect(),
            IngestMark::IntoMany => {
                let known = self.names.iter().filter(|(_, name)| !is_reserved(name));
                known.map(|(keyspace, _)| with_name(*keyspace)).collect()
            }
        })
    }

    fn entries(&self) -> impl Iterator<Item = (Seqno, Entry<'_>)> {
        let mut rest = &self.bytes[self.entries.clone()];
        let decoded = std::iter::from_fn(move || Entry::decode(&mut rest));
        (self.first_seqno..).zip(decoded)
    }

    fn change<'a>(&self, seqno: Seqno, name: Option<&'a str>, entry: Entry<'a>) -> Change<'a> {
        let key = self.keys.user(entry.key);
        let operation = match entry.kind {
            Kind::Put => Operation::Put { key, value: entry.value },
            Kind::Delete => Operation::Delete { key },
            Kind::Merge => Operation::Merge { key, operand: entry.value },
            Kind::ExpiringPut => {
                let (expires_at_ms, value) = split_expiry(entry.value).unwrap_or_default();
                Operation::PutExpiring { key, value, expires_at_ms }
            }
            Kind::RangeDelete => {
                let is_open = self.keys.is_end_of_keys(entry.value);
                let end = (!is_open).then(|| self.keys.user(entry.value));
                Operation::DeleteRange { start: key, end }
            }
            Kind::Combined | Kind::Separated => unreachable!("only tables have such entries"),
        };
        Change { seqno, keyspace: entry.keyspace, keyspace_name: name, operation }
    }
}

impl fmt::Debug for ChangeBatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChangeBatch")
            .field("first_seqno", &self.first_seqno)
            .field("last_seqno", &self.last_seqno())
            .field("changes", &self.changes().collect::<Vec<_>>())
            .finish_non_exhaustive()
    }
}

/// One change of a batch.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Change<'a> {
    /// The sequence number.
    pub seqno: Seqno,
    /// The id of the keyspace.
    pub keyspace: KeyspaceId,
    /// The name of the keyspace. `None` if it was dropped before the feed knows.
    pub keyspace_name: Option<&'a str>,
    /// What changes.
    pub operation: Operation<'a>,
}

/// What a change does to a keyspace.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Operation<'a> {
    /// The key has this value.
    Put {
        /// The key.
        key: Cow<'a, [u8]>,
        /// The value.
        value: &'a [u8],
    },
    /// The key has this value until a time.
    PutExpiring {
        /// The key.
        key: Cow<'a, [u8]>,
        /// The value.
        value: &'a [u8],
        /// The time, in milliseconds since 1970-01-01 UTC.
        expires_at_ms: u64,
    },
    /// The key has no value.
    Delete {
        /// The key.
        key: Cow<'a, [u8]>,
    },
    /// No key of the range has a value.
    DeleteRange {
        /// The first key of the range.
        start: Cow<'a, [u8]>,
        /// The first key after the range. `None`: it has no end.
        end: Option<Cow<'a, [u8]>>,
    },
    /// The operand is merged into the value of the key by the keyspace's merge operator.
    Merge {
        /// The key.
        key: Cow<'a, [u8]>,
        /// The operand.
        operand: &'a [u8],
    },
}
