//! The same history under different settings reads the same.

use esker_sim::campaign;
use esker_sim::operations::{History, Operation};
use esker_sim::settings::{LogMode, OpenSettings};

#[test]
fn settings_change_no_answer() {
    let variants = [
        (OpenSettings { log: LogMode::Always, segment_kib: 64, sealed: 1 }, false),
        (OpenSettings { log: LogMode::Os, segment_kib: 256, sealed: 4 }, true),
        (OpenSettings { log: LogMode::Every(5), segment_kib: 96, sealed: 2 }, false),
        (OpenSettings { log: LogMode::None, segment_kib: 128, sealed: 3 }, false),
    ];
    for seed in 0..150 {
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
