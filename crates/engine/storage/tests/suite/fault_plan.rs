//! Faults that were planned strike where they were planned, and nowhere else.

use esker_base::{Result, Rng, WriteHint};
use esker_storage::{FaultStorage, Pace, Storage, fault::FaultKind};

const TABLE: WriteHint = WriteHint::table(0);

fn disk(seed: u64) -> FaultStorage {
    FaultStorage::new(Rng::new(seed))
}

/// Eleven mutating calls of every sort.
fn run(storage: &FaultStorage) -> Result<()> {
    let mut file = storage.create("a", TABLE)?;
    file.append(&[1; 1000])?;
    file.sync()?;
    let log = storage.create_log("log", 4096)?;
    storage.sync_names()?;
    log.write_at(0, &[2; 700])?;
    log.sync()?;
    drop(log);
    storage.recycle_log("log", "log-2", 4096)?;
    storage.rename("a", "b")?;
    storage.remove("log-2")?;
    storage.sync_names()
}

#[test]
fn mutating_calls_are_counted_and_reads_are_not() {
    let storage = disk(1);
    run(&storage).unwrap();
    storage.open("b").unwrap().read_exact_at(0, &mut [0; 10]).unwrap();
    assert_eq!((storage.operations(), storage.files()), (11, vec!["b".to_owned()]));
}

#[test]
fn every_call_can_fail_once() {
    for kind in [FaultKind::Io, FaultKind::NoSpace, FaultKind::ShortWrite] {
        for call in 0..11 {
            let storage = disk(call);
            storage.fail_after(call, kind);
            let error = run(&storage).unwrap_err();
            assert_eq!(storage.operations(), call + 1, "{error}");
            assert_eq!(error.is_out_of_space(), kind == FaultKind::NoSpace, "{error}");
            drop(storage.create("after", TABLE).unwrap());
        }
    }
}

#[test]
fn every_call_can_lose_power_and_nothing_works_until_the_crash() {
    for call in 0..11 {
        let storage = disk(call);
        storage.crash_after(call);
        assert!(!storage.has_lost_power());
        run(&storage).unwrap_err();
        assert!(storage.has_lost_power());
        assert!(storage.list().is_err() && storage.create("x", TABLE).is_err());
        assert!(storage.open("b").is_err() && storage.lock().is_err());
        assert_eq!(storage.operations(), call + 1);
        let rebooted = storage.crash();
        assert!(!rebooted.has_lost_power());
        rebooted.list().unwrap();
        for name in rebooted.files() {
            rebooted.remove(&name).unwrap();
        }
        run(&rebooted).unwrap();
    }
}

#[test]
fn the_call_that_loses_power_may_have_been_done() {
    let survived = |seed| {
        let storage = disk(seed);
        let log = storage.create_log("log", 512).unwrap();
        storage.sync_names().unwrap();
        storage.crash_after(0);
        log.write_at(0, &[1; 512]).unwrap_err();
        storage.crash().read_all("log").unwrap() == [1; 512]
    };
    let done = (0..50).filter(|&seed| survived(seed)).count();
    assert!((1..50).contains(&done), "{done}");
}

#[test]
fn a_short_write_leaves_a_prefix_and_ends_the_writer() {
    let mut lengths = std::collections::BTreeSet::new();
    for seed in 0..50 {
        let storage = disk(seed);
        let mut file = storage.create("a", TABLE).unwrap();
        file.append(b"head").unwrap();
        storage.fail_after(0, FaultKind::ShortWrite);
        file.append(&[7; 100]).unwrap_err();
        assert!(file.append(b"more").is_err() && file.sync().is_err());
        let left = storage.read_all("a").unwrap();
        assert!(left.starts_with(b"head") && left[4..].iter().all(|&byte| byte == 7));
        lengths.insert(left.len());
    }
    assert!(lengths.len() > 5 && lengths.iter().all(|&len| len < 104));
}

#[test]
fn a_planned_read_fails_once() {
    let storage = disk(1);
    storage.write_all("a", b"bytes");
    let file = storage.open("a").unwrap();
    storage.fail_read_after(1);
    let reads = [(); 3].map(|()| file.read_exact_at(0, &mut [0; 5]).is_ok());
    assert_eq!(reads, [true, false, true]);
}

#[test]
fn a_full_disk_stays_full_until_there_is_space() {
    let storage = disk(1);
    let log = storage.create_log("log", 1000).unwrap();
    let mut file = storage.create("a", TABLE).unwrap();
    storage.set_space_limit(Some(1500));
    file.append(&[1; 400]).unwrap();
    assert!(file.append(&[1; 200]).unwrap_err().is_out_of_space());
    assert_eq!(storage.used_bytes(), 1500);
    assert!(storage.create("b", TABLE).err().unwrap().is_out_of_space());
    assert!(storage.create_log("log-2", 1000).err().unwrap().is_out_of_space());
    log.write_at(0, &[1; 1000]).unwrap();
    log.sync().unwrap();

    storage.remove("a").unwrap();
    let mut file = storage.create("b", TABLE).unwrap();
    file.append(&[1; 500]).unwrap();
    let storage = storage.crash();
    assert!(storage.create_log("log-3", 2000).err().unwrap().is_out_of_space());
    storage.set_space_limit(None);
    storage.create_log("log-3", 2000).unwrap();
}

#[test]
fn a_log_in_steps_takes_space_as_it_is_prepared_and_writes_only_there() {
    let storage = disk(1);
    storage.set_space_limit(Some(3000));
    let log = storage.create_log_in_steps("log", 8192, 1000).unwrap();
    assert_eq!(storage.used_bytes(), 1000);
    assert!(log.write_at(500, &[1; 501]).is_err(), "beyond what is prepared");
    log.prepare(2000, Pace::AheadOfSyncs).unwrap();
    log.write_at(500, &[1; 1500]).unwrap();
    log.sync().unwrap();
    assert!(log.prepare(4000, Pace::AheadOfSyncs).unwrap_err().is_out_of_space());
    assert_eq!(storage.used_bytes(), 2000, "nothing was taken");
    assert!(log.write_at(2000, &[1; 1]).is_err());
    let storage = storage.crash();
    assert_eq!((storage.read_all("log").unwrap().len(), storage.used_bytes()), (8192, 2000));
}

#[test]
fn a_log_that_gives_space_back_takes_less_and_is_written_only_where_it_is_prepared() {
    let storage = disk(1);
    let log = storage.create_log("log", 8192).unwrap();
    log.write_at(0, &[1; 8192]).unwrap();
    log.sync().unwrap();
    storage.sync_names().unwrap();
    assert!(log.give_back(2000));
    assert!(log.give_back(2000), "there is nothing more, but it could");
    assert_eq!(storage.used_bytes(), 2000);
    assert!(log.write_at(1999, &[1; 2]).is_err());
    assert!(storage.recycle_log("log", "another", 8192).is_err(), "it has a hole");
    let beyond = |storage: &FaultStorage| storage.read_all("log").unwrap()[2000..].to_vec();
    assert_eq!(beyond(&storage), [0; 6192]);
    // The device may have what was there, sector by sector.
    let lost = |seed| beyond(&storage.crash_image(Rng::new(seed))).contains(&1);
    assert!((0..20).any(lost));
    log.sync().unwrap();
    assert!(!(0..20).any(|seed| beyond(&storage.crash_image(Rng::new(seed))).contains(&1)));
}

#[test]
fn a_flipped_bit_is_read_and_stays() {
    let storage = disk(1);
    storage.write_all("a", &[0; 100]);
    storage.bit_flip("a", 50, 3);
    let rebooted = storage.crash();
    let bytes = rebooted.read_all("a").unwrap();
    assert_eq!((bytes[49], bytes[50], bytes[51]), (0, 8, 0));
}

#[test]
fn one_seed_and_one_history_leave_one_disk() {
    let history = |seed| {
        let mut storage = disk(seed);
        let mut calls = Rng::new(seed ^ 77);
        for _ in 0..20 {
            let _ = run(&storage);
            let mut file = storage.create(&format!("{}", calls.next_u64()), TABLE).unwrap();
            file.append(&vec![5; calls.below(5000) as usize]).unwrap();
            storage = if calls.one_in(2) { storage.crash() } else { storage.kill() };
        }
        let content = |name: String| (storage.read_all(&name), name);
        storage.files().into_iter().map(content).collect::<Vec<_>>()
    };
    assert_eq!(history(4), history(4));
    assert_ne!(history(4), history(5));
}

#[test]
fn threads_may_share_a_disk_while_it_crashes() {
    let storage = disk(1);
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let storage = storage.clone();
            scope.spawn(move || {
                for round in 0.. {
                    let name = format!("{thread}-{round}");
                    let Ok(mut file) = storage.create(&name, TABLE) else { break };
                    let done = file.append(&[thread; 100]).and_then(|()| file.sync());
                    if done.and_then(|()| storage.remove(&name)).is_err() {
                        break;
                    }
                }
            });
        }
        while storage.operations() < 1000 {
            std::thread::yield_now();
        }
        let _ = storage.crash();
    });
    assert!(storage.list().is_err());
}

#[test]
fn a_copy_that_fails_is_removed_again() {
    let (here, there) = (disk(1), disk(2));
    here.write_all("a", &[1; 5000]);
    there.set_space_limit(Some(3000));
    assert!(here.link_to("a", &there).unwrap_err().is_out_of_space());
    assert_eq!(there.files(), [""; 0]);
    here.fail_read_after(0);
    there.set_space_limit(None);
    here.link_to("a", &there).unwrap_err();
    assert_eq!(there.files(), [""; 0]);
    here.link_to("a", &there).unwrap();
    there.sync_names().unwrap();
    assert_eq!(there.crash().read_all("a").unwrap(), [1; 5000]);
}

#[test]
fn a_file_is_settled_so_many_calls_after_its_last_byte_or_with_the_next_process() {
    let storage = disk(3);
    let write = |name: &str| {
        let mut file = storage.create(name, TABLE).unwrap();
        file.append(&[1; 100]).unwrap();
        file.sync().unwrap();
    };
    write("a");
    assert!(storage.is_settled("a"), "nobody asked for anything else");
    storage.settle_after(5);
    write("b");
    assert!(!storage.is_settled("b"), "its sync alone came after");
    storage.open("b").unwrap().read_exact_at(0, &mut [0; 10]).unwrap();
    write("c");
    assert!(!storage.is_settled("b") && !storage.is_settled("c"), "four calls, and one");
    storage.sync_names().unwrap();
    assert!(storage.is_settled("b") && !storage.is_settled("c"));
    let next = storage.kill();
    assert!(next.is_settled("c"), "nobody knows when it was written");
    let mut file = next.create("d", TABLE).unwrap();
    file.append(&[1; 100]).unwrap();
    assert!(!next.is_settled("d"));
    assert!(storage.is_settled("d"), "a dead process is told nothing to wait for");
}
