//! Edits: one atomic change of the tree each, and their encoding.
//!
//! An edit is a list of changes; each is a tag byte and its fields, varints and length-prefixed
//! bytes. A tag that is not known here is refused: skipping it would misread the tree.

use super::feed_changes::{self, FeedChange};
use super::lifetimes_code::{decode_lifetimes, encode_lifetimes};
use super::settings_code::{
    decode_settings, encode_settings, key_format_byte, put_name, take_key_format, take_name,
};
use super::table_code::{
    decode_table, decode_uses, encode_table, encode_uses, put_optional, take_optional, take_seqno,
};
use crate::options::change::ChangedSettings;
use crate::options::settings::KeyspaceSettings;
use crate::reserved::is_reserved;
use crate::stats::cumulative::CumulativeStats;
use crate::user_keys::KeyFormat;
use crate::version::dates::Dates;
use crate::version::table_lifetimes::{LifetimeEstimator, TableBirth};
use crate::version::{LEVELS, TableId, TableMeta, ValueFileMeta};
use esker_base::coding::{
    put_bytes, put_varint64, take_bytes, take_u8, take_varint32, take_varint64,
};
use esker_base::{KeyspaceId, Seqno};
use std::time::Duration;

/// The end of a log segment as found by recovery.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct LogEnd {
    /// The offset after the last accepted frame.
    pub offset: u64,
    /// The sequence number of the last accepted entry.
    pub last_seqno: Seqno,
}

/// One change of an edit.
#[derive(Clone, PartialEq, Debug)]
pub enum VersionChange {
    /// Creates a keyspace.
    CreateKeyspace {
        /// The id, never used before.
        id: KeyspaceId,
        /// The name.
        name: String,
        /// The settings.
        settings: KeyspaceSettings,
        /// Reserved for time travel.
        retention_seqno: Option<Seqno>,
    },
    /// Changes settings of a keyspace. In snapshots, after its creation, if any were changed.
    ChangeSettings {
        /// The keyspace.
        id: KeyspaceId,
        /// All of its settings, except the names of its operator and its filter, which stay.
        settings: KeyspaceSettings,
        /// Those that were changed since its creation.
        changed: ChangedSettings,
    },
    /// Drops a keyspace with all of its tables.
    DropKeyspace(KeyspaceId),
    /// Adds a table to a run.
    AddTable {
        /// The keyspace.
        keyspace: KeyspaceId,
        /// The level.
        level: usize,
        /// The id of the run.
        run: u64,
        /// The table.
        meta: TableMeta,
    },
    /// Adds a value file. It goes with the last table that refers to it.
    AddValueFile {
        /// The keyspace.
        keyspace: KeyspaceId,
        /// The file.
        meta: ValueFileMeta,
    },
    /// Sets the length from which on values of a keyspace are stored in value files.
    SeparationThreshold {
        /// The keyspace.
        keyspace: KeyspaceId,
        /// The length, in bytes. `None`: all values are stored in tables.
        bytes: Option<u32>,
    },
    /// Removes a table.
    RemoveTable {
        /// The keyspace.
        keyspace: KeyspaceId,
        /// The table.
        id: TableId,
    },
    /// Every write up to this sequence number is in tables.
    FlushedThrough(Seqno),
    /// File ids below this one are in use or were used.
    NextFile(u64),
    /// Keyspace ids below this one are in use or were used.
    NextKeyspace(u32),
    /// Adds a log segment, which may hold frames from now on.
    AddLog {
        /// The epoch, which is also the file id.
        epoch: u32,
        /// The end of the log, once recovery has found it.
        end: Option<LogEnd>,
    },
    /// Removes a log segment.
    RemoveLog(u32),
    /// The database was closed with all writes in tables.
    Closed,
    /// The database has, or had, a keyspace with a merge operator. Only in snapshots.
    HasMerges,
    /// The database has, or had, entries that expire. Its time, in milliseconds since 1970-01-01, does
    /// not go back behind this one.
    ExpiryMark(u64),
    /// Sets the time to live of a keyspace.
    Ttl {
        /// The keyspace.
        keyspace: KeyspaceId,
        /// The time to live, in milliseconds. `None`: nothing expires any more.
        millis: Option<u64>,
        /// The last write when the keyspace got its first time to live.
        zeroed_as: Seqno,
    },
    /// Entries of a keyspace up to this sequence number have expired.
    ExpiredThrough {
        /// The keyspace.
        keyspace: KeyspaceId,
        /// The sequence number.
        through: Seqno,
    },
    /// The key format of the database. Only in the first edit; without it, [`KeyFormat::AsGiven`].
    KeyFormat(KeyFormat),
    /// The number of the edit since the creation of the database, and the first file id of the
    /// process that writes the manifest. Only in snapshots.
    Numbered {
        /// The number of the edit.
        edits: u64,
        /// The first file id of the process.
        first_file: u64,
    },
    /// Further dates of writes; in snapshots, all of them.
    Dates(Dates),
    /// Costs to add to the totals.
    Account(CumulativeStats),
    /// The lifetimes of the tables of a keyspace. Only in snapshots, before its tables.
    Lifetimes {
        /// The keyspace.
        keyspace: KeyspaceId,
        /// The lifetimes of removed tables, by the level that they were written to.
        lives: Box<[LifetimeEstimator; LEVELS]>,
        /// When the present tables were written.
        born: Vec<(TableId, TableBirth)>,
    },
    /// A change for change feeds.
    Feed(FeedChange),
}

/// An atomic change of the manifest.
#[derive(Clone, PartialEq, Debug, Default)]
#[non_exhaustive]
pub struct VersionEdit {
    /// The changes, in order.
    pub changes: Vec<VersionChange>,
}

const CREATE_KEYSPACE: u8 = 1;
const DROP_KEYSPACE: u8 = 2;
const ADD_TABLE: u8 = 3;
const REMOVE_TABLE: u8 = 4;
const FLUSHED_THROUGH: u8 = 5;
const NEXT_FILE: u8 = 6;
const NEXT_KEYSPACE: u8 = 7;
const ADD_LOG: u8 = 8;
const REMOVE_LOG: u8 = 9;
const CLOSED: u8 = 10;
const ADD_VALUE_FILE: u8 = 11;
// 12 is reserved for a keyspace's retention seqno changing later.
const ACCOUNT: u8 = 13;
const LIFETIMES: u8 = 14;
const NUMBERED: u8 = 15;
const KEY_FORMAT: u8 = 16;
const DATES: u8 = 17;
const CREATE_MERGING_KEYSPACE: u8 = 18;
const HAS_MERGES: u8 = 19;
const EXPIRY_MARK: u8 = 20;
const ADD_EXPIRING_TABLE: u8 = 21;
const TTL: u8 = 22;
const EXPIRED_THROUGH: u8 = 23;
/// As 1, for a keyspace of the engine's own. Older versions of the program would not maintain it.
const CREATE_RESERVED_KEYSPACE: u8 = 24;
const CREATE_FILTERED_KEYSPACE: u8 = 25;
const CHANGE_SETTINGS: u8 = 30;
/// As 3 or 21, for a table that refers to value files.
const ADD_SEPARATED_TABLE: u8 = 31;
const SEPARATION_THRESHOLD: u8 = 32;
/// As 11, for a file of one large value. Older versions of the program could not read it.
const ADD_LARGE_VALUE: u8 = 33;

impl VersionChange {
    /// The changes that create a keyspace.
    pub(crate) fn create(
        id: KeyspaceId,
        name: &str,
        settings: KeyspaceSettings,
    ) -> impl Iterator<Item = VersionChange> {
        let name = name.to_owned();
        let create = VersionChange::CreateKeyspace { id, name, settings, retention_seqno: None };
        // Of a new one, no entry has lost its seqno.
        let ttl =
            |ttl| VersionChange::Ttl { keyspace: id, millis: Some(millis_of(ttl)), zeroed_as: 0 };
        let separation = settings
            .separation_threshold
            .map(|bytes| VersionChange::SeparationThreshold { keyspace: id, bytes: Some(bytes) });
        std::iter::once(create).chain(settings.ttl.map(ttl)).chain(separation)
    }
}

/// A time to live, in milliseconds, rounded up.
pub(crate) fn millis_of(ttl: Duration) -> u64 {
    u64::try_from(ttl.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX)
}

impl VersionEdit {
    /// An edit with these steps.
    pub fn of(changes: impl IntoIterator<Item = VersionChange>) -> Self {
        VersionEdit { changes: changes.into_iter().collect() }
    }

    /// The edit as bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        for change in &self.changes {
            encode_change(change, &mut out);
        }
        out
    }

    /// The edit in `bytes`, or what is wrong with them.
    pub fn decode(mut bytes: &[u8]) -> Result<VersionEdit, String> {
        let mut changes = Vec::new();
        while !bytes.is_empty() {
            let at = changes.len();
            let tag = bytes[0];
            let change = decode_change(&mut bytes).ok_or_else(|| match tag {
                CREATE_KEYSPACE..=ADD_VALUE_FILE
                | ACCOUNT..=feed_changes::LAST_TAG
                | CHANGE_SETTINGS..=ADD_LARGE_VALUE => {
                    format!("change {at} of the edit (tag {tag}) is malformed")
                }
                _ => format!(
                    "change {at} of the edit has tag {tag}, which is not known here: a newer version of \
                     this program may have written it"
                ),
            })?;
            changes.push(change);
        }
        Ok(VersionEdit { changes })
    }
}

fn encode_change(change: &VersionChange, out: &mut Vec<u8>) {
    match change {
        VersionChange::CreateKeyspace { id, name, settings, retention_seqno } => {
            // The engine's own keyspaces have no operator and no filter.
            let names = (settings.merge, settings.compaction_filter);
            let (operator, filter) = if is_reserved(name) { (None, None) } else { names };
            out.push(match (operator, filter) {
                _ if is_reserved(name) => CREATE_RESERVED_KEYSPACE,
                (None, None) => CREATE_KEYSPACE,
                (Some(_), None) => CREATE_MERGING_KEYSPACE,
                (_, Some(_)) => CREATE_FILTERED_KEYSPACE,
            });
            put_varint64(out, u64::from(id.0));
            put_bytes(out, name.as_bytes());
            encode_settings(settings, out);
            put_optional(out, *retention_seqno);
            if operator.is_some() || filter.is_some() {
                put_name(operator, out);
            }
            if filter.is_some() {
                put_name(filter, out);
            }
        }
        VersionChange::ChangeSettings { id, settings, changed } => {
            out.push(CHANGE_SETTINGS);
            put_varint64(out, u64::from(id.0));
            out.push(changed.bits());
            encode_settings(settings, out);
        }
        VersionChange::DropKeyspace(id) => {
            out.push(DROP_KEYSPACE);
            put_varint64(out, u64::from(id.0));
        }
        VersionChange::AddTable { keyspace, level, run, meta } => {
            out.push(match (&meta.value_files[..], meta.expiring) {
                ([], None) => ADD_TABLE,
                ([], Some(_)) => ADD_EXPIRING_TABLE,
                _ => ADD_SEPARATED_TABLE,
            });
            put_varint64(out, u64::from(keyspace.0));
            put_varint64(out, *level as u64);
            put_varint64(out, *run);
            if !meta.value_files.is_empty() {
                out.push(u8::from(meta.expiring.is_some()));
            }
            encode_table(meta, out);
            if !meta.value_files.is_empty() {
                encode_uses(&meta.value_files, out);
            }
        }
        VersionChange::AddValueFile { keyspace, meta } => {
            let ValueFileMeta { file, bytes, values, value_bytes, in_blocks } = *meta;
            out.push(if in_blocks { ADD_LARGE_VALUE } else { ADD_VALUE_FILE });
            put_varint64(out, u64::from(keyspace.0));
            [file, bytes, values, value_bytes].into_iter().for_each(|it| put_varint64(out, it));
        }
        VersionChange::SeparationThreshold { keyspace, bytes } => {
            out.push(SEPARATION_THRESHOLD);
            put_varint64(out, u64::from(keyspace.0));
            put_optional(out, bytes.map(u64::from));
        }
        VersionChange::RemoveTable { keyspace, id } => {
            out.push(REMOVE_TABLE);
            put_varint64(out, u64::from(keyspace.0));
            put_varint64(out, id.file);
            put_varint64(out, id.offset);
        }
        VersionChange::FlushedThrough(seqno) => {
            out.push(FLUSHED_THROUGH);
            put_varint64(out, *seqno);
        }
        VersionChange::NextFile(id) => {
            out.push(NEXT_FILE);
            put_varint64(out, *id);
        }
        VersionChange::NextKeyspace(id) => {
            out.push(NEXT_KEYSPACE);
            put_varint64(out, u64::from(*id));
        }
        VersionChange::AddLog { epoch, end } => {
            out.push(ADD_LOG);
            put_varint64(out, u64::from(*epoch));
            put_optional(out, end.map(|end| end.offset));
            if let Some(end) = end {
                put_varint64(out, end.last_seqno);
            }
        }
        VersionChange::RemoveLog(epoch) => {
            out.push(REMOVE_LOG);
            put_varint64(out, u64::from(*epoch));
        }
        VersionChange::Closed => out.push(CLOSED),
        VersionChange::Feed(change) => change.encode(out),
        VersionChange::HasMerges => out.push(HAS_MERGES),
        VersionChange::ExpiryMark(time) => {
            out.push(EXPIRY_MARK);
            put_varint64(out, *time);
        }
        VersionChange::Ttl { keyspace, millis, zeroed_as } => {
            out.push(TTL);
            put_varint64(out, u64::from(keyspace.0));
            put_optional(out, *millis);
            put_varint64(out, *zeroed_as);
        }
        VersionChange::ExpiredThrough { keyspace, through } => {
            out.push(EXPIRED_THROUGH);
            put_varint64(out, u64::from(keyspace.0));
            put_varint64(out, *through);
        }
        VersionChange::KeyFormat(format) => {
            out.push(KEY_FORMAT);
            out.push(key_format_byte(*format));
        }
        VersionChange::Numbered { edits, first_file } => {
            out.push(NUMBERED);
            put_varint64(out, *edits);
            put_varint64(out, *first_file);
        }
        VersionChange::Dates(dates) => {
            out.push(DATES);
            dates.encode(out);
        }
        VersionChange::Account(account) => {
            out.push(ACCOUNT);
            put_bytes(out, &account.encode());
        }
        VersionChange::Lifetimes { keyspace, lives, born } => {
            out.push(LIFETIMES);
            encode_lifetimes(*keyspace, lives, born, out);
        }
    }
}

fn decode_change(input: &mut &[u8]) -> Option<VersionChange> {
    Some(match take_u8(input)? {
        tag @ (CREATE_KEYSPACE
        | CREATE_RESERVED_KEYSPACE
        | CREATE_MERGING_KEYSPACE
        | CREATE_FILTERED_KEYSPACE) => {
            let id = KeyspaceId(take_varint32(input)?);
            let name = String::from_utf8(take_bytes(input)?.to_vec()).ok()?;
            let mut settings = decode_settings(input)?;
            let retention_seqno = take_optional(input)?;
            match tag {
                // They have no operator and no filter.
                CREATE_MERGING_KEYSPACE | CREATE_FILTERED_KEYSPACE if is_reserved(&name) => {
                    return None;
                }
                CREATE_MERGING_KEYSPACE => settings.merge = Some(take_name(input)??),
                CREATE_FILTERED_KEYSPACE => {
                    settings.merge = take_name(input)?;
                    settings.compaction_filter = Some(take_name(input)??);
                }
                _ => {}
            }
            VersionChange::CreateKeyspace { id, name, settings, retention_seqno }
        }
        CHANGE_SETTINGS => VersionChange::ChangeSettings {
            id: KeyspaceId(take_varint32(input)?),
            changed: ChangedSettings::of_bits(take_u8(input)?)?,
            settings: decode_settings(input)?,
        },
        HAS_MERGES => VersionChange::HasMerges,
        TTL => VersionChange::Ttl {
            keyspace: KeyspaceId(take_varint32(input)?),
            millis: take_optional(input)?,
            zeroed_as: take_seqno(input)?,
        },
        EXPIRED_THROUGH => VersionChange::ExpiredThrough {
            keyspace: KeyspaceId(take_varint32(input)?),
            through: take_seqno(input)?,
        },
        EXPIRY_MARK => VersionChange::ExpiryMark(take_varint64(input)?),
        DROP_KEYSPACE => VersionChange::DropKeyspace(KeyspaceId(take_varint32(input)?)),
        tag @ (ADD_TABLE | ADD_EXPIRING_TABLE) => VersionChange::AddTable {
            keyspace: KeyspaceId(take_varint32(input)?),
            level: usize::try_from(take_varint64(input)?).ok().filter(|level| *level < LEVELS)?,
            run: take_varint64(input)?,
            meta: decode_table(input, tag == ADD_EXPIRING_TABLE)?,
        },
        REMOVE_TABLE => VersionChange::RemoveTable {
            keyspace: KeyspaceId(take_varint32(input)?),
            id: TableId { file: take_varint64(input)?, offset: take_varint64(input)? },
        },
        ADD_SEPARATED_TABLE => VersionChange::AddTable {
            keyspace: KeyspaceId(take_varint32(input)?),
            level: usize::try_from(take_varint64(input)?).ok().filter(|level| *level < LEVELS)?,
            run: take_varint64(input)?,
            meta: {
                let has_expiring = take_u8(input).filter(|it| *it < 2)? == 1;
                let meta = decode_table(input, has_expiring)?;
                TableMeta { value_files: decode_uses(input)?, ..meta }
            },
        },
        tag @ (ADD_VALUE_FILE | ADD_LARGE_VALUE) => VersionChange::AddValueFile {
            keyspace: KeyspaceId(take_varint32(input)?),
            meta: ValueFileMeta {
                file: take_varint64(input)?,
                bytes: take_varint64(input)?,
                values: take_varint64(input)?,
                value_bytes: take_varint64(input)?,
                in_blocks: tag == ADD_LARGE_VALUE,
            },
        },
        SEPARATION_THRESHOLD => VersionChange::SeparationThreshold {
            keyspace: KeyspaceId(take_varint32(input)?),
            bytes: match take_optional(input)? {
                Some(bytes) => Some(u32::try_from(bytes).ok()?),
                None => None,
            },
        },
        FLUSHED_THROUGH => VersionChange::FlushedThrough(take_seqno(input)?),
        NEXT_FILE => VersionChange::NextFile(take_varint64(input)?),
        NEXT_KEYSPACE => VersionChange::NextKeyspace(take_varint32(input)?),
        ADD_LOG => {
            let epoch = take_varint32(input)?;
            let end = match take_optional(input)? {
                None => None,
                Some(offset) => Some(LogEnd { offset, last_seqno: take_seqno(input)? }),
            };
            VersionChange::AddLog { epoch, end }
        }
        REMOVE_LOG => VersionChange::RemoveLog(take_varint32(input)?),
        CLOSED => VersionChange::Closed,
        KEY_FORMAT => VersionChange::KeyFormat(take_key_format(input)?),
        NUMBERED => VersionChange::Numbered {
            edits: take_varint64(input)?,
            first_file: take_varint64(input)?,
        },
        DATES => VersionChange::Dates(Dates::decode(input)?),
        ACCOUNT => VersionChange::Account(CumulativeStats::decode(take_bytes(input)?)?),
        LIFETIMES => {
            let (keyspace, lives, born) = decode_lifetimes(input)?;
            VersionChange::Lifetimes { keyspace, lives, born }
        }
        tag => VersionChange::Feed(FeedChange::decode(tag, input)?),
    })
}

#[cfg(test)]
pub(crate) mod tests;
