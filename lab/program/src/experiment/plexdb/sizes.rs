//! How much the experiment measures, at either scale.
//!
//! What decides the shape of a tree is how many memtables its data is. So the quick size is the full one
//! in small: keys and write buffers are both smaller by the same factor, memory with them, and there are
//! as many levels. The full size is 20 GB as in the paper for nine updates a key, by memtables of 64 MiB. In the
//! paper, runs of 20 updates a key wrote 100 GB; here they have as many keys as the others, so that
//! nothing but the number of updates differs.

use super::super::{Room, Scale, Wishes};
use super::loads::Load;
use crate::bench::engines;
use crate::failure::{Failure, Outcome};
use crate::units;
use std::time::Duration;

/// As in the paper.
pub(super) const KEY_BYTES: usize = 10;
pub(super) const VALUE_BYTES: usize = 200;
const PAIR_BYTES: u64 = (KEY_BYTES + VALUE_BYTES) as u64;

/// Twenty gigabytes, each key written ten times.
const FULL_RECORDS: u64 = 9_500_000;
/// The memtables that they are written by.
const FULL_SEGMENT_BYTES: u64 = 64 << 20;
/// All memory of an engine by one of its memtables: half of the full size's data.
const SEGMENTS_OF_MEMORY: usize = 16;
const FULL_READS: u64 = 1_000_000;

/// Records of a quick run of Esker alone, and with other engines, which take several times as long.
const QUICK_RECORDS: u64 = 40_000;
const QUICK_RECORDS_BESIDE_OTHERS: u64 = 20_000;
const QUICK_READS: u64 = 20_000;

/// A segment is a whole number of these, and an engine takes no smaller one.
const SEGMENT_STEP_BYTES: u64 = 4 << 10;
const LEAST_SEGMENT_BYTES: u64 = 64 << 10;

/// The most space that an engine was seen to take, by the live bytes, with some to spare.
const SPACE_AMP_MOST: u64 = 16;

/// The sizes of a run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Sizes {
    pub(super) records: u64,
    pub(super) segment_bytes: usize,
    /// Reads in each state.
    pub(super) reads: u64,
    /// The distance of the points over time.
    pub(super) interval: Duration,
}

impl Sizes {
    /// Of `loads` on the engines of `list`, on a machine with this space.
    pub(super) fn of(
        wishes: &Wishes<'_>,
        list: &str,
        loads: &[Load],
        room: &Room,
    ) -> Outcome<Sizes> {
        let (records, reads, interval) = match wishes.scale {
            Scale::Quick => (quick_records(list), QUICK_READS, Duration::from_millis(100)),
            Scale::Full => (FULL_RECORDS, FULL_READS, Duration::from_secs(1)),
        };
        let records = wishes.records.unwrap_or(records);
        let segment_bytes = wishes.segment_bytes.unwrap_or_else(|| segment_of(records));
        let sizes = Sizes { records, segment_bytes, reads, interval };
        sizes.check_room(loads, room)?;
        Ok(sizes)
    }

    /// One store at a time is there.
    fn check_room(&self, loads: &[Load], room: &Room) -> Outcome {
        let updates = loads.iter().map(|load| load.updates_per_key).fold(0.0, f64::max);
        let most = updates.clamp(0.0, SPACE_AMP_MOST as f64) as u64 + 1;
        let wanted = self.records.saturating_mul(PAIR_BYTES * most);
        if wanted <= room.disk_bytes {
            return Ok(());
        }
        let (wanted, free) = (units::bytes(wanted), units::bytes(room.disk_bytes));
        Err(Failure::Usage(format!(
            "a store may take {wanted} of disk, and {free} are free; name another --dir, or fewer \
             --records"
        )))
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.segment_bytes.saturating_mul(SEGMENTS_OF_MEMORY)
    }

    /// The sizes by name, for the report.
    pub(super) fn named(&self) -> [(&'static str, String); 5] {
        let scale = self.records as f64 / FULL_RECORDS as f64;
        [
            ("records", self.records.to_string()),
            ("key_bytes", KEY_BYTES.to_string()),
            ("value_bytes", VALUE_BYTES.to_string()),
            ("reads", self.reads.to_string()),
            ("data by the full size's", format!("{scale:.4}")),
        ]
    }
}

fn quick_records(list: &str) -> u64 {
    match list.split(',').all(|name| engines::is_own(name.trim())) {
        true => QUICK_RECORDS,
        false => QUICK_RECORDS_BESIDE_OTHERS,
    }
}

/// A memtable that is as much of so many records as the full size's is of its own.
fn segment_of(records: u64) -> usize {
    let exact = u128::from(FULL_SEGMENT_BYTES) * u128::from(records) / u128::from(FULL_RECORDS);
    let exact = u64::try_from(exact).unwrap_or(u64::MAX).min(FULL_SEGMENT_BYTES);
    let steps = exact.div_ceil(SEGMENT_STEP_BYTES);
    (steps * SEGMENT_STEP_BYTES).max(LEAST_SEGMENT_BYTES) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROOMY: Room = Room { memory_bytes: 24 << 30, disk_bytes: 60 << 30, pool_bytes: 9 << 30 };

    fn of(scale: Scale, records: Option<u64>, list: &str) -> Sizes {
        let wishes = Wishes { scale, records, ..Wishes::default() };
        Sizes::of(&wishes, list, &Load::parse_list(super::super::loads::ALL).unwrap(), &ROOMY)
            .unwrap()
    }

    #[test]
    fn the_full_size_is_the_papers() {
        let full = of(Scale::Full, None, "esker-tiered,leveldb");
        let written = full.records * 10 * PAIR_BYTES;
        assert!((19_900_000_000..=20_000_000_000).contains(&written), "{written}");
        assert_eq!((full.segment_bytes, full.memory_bytes()), (64 << 20, 1 << 30));
    }

    #[test]
    fn every_size_is_as_many_memtables() {
        let full = of(Scale::Full, None, "esker-tiered");
        let memtables = |sizes: &Sizes| sizes.records * PAIR_BYTES / sizes.segment_bytes as u64;
        for (records, list) in [
            (None, "esker-tiered"),
            (None, "esker-tiered,fjall"),
            (Some(1_000_000), "esker-tiered"),
        ] {
            let sizes = of(Scale::Quick, records, list);
            assert!(memtables(&sizes).abs_diff(memtables(&full)) <= 1, "{sizes:?}");
        }
    }

    #[test]
    fn a_quick_run_beside_slower_engines_is_smaller() {
        let (alone, beside) =
            (of(Scale::Quick, None, "esker-tiered"), of(Scale::Quick, None, "esker-tiered, fjall"));
        assert!(beside.records < alone.records && beside.segment_bytes < alone.segment_bytes);
    }

    #[test]
    fn a_segment_is_no_smaller_and_no_larger_than_makes_sense() {
        assert_eq!(segment_of(1), LEAST_SEGMENT_BYTES as usize);
        assert_eq!(segment_of(u64::MAX), 64 << 20);
    }
}
