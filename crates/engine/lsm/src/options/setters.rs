//! The builder methods of settings: one per field, with the field's name.

use super::settings::{KeyspaceSettings, Log, Recovery, Settings, Shape};
use super::space_policy::Dedup;
use super::table_limits::TableLimits;
use super::write_rate::BackgroundWriteRate;
use crate::fold::operators::OperatorName;
use crate::resources::Resources;
use esker_api::{CompactionFilter, MergeOperator};
use esker_memtable::Forwarding;
use esker_storage::Encryption;
use esker_table::Compression;
use std::sync::Arc;
use std::time::Duration;

/// Builder methods. Each sets the field of its name, whose documentation is complete.
impl Settings {
    /// Sets where the log is stored and when it is synced. Default: files in the database directory,
    /// [`SyncPolicy::Os`](crate::SyncPolicy::Os).
    #[must_use]
    pub fn log(mut self, log: Log) -> Self {
        self.log = log;
        self
    }

    /// Sets what an open does if the log has an invalid frame with whole frames after it. Default:
    /// [`Recovery::Prefix`].
    #[must_use]
    pub fn recovery(mut self, recovery: Recovery) -> Self {
        self.recovery = recovery;
        self
    }

    /// Sets the size of a log segment, and of a MemTable, in bytes: 64 KiB to 1 GiB. Default: 64 MiB.
    #[must_use]
    pub fn segment_bytes(mut self, segment_bytes: usize) -> Self {
        self.segment_bytes = segment_bytes;
        self
    }

    /// Sets the number of immutable MemTables that may wait for their flush, 1 to 64. Default: 3.
    #[must_use]
    pub fn sealed_segments(mut self, sealed_segments: usize) -> Self {
        self.sealed_segments = sealed_segments;
        self
    }

    /// Sets the memory budget of the database, in bytes: at least two segments, unless the log is in a
    /// pool. Default: 1 GiB.
    #[must_use]
    pub fn memory_bytes(mut self, memory_bytes: usize) -> Self {
        self.memory_bytes = memory_bytes;
        self
    }

    /// Sets the capacity of the DRAMTable in bytes, at most half of the memory. `None` is an eighth of
    /// the memory; 0 disables the table. Default: `None`.
    #[must_use]
    pub fn dram_table_bytes(mut self, dram_table_bytes: impl Into<Option<usize>>) -> Self {
        self.dram_table_bytes = dram_table_bytes.into();
        self
    }

    /// Sets when writes are copied to the DRAMTable. Default: [`Forwarding::OnFlush`].
    #[must_use]
    pub fn forwarding(mut self, forwarding: Forwarding) -> Self {
        self.forwarding = forwarding;
        self
    }

    /// Sets the number of compaction threads, 1 to 64. Default: 2.
    #[must_use]
    pub fn background_threads(mut self, background_threads: usize) -> Self {
        self.background_threads = background_threads;
        self
    }

    /// Sets the most table files that are open at once, at least 1. `None` is half of what the process
    /// may have open. Default: `None`.
    #[must_use]
    pub fn max_open_files(mut self, max_open_files: impl Into<Option<usize>>) -> Self {
        self.max_open_files = max_open_files.into();
        self
    }

    /// Sets the most bytes per second that flushes and compactions write to tables. Default: unlimited.
    #[must_use]
    pub fn background_write_rate(mut self, background_write_rate: BackgroundWriteRate) -> Self {
        self.background_write_rate = background_write_rate;
        self
    }

    /// Sets the longest time that a delete, and the data that it hides, stay in tables, at least 1 s.
    /// [`Duration::MAX`] disables the limit. Default: 30 days.
    #[must_use]
    pub fn delete_age_max(mut self, delete_age_max: Duration) -> Self {
        self.delete_age_max = delete_age_max;
        self
    }

    /// Sets the time from which on calls are events: [`Settings::slow_call`]. Default:
    /// [`Duration::MAX`], no limit.
    #[must_use]
    pub fn slow_call(mut self, slow_call: Duration) -> Self {
        self.slow_call = slow_call;
        self
    }

    /// Sets whether tables and value files are read past the page cache of the operating system. Default: false.
    #[must_use]
    pub fn direct_reads(mut self, direct_reads: bool) -> Self {
        self.direct_reads = direct_reads;
        self
    }

    /// Sets whether a thread answers requests from other processes, such as `esker checkpoint`.
    /// Default: false.
    #[must_use]
    pub fn answers_requests(mut self, answers_requests: bool) -> Self {
        self.answers_requests = answers_requests;
        self
    }

    /// Sets the settings of the default keyspace, used only when the database is created.
    #[must_use]
    pub fn default_keyspace(mut self, default_keyspace: KeyspaceSettings) -> Self {
        self.default_keyspace = default_keyspace;
        self
    }

    /// Adds a merge operator. It replaces a built-in one of the same name.
    #[must_use]
    pub fn merge_operator(mut self, operator: impl MergeOperator + 'static) -> Self {
        self.merge_operators.add(Arc::new(operator));
        self
    }

    /// Adds a compaction filter. It replaces an earlier one of the same name.
    #[must_use]
    pub fn compaction_filter(mut self, filter: impl CompactionFilter + 'static) -> Self {
        self.compaction_filters.add(Arc::new(filter));
        self
    }

    /// Sets the encryption of all files, from the creation of the database on. Default: `None`.
    #[must_use]
    pub fn encryption(mut self, encryption: impl Into<Encryption>) -> Self {
        self.encryption = Some(encryption.into());
        self
    }

    /// Sets the memory and threads that the database shares with others of this process. They replace
    /// `memory_bytes`, `background_threads` and `max_open_files`. Default: `None`.
    #[must_use]
    pub fn resources(mut self, resources: impl Into<Option<Resources>>) -> Self {
        self.resources = resources.into();
        self
    }

    /// For tests.
    #[doc(hidden)]
    #[must_use]
    pub fn table_limits(mut self, table_limits: TableLimits) -> Self {
        self.table_limits = table_limits;
        self
    }
}

/// Builder methods. Each sets the field of its name, whose documentation is complete.
impl KeyspaceSettings {
    /// Sets how tables are arranged. Default: leveled with ratio 10.
    #[must_use]
    pub const fn shape(mut self, shape: Shape) -> Self {
        self.shape = shape;
        self
    }

    /// Keeps the writes of each `window` of time in tables of their own: sets [`Shape::Windowed`].
    ///
    /// Windows go whole: after [`KeyspaceSettings::ttl`], and the oldest first if all have more than
    /// `max_bytes` together.
    ///
    /// # Examples
    ///
    /// ```
    /// # extern crate esker_lsm as esker;
    /// use esker::KeyspaceSettings;
    /// use std::time::Duration;
    ///
    /// const HOUR: Duration = Duration::from_secs(3600);
    /// let samples = KeyspaceSettings::default().window(HOUR, 100 << 30).ttl(30 * 24 * HOUR);
    /// assert!(samples.validate().is_ok());
    /// ```
    #[must_use]
    pub fn window(mut self, window: Duration, max_bytes: impl Into<Option<u64>>) -> Self {
        self.shape = Shape::Windowed { window, max_bytes: max_bytes.into() };
        self
    }

    /// Sets how a tiered keyspace removes obsolete versions. Default: [`Dedup::None`].
    #[must_use]
    pub const fn dedup(mut self, dedup: Dedup) -> Self {
        self.dedup = dedup;
        self
    }

    /// Sets how data blocks are compressed. Default: LZ4.
    #[must_use]
    pub const fn compression(mut self, compression: Compression) -> Self {
        self.compression = compression;
        self
    }

    /// Sets the mean number of filter bits per key, 0 (no filter) to 32. Default: 10.
    #[must_use]
    pub const fn filter_bits(mut self, filter_bits: u8) -> Self {
        self.filter_bits = filter_bits;
        self
    }

    /// Sets the name of the merge operator. Default: none.
    #[must_use]
    pub fn merge(mut self, operator: impl Into<OperatorName>) -> Self {
        self.merge = Some(operator.into());
        self
    }

    /// Sets the name of the compaction filter. Default: none.
    #[must_use]
    pub fn compaction_filter(mut self, filter: impl Into<OperatorName>) -> Self {
        self.compaction_filter = Some(filter.into());
        self
    }

    /// Sets how long entries live after they were written. Default: `None`.
    #[must_use]
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.ttl = Some(ttl);
        self
    }

    /// Sets the length in bytes from which on values are stored in value files. Default: `None`.
    #[must_use]
    pub fn separation_threshold(mut self, bytes: impl Into<Option<u32>>) -> Self {
        self.separation_threshold = bytes.into();
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use esker_api::{FilterDecision, FilterError, Max};

    struct NoKeys;

    impl esker_storage::Encrypt for NoKeys {
        fn over(&self, below: Arc<dyn esker_storage::Storage>) -> Arc<dyn esker_storage::Storage> {
            below
        }
    }

    /// Keeps everything.
    struct Keep;

    impl CompactionFilter for Keep {
        fn name(&self) -> &str {
            "keep"
        }
        fn filter(&self, _: &[u8], _: &[u8]) -> Result<FilterDecision, FilterError> {
            Ok(FilterDecision::Keep)
        }
    }

    #[test]
    fn each_method_sets_the_field_of_its_name() {
        let default_keyspace = KeyspaceSettings::default()
            .shape(Shape::Tiered { runs: 4 })
            .dedup(Dedup::SpaceGoal { amp: crate::Ratio::of_hundredths(150) })
            .compression(Compression::Zstd)
            .filter_bits(12)
            .merge("max")
            .compaction_filter("odd")
            .ttl(Duration::from_secs(60))
            .separation_threshold(4096);
        let keyspace = KeyspaceSettings {
            shape: Shape::Tiered { runs: 4 },
            dedup: Dedup::SpaceGoal { amp: crate::Ratio::of_hundredths(150) },
            compression: Compression::Zstd,
            filter_bits: 12,
            merge: Some(OperatorName::new("max")),
            compaction_filter: Some(OperatorName::new("odd")),
            ttl: Some(Duration::from_secs(60)),
            separation_threshold: Some(4096),
        };
        assert_eq!(default_keyspace, keyspace);
        let (window, max_bytes) = (Duration::from_secs(60), Some(1 << 20));
        let shape = KeyspaceSettings::default().window(window, 1 << 20).shape;
        assert_eq!(shape, Shape::Windowed { window, max_bytes });

        let resources = Resources::new(32 << 20, 1).unwrap();
        let encryption = Encryption::new(NoKeys);
        let set = Settings::default()
            .log(Log::None)
            .recovery(Recovery::Strict)
            .segment_bytes(1 << 20)
            .sealed_segments(5)
            .memory_bytes(64 << 20)
            .dram_table_bytes(7)
            .forwarding(Forwarding::Always)
            .background_threads(3)
            .max_open_files(99)
            .background_write_rate(BackgroundWriteRate::Fixed(1 << 20))
            .delete_age_max(Duration::from_secs(9))
            .slow_call(Duration::from_millis(8))
            .direct_reads(true)
            .answers_requests(true)
            .default_keyspace(keyspace)
            .merge_operator(Max)
            .compaction_filter(Keep)
            .encryption(encryption.clone())
            .resources(resources.clone())
            .table_limits(TableLimits { cache_bytes_max: 8, ..TableLimits::default() });
        assert!(set.merge_operators.named("max").is_some());
        assert!(set.compaction_filters.named("keep").is_some());
        let expected = Settings {
            log: Log::None,
            recovery: Recovery::Strict,
            segment_bytes: 1 << 20,
            sealed_segments: 5,
            memory_bytes: 64 << 20,
            dram_table_bytes: Some(7),
            forwarding: Forwarding::Always,
            background_threads: 3,
            max_open_files: Some(99),
            background_write_rate: BackgroundWriteRate::Fixed(1 << 20),
            delete_age_max: Duration::from_secs(9),
            slow_call: Duration::from_millis(8),
            direct_reads: true,
            answers_requests: true,
            default_keyspace: keyspace,
            merge_operators: set.merge_operators.clone(),
            compaction_filters: set.compaction_filters.clone(),
            encryption: Some(encryption),
            resources: Some(resources),
            table_limits: TableLimits { cache_bytes_max: 8, ..TableLimits::default() },
        };
        assert_eq!(set, expected);
        assert_eq!(set.dram_table_bytes(None).dram_table_bytes, None);
    }
}
