//! How much the experiment measures, at either scale.
//!
//! The quick size is fixed. The full one has 4 million operations, as in the paper, on as much data as the
//! disk has space for, up to 40 GB as in the paper, and a pool of a quarter of the memory, since it is
//! memory that replaces it. DRAM is to the data as in the paper: 32 GB to 40.

use super::super::{Room, Scale};
use crate::failure::{Failure, Outcome};
use crate::units;
use std::time::Duration;

/// A record's value, as in the paper.
pub(super) const VALUE_BYTES: usize = 1_000;
/// What a record takes in a pool and on disk, key and headers included, rounded up.
const RECORD_BYTES: u64 = 1_100;

/// The sizes of a run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Sizes {
    pub(super) records: u64,
    /// Operations of a sustained case.
    pub(super) operations: u64,
    /// Operations of a burst: if all of them insert, half of the pool is left.
    pub(super) burst_operations: u64,
    /// Operations of either, where at most one in twenty writes: they are over sooner, and what is cold at
    /// first is not to be most of what is measured.
    pub(super) read_operations: u64,
    /// Operations of each case of an effect.
    pub(super) effect_operations: u64,
    /// Inserts that are followed over time.
    pub(super) insert_operations: u64,
    pub(super) memory_bytes: usize,
    pub(super) segment_bytes: usize,
    pub(super) pool_bytes: usize,
    /// Operations before a case counts. A number and not a time: most of the workloads insert, and the
    /// faster engines would have millions of records more than the others by then.
    pub(super) warm_up_operations: u64,
    /// The distance of the points of series,
    pub(super) interval: Duration,
    /// and of those of inserts over time, which are all over in a fraction of a second at the quick size.
    pub(super) interval_over_time: Duration,
    pub(super) rounds: u32,
}

/// The operations of the paper of each workload.
const OPERATIONS: u64 = 4_000_000;
/// Before each case, where it is long enough to need a warm-up.
const WARM_UP_OPERATIONS: u64 = OPERATIONS / 8;
/// The data of the paper.
const MOST_DATA_BYTES: u64 = 40_000_000_000;
/// With less, everything would be in one cache or another.
const LEAST_DATA_BYTES: u64 = 500_000_000;
/// The MemTables of the paper.
const SEGMENT_BYTES: usize = 16 << 20;
/// The space of a running store in addition to what it started with: what it writes, in its warm-up too, the
/// log of that, what is not yet compacted, and what a compaction holds twice.
const SLACK_BYTES: u64 = 4 * (WARM_UP_OPERATIONS + OPERATIONS) * RECORD_BYTES;
/// A pool is cut into so many extents, about.
const EXTENTS: usize = 16;
/// A pool is at most so large, or tmpfs alone would take minutes to fill it.
const MOST_POOL_BYTES: u64 = 8 << 30;

/// Where tables are read from, by their size: for the report.
const FROM_MEMORY: &str = "the data of all engines fits in the machine's memory: what their own caches \
                           lack comes from the system's, and little or nothing from the disk";
const FROM_DISK_ONCE: &str = "the data of one engine fits in the machine's memory, and that of all does \
                              not: what others have driven out of the system's cache comes from the \
                              disk once in a case";
const FROM_DISK: &str =
    "the data does not fit in the machine's memory: what no cache has comes from the disk";

impl Sizes {
    /// For a run of so many engines on a machine with this space.
    pub(super) fn of(scale: Scale, engines: usize, room: &Room) -> Outcome<Sizes> {
        let sizes = match scale {
            Scale::Quick => Sizes::quick(),
            Scale::Full => Sizes::full(engines, room)?,
        };
        let pool_bytes = sizes.pool_bytes as u64;
        if pool_bytes > room.pool_bytes {
            let (pool, free) = (units::bytes(pool_bytes), units::bytes(room.pool_bytes));
            let message = format!("a pool takes {pool} of /dev/shm, where {free} are free");
            return Err(Failure::Usage(message));
        }
        Ok(sizes)
    }

    fn quick() -> Sizes {
        Sizes {
            records: 20_000,
            operations: 30_000,
            burst_operations: 50_000,
            read_operations: 200_000,
            effect_operations: 30_000,
            insert_operations: 64_000,
            memory_bytes: 16 << 20,
            segment_bytes: 2 << 20,
            pool_bytes: 128 << 20,
            warm_up_operations: 0,
            interval: Duration::from_millis(100),
            interval_over_time: Duration::from_millis(20),
            rounds: 1,
        }
    }

    fn full(engines: usize, room: &Room) -> Outcome<Sizes> {
        // Each engine keeps what it loaded. One at a time runs on links to that, and on what it writes anew:
        // of reads alone that is nothing, but inserts fall everywhere between the keys, and by the time
        // that they are merged into the last level none of the tables there may be the one it was. So it
        // counts as a store of its own. A fifth of the disk stays free.
        let stores = engines as u64 + 1;
        let usable = (room.disk_bytes / 5 * 4).saturating_sub(SLACK_BYTES);
        let data_bytes = (usable / stores).min(MOST_DATA_BYTES);
        if data_bytes < LEAST_DATA_BYTES {
            let wanted = (LEAST_DATA_BYTES * stores + SLACK_BYTES) / 4 * 5;
            let (wanted, free) = (units::bytes(wanted), units::bytes(room.disk_bytes));
            return Err(Failure::Usage(format!(
                "--full needs {wanted} of disk for {engines} engines, and {free} are free; name \
                 another --dir, or fewer --engines"
            )));
        }
        let records = data_bytes / RECORD_BYTES / 100_000 * 100_000;
        let data_bytes = records * RECORD_BYTES;
        let pool_bytes = power_of_two_below(room.memory_bytes / 4).clamp(1 << 28, MOST_POOL_BYTES);
        let memory_bytes = (data_bytes / 5 * 4).min(room.memory_bytes / 4);
        Ok(Sizes {
            records,
            operations: OPERATIONS,
            burst_operations: (pool_bytes / 2 / RECORD_BYTES).min(OPERATIONS),
            read_operations: OPERATIONS,
            effect_operations: OPERATIONS / 4,
            insert_operations: OPERATIONS,
            memory_bytes: (memory_bytes >> 20 << 20) as usize,
            segment_bytes: SEGMENT_BYTES,
            pool_bytes: pool_bytes as usize,
            warm_up_operations: WARM_UP_OPERATIONS,
            interval: Duration::from_secs(1),
            interval_over_time: Duration::from_secs(1),
            rounds: 3,
        })
    }

    /// A pool that is small against what is inserted over time, and whose extents are no smaller than
    /// the write buffers of the others, so that no engine flushes in smaller pieces.
    pub(super) fn small_pool_bytes(&self) -> usize {
        (self.pool_bytes / 8).max(EXTENTS * self.segment_bytes)
    }

    /// What the data takes on disk.
    fn data_bytes(&self) -> u64 {
        self.records * RECORD_BYTES
    }

    /// Where so many engines, who take turns, read their tables from. The system's cache has what they leave
    /// of the memory for themselves and for what replaces persistent memory.
    pub(super) fn read_from(&self, engines: usize, room: &Room) -> &'static str {
        let taken = self.memory_bytes as u64 + self.pool_bytes as u64;
        let cache_bytes = room.memory_bytes.saturating_sub(taken);
        if engines as u64 * self.data_bytes() <= cache_bytes {
            FROM_MEMORY
        } else if self.data_bytes() <= cache_bytes {
            FROM_DISK_ONCE
        } else {
            FROM_DISK
        }
    }

    /// The sizes by name, for the report.
    pub(super) fn named(&self) -> [(&'static str, String); 9] {
        [
            ("records", self.records.to_string()),
            ("operations", self.operations.to_string()),
            ("operations_burst", self.burst_operations.to_string()),
            ("operations_reads", self.read_operations.to_string()),
            ("operations_effects", self.effect_operations.to_string()),
            ("operations_insert_over_time", self.insert_operations.to_string()),
            ("field_bytes", VALUE_BYTES.to_string()),
            ("pool_bytes", self.pool_bytes.to_string()),
            ("pool_bytes_insert_over_time", self.small_pool_bytes().to_string()),
        ]
    }
}

fn power_of_two_below(number: u64) -> u64 {
    1 << number.max(1).ilog2()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROOMY: Room = Room { memory_bytes: 24 << 30, disk_bytes: 60 << 30, pool_bytes: 9 << 30 };

    #[test]
    fn a_burst_leaves_half_of_the_pool() {
        for scale in [Scale::Quick, Scale::Full] {
            let sizes = Sizes::of(scale, 6, &ROOMY).unwrap();
            assert!(sizes.burst_operations * RECORD_BYTES * 2 <= sizes.pool_bytes as u64);
            assert!(sizes.read_operations / 20 <= sizes.burst_operations);
            assert!(sizes.small_pool_bytes() as u64 * 2 < sizes.insert_operations * RECORD_BYTES);
        }
    }

    #[test]
    fn the_data_is_what_the_disk_has_room_for() {
        let records = |disk_gib: u64, engines| {
            let room = Room { disk_bytes: disk_gib << 30, ..ROOMY };
            Sizes::of(Scale::Full, engines, &room).unwrap().records
        };
        assert!(records(60, 6) < records(60, 2));
        assert!(records(60, 6) < records(120, 6));
        let most = records(4_000, 6);
        assert!((36_000_000..=40_000_000).contains(&most), "no more than the paper's: {most}");
        let stores = 7 * records(60, 6) * RECORD_BYTES + SLACK_BYTES;
        assert!(stores < 60 << 30, "{stores}");
    }

    #[test]
    fn a_case_has_room_to_rewrite_all_that_it_starts_on() {
        for (disk_gib, engines) in [(40, 1), (60, 6), (4_000, 6)] {
            let room = Room { disk_bytes: disk_gib << 30, ..ROOMY };
            let sizes = Sizes::of(Scale::Full, engines, &room).unwrap();
            let loaded = engines as u64 * sizes.data_bytes();
            let written = (sizes.warm_up_operations + sizes.operations) * RECORD_BYTES;
            assert!(loaded + sizes.data_bytes() + 2 * written < room.disk_bytes, "{sizes:?}");
        }
    }

    #[test]
    fn tables_are_read_from_the_memory_that_engine_and_pool_leave_as_far_as_they_fit() {
        let sizes = Sizes::of(Scale::Full, 6, &ROOMY).unwrap();
        let taken = (sizes.memory_bytes + sizes.pool_bytes) as u64;
        let from = |memory_bytes| sizes.read_from(6, &Room { memory_bytes, ..ROOMY });
        assert_eq!(from(taken + 6 * sizes.data_bytes()), FROM_MEMORY);
        assert_eq!(from(taken + 6 * sizes.data_bytes() - 1), FROM_DISK_ONCE);
        assert_eq!(from(taken + sizes.data_bytes() - 1), FROM_DISK);
    }

    #[test]
    fn quick_inserts_over_time_have_several_points() {
        let quick = Sizes::of(Scale::Quick, 6, &ROOMY).unwrap();
        // At half a million a second, the rate of the quickest.
        let seconds = quick.insert_operations as f64 / 500_000.0;
        assert!(seconds / quick.interval_over_time.as_secs_f64() >= 5.0);
    }

    #[test]
    fn a_machine_without_room_is_refused() {
        let disk = Room { disk_bytes: 8 << 30, ..ROOMY };
        let pool = Room { pool_bytes: 1 << 20, ..ROOMY };
        for (room, scale, part) in [
            (disk, Scale::Full, "of disk for 6 engines"),
            (pool, Scale::Full, "/dev/shm"),
            (pool, Scale::Quick, "/dev/shm"),
        ] {
            match Sizes::of(scale, 6, &room) {
                Err(Failure::Usage(message)) => assert!(message.contains(part), "{message}"),
                other => panic!("{other:?}"),
            }
        }
        assert!(Sizes::of(Scale::Quick, 6, &disk).is_ok());
    }
}
