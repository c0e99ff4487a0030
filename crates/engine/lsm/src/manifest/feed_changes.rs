//! What the manifest says for change feeds: flushed logs that are kept, the consumers that need them,
//! and when keyspaces were created and dropped. Only databases with consumers have any of it.

use super::settings_code::{aging_settings_property, read_settings_property};
use super::table_code::take_seqno;
use super::version_edit::LogEnd;
use crate::options::settings::KeyspaceSettings;
use crate::user_keys::KeyFormat;
use esker_base::coding::{
    put_bytes, put_varint64, take_bool, take_bytes, take_varint32, take_varint64,
};
use esker_base::{KeyspaceId, Seqno};

/// The last tag that is known.
pub(super) const LAST_TAG: u8 = KEYSPACE_EVENT;

const KEEP_LOG: u8 = 26;
const CONSUMER: u8 = 27;
const DROP_CONSUMER: u8 = 28;
const KEYSPACE_EVENT: u8 = 29;

/// A log whose writes are all in tables, and that is kept for consumers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct KeptLog {
    /// The sequence number of its first entry.
    pub first_seqno: Seqno,
    /// Where it ends.
    pub end: LogEnd,
    /// Whether its first frame continues a batch of the log before.
    pub begins_in_batch: bool,
}

/// What the manifest says of a consumer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct ConsumerRecord {
    /// The last sequence number when it was registered.
    pub registered: Seqno,
    /// It needs no log for writes up to this one.
    pub acknowledged: Seqno,
    /// So many bytes of flushed logs are kept for it.
    pub bound_bytes: u64,
}

/// The creation or the drop of a keyspace, and its place among the writes.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct KeyspaceEvent {
    /// It comes after the writes up to this one, and before those after it.
    pub at: Seqno,
    /// The keyspace.
    pub keyspace: KeyspaceId,
    /// Its name.
    pub name: String,
    /// The settings that it was created with. `None`: it was dropped.
    pub created: Option<KeyspaceSettings>,
}

/// One change of an edit, for change feeds.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum FeedChange {
    /// Keeps a log that recovery does not need any more.
    KeepLog {
        /// The epoch.
        epoch: u32,
        /// The log.
        log: KeptLog,
    },
    /// Registers a consumer, or changes it.
    Consumer {
        /// The name.
        name: String,
        /// What it is from now on.
        record: ConsumerRecord,
    },
    /// Drops a consumer.
    DropConsumer(String),
    /// A keyspace was created or dropped.
    Keyspace(KeyspaceEvent),
}

impl FeedChange {
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        match self {
            FeedChange::KeepLog { epoch, log } => {
                out.push(KEEP_LOG);
                put_varint64(out, u64::from(*epoch));
                put_varint64(out, log.first_seqno);
                put_varint64(out, log.end.offset);
                put_varint64(out, log.end.last_seqno);
                out.push(u8::from(log.begins_in_batch));
            }
            FeedChange::Consumer { name, record } => {
                out.push(CONSUMER);
                put_bytes(out, name.as_bytes());
                put_varint64(out, record.registered);
                put_varint64(out, record.acknowledged);
                put_varint64(out, record.bound_bytes);
            }
            FeedChange::DropConsumer(name) => {
                out.push(DROP_CONSUMER);
                put_bytes(out, name.as_bytes());
            }
            FeedChange::Keyspace(KeyspaceEvent { at, keyspace, name, created }) => {
                out.push(KEYSPACE_EVENT);
                put_varint64(out, *at);
                put_varint64(out, u64::from(keyspace.0));
                put_bytes(out, name.as_bytes());
                let settings = created.map(|it| aging_settings_property(&it, KeyFormat::Mapped));
                put_bytes(out, &settings.unwrap_or_default());
            }
        }
    }

    /// Reads the change of this tag, which was read before.
    pub(super) fn decode(tag: u8, input: &mut &[u8]) -> Option<FeedChange> {
        Some(match tag {
            KEEP_LOG => FeedChange::KeepLog {
                epoch: take_varint32(input)?,
                log: KeptLog {
                    first_seqno: take_seqno(input)?,
                    end: LogEnd { offset: take_varint64(input)?, last_seqno: take_seqno(input)? },
                    begins_in_batch: take_bool(input)?,
                },
            },
            CONSUMER => FeedChange::Consumer {
                name: take_name(input)?,
                record: ConsumerRecord {
                    registered: take_seqno(input)?,
                    acknowledged: take_seqno(input)?,
                    bound_bytes: take_varint64(input)?,
                },
            },
            DROP_CONSUMER => FeedChange::DropConsumer(take_name(input)?),
            KEYSPACE_EVENT => FeedChange::Keyspace(KeyspaceEvent {
                at: take_seqno(input)?,
                keyspace: KeyspaceId(take_varint32(input)?),
                name: take_name(input)?,
                created: match take_bytes(input)? {
                    [] => None,
                    settings => Some(read_settings_property(settings)?.0),
                },
            }),
            _ => return None,
        })
    }
}

fn take_name(input: &mut &[u8]) -> Option<String> {
    String::from_utf8(take_bytes(input)?.to_vec()).ok()
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::manifest::golden::{Writer, reads};
    use crate::manifest::version_edit::{VersionChange, VersionEdit};

    pub(crate) fn sample_changes() -> Vec<FeedChange> {
        let end = LogEnd { offset: 4_000, last_seqno: 300 };
        let log = KeptLog { first_seqno: 200, end, begins_in_batch: true };
        let record = ConsumerRecord { registered: 90, acknowledged: 199, bound_bytes: 1 << 30 };
        let event = |created| KeyspaceEvent {
            at: 250,
            keyspace: KeyspaceId(3),
            name: "users".into(),
            created,
        };
        let settings = KeyspaceSettings::default().merge("add_i64");
        vec![
            FeedChange::KeepLog { epoch: 7, log },
            FeedChange::Consumer { name: "mirror".into(), record },
            FeedChange::DropConsumer("search".into()),
            FeedChange::Keyspace(event(Some(settings))),
            FeedChange::Keyspace(event(None)),
        ]
    }

    /// The bytes are a format on disk: `docs/formats/manifest.md`.
    #[test]
    fn every_change_has_the_bytes_that_the_format_says() {
        let edit = VersionEdit::of(sample_changes().into_iter().map(VersionChange::Feed));
        let mut golden = vec![26, 7, 200, 1, 160, 31, 172, 2, 1];
        golden.extend(b"\x1b\x06mirror\x5a\xc7\x01\x80\x80\x80\x80\x04");
        golden.extend(b"\x1c\x06search");
        golden.extend(b"\x1d\xfa\x01\x03\x05users\x0d\x01\x0a\x01\x0a\x01\x07add_i64");
        golden.extend(b"\x1d\xfa\x01\x03\x05users\x00");
        assert_eq!(edit.encode(), golden);
        assert_eq!(VersionEdit::decode(&golden), Ok(edit));
    }

    #[test]
    fn a_manifest_with_consumers_is_read_for_ever() {
        let edit = VersionEdit::of(sample_changes().into_iter().map(VersionChange::Feed));
        reads("version_1_consumers", &edit, Writer::Present);
    }

    /// With a time to live, which is behind the names, and with none of the names.
    #[test]
    fn a_manifest_with_the_creation_of_an_aging_keyspace_is_read_for_ever() {
        let (at, keyspace, name) = (250, KeyspaceId(3), "sessions".into());
        let created =
            Some(KeyspaceSettings::default().ttl(std::time::Duration::from_millis(90_500)));
        let event = KeyspaceEvent { at, keyspace, name, created };
        let edit = VersionEdit::of([VersionChange::Feed(FeedChange::Keyspace(event))]);
        let golden = b"\x1d\xfa\x01\x03\x08sessions\x0a\x01\x0a\x01\x0a\x01\x00\x00\x84\xc3\x05";
        assert_eq!(edit.encode(), golden);
        reads("version_1_aging_event", &edit, Writer::Present);
    }

    #[test]
    fn truncated_changes_are_refused() {
        for change in sample_changes() {
            let bytes = VersionEdit::of([VersionChange::Feed(change)]).encode();
            for len in 1..bytes.len() {
                assert!(VersionEdit::decode(&bytes[..len]).is_err(), "{len} of {bytes:?}");
            }
        }
    }
}
