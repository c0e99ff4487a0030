//! Simulates the long-run cost of the pickers under uniform overwrites: write and space
//! amplification.
//!
//! Tables here are numbers: for each of about a thousand cells of the key space, the share of its
//! keys that the table contains. Compacting shares `a` and `b` of a cell gives `1 − (1 − a)(1 −
//! b)`.

use crate::compaction::in_progress::InProgressCompactions;
use crate::compaction::pick::pick;
use crate::compaction::plan::{CompactionInput, CompactionPlan};
use crate::compaction::space::budget::PickerContext;
use crate::options::settings::{KeyspaceSettings, Shape};
use crate::options::sizes::SizeTargets;
use crate::version::{KeyspaceVersion, LEVELS, Run, TableHandle, TableId, TableMeta};
use esker_base::KeyspaceId;
use std::collections::HashMap;
use std::sync::Arc;

const CELLS: usize = 2000;
const SEGMENT_BYTES: u64 = 1000;

struct Simulation {
    keyspace: KeyspaceVersion,
    /// For each table its first cell and the shares from there on.
    shares: HashMap<TableId, (usize, Vec<f64>)>,
    live_bytes: f64,
    next_file: u64,
    flush_bytes: f64,
    flushed_bytes: f64,
    written_bytes: f64,
}

fn key(cell: usize) -> Vec<u8> {
    (cell as u32).to_be_bytes().to_vec()
}

impl Simulation {
    /// A keyspace whose every key is in the last level.
    fn new(shape: Shape, segments: u64) -> Self {
        let settings = KeyspaceSettings::default().shape(shape);
        let mut simulation = Simulation {
            keyspace: KeyspaceVersion::new(KeyspaceId(0), "k".into(), settings),
            shares: HashMap::new(),
            live_bytes: (segments * SEGMENT_BYTES) as f64,
            next_file: 1,
            flush_bytes: SEGMENT_BYTES as f64,
            flushed_bytes: 0.0,
            written_bytes: 0.0,
        };
        let all = simulation.tables(0, &[1.0; CELLS], SEGMENT_BYTES as f64);
        simulation.join_run(LEVELS - 1, 0, all);
        simulation.written_bytes = 0.0;
        simulation
    }

    /// Tables of about `table_bytes` for `shares`, which start at cell `first`.
    fn tables(&mut self, first: usize, shares: &[f64], table_bytes: f64) -> Vec<Arc<TableHandle>> {
        let cell_bytes = self.live_bytes / CELLS as f64;
        let mut tables = Vec::new();
        let (mut from, mut bytes) = (0, 0.0);
        for at in 0..shares.len() {
            bytes += shares[at] * cell_bytes;
            if bytes >= table_bytes || at + 1 == shares.len() {
                tables.push(self.table(first + from, &shares[from..=at], bytes));
                self.written_bytes += bytes;
                (from, bytes) = (at + 1, 0.0);
            }
        }
        tables
    }

    fn table(&mut self, first: usize, shares: &[f64], bytes: f64) -> Arc<TableHandle> {
        let id = TableId { file: self.next_file, offset: 0 };
        self.next_file += 1;
        self.shares.insert(id, (first, shares.to_vec()));
        let bytes = bytes as u64;
        TableHandle::detached(TableMeta {
            bytes,
            largest_is_exclusive: true,
            entries: bytes,
            raw_bytes: bytes,
            ..TableMeta::new(id, key(first), key(first + shares.len()))
        })
    }

    fn join_run(&mut self, level: usize, id: u64, tables: Vec<Arc<TableHandle>>) {
        let runs = &mut self.keyspace.levels[level].runs;
        let at = runs.partition_point(|run| run.id > id);
        if runs.get(at).is_none_or(|run| run.id != id) {
            runs.insert(at, Arc::new(Run::new(id, Vec::new())));
        }
        let run = Arc::make_mut(&mut runs[at]);
        run.tables_mut().extend(tables);
        run.tables_mut().sort_by(|a, b| a.meta.smallest.cmp(&b.meta.smallest));
    }

    fn flush(&mut self) {
        let share = 1.0 - (-self.flush_bytes / self.live_bytes).exp();
        let run = self.next_file;
        let tables = self.tables(0, &[share; CELLS], f64::MAX);
        self.flushed_bytes += self.flush_bytes;
        self.join_run(0, run, tables);
    }

    fn apply(&mut self, plan: &CompactionPlan) {
        let tables: Vec<_> = plan.tables().cloned().collect();
        for CompactionInput { level, run, tables } in &plan.inputs {
            let runs = &mut self.keyspace.levels[*level].runs;
            let at = runs.iter().position(|other| other.id == *run).unwrap();
            let left = Arc::make_mut(&mut runs[at]).tables_mut();
            left.retain(|table| !tables.iter().any(|gone| gone.meta.id == table.meta.id));
            if left.is_empty() {
                runs.remove(at);
            }
        }
        let outputs = match plan.is_trivial_move() {
            true => tables,
            false => self.merge(&tables),
        };
        self.join_run(plan.output_level, plan.output_run, outputs);
    }

    fn merge(&mut self, tables: &[Arc<TableHandle>]) -> Vec<Arc<TableHandle>> {
        let inputs: Vec<_> =
            tables.iter().map(|table| self.shares.remove(&table.meta.id).unwrap()).collect();
        let first = inputs.iter().map(|(first, _)| *first).min().unwrap();
        let end = inputs.iter().map(|(first, shares)| first + shares.len()).max().unwrap();
        let mut missing = vec![1.0; end - first];
        for (at, shares) in &inputs {
            for (cell, share) in shares.iter().enumerate() {
                missing[at - first + cell] *= 1.0 - share;
            }
        }
        let merged: Vec<f64> = missing.iter().map(|missing| 1.0 - missing).collect();
        self.tables(first, &merged, SEGMENT_BYTES as f64)
    }

    /// Flushes so many segments, with compaction until idle after each. Gives bytes written for each byte flushed, and
    /// the mean over time of space for each live byte.
    fn run(&mut self, flushes: usize) -> (f64, f64) {
        let mut space = 0.0;
        for _ in 0..flushes {
            self.flush();
            let sizes = SizeTargets { segment_bytes: SEGMENT_BYTES };
            while let Some(plan) = pick(
                &self.keyspace,
                &InProgressCompactions::default(),
                sizes,
                &PickerContext::default(),
            ) {
                self.apply(&plan);
            }
            space += self.keyspace.bytes() as f64 / self.live_bytes;
        }
        (self.written_bytes / self.flushed_bytes, space / flushes as f64)
    }
}

fn cost(shape: Shape, segments: u64) -> (f64, f64) {
    Simulation::new(shape, segments).run(6 * segments as usize)
}

#[test]
fn leveled_writes_and_takes_no_more_than_it_should() {
    let shape = Shape::Leveled { ratio: 10 };
    for (segments, writes_max, space_max) in [(10, 3.6, 1.2), (40, 7.4, 1.2), (160, 11.5, 1.2)] {
        let (writes, space) = cost(shape, segments);
        assert!(writes < writes_max, "{segments} segments of data: {writes:.2} written a byte");
        assert!(space < space_max, "{segments} segments of data: {space:.2} of space");
    }
}

#[test]
fn tiered_writes_each_byte_about_once_a_level() {
    for segments in [10, 40, 160] {
        let (writes, space) = cost(Shape::Tiered { runs: 4 }, segments);
        assert!(writes < 4.5, "{segments} segments of data: {writes:.2} written a byte");
        assert!(space < 3.2, "{segments} segments of data: {space:.2} of space");
    }
}

/// What is written for each byte of so many flushes of a 64th of a segment.
fn cost_of_small_flushes(segments: u64, flushes: usize) -> f64 {
    let mut simulation = Simulation::new(Shape::Leveled { ratio: 10 }, segments);
    simulation.flush_bytes = SEGMENT_BYTES as f64 / 64.0;
    simulation.run(flushes).0
}

#[test]
fn small_flushes_rarely_rewrite_a_large_base() {
    // With default settings, flushes of 1 MB into 1 GB.
    for segments in [16, 17] {
        let writes = cost_of_small_flushes(segments, 500);
        assert!(writes < 6.0, "{segments} segments of data: {writes:.2} written a byte");
    }
    for (segments, writes_max) in [(1, 7.0), (4, 7.0), (16, 8.0), (17, 8.5), (160, 13.5)] {
        let writes = cost_of_small_flushes(segments, 4000);
        assert!(writes < writes_max, "{segments} segments of data: {writes:.2} written a byte");
    }
}
