//! Properties: `rocksdb.stats`, `rocksdb.estimate-num-keys` and others; and estimates of sizes.

use crate::border::{Array, Bytes, Handle, Out, Result, Status, Text, c_api, memory};
use crate::database::{Database, Family, Open};
use crate::knobs::Knobs;
use esker::Cursor as _;
use esker::KeyRange;
use esker::stats::{KeyspaceLevels, TableMeta};
use std::ffi::{c_char, c_int};
use std::sync::Arc;

/// The levels that RocksDB has by default, and that programs ask for.
const LEVELS: usize = 7;

/// The levels of a family.
pub fn levels_of(open: &Open, family: &Family) -> Option<KeyspaceLevels> {
    open.db.levels().into_iter().find(|levels| levels.id == family.keyspace.id())
}

/// The tables of a family, with their levels.
pub fn tables_of(open: &Open, family: &Family) -> Vec<(usize, TableMeta)> {
    let levels = levels_of(open, family).map(|found| found.levels).unwrap_or_default();
    let all = levels.into_iter().flat_map(|level| {
        let tables = level.runs.into_iter().flat_map(|run| run.tables);
        tables.map(move |table| (level.level, table))
    });
    all.collect()
}

/// A property that is a number.
fn number(open: &Open, family: &Family, name: &str) -> Option<u64> {
    open.check_own(family).ok()?;
    let stats = || open.db.stats();
    let bytes = || tables_of(open, family).iter().map(|(_, table)| table.bytes).sum::<u64>();
    Some(match name.strip_prefix("rocksdb.")? {
        "estimate-num-keys" => family.keyspace.approximate_len().ok()?,
        "estimate-live-data-size" => bytes(),
        "total-sst-files-size" | "live-sst-files-size" => bytes(),
        "num-entries-active-mem-table" | "num-entries-imm-mem-tables" => 0,
        "num-deletes-active-mem-table" | "num-deletes-imm-mem-tables" => 0,
        "cur-size-active-mem-table" | "cur-size-all-mem-tables" | "size-all-mem-tables" => {
            stats().memtable_bytes
        }
        "num-immutable-mem-table" => stats().memtables.saturating_sub(1),
        "num-immutable-mem-table-flushed" | "mem-table-flush-pending" => 0,
        "compaction-pending" => u64::from(stats().compactions_deferred > 0),
        "num-running-flushes"
        | "num-running-compactions"
        | "num-running-compaction-sorted-runs" => 0,
        "background-errors" => u64::from(open.db.background_error().is_some()),
        "num-snapshots" => stats().snapshots,
        "oldest-snapshot-time" | "oldest-snapshot-sequence" => 0,
        "num-live-versions" | "current-super-version-number" => 1,
        "min-log-number-to-keep" | "min-obsolete-sst-number-to-keep" => 0,
        "estimate-pending-compaction-bytes" => 0,
        "actual-delayed-write-rate" | "is-write-stopped" | "is-file-deletions-enabled" => 0,
        "estimate-table-readers-mem" => stats().table_memory_bytes,
        "estimate-oldest-key-time" => return None,
        "block-cache-capacity" => stats().cache_capacity_bytes,
        "block-cache-usage" => stats().cache_bytes,
        "block-cache-pinned-usage" => 0,
        "base-level" => tables_of(open, family)
            .iter()
            .map(|(level, _)| *level)
            .filter(|it| *it > 0)
            .min()
            .unwrap_or(0) as u64,
        "num-blob-files" | "total-blob-file-size" | "live-blob-file-size" => 0,
        "live-blob-file-garbage-size" | "blob-cache-capacity" | "blob-cache-usage" => 0,
        "blob-cache-pinned-usage" | "obsolete-sst-files-size" => 0,
        "num-obsolete-sst-files" => 0,
        "live-sst-files-size-at-temperature" => return None,
        _ => return None,
    })
}

/// A property as text.
fn text(open: &Open, family: &Family, name: &str) -> Option<String> {
    open.check_own(family).ok()?;
    let short = name.strip_prefix("rocksdb.")?;
    if let Some(level) = short.strip_prefix("num-files-at-level") {
        let level: usize = level.parse().ok().filter(|level| *level < LEVELS)?;
        let tables = tables_of(open, family);
        return Some(tables.iter().filter(|(at, _)| *at == level).count().to_string());
    }
    if let Some(level) = short.strip_prefix("compression-ratio-at-level") {
        let level: usize = level.parse().ok().filter(|level| *level < LEVELS)?;
        let (raw, stored) = tables_of(open, family)
            .iter()
            .filter(|(at, _)| *at == level)
            .fold((0, 0), |(raw, stored), (_, table)| {
                (raw + table.raw_bytes, stored + table.bytes)
            });
        return Some(if stored == 0 {
            "-1".into()
        } else {
            format!("{:.6}", raw as f64 / stored as f64)
        });
    }
    match short {
        "stats" | "cfstats" | "cfstats-no-file-histogram" | "cf-file-histogram" | "dbstats" => {
            let stats = open.db.stats();
            Some(format!(
                "** DB Stats **\nCumulative writes: {} writes, {} bytes\n{stats}\n\
                 ** Compaction Stats [{}] **\n{}",
                stats.writes,
                stats.user_bytes,
                family.name(),
                levels_text(open, family)
            ))
        }
        "levelstats" => Some(levels_text(open, family)),
        "sstables" => Some(tables_text(open, family)),
        "options-statistics" | "block-cache-entry-stats" => Some(open.db.stats().to_string()),
        "aggregated-table-properties" => {
            let tables = tables_of(open, family);
            let entries: u64 = tables.iter().map(|(_, table)| table.entries).sum();
            let raw: u64 = tables.iter().map(|(_, table)| table.raw_bytes).sum();
            Some(format!("# entries={entries}; raw bytes={raw}; # tables={}", tables.len()))
        }
        _ => number(open, family, name).map(|number| number.to_string()),
    }
}

fn levels_text(open: &Open, family: &Family) -> String {
    let tables = tables_of(open, family);
    let mut text = String::from("Level Files Size(MB)\n--------------------\n");
    for level in 0..LEVELS {
        let at = tables.iter().filter(|(of, _)| *of == level).map(|(_, table)| table.bytes);
        let (count, bytes) = (at.clone().count(), at.sum::<u64>());
        text += &format!("  {level} {count:8} {:8.0}\n", bytes as f64 / 1_048_576.0);
    }
    text
}

fn tables_text(open: &Open, family: &Family) -> String {
    let line = |(level, table): &(usize, TableMeta)| {
        format!(
            "level {level}: {} bytes, {} entries ['{}' .. '{}']\n",
            table.bytes,
            table.entries,
            table.smallest.escape_ascii(),
            table.largest.escape_ascii()
        )
    };
    tables_of(open, family).iter().map(line).collect()
}

fn give(open: &Open, family: &Family, name: Text) -> *mut c_char {
    let found = name.get().ok().and_then(|name| text(open, family, name));
    found.map_or(std::ptr::null_mut(), |text| memory::copy_text(&text))
}

/// Zero if the property is known, as in RocksDB.
fn give_number(open: &Open, family: &Family, name: Text, out: Out<u64>) -> c_int {
    match name.get().ok().and_then(|name| number(open, family, name)) {
        Some(number) => {
            out.set(number);
            0
        }
        None => -1,
    }
}

/// Estimates the bytes of the tables in a range: tables that are partly in it count half.
fn size(open: &Open, family: &Family, range: &KeyRange) -> u64 {
    let bytes = |(_, table): &(usize, TableMeta)| {
        let overlaps = !range.ends_before(&table.smallest) && !range.starts_after(&table.largest);
        let is_inside = range.contains(&table.smallest) && range.contains(&table.largest);
        match (overlaps, is_inside) {
            (false, _) => 0,
            (true, true) => table.bytes,
            (true, false) => table.bytes / 2,
        }
    };
    tables_of(open, family).iter().map(bytes).sum()
}

/// Estimates the bytes in MemTables of a range, by its first entries: at most the bytes of all MemTables.
fn memtable_size(open: &Open, family: &Family, range: KeyRange) -> u64 {
    const ENTRIES_MAX: usize = 10_000;
    let Ok(mut cursor) = family.keyspace.cursor(range) else { return 0 };
    let (mut bytes, mut moved) = (0, cursor.seek_first());
    for _ in 0..ENTRIES_MAX {
        let Some((key, value)) = cursor.current().filter(|_| moved.is_ok()) else { break };
        bytes += (key.len() + value.len()) as u64;
        moved = cursor.next();
    }
    bytes.min(open.db.stats().memtable_bytes)
}

/// The arrays of an estimate of sizes.
struct Ranges {
    count: c_int,
    starts: (Array<Bytes>, Array<usize>),
    ends: (Array<Bytes>, Array<usize>),
    sizes: Out<u64>,
}

/// What an estimate of sizes counts.
#[derive(Clone, Copy)]
struct Counted {
    memtables: bool,
    files: bool,
}

impl Counted {
    const FILES: Counted = Counted { memtables: false, files: true };

    /// Flags as in `rocksdb_size_approximation_flags_include_memtable` and `_include_files`.
    fn of_flags(flags: u8) -> Counted {
        Counted { memtables: flags & 1 != 0, files: flags & 2 != 0 }
    }

    fn of_options(options: Handle<Knobs>) -> Counted {
        let is_on = |name, otherwise: u8| {
            options.optional().map_or(otherwise, |it| it.number(name, otherwise)) != 0
        };
        Counted { memtables: is_on("include_memtables", 0), files: is_on("include_files", 1) }
    }
}

impl Ranges {
    fn estimate(self, open: &Open, family: &Family, counted: Counted) -> Result<()> {
        open.check_own(family)?;
        if !counted.memtables && !counted.files {
            return Err(Status::invalid("Invalid options"));
        }
        let count = usize::try_from(self.count).unwrap_or(0);
        let starts = crate::border::pointers::slices(&self.starts.0, &self.starts.1, count);
        let ends = crate::border::pointers::slices(&self.ends.0, &self.ends.1, count);
        for (at, (start, end)) in starts.zip(ends).enumerate() {
            let (start, end) = (family.stored_start(start), family.stored_start(end));
            let range = family.direction.range(Some(&start), Some(&end));
            let on_disk = if counted.files { size(open, family, &range) } else { 0 };
            let in_memory = if counted.memtables { memtable_size(open, family, range) } else { 0 };
            self.sizes.set_at(at, on_disk + in_memory);
        }
        Ok(())
    }
}

c_api! {
    fn rocksdb_property_value | rocksdb_transactiondb_property_value
        | rocksdb_optimistictransactiondb_property_value(
        db: Handle<Database>,
        name: Text,
    ) -> *mut c_char {
        let open = &db.get().open;
        give(open, &open.default, name)
    }

    fn rocksdb_property_value_cf(
        db: Handle<Database>,
        family: Handle<Arc<Family>>,
        name: Text,
    ) -> *mut c_char {
        give(&db.get().open, family.get(), name)
    }

    fn rocksdb_property_int | rocksdb_transactiondb_property_int
        | rocksdb_optimistictransactiondb_property_int(
        db: Handle<Database>,
        name: Text,
        out: Out<u64>,
    ) -> c_int {
        let open = &db.get().open;
        give_number(open, &open.default, name, out)
    }

    fn rocksdb_property_int_cf(
        db: Handle<Database>,
        family: Handle<Arc<Family>>,
        name: Text,
        out: Out<u64>,
    ) -> c_int {
        give_number(&db.get().open, family.get(), name, out)
    }

    try fn rocksdb_approximate_sizes(
        db: Handle<Database>,
        count: c_int,
        starts: Array<Bytes>,
        start_lengths: Array<usize>,
        ends: Array<Bytes>,
        end_lengths: Array<usize>,
        sizes: Out<u64>,
    ) {
        let open = &db.get().open;
        let (starts, ends) = ((starts, start_lengths), (ends, end_lengths));
        Ranges { count, starts, ends, sizes }.estimate(open, &open.default, Counted::FILES)
    }

    try fn rocksdb_approximate_sizes_cf(
        db: Handle<Database>,
        family: Handle<Arc<Family>>,
        count: c_int,
        starts: Array<Bytes>,
        start_lengths: Array<usize>,
        ends: Array<Bytes>,
        end_lengths: Array<usize>,
        sizes: Out<u64>,
    ) {
        let (starts, ends) = ((starts, start_lengths), (ends, end_lengths));
        Ranges { count, starts, ends, sizes }.estimate(&db.get().open, family.get(), Counted::FILES)
    }

    try fn rocksdb_approximate_sizes_cf_with_flags(
        db: Handle<Database>,
        family: Handle<Arc<Family>>,
        count: c_int,
        starts: Array<Bytes>,
        start_lengths: Array<usize>,
        ends: Array<Bytes>,
        end_lengths: Array<usize>,
        flags: u8,
        sizes: Out<u64>,
    ) {
        let (starts, ends) = ((starts, start_lengths), (ends, end_lengths));
        let counted = Counted::of_flags(flags);
        Ranges { count, starts, ends, sizes }.estimate(&db.get().open, family.get(), counted)
    }

    try fn rocksdb_approximate_sizes_with_options(
        db: Handle<Database>,
        options: Handle<Knobs>,
        count: c_int,
        starts: Array<Bytes>,
        start_lengths: Array<usize>,
        ends: Array<Bytes>,
        end_lengths: Array<usize>,
        sizes: Out<u64>,
    ) {
        let open = &db.get().open;
        let counted = Counted::of_options(options);
        let (starts, ends) = ((starts, start_lengths), (ends, end_lengths));
        Ranges { count, starts, ends, sizes }.estimate(open, &open.default, counted)
    }

    try fn rocksdb_approximate_sizes_cf_with_options(
        db: Handle<Database>,
        family: Handle<Arc<Family>>,
        options: Handle<Knobs>,
        count: c_int,
        starts: Array<Bytes>,
        start_lengths: Array<usize>,
        ends: Array<Bytes>,
        end_lengths: Array<usize>,
        sizes: Out<u64>,
    ) {
        let counted = Counted::of_options(options);
        let (starts, ends) = ((starts, start_lengths), (ends, end_lengths));
        Ranges { count, starts, ends, sizes }.estimate(&db.get().open, family.get(), counted)
    }
}
