//! Power loss after files and logs were removed: no other file gets what was theirs, and nothing of theirs is reset too early.

use crate::device;
use crate::histories::{Device, bytes, content};
use esker_base::{Rng, WriteHint};
use esker_storage::Storage;

/// The second log has the number and the chunk of the first.
#[test]
fn a_log_made_anew_has_nothing_of_a_removed_one_after_power_loss() {
    const BYTES: u64 = 4096;
    let mut found = 0;
    for seed in 0..64 {
        let device = device();
        let storage = device.open().unwrap();
        for name in ["first", "second"] {
            storage.create(name, WriteHint::table(3)).and_then(|mut file| file.sync()).unwrap();
        }
        let log = storage.create_log("old", BYTES).unwrap();
        log.write_at(0, &[7; 100]).unwrap();
        log.sync().unwrap();
        storage.remove("old").unwrap();
        storage.sync_names().unwrap();
        drop((storage, log));
        // The first change after an open writes what names there are, by which the next open numbers files; and it flushes the device.
        device.open().unwrap().remove("first").unwrap();
        let storage = device.open().unwrap();
        storage.remove("second").unwrap();
        drop(storage.create_log("new", BYTES).unwrap());
        drop(storage);
        device.lose_power(&mut Rng::new(seed));
        let again = device.open().unwrap();
        if again.exists("new").unwrap() {
            found += 1;
            assert_eq!(content(&again, "new"), [0; BYTES as usize], "seed {seed}");
        }
    }
    assert!(found > 10, "{found}");
}

/// A process removed files and died: the device has that in its cache. What the next one takes of their chunks, it keeps.
#[test]
fn chunks_of_files_that_a_dead_process_removed_are_not_reset_before_that_is_safe() {
    const FILES: u64 = 5;
    const FILE_BYTES: u64 = 20_000;
    let mut cut_off = 0;
    for (calls, seed) in (1..20).flat_map(|calls| (0..16).map(move |seed| (calls, seed))) {
        let device = device();
        let storage = device.open().unwrap();
        let log = storage.create_log("log", 20_000).unwrap();
        for id in 0..FILES {
            let mut file = storage.create(&format!("{id}"), WriteHint::table(id as u8)).unwrap();
            file.append(&bytes(id, 0..FILE_BYTES)).and_then(|()| file.sync()).unwrap();
        }
        storage.sync_names().unwrap();
        (0..FILES).for_each(|id| storage.remove(&format!("{id}")).unwrap());
        // The process dies here, and the device goes on.
        drop((storage, log));
        let storage = device.open().unwrap();
        device.fail_after(calls);
        let log = storage.open_log("log").unwrap();
        // A little at a time, so that the log takes chunks.
        cut_off += u32::from((0..40).any(|at| log.write_at(at * 100, &[7; 100]).is_err()));
        drop((storage, log));
        device.lose_power(&mut Rng::new(seed));
        let again = device.open().unwrap();
        for id in 0..FILES {
            let name = format!("{id}");
            if again.exists(&name).unwrap() {
                let context = format!("{calls} calls, seed {seed}, file {id}");
                assert!(content(&again, &name) == bytes(id, 0..FILE_BYTES), "{context}");
            }
        }
    }
    assert!(cut_off > 100, "{cut_off}");
}
