//! The settings of a database and of a keyspace. Values that the engine can choose well are
//! constants.

use super::change::ChangedSettings;
use super::separation::{check_separation, separation_text};
pub use super::shape::Shape;
use super::shape::check_window;
use super::sizes::segments_ahead;
use super::slow_call::validate_slow_call;
use super::space_policy::Dedup;
use super::table_limits::TableLimits;
use super::write_rate::BackgroundWriteRate;
use crate::fold::compaction_filters::CompactionFilters;
use crate::fold::operators::{MergeOperators, OperatorName};
use crate::limits::within;
use crate::resources::Resources;
use esker_base::{Error, Result};
use esker_memtable::{Forwarding, MemTable};
use esker_storage::Encryption;
use esker_table::Compression;
use std::path::PathBuf;
use std::time::Duration;

/// The name of the keyspace that every database has.
pub const DEFAULT_KEYSPACE: &str = "default";

/// When the log files are synced, which decides what survives power loss.
///
/// In every mode, an acknowledged write survives the end of the process. After power loss, recovery
/// keeps all writes up to some point.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(rename_all = "snake_case")
)]
pub enum SyncPolicy {
    /// Before a write is acknowledged. Acknowledged writes survive power loss. Concurrent writers
    /// share a sync.
    Always,
    /// At this interval, 1 ms to 1 h. Power loss loses at most about one interval of the latest
    /// writes.
    Every(Duration),
    /// When the operating system writes its cached pages back. Power loss may lose the latest
    /// writes, without a time limit.
    Os,
}

impl SyncPolicy {
    /// Checks the range of the interval.
    pub(crate) fn validate(self) -> Result<()> {
        match self {
            SyncPolicy::Every(interval)
                if interval < Duration::from_millis(1) || interval > Duration::from_secs(3600) =>
            {
                Err(Error::InvalidSetting {
                    setting: "log sync interval",
                    value: format!("{interval:?}"),
                    reason: "it must be between 1 ms and 1 h".into(),
                })
            }
            _ => Ok(()),
        }
    }
}

/// What an open does if the log has an invalid frame with whole frames after it.
///
/// A frame is the log record of one or more batches. Three cases do not depend on this setting:
///
/// * A log that ends with an invalid frame. Recovery keeps the writes before it.
/// * A log in a pool. A crash there leaves whole frames after an unfinished one. Recovery keeps the
///   writes before the unfinished frame.
/// * Damage to writes that a later frame proves durable. The open fails.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(rename_all = "snake_case")
)]
pub enum Recovery {
    /// Keeps the writes before the invalid frame. Each log file of which anything is dropped is kept
    /// as `lost-NAME` in the database directory: as a copy, or renamed if no write of it was accepted.
    /// [`Db::torn_tail`](crate::Db::torn_tail) reports both.
    ///
    /// This is the default because power loss can leave such a log: until a sync, the system writes
    /// the pages of a file in any order. The database must open after power loss without an
    /// operator.
    #[default]
    Prefix,
    /// Fails with [`Error::TornLog`] and changes nothing. Use it where an operator decides, or
    /// where power loss is ruled out.
    Strict,
}

/// Where the log is stored.
#[derive(Clone, PartialEq, Eq, Debug)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(rename_all = "snake_case")
)]
pub enum Log {
    /// In files.
    File {
        /// The directory of the log files; `None` is the database directory.
        dir: Option<PathBuf>,
        /// When the files are synced.
        sync: SyncPolicy,
    },
    /// In a pool of persistent memory. Acknowledged writes survive power loss.
    ///
    /// MemTables are stored in the pool, so each write is stored once. A pool belongs to one
    /// database. It sets the segment size and the number of immutable MemTables:
    /// [`Settings::segment_bytes`] and [`Settings::sealed_segments`] are ignored.
    ///
    /// The pool is mapped while the database is open, and no other program may write to its file.
    /// Esker locks the file, but the lock stops only programs that check it. Checksums detect a
    /// foreign change at the next open or flush. Until then a read may return the changed bytes,
    /// and a change during a read or a write is a data race.
    Pmem {
        /// The file of the pool, created by `esker::pmem::Pool::create` or `esker pmem create`.
        pool: PathBuf,
        /// Whether to accept DRAM (a file on tmpfs) instead of persistent memory. This is for tests
        /// and experiments: nothing in DRAM survives power loss.
        emulated: bool,
    },
    /// No log. Writes that were not flushed to tables are lost when the process ends.
    None,
}

/// Every read looks into all MemTables that wait for their flush.
const SEALED_SEGMENTS_MOST: usize = 64;

/// The settings of a database, given at each open.
///
/// Start from the defaults and set what differs with the builder methods.
///
/// # Examples
///
/// ```
/// # extern crate esker_lsm as esker;
/// use esker::{Log, Settings, SyncPolicy};
///
/// let settings = Settings::default()
///     .log(Log::File { dir: None, sync: SyncPolicy::Always })
///     .memory_bytes(256 << 20);
/// assert!(settings.validate().is_ok());
///
/// // A segment is at least 64 KiB.
/// assert!(settings.segment_bytes(1).validate().is_err());
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(default, deny_unknown_fields)
)]
pub struct Settings {
    /// Where the log is stored and when it is synced. Default: files in the database directory,
    /// [`SyncPolicy::Os`].
    pub log: Log,
    /// What an open does if the log has an invalid frame with whole frames after it. Default:
    /// [`Recovery::Prefix`].
    pub recovery: Recovery,
    /// The size of a log segment, and of a MemTable, in bytes: 64 KiB to 1 GiB. Default: 64 MiB.
    pub segment_bytes: usize,
    /// The number of immutable MemTables that may wait for their flush, 1 to 64. Default: 3.
    ///
    /// Throttling of writers begins with the first of them and grows with each. Beyond this number
    /// no new segment is prepared, so writers wait for a flush.
    pub sealed_segments: usize,
    /// The memory budget of the database, in bytes. Default: 1 GiB.
    ///
    /// It covers MemTables and their index, the DRAMTable, indexes and filters of open tables, and
    /// the block cache, which gets the rest. Unless the log is in a pool, it is at least two segments.
    pub memory_bytes: usize,
    /// The capacity of the DRAMTable, a cache of values that were read, in bytes. `None` is an
    /// eighth of `memory_bytes`; 0 disables the table. Default: `None`.
    ///
    /// At most half of `memory_bytes`. Databases that share [`Resources`] share that half.
    pub dram_table_bytes: Option<usize>,
    /// When writes are copied to the DRAMTable. Default: [`Forwarding::OnFlush`].
    pub forwarding: Forwarding,
    /// The number of compaction threads, 1 to 64. Default: 2.
    ///
    /// Flush, log sync and the preparation of log segments have one more thread each.
    pub background_threads: usize,
    /// The most table files that are open at once, at least 1. Default: `None`, half of the files that
    /// the process may have open (`ulimit -n`).
    ///
    /// Each read in progress may have one more open. A database that is opened for reading, or to
    /// follow another process, keeps all open, because the writer may remove them.
    pub max_open_files: Option<usize>,
    /// The most bytes per second that flushes and compactions write to tables. Default: unlimited.
    ///
    /// In any second, at most a twentieth more is written, plus what the system buffers. Flushes go
    /// before compactions. Writers never wait for the limit itself, but are throttled as usual if
    /// flush or compaction fall behind. Ingests, backups and the log are not limited. Databases that
    /// share [`Resources`] share the flush thread, so a limited flush delays the flushes of others.
    pub background_write_rate: BackgroundWriteRate,
    /// The longest time that a delete, and the data that it hides, stay in tables. Default: 30
    /// days; at least 1 s; [`Duration::MAX`] disables the limit.
    ///
    /// * When the time is over, a compaction drops both, even if that frees little space.
    /// * Deletes that are a quarter beyond the limit come before all other compactions.
    /// * A delete may be dropped up to an eighth of the time early.
    /// * A MemTable is flushed after an eighth of the time at the latest.
    /// * A delete that an open snapshot does not see stays until the snapshot is dropped.
    ///
    /// The time is wall-clock time, including the time in which the database is closed. The default
    /// suits laws that demand erasure within a month. A delete is rewritten at most once per level.
    pub delete_age_max: Duration,
    /// Calls that take this time or longer are
    /// [events](crate::stats::EventKind::SlowCall). Default: [`Duration::MAX`], no limit; at least 1 us.
    ///
    /// With a limit, each call reads the clock twice and counts its cost. Without, it does neither.
    pub slow_call: Duration,
    /// Whether tables and value files are read past the system's page cache. Default: false.
    ///
    /// The block cache then is the only cache: give it memory. No value of a value file is in it. Where the file system has no direct
    /// I/O, nothing changes. It applies to directories, not to the storage of an [`Env`](crate::Env).
    pub direct_reads: bool,
    /// Whether a thread answers requests from other processes, such as `esker checkpoint`. It checks
    /// for them ten times per second. Default: false.
    ///
    /// A program without the thread can call [`Db::answer_request`](crate::Db::answer_request).
    pub answers_requests: bool,
    /// The settings of the default keyspace, used when the database is created.
    pub default_keyspace: KeyspaceSettings,
    /// Merge operators, in addition to the built-in ones. Default: none.
    ///
    /// A database whose keyspaces name other operators opens nevertheless. Reads that need them fail
    /// with [`Error::NoMergeOperator`].
    #[cfg_attr(feature = "serde", serde(skip))]
    pub merge_operators: MergeOperators,
    /// Compaction filters. Default: none.
    ///
    /// A database whose keyspaces name other filters opens nevertheless. Compaction then drops nothing
    /// there that a reader sees, and [`Stats::filters`](crate::Stats::filters) names the keyspaces.
    #[cfg_attr(feature = "serde", serde(skip))]
    pub compaction_filters: CompactionFilters,
    /// The encryption of all files. Default: `None`, and nothing is encrypted.
    ///
    /// A database is encrypted from its creation on, or never. An encrypted one cannot have its log in a
    /// pool.
    #[cfg_attr(feature = "serde", serde(skip))]
    pub encryption: Option<Encryption>,
    /// Memory and threads that several databases of this process share. Default: `None`, and the
    /// database has its own.
    ///
    /// With shared resources, `memory_bytes`, `background_threads` and `max_open_files` are ignored
    /// in favor of theirs.
    #[cfg_attr(feature = "serde", serde(skip))]
    pub resources: Option<Resources>,
    /// For tests.
    #[doc(hidden)]
    #[cfg_attr(feature = "serde", serde(skip))]
    pub table_limits: TableLimits,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            log: Log::File { dir: None, sync: SyncPolicy::Os },
            recovery: Recovery::Prefix,
            segment_bytes: 64 << 20,
            sealed_segments: 3,
            memory_bytes: 1 << 30,
            dram_table_bytes: None,
            forwarding: Forwarding::OnFlush,
            background_threads: 2,
            max_open_files: None,
            background_write_rate: BackgroundWriteRate::Unlimited,
            delete_age_max: Duration::from_secs(30 * 24 * 3600),
            slow_call: Duration::MAX,
            direct_reads: false,
            answers_requests: false,
            default_keyspace: KeyspaceSettings::default(),
            merge_operators: MergeOperators::default(),
            compaction_filters: CompactionFilters::default(),
            encryption: None,
            resources: None,
            table_limits: TableLimits::default(),
        }
    }
}

impl Settings {
    /// Returns the settings as a database with `pool` applies them.
    ///
    /// Each extent is a segment. All extents may hold immutable MemTables, except the active one
    /// and those prepared for it, and at most 64: every read visits all of them.
    pub fn with_pool(mut self, pool: &esker_pmem::Pool) -> Self {
        self.segment_bytes = pool.extent_bytes();
        let (extents, ahead) = (pool.extents(), segments_ahead(pool.extents()));
        self.sealed_segments = extents.saturating_sub(1 + ahead).clamp(1, SEALED_SEGMENTS_MOST);
        self
    }

    /// Fails if the log is in a pool, and the files of the database are encrypted.
    pub(crate) fn check_encryption(&self, is_encrypted: bool) -> Result<()> {
        match &self.log {
            Log::Pmem { pool, .. } if is_encrypted => Err(Error::InvalidSetting {
                setting: "encryption",
                value: format!("given together with the pool {}", pool.display()),
                reason: "the MemTables in a pool are not encrypted; keep the log in files".into(),
            }),
            _ => Ok(()),
        }
    }

    /// Returns the largest entry that can be written, in encoded bytes: a quarter of a segment.
    ///
    /// An entry is a key with its value.
    pub fn max_entry_bytes(&self) -> usize {
        MemTable::max_frame_bytes(self.segment_bytes)
    }

    /// Returns the largest batch that can be written, in encoded bytes.
    ///
    /// This is a quarter of the memory budget or, with a log in a pool, of the pool. If that is at
    /// most one segment, it is a quarter of a segment.
    pub fn max_batch_bytes(&self) -> usize {
        match self.batch_memory_bytes() {
            quarter if quarter > self.segment_bytes => quarter,
            _ => self.max_entry_bytes(),
        }
    }

    /// Returns the largest number of puts and deletes in one batch.
    ///
    /// A quarter of a segment holds at least one entry per 64 bytes, counted up to 262,144 entries.
    /// A batch may have that many for each whole segment that [`Settings::max_batch_bytes`] covers,
    /// and for one quarter segment at least.
    pub fn max_batch_entries(&self) -> usize {
        let in_frame = MemTable::max_frame_entries(self.segment_bytes);
        in_frame.max(self.max_batch_bytes() / self.segment_bytes * in_frame)
    }

    /// A quarter of the memory that segments may take. A batch can span several of them, and none can be flushed until
    /// the end of the batch is written.
    fn batch_memory_bytes(&self) -> usize {
        match self.log {
            // One extent is written to, and one waits to be.
            Log::Pmem { .. } => (self.sealed_segments + 2).saturating_mul(self.segment_bytes) / 4,
            _ => self.memory_bytes / 4,
        }
    }

    /// Checks the range of every setting. [`Db::open`](crate::Db::open) calls it.
    ///
    /// # Errors
    /// [`Error::InvalidSetting`] with the name of the first setting that is out of range.
    pub fn validate(&self) -> Result<()> {
        if self.resources.is_some() {
            let taken = self.clone().with_resources();
            return taken.resources(None).validate();
        }
        within("segment_bytes", self.segment_bytes, 64 << 10, 1 << 30)?;
        within("sealed_segments", self.sealed_segments, 1, SEALED_SEGMENTS_MOST)?;
        within("background_threads", self.background_threads, 1, 64)?;
        if let Some(files) = self.max_open_files {
            within("max_open_files", files, 1, usize::MAX)?;
        }
        if let Some(bytes) = self.dram_table_bytes {
            within("dram_table_bytes", bytes, 0, self.memory_bytes / 2)?;
        }
        if let Log::File { sync, .. } = self.log {
            sync.validate()?;
        }
        self.background_write_rate.validate()?;
        validate_slow_call(self.slow_call)?;
        if self.delete_age_max < Duration::from_secs(1) {
            return Err(Error::InvalidSetting {
                setting: "delete_age_max",
                value: format!("{:?}", self.delete_age_max),
                reason: "it must be at least 1 s".into(),
            });
        }
        self.default_keyspace.validate()?;
        self.check_encryption(self.encryption.is_some())?;
        let least = self.segment_bytes * 2;
        if self.memory_bytes < least && !matches!(self.log, Log::Pmem { .. }) {
            return Err(Error::InvalidSetting {
                setting: "memory_bytes",
                value: self.memory_bytes.to_string(),
                reason: format!(
                    "with segments of {} bytes it must be at least {least}, one segment being \
                     written and one being flushed",
                    self.segment_bytes
                ),
            });
        }
        Ok(())
    }
}

/// The settings of a keyspace, stored in the manifest when it is created.
///
/// [`Db::set`](crate::Db::set) changes `compression`, `dedup`, `filter_bits` and
/// `separation_threshold` later; the others are fixed.
///
/// Start from the defaults and set what differs with the builder methods.
///
/// # Examples
///
/// ```
/// # extern crate esker_lsm as esker;
/// use esker::KeyspaceSettings;
/// use esker::options::{Dedup, Ratio, Shape};
///
/// let events = KeyspaceSettings::default()
///     .shape(Shape::Tiered { runs: 8 })
///     .dedup(Dedup::SpaceGoal { amp: Ratio::of_hundredths(150) });
/// assert!(events.validate().is_ok());
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(default, deny_unknown_fields)
)]
pub struct KeyspaceSettings {
    /// How tables are arranged. Default: leveled with ratio 10.
    pub shape: Shape,
    /// How a tiered keyspace removes obsolete versions. Default: [`Dedup::None`].
    pub dedup: Dedup,
    /// How data blocks are compressed. Default: LZ4.
    pub compression: Compression,
    /// The mean number of filter bits per key over all tables, 0 (no filter) to 32. Default: 10.
    ///
    /// Large runs get fewer bits per key, small runs more. A table of a few thousand keys uses up
    /// to half as many again.
    pub filter_bits: u8,
    /// The name of the merge operator. Default: `None`, and merges are rejected.
    ///
    /// Built in are `add_i64`, `max`, `min`, `append`, `set_union` and `hyper_log_log`. Others are given
    /// to each open by [`Settings::merge_operator`].
    pub merge: Option<OperatorName>,
    /// The name of the compaction filter. Default: `None`, and compaction changes nothing that a reader
    /// sees.
    ///
    /// Filters are given to each open by [`Settings::compaction_filter`]. A keyspace with a filter has no
    /// indexes, and its values are not copied to the DRAMTable.
    pub compaction_filter: Option<OperatorName>,
    /// How long entries live after they were written. Default: `None`, for as long as they are not
    /// deleted.
    ///
    /// At least a second, and not with a merge operator. [`Keyspace::set_ttl`](crate::Keyspace::set_ttl) changes it later: opening
    /// an existing keyspace does not.
    pub ttl: Option<Duration>,
    /// The length in bytes from which on values are stored in value files. Default: `None`, and tables
    /// hold all values.
    ///
    /// Compaction then rewrites keys and places, and long values only to reclaim space. A read of such a
    /// value costs one more read of the device. Entries with a time to live of their own and operands of
    /// merges stay in tables. Not with a space-amplification limit.
    pub separation_threshold: Option<u32>,
}

/// The shortest time to live of a keyspace: expiry by age is checked once in it.
const TTL_MIN: Duration = Duration::from_secs(1);

/// Checks the time to live of a keyspace with this merge operator.
pub(crate) fn check_ttl(ttl: Duration, merge: Option<OperatorName>) -> Result<()> {
    let reason = match merge {
        Some(_) => "a keyspace with a merge operator has none, because merged operands have no age",
        None if ttl < TTL_MIN => "the time to live of a keyspace is a second or more",
        None => return Ok(()),
    };
    Err(Error::InvalidSetting { setting: "ttl", value: format!("{ttl:?}"), reason: reason.into() })
}

impl Default for KeyspaceSettings {
    fn default() -> Self {
        KeyspaceSettings {
            shape: Shape::Leveled { ratio: 10 },
            dedup: Dedup::None,
            compression: Compression::Lz4,
            filter_bits: 10,
            merge: None,
            compaction_filter: None,
            ttl: None,
            separation_threshold: None,
        }
    }
}

impl KeyspaceSettings {
    /// Returns the settings that differ from the `stored` ones, without those that were `changed` since
    /// the creation, as text, or `None` if all are the same.
    pub(crate) fn difference_from(
        &self,
        stored: &KeyspaceSettings,
        changed: ChangedSettings,
    ) -> Option<String> {
        let asked = changed.kept(*self, stored);
        let name = |name: Option<OperatorName>| name.map_or("none".to_owned(), String::from);
        let threshold = separation_text;
        let pairs = [
            ("shape", stored.shape.to_string(), asked.shape.to_string()),
            ("dedup", stored.dedup.to_string(), asked.dedup.to_string()),
            ("compression", stored.compression.to_string(), asked.compression.to_string()),
            ("filter_bits", stored.filter_bits.to_string(), asked.filter_bits.to_string()),
            ("merge operator", name(stored.merge), name(asked.merge)),
            ("compaction filter", name(stored.compaction_filter), name(asked.compaction_filter)),
            (
                "separation_threshold",
                threshold(stored.separation_threshold),
                threshold(asked.separation_threshold),
            ),
        ];
        let differing = pairs.into_iter().filter(|(_, stored, asked)| stored != asked);
        let texts: Vec<String> = differing
            .map(|(name, stored, asked)| format!("{name} is {stored}, not {asked}"))
            .collect();
        (!texts.is_empty()).then(|| texts.join("; "))
    }

    /// Returns these settings with those of `stored` that have changes of their own in the manifest.
    pub(crate) fn with_separate_changes_of(self, stored: &KeyspaceSettings) -> KeyspaceSettings {
        let KeyspaceSettings { merge, compaction_filter, ttl, separation_threshold, .. } = *stored;
        KeyspaceSettings { merge, compaction_filter, ttl, separation_threshold, ..self }
    }

    /// Whether there is a limit to the space that the keyspace takes.
    pub(crate) fn has_space_goal(&self) -> bool {
        matches!(self.dedup, Dedup::SpaceGoal { .. })
    }

    /// Checks the range of every setting. [`Db::keyspace`](crate::Db::keyspace) calls it.
    ///
    /// # Errors
    /// [`Error::InvalidSetting`] with the name of the first setting that is out of range, or if
    /// `dedup` is set for a leveled keyspace.
    pub fn validate(&self) -> Result<()> {
        match self.shape {
            Shape::Leveled { ratio } => within("ratio", ratio as usize, 2, 100)?,
            Shape::Tiered { runs } => within("runs", runs as usize, 2, 100)?,
            Shape::Windowed { window, max_bytes } => check_window(window, max_bytes, self.merge)?,
        }
        if self.dedup != Dedup::None && !matches!(self.shape, Shape::Tiered { .. }) {
            return Err(Error::InvalidSetting {
                setting: "dedup",
                value: self.dedup.to_string(),
                reason: "it is for tiered keyspaces: leveled ones keep one run a level".into(),
            });
        }
        self.dedup.validate()?;
        let names = [("merge", self.merge), ("compaction_filter", self.compaction_filter)];
        let is_bad = |name: &OperatorName| !name.is_valid();
        let bad =
            |(setting, name): (_, Option<OperatorName>)| Some((setting, name.filter(is_bad)?));
        if let Some((setting, name)) = names.into_iter().find_map(bad) {
            return Err(Error::InvalidSetting {
                setting,
                value: name.to_string(),
                reason: "a name here has 1 to 31 bytes and no control character".into(),
            });
        }
        self.ttl.map_or(Ok(()), |ttl| check_ttl(ttl, self.merge))?;
        check_separation(self.separation_threshold, self.has_space_goal())?;
        within("filter_bits", self.filter_bits as usize, 0, 32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::space_policy::Ratio;

    #[test]
    fn the_defaults_are_valid() {
        Settings::default().validate().unwrap();
        KeyspaceSettings::default().validate().unwrap();
    }

    #[test]
    fn settings_out_of_range_are_named() {
        let bad = Settings::default().segment_bytes(1);
        assert!(bad.validate().unwrap_err().to_string().contains("segment_bytes"));
        let bad = Settings::default().memory_bytes(1 << 20);
        assert!(bad.validate().unwrap_err().to_string().contains("memory_bytes"));
        let bad = Settings::default().delete_age_max(Duration::from_millis(999));
        assert!(bad.validate().unwrap_err().to_string().contains("delete_age_max"));
        let bad = KeyspaceSettings::default().filter_bits(33);
        assert!(bad.validate().unwrap_err().to_string().contains("filter_bits"));
        let dedup = Dedup::PerLevel { threshold: Ratio::of_hundredths(120) };
        let bad = KeyspaceSettings::default().dedup(dedup);
        let message = bad.validate().unwrap_err().to_string();
        assert!(message.contains("dedup is per-level:1.2"), "{message}");
    }
}
