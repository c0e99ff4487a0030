//! The same history under different settings reads the same.

use esker_lsm::Forwarding;
use esker_sim::campaign;
use esker_sim::operations::{History, Operation};
use esker_sim::settings::{LogMode, OpenSettings};

#[test]
fn settings_change_no_answer() {
    let variant = |log, segment_kib, sealed, dram_bytes, forwarding, own_log| {
        (OpenSettings { log, segment_kib, sealed, dram_bytes, forwarding }, own_log)
    };
    use Forwarding::{Adaptive, Always, OnFlush};
    let variants = [
        variant(LogMode::Always, 64, 1, Some(0), OnFlush, false),
        variant(LogMode::Os, 256, 4, Some(60 << 10), Always, true),
        variant(LogMode::Every(5), 96, 2, None, OnFlush, false),
        variant(LogMode::None, 128, 3, Some(6 << 10), Adaptive, false),
        variant(LogMode::Pmem, 64, 1, Some(0), OnFlush, false),
        variant(LogMode::Pmem, 64, 1, None, Always, false),
        variant(LogMode::Pmem, 64, 1, Some(60 << 10), Adaptive, true),
    ];
    for seed in 0..100 {
        let calm = History::draw_calm(seed);
        let digests: Vec<_> = variants
            .iter()
            .enumerate()
            .map(|(number, &(settings, own_log))| {
                let mut history = History { settings, own_log, ..calm.clone() };
                other_keyspace_settings(&mut history, number as u64);
                let outcome = campaign::run(&history).unwrap_or_else(|failure| {
                    panic!("{}", campaign::report(&history, &failure));
                });
                outcome.reads
            })
            .collect();
        assert!(digests.iter().all(|&digest| digest == digests[0]), "seed {seed}: {digests:?}");
    }
}

/// Draws each keyspace's shape, compression and filter anew.
fn other_keyspace_settings(history: &mut History, number: u64) {
    for operation in &mut history.operations {
        if let Operation::CreateSpace(_, seed) = operation {
            *seed = seed.wrapping_add(number);
        }
    }
}
