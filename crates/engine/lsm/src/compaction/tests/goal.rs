//! Measures the write cost of a space-amplification limit in a tree without I/O. Tables are lists
//! of keys with real sketches, and the plans are those of the real picker. Written bytes are
//! compared with the lower bound `m(K, n) + BC² / x`: see docs/design/0002.

use super::table_of;
use crate::compaction::in_progress::InProgressCompactions;
use crate::compaction::pick::{flush_cuts, pick};
use crate::compaction::plan::{CompactionPlan, Cutting};
use crate::compaction::space::budget::PickerContext;
use crate::options::settings::{KeyspaceSettings, Shape};
use crate::options::sizes::SizeTargets;
use crate::options::space_policy::{Dedup, Ratio};
use crate::version::{KeyspaceVersion, LEVELS, Run, TableHandle, TableId};
use esker_base::{KeyspaceId, Rng, hash64};
use esker_table::Sketches;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

const ENTRY_BYTES: u64 = 100;
const SEGMENT_KEYS: usize = 100;
const SIZES: SizeTargets = SizeTargets { segment_bytes: ENTRY_BYTES * SEGMENT_KEYS as u64 };

struct Tree {
    keyspace: KeyspaceVersion,
    keys: HashMap<TableId, Vec<u32>>,
    next_file: u64,
    live: BTreeSet<u32>,
    put: u64,
    flushed: u64,
    merged: u64,
    /// The most by which space exceeded its limit without the slack, in segments.
    excess_most: f64,
    reasons: HashMap<String, (u64, u64)>,
}

impl Tree {
    fn new(runs: u32, amp: Ratio) -> Self {
        let settings = KeyspaceSettings::default()
            .shape(Shape::Tiered { runs })
            .dedup(Dedup::SpaceGoal { amp });
        Tree {
            keyspace: KeyspaceVersion::new(KeyspaceId(0), "k".into(), settings),
            keys: HashMap::new(),
            next_file: 1,
            live: BTreeSet::new(),
            put: 0,
            flushed: 0,
            merged: 0,
            excess_most: f64::MIN,
            reasons: HashMap::new(),
        }
    }

    fn table(&mut self, keys: &[u32]) -> Arc<TableHandle> {
        let id = TableId { file: self.next_file, offset: 0 };
        self.next_file += 1;
        let mut sketches = Sketches::default();
        for key in keys {
            sketches.insert(hash64(&key.to_be_bytes()), ENTRY_BYTES);
        }
        sketches.theta.seal(0);
        self.keys.insert(id, keys.to_vec());
        let ends = [keys[0], keys[keys.len() - 1]].map(|key| key.to_be_bytes().to_vec());
        let entries = keys.len() as u64;
        table_of(id, ends, entries, entries * ENTRY_BYTES, sketches)
    }

    fn tables(&mut self, keys: &[u32], cutting: &Cutting) -> Vec<Arc<TableHandle>> {
        let mut tables = Vec::new();
        let (mut from, mut cut) = (0, 0);
        for at in 0..keys.len() {
            let key = keys[at].to_be_bytes();
            let passed = cutting.keys[cut..].iter().take_while(|cut| cut[..] <= key[..]).count();
            cut += passed;
            let bytes = (at - from) as u64 * ENTRY_BYTES;
            if at > from
                && (bytes >= cutting.most_bytes || (passed > 0 && bytes >= cutting.least_bytes))
            {
                tables.push(self.table(&keys[from..at]));
                from = at;
            }
        }
        tables.push(self.table(&keys[from..]));
        tables
    }

    fn join(&mut self, level: usize, id: u64, tables: Vec<Arc<TableHandle>>) {
        let runs = &mut self.keyspace.levels[level].runs;
        let at = runs.partition_point(|run| run.id > id);
        if runs.get(at).is_none_or(|run| run.id != id) {
            runs.insert(at, Arc::new(Run::new(id, Vec::new())));
        }
        let run = Arc::make_mut(&mut runs[at]);
        run.tables_mut().extend(tables);
        run.tables_mut().sort_by(|a, b| a.meta.smallest.cmp(&b.meta.smallest));
        self.keyspace.derived = Default::default();
    }

    fn sample(&mut self, making: u64) {
        let Dedup::SpaceGoal { amp } = self.keyspace.settings.dedup else { unreachable!() };
        let live = self.live.len() as u64 * ENTRY_BYTES;
        let excess = (self.keyspace.bytes() + making) as f64 - amp.get() * live as f64;
        self.excess_most = self.excess_most.max(excess / SIZES.segment_bytes as f64);
    }

    fn flush(&mut self, updates: impl Iterator<Item = u32>) {
        let updates: Vec<u32> = updates.collect();
        self.put += updates.len() as u64 * ENTRY_BYTES;
        let keys: BTreeSet<u32> = updates.into_iter().collect();
        let keys: Vec<u32> = keys.into_iter().collect();
        self.live.extend(&keys);
        self.flushed += keys.len() as u64 * ENTRY_BYTES;
        let run = self.next_file;
        let cuts = Cutting {
            keys: flush_cuts(&self.keyspace, SIZES).unwrap(),
            least_bytes: 0,
            most_bytes: u64::MAX,
        };
        let tables = self.tables(&keys, &cuts);
        self.join(0, run, tables);
        self.sample(0);
    }

    fn apply(&mut self, plan: &CompactionPlan) {
        let inputs: Vec<_> = plan.tables().cloned().collect();
        let mut outputs = inputs.clone();
        if !plan.is_trivial_move() {
            let keys: BTreeSet<u32> =
                inputs.iter().flat_map(|table| self.keys[&table.meta.id].clone()).collect();
            let keys: Vec<u32> = keys.into_iter().collect();
            let cutting = plan.cutting.clone().expect("plans of a goal say where to cut");
            outputs = self.tables(&keys, &cutting);
            let written = keys.len() as u64 * ENTRY_BYTES;
            self.merged += written;
            let of_reason = self.reasons.entry(plan.reason.to_string()).or_default();
            *of_reason = (of_reason.0 + 1, of_reason.1 + written);
            self.sample(written);
        }
        for input in &plan.inputs {
            let runs = &mut self.keyspace.levels[input.level].runs;
            let at = runs.iter().position(|run| run.id == input.run).unwrap();
            let gone = |id| input.tables.iter().any(|table| table.meta.id == id);
            Arc::make_mut(&mut runs[at]).tables_mut().retain(|table| !gone(table.meta.id));
            runs.retain(|run| !run.tables().is_empty());
        }
        self.join(plan.output_level, plan.output_run, outputs);
    }

    fn settle(&mut self) {
        for plans in 0.. {
            assert!(plans < 10_000, "plans without end");
            let around = PickerContext::default();
            let Some(plan) =
                pick(&self.keyspace, &InProgressCompactions::default(), SIZES, &around)
            else {
                break;
            };
            assert!(plan.keeps_order(&self.keyspace));
            self.apply(&plan);
        }
    }

    /// The runs that a read of each key inspects, on average, the base included.
    fn height(&self) -> f64 {
        let runs = self.keyspace.levels.iter().flat_map(|level| &level.runs);
        let over = |key: &u32| {
            runs.clone().filter(|run| run.table_for(&key.to_be_bytes()).is_some()).count()
        };
        self.live.iter().map(over).sum::<usize>() as f64 / self.live.len() as f64
    }
}

/// What a load cost, after the tree had filled and reached its steady state.
struct Cost {
    /// Bytes written for each byte put.
    writes: f64,
    /// The mean, after each flush, of what tables take for each live byte.
    space_mean: f64,
    excess_segments: f64,
    height: f64,
}

/// `segments` segments of keys, loaded in order, then overwritten 9 times as `next` says; only the
/// last 6 times count.
fn cost(runs: u32, amp: u32, segments: usize, mut next: impl FnMut() -> u32) -> Cost {
    let mut tree = Tree::new(runs, Ratio::of_hundredths(amp));
    let keys = (segments * SEGMENT_KEYS) as u32;
    for first in (0..keys).step_by(SEGMENT_KEYS) {
        tree.flush(first..first + SEGMENT_KEYS as u32);
        tree.settle();
    }
    let (mut put, mut written, mut space) = (0, 0, 0.0);
    for flush in 0..9 * segments {
        if flush == 3 * segments {
            space = 0.0;
            (put, written) = (tree.put, tree.flushed + tree.merged);
            tree.excess_most = f64::MIN;
            tree.reasons.clear();
        }
        tree.flush((0..SEGMENT_KEYS).map(|_| next()));
        space += tree.keyspace.bytes() as f64 / (tree.live.len() as u64 * ENTRY_BYTES) as f64;
        tree.settle();
    }
    let (put, written) = (tree.put - put, tree.flushed + tree.merged - written);
    let cost = Cost {
        writes: written as f64 / put as f64,
        space_mean: space / (6 * segments) as f64,
        excess_segments: tree.excess_most,
        height: tree.height(),
    };
    let base = tree.keyspace.levels[LEVELS - 1].runs.first().map_or(0, |run| run.tables().len());
    println!(
        "runs {runs} amp {amp} segments {segments}: {:.2} written, {:.3} of space, {:+.2} segments over, {:.1} high, base {base}, {:?}",
        cost.writes, cost.space_mean, cost.excess_segments, cost.height, tree.reasons
    );
    cost
}

fn uniform(keys: u32) -> impl FnMut() -> u32 {
    let mut rng = Rng::new(7);
    move || rng.below(u64::from(keys)) as u32
}

fn shuffled(keys: u32, rng: &mut Rng) -> Vec<u32> {
    let mut places: Vec<u32> = (0..keys).collect();
    for at in (1..places.len()).rev() {
        places.swap(at, rng.below(at as u64 + 1) as usize);
    }
    places
}

/// Zipf's law with exponent 0.99 over keys in no order of access frequency.
fn zipf(keys: u32) -> impl FnMut() -> u32 {
    let mut rng = Rng::new(9);
    let mut sum = 0.0;
    let sums: Vec<f64> = (1..=keys)
        .map(|rank| {
            sum += f64::from(rank).powf(-0.99);
            sum
        })
        .collect();
    let places = shuffled(keys, &mut rng);
    move || {
        let at = rng.below(1 << 53) as f64 / (1u64 << 53) as f64 * sum;
        places[sums.partition_point(|&upto| upto < at).min(places.len() - 1)]
    }
}

/// The limit line under uniform overwrites for mean space `amp` and up to `runs` runs over the base.
fn limit_line(runs: u32, amp: f64, segments: usize) -> f64 {
    let updates = 2.0 * (amp - 1.0);
    let flushes = updates * segments as f64;
    let (mut writes, mut done, mut times) = (0.0, 0.0, 1.0);
    while done < flushes {
        let fit: f64 = (1..=runs).map(|run| (times + f64::from(run)) / f64::from(run)).product();
        let upto = (fit - 1.0).min(flushes);
        writes += (upto - done) * times;
        (done, times) = (upto, times + 1.0);
    }
    writes / flushes + 1.0 / updates
}

const SEGMENTS: usize = 64;
const KEYS: u32 = (SEGMENTS * SEGMENT_KEYS) as u32;

#[test]
fn uniform_overwrites_cost_little_more_than_the_limit_line() {
    for (runs, amp) in [(8, 120), (8, 150)] {
        let cost = cost(runs, amp, SEGMENTS, uniform(KEYS));
        // At the space that it did take: the goal is a ceiling, with segments beside.
        let line = limit_line(runs, cost.space_mean, SEGMENTS);
        println!("line {line:.2}, ratio {:.2}", cost.writes / line);
        assert!(
            cost.writes < 1.25 * line,
            "{amp}: {:.2} written, the line is {line:.2}",
            cost.writes
        );
        assert!(cost.excess_segments <= 4.0, "{amp}: {:.2} segments over", cost.excess_segments);
        assert!(
            cost.height < f64::from(runs) + 1.0,
            "{amp}: reads look at {:.1} runs",
            cost.height
        );
    }
}

#[test]
fn skewed_overwrites_cost_less_than_uniform_ones() {
    let even = cost(8, 120, SEGMENTS, uniform(KEYS));
    let skewed = cost(8, 120, SEGMENTS, zipf(KEYS));
    assert!(skewed.writes < 0.7 * even.writes, "{:.2}, not {:.2}", skewed.writes, even.writes);
    assert!(skewed.excess_segments <= 4.0, "{:.2} segments over", skewed.excess_segments);
}

/// Loaded in no order, so that every flush is over all keys, and then overwritten 9 times.
#[test]
fn a_load_in_no_order_leaves_a_base_that_merges_can_be_cut_by() {
    for (amp, most) in [(200, 2.4), (400, 2.3)] {
        let mut tree = Tree::new(16, Ratio::of_hundredths(amp));
        let segments = 30;
        let keys = (segments * SEGMENT_KEYS) as u32;
        for part in shuffled(keys, &mut Rng::new(3)).chunks(SEGMENT_KEYS) {
            tree.flush(part.iter().copied());
            tree.settle();
        }
        let mut next = uniform(keys);
        for _ in 0..9 * segments {
            tree.flush((0..SEGMENT_KEYS).map(|_| next()));
            tree.settle();
        }
        let writes = (tree.flushed + tree.merged) as f64 / tree.put as f64;
        println!("amp {amp}: {writes:.2} written, {:+.2} segments over", tree.excess_most);
        assert!(writes < most, "{amp}: {writes:.2} written");
        assert!(tree.excess_most <= 4.0, "{amp}: {:.2} segments over", tree.excess_most);
    }
}

/// Larger, for docs/design/0002: `cargo test --release -p esker-lsm --lib the_plane -- --ignored
/// --nocapture`.
#[test]
#[ignore = "a measurement"]
fn the_plane_of_space_and_writes() {
    for segments in [34, 64] {
        let keys = (segments * SEGMENT_KEYS) as u32;
        for (runs, amp) in [(8, 120), (16, 120), (16, 150)] {
            let even = cost(runs, amp, segments, uniform(keys));
            let line = limit_line(runs, even.space_mean, segments);
            let skewed = cost(runs, amp, segments, zipf(keys));
            println!(
                "| {segments} | {amp} | {runs} | {:.3} | {line:.2} | {:.2} | {:.2} | {:.2} |",
                even.space_mean,
                even.writes,
                even.writes / line,
                skewed.writes
            );
        }
    }
}
