//! A placement policy with a small write set that rotates over the units.
//!
//! The two longest lifetime classes have units of their own. All shorter classes share a set of
//! units, slightly more than their write rate keeps busy. When these units are full, the policy
//! chooses new ones, and prefers:
//!
//! * *the units that are read least*, empty ones first. Data of similar lifetime is then stored
//!   together, and a unit becomes empty as a whole without any copying;
//! * *units of a channel that the same classes already write*, and of a channel with few reads. A
//!   transfer to a unit occupies its channel, and delays reads of all other units on it. A channel
//!   accepts the writes of as many units as its bandwidth allows. If programs yield to reads, this
//!   matters more than isolating single units.
//!
//! Short-lived data becomes obsolete as fast as it is written, so its units serve few reads.
//! Long-lived data would be read as soon as its tables are closed, while its units are still being
//! written. The engine should therefore keep reading the compaction's inputs until about one unit
//! is full ([`PlacementPolicy::settle_distance_chunks`]). [`Rotating::eager`] is the variant for an engine that cannot
//! do this.
//!
//! Reads spread over the most units if all units outside the write set are equally full. A unit
//! therefore leaves the write set with an equal part of the free space, provided some empty units
//! remain. Without empty units, units are filled to the last chunk.
//!
//! A unit that is never filled would wear out first. A unit erased far more often than the rest is
//! replaced as well.

use super::{
    DeviceLoad, Lifetime, PlacementPolicy, ReadScheduling, UnitState, WriteAdmission, WriteDispatch,
};
use crate::{Geometry, ReadPriority, Unit};

/// Parameters that depend on how a device treats reads during writes.
#[derive(Debug)]
struct Fit {
    /// How much more for a set that is read as much as the mean unit: reads take a unit's time, too, and more
    /// where a program is stopped for each.
    slack_of_reads: f64,
    /// How much may be written and not read, of what the units hold that are needed to write it.
    held_sets: f64,
}

const WAITS: Fit = Fit { slack_of_reads: 0.3, held_sets: 0.7 };
const GIVES_WAY: Fit = Fit { slack_of_reads: 1.4, held_sets: 1.0 };

/// How much more than what is needed is in the write set, as writes that are put off have to be made up for.
const SLACK: f64 = 1.15;

/// Empty units outside the write set, so that the next unit chosen is empty.
const EMPTY_UNITS: u32 = 3;
/// A unit counts as empty if it has a free chunk and its reads are at most this part of the mean.
const EMPTY_READS: f64 = 0.05;

// The cost of writing a unit, in addition to that of reads on its channel, relative to the mean
// channel.
const READS_COST: f64 = 3.0;
const OWN_CHANNEL_GAIN: f64 = 1.5;
const OTHERS_CHANNEL_COST: f64 = 0.5;
const FULL_CHANNEL_COST: f64 = 3.0;

/// A unit is left when its chunks were erased so many times more than the mean unit's.
const ERASES_AHEAD: u64 = 8;

/// If a set of one unit per class is a larger part of the device than one in this number, most
/// reads meet writes in any case. A compaction that waits then only blocks others.
const FEW_OF_UNITS: usize = 16;

/// Lifetimes with units of their own: the longest.
const LONG: usize = 2;

/// A small write set that moves.
#[derive(Debug)]
pub struct Rotating {
    // Constant after construction.
    lifetimes: usize,
    fit: Fit,
    channel_units: usize,
    holds_writers: bool,
    reads_at_once: bool,
    reading: ReadScheduling,
    // What changes: the units of all short lifetimes, and those of each long one.
    sets: Vec<Vec<Unit>>,
}

/// The state in which a unit is chosen.
struct Scene<'a> {
    state: &'a DeviceLoad,
    reads_mean: f64,
    /// The free chunks that a unit is left with.
    spare: u32,
}

impl Rotating {
    /// For data of so many lifetimes, on a device whose programs give way to reads, or not, and whose
    /// channels carry what so many units write at a time.
    pub fn new(lifetimes: usize, gives_way: bool, channel_units: usize) -> Self {
        let sets = vec![Vec::new(); lifetimes.min(LONG + 1)];
        let fit = if gives_way { GIVES_WAY } else { WAITS };
        let (holds_writers, reads_at_once, reading) = (true, false, ReadScheduling::ByFreeTime);
        Rotating { lifetimes, fit, channel_units, holds_writers, reads_at_once, reading, sets }
    }

    /// The same, but it never throttles writers: to measure the effect.
    pub fn unheld(self) -> Self {
        Rotating { holds_writers: false, ..self }
    }

    /// The same, and what lives long is read as soon as it is written: to see what it is worth to wait.
    pub fn eager(self) -> Self {
        Rotating { reads_at_once: true, ..self }
    }

    /// The same, and reads are sent as they come: to see what it is worth to choose.
    pub fn in_order(self) -> Self {
        Rotating { reading: ReadScheduling::InOrder, ..self }
    }

    /// The units that are being written.
    pub fn write_set(&self) -> impl Iterator<Item = Unit> + '_ {
        self.sets.iter().flatten().copied()
    }

    /// Which set a lifetime has.
    fn set(&self, lifetime: Lifetime) -> usize {
        (lifetime + self.sets.len()).saturating_sub(self.lifetimes)
    }

    /// How many units a lifetime's set should have.
    fn width(&self, scene: &Scene<'_>, lifetime: Lifetime, needed: f64) -> usize {
        let own = self.set(lifetime);
        let together = (0..self.lifetimes).filter(|other| self.set(*other) == own).count();
        let set = &self.sets[own];
        let reads: f64 = set.iter().map(|unit| scene.state.unit(*unit).reads).sum();
        let heat = reads / (set.len().max(1) as f64 * scene.reads_mean);
        let slack = SLACK + self.fit.slack_of_reads * heat.min(1.0);
        ((needed * together as f64 * slack).ceil() as usize).max(1)
    }

    fn scene<'a>(&self, state: &'a DeviceLoad) -> Scene<'a> {
        let reads_mean = state.reads_mean().max(f64::MIN_POSITIVE);
        let mut is_written = vec![false; state.units.len()];
        self.write_set().for_each(|unit| is_written[usize::from(unit.0)] = true);
        let is_empty = |(number, unit): &(usize, &UnitState)| {
            let is_unread = unit.reads <= reads_mean * EMPTY_READS;
            !is_written[*number] && unit.free_chunks > 0 && is_unread
        };
        let empty = state.units.iter().enumerate().filter(is_empty).count() as u32;
        let free: u32 = state.units.iter().map(|unit| unit.free_chunks).sum();
        let kept = self.write_set().count() as u32 + EMPTY_UNITS;
        let others = (state.units.len() as u32).saturating_sub(kept).max(1);
        let even = free.saturating_sub(kept * u32::from(state.geometry.chunks_per_unit)) / others;
        let spare = even * empty.min(EMPTY_UNITS) / EMPTY_UNITS;
        Scene { state, reads_mean, spare }
    }

    /// The unit to go on with when one is to be added to `chosen`, of a set that was `last`.
    fn cheapest(&self, scene: &Scene<'_>, chosen: &[Unit], last: &[Unit]) -> Option<Unit> {
        let state = scene.state;
        let own = per_channel(&state.geometry, chosen.iter().chain(last).copied());
        let all = per_channel(&state.geometry, self.write_set().chain(chosen.iter().copied()));
        let mut reads = vec![0.0; usize::from(state.geometry.groups)];
        for unit in state.geometry.all_units() {
            reads[state.geometry.group(unit)] += state.unit(unit).reads;
        }
        let mean_of_channel = scene.reads_mean * f64::from(state.geometry.units_per_group);
        let cost = |unit: Unit| {
            let (known, channel) = (state.unit(unit), state.geometry.group(unit));
            let counts = |counts: bool, cost: f64| if counts { cost } else { 0.0 };
            let cost = READS_COST * known.reads / scene.reads_mean
                + reads[channel] / mean_of_channel
                - counts(own[channel] > 0, OWN_CHANNEL_GAIN)
                + counts(all[channel] > own[channel], OTHERS_CHANNEL_COST)
                + counts(all[channel] >= self.channel_units, FULL_CHANNEL_COST);
            (known.free_chunks <= scene.spare, cost, known.erases)
        };
        let mut is_taken = vec![false; state.units.len()];
        let taken = self.write_set().chain(chosen.iter().copied());
        taken.for_each(|unit| is_taken[usize::from(unit.0)] = true);
        let is_new =
            |unit: &Unit| state.unit(*unit).free_chunks > 0 && !is_taken[usize::from(unit.0)];
        let candidates = state.geometry.all_units().filter(is_new);
        let costs = candidates.map(|unit| (cost(unit), unit));
        let cheapest = costs.min_by(|one, other| one.0.partial_cmp(&other.0).expect("no NaN"));
        cheapest.map(|(_, unit)| unit)
    }
}

/// How many of the units are on each channel.
fn per_channel(geometry: &Geometry, units: impl Iterator<Item = Unit>) -> Vec<usize> {
    let mut counts = vec![0; usize::from(geometry.groups)];
    units.for_each(|unit| counts[geometry.group(unit)] += 1);
    counts
}

impl PlacementPolicy for Rotating {
    fn name(&self) -> &'static str {
        match (self.holds_writers, self.reads_at_once, self.reading) {
            (true, false, ReadScheduling::ByFreeTime) => "rotating",
            (true, false, ReadScheduling::InOrder) => "rotating-in-order",
            (true, true, _) => "rotating-eager",
            (false, ..) => "rotating-unheld",
        }
    }

    fn admission(&self, form: ReadPriority) -> Option<WriteAdmission> {
        if self.holds_writers { WriteAdmission::of(form) } else { None }
    }

    fn stripe(&mut self, state: &DeviceLoad, lifetime: Lifetime, needed: f64) -> Vec<Unit> {
        let (own, scene) = (self.set(lifetime), self.scene(state));
        let width = self.width(&scene, lifetime, needed);
        let erases: u64 = state.units.iter().map(|unit| unit.erases).sum();
        let erases_mean = erases / state.units.len() as u64;
        let erases_most = erases_mean + ERASES_AHEAD * u64::from(state.geometry.chunks_per_unit);
        let last = std::mem::take(&mut self.sets[own]);
        let mut set = last.clone();
        set.retain(|unit| {
            let known = state.unit(*unit);
            known.free_chunks > scene.spare && known.erases <= erases_most
        });
        set.truncate(width);
        while set.len() < width {
            let Some(unit) = self.cheapest(&scene, &set, &last) else { break };
            set.push(unit);
        }
        self.sets[own].clone_from(&set);
        set
    }

    fn settle_distance_chunks(&self, state: &DeviceLoad, lifetime: Lifetime, needed: f64) -> usize {
        let has_others = state.units.len() >= FEW_OF_UNITS * self.sets.len();
        let is_long = !self.reads_at_once && has_others && lifetime + LONG >= self.lifetimes;
        // A set has a unit at the least.
        let units = if is_long { needed.max(1.0) } else { 0.0 };
        let set = units * f64::from(state.geometry.chunks_per_unit);
        (self.fit.held_sets * set) as usize
    }

    fn sending(&self) -> WriteDispatch {
        WriteDispatch::ReadsFirst
    }

    fn reading(&self) -> ReadScheduling {
        self.reading
    }

    fn is_read(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Preset;

    fn state() -> DeviceLoad {
        let mut state = DeviceLoad::new(Preset::named("cnex-mlc").unwrap().geometry());
        for unit in &mut state.units {
            (unit.reads, unit.free_chunks) = (100.0, 10);
        }
        state
    }

    #[test]
    fn the_least_read_units_are_written() {
        let mut state = state();
        let cold = [3, 17, 40, 127].map(Unit);
        for unit in cold {
            state.units[usize::from(unit.0)].reads = 1.0;
        }
        let mut stripe = Rotating::new(1, false, 6).stripe(&state, 0, 3.4);
        stripe.sort();
        assert_eq!(stripe, cold);
    }

    #[test]
    fn a_channel_is_written_as_far_as_it_carries_before_another_is() {
        let (state, mut policy) = (state(), Rotating::new(1, false, 6));
        let stripe = policy.stripe(&state, 0, 9.0);
        let mut on = per_channel(&state.geometry, stripe.into_iter());
        on.sort();
        assert_eq!(on[13..], [0, 5, 6]);
    }

    #[test]
    fn long_lifetimes_write_on_channels_where_no_other_does() {
        let (state, mut policy) = (state(), Rotating::new(5, false, 6));
        let stripes = [0, 3, 4].map(|lifetime| policy.stripe(&state, lifetime, 1.5));
        assert_eq!(stripes.each_ref().map(Vec::len), [6, 2, 2]);
        let channel = |stripe: &Vec<Unit>| state.geometry.group(stripe[0]);
        let mut channels = stripes.each_ref().map(channel);
        for (stripe, channel) in stripes.iter().zip(channels) {
            assert!(stripe.iter().all(|unit| state.geometry.group(*unit) == channel));
        }
        channels.sort();
        assert!(channels[0] < channels[1] && channels[1] < channels[2], "{channels:?}");
        assert!(policy.stripe(&state, 1, 1.5).starts_with(&stripes[0]));
    }

    #[test]
    fn free_space_is_spread_once_there_are_empty_units() {
        let mut state = state();
        let mut policy = Rotating::new(1, false, 6);
        let chunks = u32::from(state.geometry.chunks_per_unit);
        state.units.iter_mut().for_each(|unit| unit.free_chunks = chunks / 4);
        assert_eq!(policy.scene(&state).spare, 0);
        for unit in &mut state.units[..4] {
            (unit.free_chunks, unit.reads) = (chunks, 0.0);
        }
        let spare = policy.scene(&state).spare;
        assert!((chunks / 5..chunks / 3).contains(&spare), "{spare}");
        let stripe = policy.stripe(&state, 0, 1.0);
        state.units[usize::from(stripe[0].0)].free_chunks = spare / 2;
        assert!(!policy.stripe(&state, 0, 1.0).contains(&stripe[0]));
    }

    #[test]
    fn a_unit_is_kept_until_it_is_full() {
        let (mut state, mut policy) = (state(), Rotating::new(1, false, 6));
        let stripe = policy.stripe(&state, 0, 1.0);
        state.units[usize::from(stripe[0].0)].reads = 1_000.0;
        assert_eq!(policy.stripe(&state, 0, 1.0), stripe);
        state.units[usize::from(stripe[0].0)].free_chunks = 0;
        let next = policy.stripe(&state, 0, 1.0);
        assert_eq!(next.len(), stripe.len());
        assert!(!next.contains(&stripe[0]) && next.contains(&stripe[1]));
    }

    #[test]
    fn a_unit_that_wears_out_before_others_is_left() {
        let (mut state, mut policy) = (state(), Rotating::new(1, false, 6));
        let stripe = policy.stripe(&state, 0, 1.0);
        state.units[usize::from(stripe[0].0)].erases = 100_000;
        assert!(!policy.stripe(&state, 0, 1.0).contains(&stripe[0]));
    }

    #[test]
    fn the_two_longest_lifetimes_are_held_where_sets_are_a_small_part_of_the_units() {
        let (state, policy) = (state(), Rotating::new(5, false, 6));
        let held = |lifetime| policy.settle_distance_chunks(&state, lifetime, 1.0);
        let chunks = usize::from(state.geometry.chunks_per_unit);
        assert_eq!([0, 1, 2].map(held), [0; 3]);
        assert!([3, 4].map(held).iter().all(|held| (chunks / 2..chunks).contains(held)));
        assert_eq!(Rotating::new(5, false, 6).eager().settle_distance_chunks(&state, 4, 1.0), 0);
        let held_of = |units| {
            let state = DeviceLoad::new(Geometry::of_blocks(units, 1, 64, 32 << 10));
            policy.settle_distance_chunks(&state, 4, 1.0)
        };
        assert_eq!([1, 16, 47].map(held_of), [0; 3]);
        assert!(held_of(48) > 0);
    }

    #[test]
    fn a_full_device_gives_nothing() {
        let mut state = state();
        state.units.iter_mut().for_each(|unit| unit.free_chunks = 0);
        assert!(Rotating::new(1, false, 6).stripe(&state, 0, 1.0).is_empty());
    }
}
