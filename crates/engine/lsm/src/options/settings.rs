//! What a user may choose. Everything else is a constant with its reason.

use super::sizes::segments_ahead;
use super::space_policy::Dedup;
use crate::background::resources::Resources;
use esker_base::{Error, Result};
use esker_memtable::{Forwarding, MemTable};
use esker_table::Compression;
use std::path::PathBuf;
use std::time::Duration;

/// The name of the keyspace that every database has.
pub const DEFAULT_KEYSPACE: &str = "default";

/// When the log file's bytes are made to survive power loss.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sync {
    /// Before a write is acknowledged. An acknowledged write survives power loss.
    Always,
    /// At this interval. An acknowledged write survives the process; after power loss, a prefix of
    /// the writes is left that misses at most about one interval.
    Every(Duration),
    /// When the operating system sees fit. An acknowledged write survives the process; after power
    /// loss, some prefix of the writes is left.
    Os,
}

/// What opening does if whole frames of the log follow a frame that does not hold.
///
/// Neither choice concerns writes that a later frame shows to have been durable: damage to those is
/// always an error. Nor does it concern a log that ends in such a frame, or one in a pool, where the end of
/// a process leaves whole frames behind an unfinished one: the prefix is kept.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Recovery {
    /// Keeps the writes before that frame, sets the rest of the log aside in the database's directory,
    /// and reports both ([`Db::torn_log`](crate::Db::torn_log)).
    ///
    /// This is the default, because a power loss legally leaves such a log: the system writes the pages
    /// of a file in any order until they are synced. A database should open after a power loss without
    /// a person.
    #[default]
    Prefix,
    /// Fails with [`Error::TornLog`] and changes nothing. For programs whose operator is present, such
    /// as the command line, and for systems that do not lose power.
    Strict,
}

/// Where the log lives.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Log {
    /// Files.
    File {
        /// The directory of the log files; `None` is the database's own.
        dir: Option<PathBuf>,
        /// When they are synced.
        sync: Sync,
    },
    /// A pool of persistent memory, in which the MemTables themselves lie: an acknowledged write
    /// survives power loss, and nothing is written twice. The pool belongs to one database and says
    /// how large segments are, and how many of them may wait for their flush:
    /// [`Settings::segment_bytes`] and [`Settings::sealed_segments`] are not used.
    ///
    /// The pool is mapped while the database is open, and nothing else may write to its file meanwhile. Esker
    /// locks the file, but a lock keeps out only programs that ask for it. Bytes that are changed from
    /// outside are found by their checksums at the next open or flush; until then a read can return them,
    /// or race with a write in ways for which Rust promises nothing.
    Pmem {
        /// The pool's file, made by [`esker_pmem::Pool::create`] or `esker pmem create`.
        pool: PathBuf,
        /// Whether DRAM will do in persistent memory's stead: for tests and experiments. Then
        /// nothing survives power loss.
        emulated: bool,
    },
    /// Nowhere: what was not flushed to tables is lost when the process ends.
    None,
}

/// How a keyspace's tables are arranged.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Shape {
    /// One run a level, each level `ratio` times as large as the one before. Reads and space are
    /// cheap, writes cost about `ratio` / 2 a level.
    Leveled {
        /// How much larger each level is, 2 to 100.
        ratio: u32,
    },
    /// Up to `runs` runs a level; a full level is merged into one run of the next. Writes are cheap,
    /// reads and space less so.
    Tiered {
        /// How many runs a level may have, 2 to 100.
        runs: u32,
    },
}

/// Every read looks into all MemTables that wait for their flush.
const SEALED_SEGMENTS_MOST: usize = 64;

/// Settings of a database, given at each open.
///
/// ```
/// use esker_lsm::{Log, Settings, Sync};
///
/// let settings = Settings { log: Log::File { dir: None, sync: Sync::Always }, ..Settings::default() };
/// assert!(settings.validate().is_ok());
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Settings {
    /// Where the log lives and when it is synced. Default: files beside the tables, [`Sync::Os`].
    pub log: Log,
    /// What opening does if whole frames of the log follow one that does not hold. Default
    /// [`Recovery::Prefix`].
    pub recovery: Recovery,
    /// The size of a log segment, and so of a MemTable, in bytes: 64 KiB to 1 GiB. Default 64 MiB.
    pub segment_bytes: usize,
    /// How many sealed MemTables may wait for their flush before writers are slowed, 1 to 64.
    /// Default 3.
    pub sealed_segments: usize,
    /// The one memory budget, in bytes: segments and their index, filters and table indexes, and
    /// the block cache, which gets what the others leave. Default 1 GiB. It must hold at least the
    /// segments.
    pub memory_bytes: usize,
    /// The share of the DRAMTable, which keeps copies of values that are read, in bytes. `None` is
    /// our choice; 0 is no DRAMTable. At most half of `memory_bytes`; databases that share
    /// [`Resources`] share that half.
    pub dram_table_bytes: Option<usize>,
    /// When writes reach the DRAMTable. Default [`Forwarding::OnFlush`].
    pub forwarding: Forwarding,
    /// Threads for compaction, 1 to 64. Flush, sync and the preparation of log segments have one more
    /// thread each. Default 2.
    pub background_threads: usize,
    /// The longest time that deletes, and the data they hide, stay. Then compaction drops both, even where that frees
    /// little; deletes that are a quarter over their time come before all other compactions. A MemTable is flushed
    /// after an eighth of this time at the latest. A delete that a snapshot does not see stays until the snapshot is
    /// gone. A delete may be dropped up to an eighth early. Wall-clock time counts, including time while the database
    /// is closed.
    /// At least a second; [`Duration::MAX`] is without limit. Default 30 days: laws and contracts that ask for data to
    /// be erased give about a month, and a tree rewrites its deletes at most once a level in that time.
    pub delete_age_max: Duration,
    /// Whether a thread answers requests of other processes, as `esker checkpoint` makes while this one has the
    /// database open. It looks for them ten times a second. Default false: a program that
    /// wants no such thread may call [`Db::answer_request`](crate::Db::answer_request) itself.
    pub answers_requests: bool,
    /// What the default keyspace is made with if the database is made; no matter later.
    pub default_keyspace: KeyspaceSettings,
    /// Memory and threads to share with other databases of this process. Then `memory_bytes` and
    /// `background_threads` are not used: those of the resources are. Default `None`: the database has its
    /// own.
    pub resources: Option<Resources>,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            log: Log::File { dir: None, sync: Sync::Os },
            recovery: Recovery::Prefix,
            segment_bytes: 64 << 20,
            sealed_segments: 3,
            memory_bytes: 1 << 30,
            dram_table_bytes: None,
            forwarding: Forwarding::OnFlush,
            background_threads: 2,
            delete_age_max: Duration::from_secs(30 * 24 * 3600),
            answers_requests: false,
            default_keyspace: KeyspaceSettings::default(),
            resources: None,
        }
    }
}

impl Settings {
    /// The settings as a database with this pool takes them: an extent is a segment, and all of them
    /// but the active one and the next ones may wait for their flush, up to what reads should look into.
    pub fn with_pool(mut self, pool: &esker_pmem::Pool) -> Self {
        self.segment_bytes = pool.extent_bytes();
        let (extents, ahead) = (pool.extents(), segments_ahead(pool.extents()));
        self.sealed_segments = extents.saturating_sub(1 + ahead).clamp(1, SEALED_SEGMENTS_MOST);
        self
    }

    /// The settings as a database with its [`Settings::resources`] takes them.
    pub(crate) fn with_resources(mut self) -> Self {
        if let Some(resources) = &self.resources {
            self.memory_bytes = resources.memory_bytes();
            self.background_threads = resources.background_threads();
        }
        self
    }

    /// The longest key with its value that can be written, in bytes as they are encoded: a quarter of a
    /// segment.
    pub fn max_entry_bytes(&self) -> usize {
        MemTable::max_frame_bytes(self.segment_bytes)
    }

    /// The longest batch that can be written, in bytes as they are encoded: a quarter of the memory budget,
    /// or of the pool. If that is no more than a segment, it is a quarter of a segment.
    pub fn max_batch_bytes(&self) -> usize {
        match self.batch_memory_bytes() {
            quarter if quarter > self.segment_bytes => quarter,
            _ => self.max_entry_bytes(),
        }
    }

    /// The most puts and deletes that a batch can have. A quarter of a segment is sure to have room for
    /// one in 64 bytes in its index, and for at most 262,144. A batch can have as many for each whole
    /// segment that [`Settings::max_batch_bytes`] fill, and no fewer than one of these quarters.
    pub fn max_batch_entries(&self) -> usize {
        let in_frame = MemTable::max_frame_entries(self.segment_bytes);
        in_frame.max(self.max_batch_bytes() / self.segment_bytes * in_frame)
    }

    /// A quarter of the memory that segments may take. A batch lies in several of them until its end is
    /// written, and none can be flushed before.
    fn batch_memory_bytes(&self) -> usize {
        match self.log {
            // One extent is written to, and one waits to be.
            Log::Pmem { .. } => (self.sealed_segments + 2).saturating_mul(self.segment_bytes) / 4,
            _ => self.memory_bytes / 4,
        }
    }

    /// Checks every setting's range.
    pub fn validate(&self) -> Result<()> {
        if self.resources.is_some() {
            let taken = self.clone().with_resources();
            return Settings { resources: None, ..taken }.validate();
        }
        within("segment_bytes", self.segment_bytes, 64 << 10, 1 << 30)?;
        within("sealed_segments", self.sealed_segments, 1, SEALED_SEGMENTS_MOST)?;
        within("background_threads", self.background_threads, 1, 64)?;
        if let Some(bytes) = self.dram_table_bytes {
            within("dram_table_bytes", bytes, 0, self.memory_bytes / 2)?;
        }
        if let Log::File { sync: Sync::Every(interval), .. } = self.log
            && (interval < Duration::from_millis(1) || interval > Duration::from_secs(3600))
        {
            return Err(Error::InvalidSetting {
                setting: "log sync interval",
                value: format!("{interval:?}"),
                reason: "it must lie between 1 ms and 1 h".into(),
            });
        }
        if self.delete_age_max < Duration::from_secs(1) {
            return Err(Error::InvalidSetting {
                setting: "delete_age_max",
                value: format!("{:?}", self.delete_age_max),
                reason: "it must be at least 1 s".into(),
            });
        }
        self.default_keyspace.validate()?;
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

/// Settings of a keyspace, fixed at its creation and kept in the manifest.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct KeyspaceSettings {
    /// How tables are arranged. Default leveled, ratio 10.
    pub shape: Shape,
    /// What a tiered keyspace does about stale versions. Default nothing.
    pub dedup: Dedup,
    /// How blocks are compressed. Default lz4.
    pub compression: Compression,
    /// Filter bits a key in the mean over all tables, 0 (no filter) to 32. Large runs have fewer, small
    /// ones more; a table of few thousand keys takes up to half as many again. Default 10.
    pub filter_bits: u8,
}

impl Default for KeyspaceSettings {
    fn default() -> Self {
        KeyspaceSettings {
            shape: Shape::Leveled { ratio: 10 },
            dedup: Dedup::None,
            compression: Compression::Lz4,
            filter_bits: 10,
        }
    }
}

impl KeyspaceSettings {
    /// Whether there is a limit to the space that the keyspace takes.
    pub(crate) fn has_space_goal(&self) -> bool {
        matches!(self.dedup, Dedup::SpaceGoal { .. })
    }

    /// Checks every setting's range.
    pub fn validate(&self) -> Result<()> {
        match self.shape {
            Shape::Leveled { ratio } => within("ratio", ratio as usize, 2, 100)?,
            Shape::Tiered { runs } => within("runs", runs as usize, 2, 100)?,
        }
        if self.dedup != Dedup::None && !matches!(self.shape, Shape::Tiered { .. }) {
            return Err(Error::InvalidSetting {
                setting: "dedup",
                value: self.dedup.to_string(),
                reason: "it is for tiered keyspaces: leveled ones keep one run a level".into(),
            });
        }
        self.dedup.validate()?;
        within("filter_bits", self.filter_bits as usize, 0, 32)
    }
}

pub(crate) fn within(setting: &'static str, value: usize, least: usize, most: usize) -> Result<()> {
    if (least..=most).contains(&value) {
        return Ok(());
    }
    Err(Error::InvalidSetting {
        setting,
        value: value.to_string(),
        reason: format!("it must lie between {least} and {most}"),
    })
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
        let bad = Settings { segment_bytes: 1, ..Settings::default() };
        assert!(bad.validate().unwrap_err().to_string().contains("segment_bytes"));
        let bad = Settings { memory_bytes: 1 << 20, ..Settings::default() };
        assert!(bad.validate().unwrap_err().to_string().contains("memory_bytes"));
        let bad = Settings { delete_age_max: Duration::from_millis(999), ..Settings::default() };
        assert!(bad.validate().unwrap_err().to_string().contains("delete_age_max"));
        let bad = KeyspaceSettings { filter_bits: 33, ..KeyspaceSettings::default() };
        assert!(bad.validate().unwrap_err().to_string().contains("filter_bits"));
        let dedup = Dedup::PerLevel { threshold: Ratio::of_hundredths(120) };
        let bad = KeyspaceSettings { dedup, ..KeyspaceSettings::default() };
        let message = bad.validate().unwrap_err().to_string();
        assert!(message.contains("dedup is per-level:1.2"), "{message}");
    }
}
