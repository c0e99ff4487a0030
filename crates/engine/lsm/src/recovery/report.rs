//! What an open database reports of itself: its statistics, and its status for an observer.

use crate::compaction::pick::leveled;
use crate::engine::Engine;
use crate::options::settings::Shape;
use crate::stats::filter_stats::FilterStats;
use crate::stats::follower::FollowerStats;
use crate::stats::metric_table::{METRICS, MetricValue};
use crate::stats::{CompactionStatus, LevelStatus, LiveStatus, MemoryUse, Stats};
use crate::version::{KeyspaceVersion, Version};
use esker_base::Error;
use esker_memtable::{DramTable, DramTableStats};
use std::time::Duration;

/// Calls are watched for so long after a status.
const STATUS_WATCHES: Duration = Duration::from_secs(10);
/// And for so long after [`watch_calls`]: a scrape of Prometheus follows the one before within two minutes.
const STATS_WATCH: Duration = Duration::from_secs(180);

/// The error of the log, of a flush or of a compaction, if it stops background work.
pub(crate) fn failure(engine: &Engine) -> Option<Error> {
    engine.commit.failure().or_else(|| engine.schedule.error())
}

/// The statistics of the DRAMTable.
pub(crate) fn dram_table(engine: &Engine) -> DramTableStats {
    engine.tree.dram_table.as_ref().map(DramTable::stats).unwrap_or_default()
}

fn filter_stats(engine: &Engine, version: &Version) -> FilterStats {
    let filters = &engine.tree.filters;
    let (did, repeated) = filters.did();
    let keyspaces = version.keyspaces.values();
    let missing = keyspaces.filter(|keyspace| filters.lacks(keyspace.settings.compaction_filter));
    FilterStats {
        dropped: did.dropped,
        replaced: did.replaced,
        failed: did.failed,
        repeated,
        missing: missing.map(|keyspace| keyspace.name.clone()).collect(),
    }
}

/// The statistics, with what only a handle knows.
pub(crate) fn stats(
    inner: &Engine,
    background_error: Option<String>,
    follower: Option<FollowerStats>,
) -> Stats {
    // These wait for a sync of the manifest: before the view is taken, for merged files stay while it is held.
    let (logs, account) = (inner.tree.installer.state().logs.len() as u64, inner.tree.account());
    let resources = inner.share.resources();
    let cache_own_bytes = match resources.is_shared() {
        true => inner.share.cached_bytes(),
        false => inner.tree.cache.used_bytes(),
    };
    let view = inner.tree.view.load();
    let (user_bytes, writes) = inner.commit.written();
    let traffic = inner.commit.log_traffic();
    let pool = inner.tree.logs.pool().map(|pool| pool.traffic()).unwrap_or_default();
    let (counters, space) = (&inner.tree.counters, inner.tree.table_space());
    let tables = || view.version.keyspaces.values().flat_map(|keyspace| keyspace.tables());
    let opened = || tables().filter_map(|(_, _, table)| table.opened());
    let (read, rewritten) = (counters.compaction_read_bytes.get(), counters.compaction_bytes.get());
    let memory_use = MemoryUse {
        memtables: inner.segment_memory(&view) as u64,
        tables: view.version.table_memory(),
        cache: cache_own_bytes as u64,
        dram_table: dram_table(inner).bytes,
        read_buffers: inner.tree.cache.reader().used_bytes() as u64,
        transient: inner.tree.transient.bytes() as u64,
    };
    Stats {
        writes,
        user_bytes,
        pool_domain: inner.tree.logs.pool().map(|pool| pool.domain()),
        log_bytes: traffic.bytes + pool.bytes,
        log_appends: traffic.appends,
        log_syncs: traffic.syncs,
        log_flushes: pool.flushes,
        log_fences: pool.fences,
        flushes: counters.flushes.get(),
        flush_bytes: counters.flush_bytes.get(),
        compactions: counters.compactions.get(),
        trivial_moves: counters.trivial_moves.get(),
        compactions_done: *counters.compactions_done.lock(),
        deferrals: counters.deferrals.get(),
        compactions_deferred: inner.schedule.jobs.lock().deferred.len() as u64,
        compaction_read_bytes: read,
        compaction_bytes: rewritten,
        reclaimed_bytes: read.saturating_sub(rewritten),
        predicted_reclaim_bytes: counters.predicted_reclaim_bytes.get(),
        reclaims_within_tenth: counters.reclaims_within_tenth.get(),
        stalled: inner.stall.stalled(),
        background_write_rate: inner.gate.limiter.rate(),
        background_write_waits: inner.gate.limiter.waited(),
        slow_calls: inner.calls.slow_calls(),
        job_times: inner.tree.events.times(),
        call_times: inner.calls.histograms(),
        filters: filter_stats(inner, &view.version),
        dram_table: dram_table(inner),
        cache_hits: inner.tree.cache.hits(),
        cache_misses: inner.tree.cache.misses(),
        cache_bytes: inner.tree.cache.used_bytes() as u64,
        cache_part_bytes: inner.tree.cache.part_bytes() as u64,
        cache_capacity_bytes: inner.tree.cache.capacity_bytes() as u64,
        table_gets: counters.table_gets.sum(),
        open_tables: opened().count() as u64,
        open_files: resources.files().open_files() as u64,
        max_open_files: resources.files().limit() as u64,
        file_opens: resources.files().opens(),
        table_memory_bytes: view.version.table_memory(),
        filter_bytes: opened().map(|table| table.filter_bytes() as u64).sum(),
        memtable_bytes: view.memtables.iter().map(|m| m.memory_bytes() as u64).sum(),
        memtables: view.memtables.len() as u64,
        tables: tables().count() as u64,
        table_bytes: tables().map(|(_, _, table)| table.meta.bytes).sum(),
        value_file_bytes: view.version.values.iter().map(|listed| listed.meta.bytes).sum(),
        table_file_bytes: space.bytes,
        table_file_bytes_peak: space.peak_bytes,
        logs,
        snapshots: inner.tree.snapshots.len() as u64,
        visible_seqno: inner.visible(),
        flushed_seqno: view.version.flushed_through,
        unreadable_tables: view.version.unreadable_tables(inner.tree.keys),
        background_error,
        follower,
        databases: resources.databases() as u64,
        memory_budget_bytes: resources.memory_bytes() as u64,
        memory_charged_bytes: resources.charged_bytes() as u64,
        memory_own_bytes: inner.share.charged_bytes() as u64,
        cache_own_bytes: cache_own_bytes as u64,
        memory_use,
        account,
    }
}

/// Has calls watched from now on for a while, so that the next statistics have their times.
pub(crate) fn watch_calls(inner: &Engine) {
    inner.calls.watch(inner.tree.clock.now(), STATS_WATCH);
}

/// The status for an observer. From now on calls are counted and timed for a while. If `is_public`, no name
/// or key of an encrypted database is in it.
pub(crate) fn status(inner: &Engine, is_public: bool) -> LiveStatus {
    let hides = is_public && inner.tree.storage.encrypted().is_some();
    let error = failure(inner).or_else(|| inner.tree.unreadable_error());
    let stats = stats(inner, error.map(|error| error.to_string()), None);
    let metrics = METRICS.iter().filter_map(|metric| match metric.value {
        MetricValue::Number(value) => Some((metric.name.to_owned(), value(&stats))),
        MetricValue::Times(_) | MetricValue::CallTimes(_) => None,
    });
    let now = inner.tree.clock.now();
    inner.calls.watch(now, STATUS_WATCHES);
    let version = inner.tree.view.load().version.clone();
    let shown = |keyspace: &KeyspaceVersion| match hides {
        true => format!("keyspace {}", keyspace.id.0),
        false => version.shown_name(keyspace),
    };
    let name = |id| version.keyspaces.get(&id).map(|keyspace| shown(keyspace)).unwrap_or_default();
    let levels = version.keyspaces.values();
    let levels = levels.flat_map(|keyspace| level_statuses(inner, shown(keyspace), keyspace));
    let running: Vec<_> = inner.schedule.jobs.lock().busy.running().collect();
    let compactions = running.into_iter().map(|(id, reason, from_level, output_level, bytes)| {
        let mut compaction = CompactionStatus::new(name(id), reason.to_string(), from_level);
        (compaction.output_level, compaction.expected_bytes) = (output_level, bytes);
        compaction
    });
    let events = inner.tree.events.after(0);
    LiveStatus {
        pid: std::process::id(),
        at: now,
        metrics: metrics.collect(),
        calls: inner.calls.seen(),
        levels: levels.collect(),
        levels_left_out: 0,
        compactions: compactions.collect(),
        events: events.iter().map(|event| event.kind.shown(hides)).collect(),
    }
}

fn level_statuses<'a>(
    engine: &'a Engine,
    name: String,
    keyspace: &'a KeyspaceVersion,
) -> impl Iterator<Item = LevelStatus> + 'a {
    let levels = keyspace.levels.iter().enumerate().filter(|(_, level)| !level.is_empty());
    levels.map(move |(number, level)| {
        let mut status = LevelStatus::new(name.clone(), number);
        status.runs = level.runs.len() as u64;
        status.tables = level.runs.iter().map(|run| run.tables().len() as u64).sum();
        status.bytes = level.bytes();
        status.fill = match keyspace.settings.shape {
            Shape::Leveled { ratio } => leveled::fill(keyspace, ratio, engine.tree.sizes, number),
            Shape::Tiered { runs } => Some(level.runs.len() as f64 / f64::from(runs)),
            Shape::Windowed { .. } => None,
        };
        status
    })
}
