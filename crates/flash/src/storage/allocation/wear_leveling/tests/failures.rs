//! What fails in a move, and power loss.

use super::*;
use crate::storage::lifetimes::lifetime::LifetimeClass;
use esker_base::{Error, Rng};
use std::panic::{self, AssertUnwindSafe};

fn fails() -> Result<()> {
    Err(Error::io("use", "the device", std::io::Error::other("broken")))
}

#[test]
fn what_fails_in_a_move_is_counted_and_told_and_costs_nobody_a_write() {
    // It was written before, and is to be reset.
    let to = TO - 1;
    for call in [Call::Read(FROM), Call::Write(to), Call::Flush, Call::Reset(to)] {
        let (device, storage) = cold((CHUNKS - FROM - 1) as u8);
        (3..19).for_each(|number| storage.remove(&number.to_string()).unwrap());
        storage.core.state.lock().sweep();
        storage.sync_names().unwrap();
        wear(&storage, &[to], 100);
        let again = Arc::downgrade(&device);
        match call {
            Call::Flush => device.at(Call::Write(to), move || {
                again.upgrade().unwrap().at(Call::Flush, fails);
                Ok(())
            }),
            call => device.at(call, fails),
        }
        write(&storage, "new", 30, CHUNK).unwrap();
        assert!(device.work.lock().is_none(), "{call:?} was not asked for");
        let usage = storage.usage();
        assert_eq!(usage.levelling_failures, 1, "{call:?}");
        let told = storage.levelling_failure().unwrap().to_string();
        assert!(told.contains("broken"), "{told}");
        assert_eq!(usage.live_bytes as usize, 4 * CHUNK, "{call:?}");
        assert_eq!(usage.free_chunks as usize, CHUNKS - FROM - 4, "{call:?}");
        let files = [("0", 0), ("1", 1), ("2", 2), ("new", 30)];
        check_twice(&device, storage, &files.map(|(name, byte)| (name, byte, CHUNK)));
    }
}

#[test]
fn what_cannot_be_read_is_not_tried_again_and_what_is_worn_as_little_is_moved() {
    let (device, storage) = filled(3);
    device.below.set_readable(device.geometry().chunk(FROM), 4096, false);
    level(&storage);
    wear(&storage, &[TO], 16);
    level(&storage);
    assert_eq!([0, 1].map(|name| chunks_of(&storage, &name.to_string())[0] as usize), [FROM, TO]);
    assert_eq!(storage.usage().levelling_failures, 1);
}

/// A device is full then, and says so, whatever could not be moved for wear.
#[test]
fn a_chunk_that_cannot_be_read_and_would_make_no_room_is_not_told_to_be_why_there_is_none() {
    let (device, storage) = filled(3);
    device.below.set_readable(device.geometry().chunk(FROM), 4096, false);
    level(&storage);
    assert_eq!(storage.usage().levelling_failures, 1);
    let mut names = 3..;
    let full = loop {
        let name = names.next().unwrap().to_string();
        match write(&storage, &name, 7, CHUNK) {
            Ok(()) => {}
            Err(error) => break error,
        }
    };
    assert!(full.is_out_of_space(), "{full}");
}

/// It can't be reset, but is not bad.
#[test]
fn a_chunk_that_a_move_failed_with_is_not_taken_again_before_it_was_reset() {
    let (device, storage) = cold(3);
    write(&storage, "dead", 9, CHUNK).unwrap();
    storage.remove("dead").unwrap();
    storage.core.state.lock().sweep();
    storage.sync_names().unwrap();
    let failing = FROM + 3;
    wear(&storage, &[TO], 100);
    wear(&storage, &[failing], 200);
    device.at(Call::Reset(failing), fails);
    level(&storage);
    wear(&storage, &[TO], 16);
    level(&storage);
    assert_eq!(chunks_of(&storage, "0"), [TO as u32]);
    let state = &mut *storage.core.state.lock();
    let (lease, free_after) = state.space.lease(failing as u32);
    state.make_ready(&*device, LifetimeClass::SHORTEST, lease.chunk, free_after).unwrap().unwrap();
    assert!(state.levelling.avoided.is_empty());
}

#[test]
fn a_panic_in_a_move_ends_it_and_its_chunk_is_free() {
    let (device, storage) = filled(3);
    device.at(Call::Read(FROM), || panic!("on purpose"));
    let moved = panic::catch_unwind(AssertUnwindSafe(|| level(&storage)));
    moved.unwrap_err();
    assert_eq!(storage.usage().free_chunks as usize, CHUNKS - FROM - 3);
    wear(&storage, &[TO], 16);
    level(&storage);
    assert_eq!(chunks_of(&storage, "0"), [TO as u32]);
    check_twice(&device, storage, &[("0", 0, CHUNK), ("1", 1, CHUNK), ("2", 2, CHUNK)]);
}

/// The journal can never be made durable again.
#[test]
fn a_chunk_that_is_not_reset_as_its_last_files_removal_is_not_durable_stays_free() {
    let (device, storage) = cold(3);
    storage.sync_names().unwrap();
    storage.remove("2").unwrap();
    storage.core.state.lock().sweep();
    let free = storage.usage().free_chunks;
    let state = &mut *storage.core.state.lock();
    let (lease, free_after) = state.space.lease(FROM as u32 + 2);
    device.at(Call::Flush, fails);
    state.make_ready(&*device, LifetimeClass::SHORTEST, lease.chunk, free_after).unwrap_err();
    assert_eq!(state.space.free_chunks(), free);
}

/// It is found to be bad when it is reset.
#[test]
fn a_worn_chunk_that_goes_bad_takes_nothing_and_is_used_no_more() {
    let (device, storage) = cold(3);
    write(&storage, "dead", 9, CHUNK).unwrap();
    storage.remove("dead").unwrap();
    storage.core.state.lock().sweep();
    storage.sync_names().unwrap();
    let bad = FROM + 3;
    wear(&storage, &[TO], 100);
    wear(&storage, &[bad], 200);
    device.below.break_chunk(device.geometry().chunk(bad));
    level(&storage);
    let good_bytes = storage.usage().good_bytes;
    assert_eq!(good_bytes as usize, (CHUNKS - FROM - 1) * CHUNK);
    assert_eq!(chunks_of(&storage, "0"), [FROM as u32]);
    wear(&storage, &[TO], 16);
    level(&storage);
    assert_eq!(chunks_of(&storage, "0"), [TO as u32]);
    check_twice(&device, storage, &[("0", 0, CHUNK), ("1", 1, CHUNK), ("2", 2, CHUNK)]);
}

/// The journal has so many names that a snapshot and one change more would not fit.
#[test]
fn a_move_that_the_journal_has_no_room_for_is_left_undone_and_the_journal_goes_on() {
    let (device, storage) = filled(2);
    let mut names = 0..;
    let full = loop {
        let name = format!("{:0>200}", names.next().unwrap());
        match storage.create(&name, WriteHint::table(6)) {
            Ok(_) => {}
            Err(error) => break error,
        }
    };
    assert!(full.is_out_of_space(), "{full}");
    level(&storage);
    assert_eq!(chunks_of(&storage, "0"), [FROM as u32]);
    let told = storage.levelling_failure().unwrap();
    assert!(told.is_out_of_space(), "{told}");
    storage.remove(&format!("{:0>200}", 0)).unwrap();
    check_twice(&device, storage, &[("0", 0, CHUNK), ("1", 1, CHUNK)]);
}

/// Power is lost at every call: of the move, of a file that takes the chunk which it left, and of what makes that safe.
#[test]
fn power_loss_anywhere_in_a_move_leaves_all_files_whole() {
    for seed in 0..20 {
        let (mut calls, mut moved) = (0, 0);
        loop {
            let (device, storage) = filled(2);
            wear(&storage, &(FROM + 2..TO).collect::<Vec<_>>(), 1);
            storage.sync_names().unwrap();
            device.below.fail_after(calls);
            level(&storage);
            moved += u32::from(chunks_of(&storage, "0") == [TO as u32]);
            let done = write(&storage, "new", 7, CHUNK).and_then(|()| storage.sync_names());
            drop(storage);
            device.below.lose_power(&mut Rng::new(seed ^ calls << 20));
            let again = FlashStorage::open(Arc::new(device.below.clone())).unwrap();
            check(&again, "0", 0, CHUNK);
            check(&again, "1", 1, CHUNK);
            if done.is_ok() {
                check(&again, "new", 7, CHUNK);
                break;
            }
            calls += 1;
        }
        assert!(calls > 8 && moved > 3, "{calls} calls, {moved} moved");
    }
}
