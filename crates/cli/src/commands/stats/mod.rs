//! `esker stats`: figures.

mod cost;
mod goals;

use crate::failure::Outcome;
use crate::form::Notation;
use crate::output::show;
use crate::place::Home;
use crate::text::escape;
use crate::units::{bytes, count, counted};
use cost::Cost;
use esker::stats::{DramTableStats, MemoryUse, SpaceAmpStatus, UnreadableTable};
use esker::{Db, Stats as Figures};
use serde_json::{Map, Value as Json, json};

/// Print sizes, counts and cost of a database
#[derive(clap::Args)]
pub struct Stats {
    #[command(flatten)]
    home: Home,
}

impl Stats {
    pub fn run(self) -> Outcome {
        let db = self.home.open_for_reading()?;
        let (figures, shape) = (db.stats(), Shape::of(&db)?);
        let cost = Cost::of(&figures, db.estimate_live_data(), shape.raw_bytes);
        show(|| json(&figures, &shape, &cost), || text(&figures, &shape, &cost))
    }
}

/// A level's number and its duplicate rate.
type LevelRate = (usize, Option<f64>);

/// What the tree of tables adds up to.
struct Shape {
    keyspaces: u64,
    runs: u64,
    entries: u64,
    deletes: u64,
    range_tombstones: u64,
    raw_bytes: u64,
    goals: Vec<SpaceAmpStatus>,
    /// The names and lengths of files that opens have set aside.
    lost_files: Vec<(String, u64)>,
    /// By keyspace.
    duplicate_rates: Vec<(String, Vec<LevelRate>)>,
}

impl Shape {
    fn of(db: &Db) -> esker::Result<Self> {
        let trees = db.levels();
        let runs = || trees.iter().flat_map(|tree| &tree.levels).flat_map(|level| &level.runs);
        let tables = || runs().flat_map(|run| &run.tables);
        Ok(Shape {
            keyspaces: trees.len() as u64,
            runs: runs().count() as u64,
            entries: tables().map(|table| table.entries).sum(),
            deletes: tables().map(|table| table.deletes).sum(),
            range_tombstones: tables().map(|table| table.range_tombstones).sum(),
            raw_bytes: tables().map(|table| table.raw_bytes).sum(),
            goals: db.space_amp_status(),
            lost_files: db.lost_files()?,
            duplicate_rates: trees
                .iter()
                .map(|tree| {
                    let levels = tree.levels.iter();
                    let rates = levels.map(|level| (level.level, level.duplicate_rate));
                    (tree.name.clone(), rates.collect())
                })
                .collect(),
        })
    }
}

/// The figures as lines in groups, each under its name in JSON.
fn text(figures: &Figures, shape: &Shape, cost: &Cost) -> String {
    let ratio = match figures.table_bytes {
        0 => String::new(),
        table_bytes => format!("  ({:.2} : 1)", shape.raw_bytes as f64 / table_bytes as f64),
    };
    let unflushed = figures.visible_seqno.saturating_sub(figures.flushed_seqno);
    let unflushed = match unflushed {
        0 => String::new(),
        writes => format!("  ({} not in tables yet)", counted(writes, "write")),
    };
    let (cache, capacity) = (bytes(figures.cache_bytes), bytes(figures.cache_capacity_bytes));
    let pool = figures.pool_domain.map_or("none".to_owned(), |domain| domain.to_string());
    let groups: [(&str, Vec<(&str, String)>); 4] = [
        (
            "Tables",
            vec![
                ("keyspaces", count(shape.keyspaces)),
                ("runs", count(shape.runs)),
                ("tables", count(figures.tables)),
                ("entries", count(shape.entries)),
                ("deletes", count(shape.deletes)),
                ("range_tombstones", count(shape.range_tombstones)),
                ("table_bytes", bytes(figures.table_bytes)),
                ("raw_bytes", format!("{}{ratio}", bytes(shape.raw_bytes))),
            ],
        ),
        (
            "Log",
            vec![
                ("pool_domain", pool),
                ("log_segments", count(figures.logs)),
                ("visible_seqno", format!("{}{unflushed}", count(figures.visible_seqno))),
                ("flushed_seqno", count(figures.flushed_seqno)),
            ],
        ),
        ("Cost, since the database was made (cost)", cost.lines()),
        (
            "Memory, of this process",
            vec![
                ("memtables", count(figures.memtables)),
                ("memtable_bytes", bytes(figures.memtable_bytes)),
                ("open_tables", count(figures.open_tables)),
                ("table_memory_bytes", bytes(figures.table_memory_bytes)),
                ("cache_bytes", format!("{cache} of {capacity}")),
                ("cache_part_bytes", bytes(figures.cache_part_bytes)),
                ("dram_table", dram_table(&figures.dram_table)),
                ("memory_use", memory_use(&figures.memory_use)),
            ],
        ),
    ];
    let mut out = String::new();
    for (title, lines) in groups {
        out.push_str(&format!("{title}\n"));
        for (name, figure) in lines {
            out.push_str(&format!("  {name:<27}{figure}\n"));
        }
    }
    out.push_str(&goals::text(&shape.goals));
    out.push_str(&repeating(shape));
    out.push_str(&lost_files(&shape.lost_files));
    out.push_str(&unreadable(&figures.unreadable_tables));
    let is_told =
        |error: &&String| figures.unreadable_tables.iter().any(|table| error.contains(&table.file));
    if let Some(error) = figures.background_error.as_ref().filter(|error| !is_told(error)) {
        out.push_str(&format!("Background work has stopped (background_error)\n  {error}\n"));
    }
    out
}

/// The files that opens have set aside.
fn lost_files(files: &[(String, u64)]) -> String {
    if files.is_empty() {
        return String::new();
    }
    let lines = files.iter().map(|(name, length)| format!("  {name:<27}{}\n", bytes(*length)));
    format!("Files set aside, yours to remove (lost_files)\n{}", lines.collect::<String>())
}

/// The tables that compaction leaves out.
fn unreadable(tables: &[UnreadableTable]) -> String {
    let mut out = String::new();
    for table in tables {
        let UnreadableTable { keyspace, level, file, error, .. } = table;
        let (smallest, largest) = (escape(&table.smallest), escape(&table.largest));
        let keys = format!("keys from {smallest} to {largest}");
        out.push_str(&format!("  {file} of {keyspace}, L{level}, {keys}: {error}\n"));
    }
    if out.is_empty() {
        out
    } else {
        format!("Tables that compaction leaves out (unreadable_tables)\n{out}")
    }
}

/// The same as JSON.
fn unreadable_json(tables: &[UnreadableTable]) -> Vec<Json> {
    let object = |table: &UnreadableTable| {
        let mut object = Map::new();
        object.insert("keyspace".into(), table.keyspace.clone().into());
        object.insert("level".into(), table.level.into());
        object.insert("file".into(), table.file.clone().into());
        object.insert("bytes".into(), table.bytes.into());
        object.insert("problem".into(), table.error.clone().into());
        Notation::Text.insert(&mut object, "smallest", &table.smallest);
        Notation::Text.insert(&mut object, "largest", &table.largest);
        Json::from(object)
    };
    tables.iter().map(object).collect()
}

/// How much memory is used, and by what.
fn memory_use(used: &MemoryUse) -> String {
    let parts = [
        ("memtables", used.memtables),
        ("tables", used.tables),
        ("cache", used.cache),
        ("dram_table", used.dram_table),
        ("read_buffers", used.read_buffers),
        ("transient", used.transient),
    ];
    let parts = parts.iter().filter(|(_, part)| *part > 0);
    let parts: Vec<_> = parts.map(|(name, part)| format!("{name} {}", bytes(*part))).collect();
    match parts.is_empty() {
        true => bytes(0),
        false => format!("{}: {}", bytes(used.sum()), parts.join(", ")),
    }
}

/// What the DRAMTable holds and did.
fn dram_table(table: &DramTableStats) -> String {
    let hits = table.hits + table.exact_hits;
    let asked = hits + table.misses + table.exact_misses;
    if asked == 0 {
        // Figures that are all zero would read as if it helped nobody.
        return format!("{}; this process has read no key", bytes(table.bytes));
    }
    let entries = count(table.entries);
    format!(
        "{} in {entries} entries, {} of {} hit; {} filled, {} invalidated, {} evicted",
        bytes(table.bytes),
        count(hits),
        count(asked),
        count(table.fills),
        count(table.invalidations),
        count(table.evictions)
    )
}

/// The levels that hold keys more than once.
fn repeating(shape: &Shape) -> String {
    let mut out = String::new();
    for (keyspace, levels) in &shape.duplicate_rates {
        for (level, rate) in levels {
            let Some(rate) = rate.filter(|&rate| rate >= 1.005) else { continue };
            let name = format!("{keyspace} L{level}");
            out.push_str(&format!("  {name:<27}{rate:.2}\n"));
        }
    }
    if out.is_empty() { out } else { format!("Times that a key is held (duplicate_rates)\n{out}") }
}

fn json(figures: &Figures, shape: &Shape, cost: &Cost) -> Json {
    let rates = shape.duplicate_rates.iter().map(|(keyspace, levels)| {
        let levels = levels.iter().map(|(level, rate)| (format!("L{level}"), json!(rate)));
        (keyspace.clone(), Json::Object(levels.collect()))
    });
    let rates = Json::Object(rates.collect());
    let lost = |(name, bytes): &(String, u64)| json!({ "name": name, "bytes": bytes });
    let (table, used) = (&figures.dram_table, &figures.memory_use);
    json!({
        "duplicate_rates": rates,
        "goals": goals::json(&shape.goals),
        "keyspaces": shape.keyspaces,
        "runs": shape.runs,
        "tables": figures.tables,
        "table_bytes": figures.table_bytes,
        "raw_bytes": shape.raw_bytes,
        "entries": shape.entries,
        "deletes": shape.deletes,
        "range_tombstones": shape.range_tombstones,
        "pool_domain": figures.pool_domain.map(|domain| domain.to_string()),
        "log_segments": figures.logs,
        "visible_seqno": figures.visible_seqno,
        "flushed_seqno": figures.flushed_seqno,
        "memtables": figures.memtables,
        "memtable_bytes": figures.memtable_bytes,
        "open_tables": figures.open_tables,
        "table_memory_bytes": figures.table_memory_bytes,
        "cache_bytes": figures.cache_bytes,
        "cache_part_bytes": figures.cache_part_bytes,
        "cache_capacity_bytes": figures.cache_capacity_bytes,
        "dram_table": {
            "bytes": table.bytes,
            "entries": table.entries,
            "hits": table.hits,
            "misses": table.misses,
            "exact_hits": table.exact_hits,
            "exact_misses": table.exact_misses,
            "fills": table.fills,
            "fills_refused": table.fills_refused,
            "forwards": table.forwards,
            "refreshes": table.refreshes,
            "invalidations": table.invalidations,
            "evictions": table.evictions,
            "collected": table.collected,
        },
        "memory_use": {
            "memtables": used.memtables,
            "tables": used.tables,
            "cache": used.cache,
            "dram_table": used.dram_table,
            "read_buffers": used.read_buffers,
            "transient": used.transient,
        },
        "log_fences": figures.log_fences,
        "log_flushed_lines": figures.log_flushes,
        "lost_files": shape.lost_files.iter().map(lost).collect::<Vec<_>>(),
        "unreadable_tables": unreadable_json(&figures.unreadable_tables),
        "background_error": figures.background_error,
        "cost": cost.json(),
    })
}
