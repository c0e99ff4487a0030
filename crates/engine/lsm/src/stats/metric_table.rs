//! The metrics of a database: one table, from which the page for Prometheus and what the crate
//! `metrics` gets are made.

use super::{CallHistograms, Stats, TimeHistogram};

/// A metric: its name, and where in [`Stats`] its value is.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Metric {
    /// The name.
    pub name: &'static str,
    /// What it counts or measures.
    pub help: &'static str,
    /// `counter`, `gauge` or `histogram`.
    pub kind: &'static str,
    /// Its value.
    pub value: MetricValue,
}

/// Reads the value of a [`Metric`].
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum MetricValue {
    /// Of a counter or a gauge.
    Number(fn(&Stats) -> f64),
    /// Of a histogram.
    Times(fn(&Stats) -> &TimeHistogram),
    /// Of a histogram for each kind of call, with the label `call`.
    CallTimes(fn(&Stats) -> &CallHistograms),
}

const fn counter(name: &'static str, help: &'static str, value: fn(&Stats) -> f64) -> Metric {
    Metric { name, help, kind: "counter", value: MetricValue::Number(value) }
}

const fn gauge(name: &'static str, help: &'static str, value: fn(&Stats) -> f64) -> Metric {
    Metric { name, help, kind: "gauge", value: MetricValue::Number(value) }
}

const fn times(
    name: &'static str,
    help: &'static str,
    value: fn(&Stats) -> &TimeHistogram,
) -> Metric {
    Metric { name, help, kind: "histogram", value: MetricValue::Times(value) }
}

/// The metrics of a database. Counters begin at 0 when the database is opened.
pub const METRICS: &[Metric] = &[
    counter("esker_writes_total", "Entries written.", |it| it.writes as f64),
    counter("esker_written_bytes_total", "Bytes of entries written by users.", |it| {
        it.user_bytes as f64
    }),
    counter("esker_log_bytes_total", "Bytes appended to the log.", |it| it.log_bytes as f64),
    counter("esker_log_appends_total", "Appends to log files.", |it| it.log_appends as f64),
    counter("esker_log_syncs_total", "Syncs of log files.", |it| it.log_syncs as f64),
    counter("esker_flushes_total", "Flushes.", |it| it.flushes as f64),
    counter("esker_flush_bytes_total", "Bytes that flushes wrote to tables.", |it| {
        it.flush_bytes as f64
    }),
    counter("esker_compactions_total", "Compactions, without moves of tables.", |it| {
        it.compactions as f64
    }),
    counter("esker_compaction_read_bytes_total", "Bytes that compactions read.", |it| {
        it.compaction_read_bytes as f64
    }),
    counter("esker_compaction_bytes_total", "Bytes that compactions wrote to tables.", |it| {
        it.compaction_bytes as f64
    }),
    counter("esker_stalled_seconds_total", "Time that writers were throttled or stalled.", |it| {
        it.stalled.as_secs_f64()
    }),
    counter(
        "esker_background_write_wait_seconds_total",
        "Time that flushes and compactions waited for the limit of their write rate.",
        |it| it.background_write_waits.as_secs_f64(),
    ),
    gauge(
        "esker_background_write_rate_bytes",
        "The most bytes per second that flushes and compactions may write; 0 is no limit.",
        |it| it.background_write_rate.unwrap_or(0) as f64,
    ),
    counter("esker_slow_calls_total", "Calls that took as long as the limit or longer.", |it| {
        it.slow_calls as f64
    }),
    counter("esker_cache_hits_total", "Hits of the block cache.", |it| it.cache_hits as f64),
    counter("esker_cache_misses_total", "Misses of the block cache.", |it| it.cache_misses as f64),
    gauge("esker_cache_bytes", "Bytes in the block cache.", |it| it.cache_bytes as f64),
    gauge("esker_cache_capacity_bytes", "Capacity of the block cache.", |it| {
        it.cache_capacity_bytes as f64
    }),
    counter("esker_dram_table_hits_total", "Hits of the DRAMTable.", |it| {
        (it.dram_table.hits + it.dram_table.exact_hits) as f64
    }),
    counter("esker_dram_table_misses_total", "Misses of the DRAMTable.", |it| {
        (it.dram_table.misses + it.dram_table.exact_misses) as f64
    }),
    gauge("esker_memtables", "MemTables, with the active one.", |it| it.memtables as f64),
    gauge("esker_memtable_bytes", "Bytes of MemTables in memory.", |it| it.memtable_bytes as f64),
    gauge("esker_tables", "Tables.", |it| it.tables as f64),
    gauge("esker_table_bytes", "Bytes of tables.", |it| it.table_bytes as f64),
    gauge(
        "esker_table_file_bytes",
        "Bytes of table and value files, with unfinished and obsolete ones.",
        |it| it.table_file_bytes as f64,
    ),
    gauge("esker_value_file_bytes", "Bytes of value files.", |it| it.value_file_bytes as f64),
    gauge("esker_open_tables", "Tables whose index and filter are in memory.", |it| {
        it.open_tables as f64
    }),
    gauge("esker_open_files", "Table and value files that are open.", |it| it.open_files as f64),
    counter("esker_file_opens_total", "Times that a table file was opened.", |it| {
        it.file_opens as f64
    }),
    gauge("esker_cache_part_bytes", "Bytes of parts of indexes and filters in the cache.", |it| {
        it.cache_part_bytes as f64
    }),
    gauge("esker_table_memory_bytes", "Bytes of indexes and filters of tables in memory.", |it| {
        it.table_memory_bytes as f64
    }),
    gauge("esker_memory_budget_bytes", "The memory budget.", |it| it.memory_budget_bytes as f64),
    gauge("esker_memory_charged_bytes", "Bytes charged to the budget, without the cache.", |it| {
        it.memory_charged_bytes as f64
    }),
    gauge("esker_memory_use_memtables_bytes", "Memory: MemTables with their indexes.", |it| {
        it.memory_use.memtables as f64
    }),
    gauge(
        "esker_memory_use_tables_bytes",
        "Memory: Indexes and filters that open tables keep.",
        |it| it.memory_use.tables as f64,
    ),
    gauge("esker_memory_use_cache_bytes", "Memory: The block cache.", |it| {
        it.memory_use.cache as f64
    }),
    gauge("esker_memory_use_dram_table_bytes", "Memory: The DRAMTable.", |it| {
        it.memory_use.dram_table as f64
    }),
    gauge(
        "esker_memory_use_read_buffers_bytes",
        "Memory: Buffers of reads of many ranges.",
        |it| it.memory_use.read_buffers as f64,
    ),
    gauge("esker_memory_use_transient_bytes", "Memory: Cursors, flushes and compactions.", |it| {
        it.memory_use.transient as f64
    }),
    gauge("esker_snapshots", "Open snapshots, with those of cursors.", |it| it.snapshots as f64),
    gauge(
        "esker_follower_behind_seconds",
        "Age of what a follower shows; 0 if it is none.",
        |it| it.follower.as_ref().map_or(0.0, |follower| follower.behind.as_secs_f64()),
    ),
    gauge("esker_log_segments", "Log segments.", |it| it.logs as f64),
    gauge("esker_unreadable_tables", "Tables that compaction skips because a read failed.", |it| {
        it.unreadable_tables.len() as f64
    }),
    gauge("esker_background_error", "1 if an error stops or limits background work.", |it| {
        f64::from(u8::from(it.background_error.is_some()))
    }),
    times("esker_flush_seconds", "How long flushes took.", |it| &it.job_times.flushes),
    times("esker_compaction_seconds", "How long compactions took.", |it| &it.job_times.compactions),
    times("esker_stall_seconds", "How long writers stalled, from 1 ms on.", |it| {
        &it.job_times.stalls
    }),
    Metric {
        name: "esker_call_seconds",
        help: "How long calls took, by their kind: of a sample that stands for all.",
        kind: "histogram",
        value: MetricValue::CallTimes(|it| &it.call_times),
    },
];
