//! What every storage must do, run over each of them.

use esker_base::{Error, FileKind, Rng, SystemClock, Threads, WriteHint};
use esker_storage::blocks::MemoryDevice;
use esker_storage::emulated_log_device::DeviceProfile;
use esker_storage::{
    BlockStorage, Device, DeviceStorage, FaultStorage, FileCache, MemoryStorage, Pace,
    PosixStorage, ReadableFile, Storage,
};
use std::io::ErrorKind;
use std::sync::Arc;

const TABLE: WriteHint = WriteHint::table(0);

macro_rules! conformance {
    ($($behaviour:ident)*) => {
        mod posix {
            $(#[test]
            fn $behaviour() {
                let (here, there) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
                super::$behaviour(
                    &super::PosixStorage::create(here.path()).unwrap(),
                    &super::PosixStorage::create(there.path()).unwrap(),
                );
            })*
        }
        mod memory {
            $(#[test]
            fn $behaviour() {
                super::$behaviour(&super::MemoryStorage::new(), &super::MemoryStorage::new());
            })*
        }
        mod on_blocks {
            $(#[test]
            fn $behaviour() {
                let [here, there] = [1, 2].map(|_| super::on_blocks());
                super::$behaviour(&here, &there);
            })*
        }
        mod on_a_device {
            $(#[test]
            fn $behaviour() {
                let [here, there] = [1, 2].map(|_| super::on_a_device());
                super::$behaviour(&here, &there);
            })*
        }
        mod of_few_open_files {
            $(#[test]
            fn $behaviour() {
                let [here, there] = [1, 2].map(|_| {
                    super::FileCache::new(1).storage(super::Arc::new(super::MemoryStorage::new()))
                });
                super::$behaviour(&here, &there);
            })*
        }
        mod fault {
            $(#[test]
            fn $behaviour() {
                let [here, there] = [1, 2].map(|seed| super::FaultStorage::new(super::Rng::new(seed)));
                super::$behaviour(&here, &there);
            })*
        }
    };
}

conformance! {
    synced_bytes_are_read_back
    appends_of_every_size_keep_their_order
    a_writer_knows_its_length
    reading_past_the_end_is_corruption
    a_name_is_created_once
    a_missing_file_is_not_found
    bad_names_are_refused
    the_list_holds_all_names_and_no_lock
    a_removed_file_is_still_read_through_open_handles
    a_freed_part_is_zeros_or_as_before_and_the_rest_stays
    a_rename_replaces_its_target
    a_new_log_is_all_zeros
    a_log_in_steps_takes_what_is_prepared
    a_log_takes_bytes_again_where_it_gave_space_back
    log_writes_land_where_they_are_put
    log_writes_outside_the_log_fail_and_write_nothing
    a_recycled_log_keeps_its_bytes_and_takes_new_ones
    a_log_of_another_size_is_not_recycled
    a_log_is_not_recycled_over_a_file
    a_linked_file_outlives_its_source
    a_link_does_not_replace_a_file
    a_file_is_linked_into_another_kind_of_storage
    the_lock_is_held_once_and_released_on_drop
}

fn on_blocks() -> BlockStorage {
    BlockStorage::open(Arc::new(MemoryDevice::new(64 << 20)), &Threads).unwrap()
}

fn on_a_device() -> DeviceStorage<MemoryStorage> {
    let fastest = DeviceProfile::ALL[DeviceProfile::ALL.len() - 1];
    let device = Device::emulated(fastest, Arc::new(SystemClock::new()));
    DeviceStorage::new(MemoryStorage::new(), device)
}

fn write(storage: &dyn Storage, name: &str, bytes: &[u8]) {
    let mut file = storage.create(name, TABLE).unwrap();
    file.append(bytes).unwrap();
    file.sync().unwrap();
    storage.sync_names().unwrap();
}

fn read_all(file: &dyn ReadableFile) -> Vec<u8> {
    let mut bytes = vec![0; file.len().unwrap() as usize];
    file.read_exact_at(0, &mut bytes).unwrap();
    bytes
}

fn read(storage: &dyn Storage, name: &str) -> Vec<u8> {
    read_all(&*storage.open(name).unwrap())
}

fn kind<T>(result: esker_base::Result<T>) -> Option<ErrorKind> {
    result.err().expect("a failure").io_kind()
}

fn synced_bytes_are_read_back(storage: &dyn Storage, _: &dyn Storage) {
    write(storage, "a", b"0123456789");
    let file = storage.open("a").unwrap();
    assert_eq!((file.len().unwrap(), file.is_empty().unwrap(), file.name()), (10, false, "a"));
    file.read_ahead(0, 10);
    let mut out = [0; 4];
    file.read_exact_at(3, &mut out).unwrap();
    assert_eq!(&out, b"3456");
    file.read_exact_at(10, &mut []).unwrap();
}

fn appends_of_every_size_keep_their_order(storage: &dyn Storage, _: &dyn Storage) {
    let mut rng = Rng::new(5);
    let mut expected = Vec::new();
    let mut file = storage.create("a", TABLE).unwrap();
    for round in 0..60u32 {
        let mut bytes = vec![0; rng.below(1 << (round % 21)) as usize];
        rng.fill(&mut bytes);
        file.append(&bytes).unwrap();
        expected.extend_from_slice(&bytes);
        if round % 7 == 0 {
            file.sync().unwrap();
            assert!(read(storage, "a") == expected, "round {round}");
        }
        if round % 5 == 0 {
            file.start_writeback().unwrap();
        }
    }
    file.sync().unwrap();
    assert!(read(storage, "a") == expected);
}

fn a_writer_knows_its_length(storage: &dyn Storage, _: &dyn Storage) {
    let mut file = storage.create("a", TABLE).unwrap();
    assert!(file.is_empty());
    for (bytes, len) in [(3, 3), (300_000, 300_003), (0, 300_003), (600_000, 900_003)] {
        file.append(&vec![1; bytes]).unwrap();
        assert_eq!(file.len(), len);
    }
}

fn reading_past_the_end_is_corruption(storage: &dyn Storage, _: &dyn Storage) {
    write(storage, "a", b"0123456789");
    let file = storage.open("a").unwrap();
    for offset in [7, 10, 11, 1 << 40, i64::MAX as u64, u64::MAX] {
        match file.read_exact_at(offset, &mut [0; 4]).unwrap_err() {
            Error::Corruption { file, offset: at, .. } => {
                assert!(file.ends_with('a') && at == offset, "{file} {at}");
            }
            other => panic!("{other}"),
        }
    }
}

fn a_name_is_created_once(storage: &dyn Storage, _: &dyn Storage) {
    write(storage, "a", b"first");
    assert_eq!(kind(storage.create("a", TABLE)), Some(ErrorKind::AlreadyExists));
    assert_eq!(kind(storage.create_log("a", 10)), Some(ErrorKind::AlreadyExists));
    assert_eq!(read(storage, "a"), b"first");
}

fn a_missing_file_is_not_found(storage: &dyn Storage, other: &dyn Storage) {
    assert!(!storage.exists("a").unwrap());
    assert_eq!(kind(storage.open("a")), Some(ErrorKind::NotFound));
    assert_eq!(kind(storage.remove("a")), Some(ErrorKind::NotFound));
    assert_eq!(kind(storage.rename("a", "b")), Some(ErrorKind::NotFound));
    assert_eq!(kind(storage.recycle_log("a", "b", 10)), Some(ErrorKind::NotFound));
    assert_eq!(kind(storage.link_to("a", other)), Some(ErrorKind::NotFound));
    assert_eq!((storage.list().unwrap(), other.list().unwrap()), (vec![], vec![]));
}

fn bad_names_are_refused(storage: &dyn Storage, _: &dyn Storage) {
    write(storage, "a", b"");
    for bad in ["", "..", "x/y", "LOCK"] {
        let refused = Some(ErrorKind::InvalidInput);
        assert_eq!(kind(storage.create(bad, TABLE)), refused);
        assert_eq!(kind(storage.create_log(bad, 1)), refused);
        assert_eq!(kind(storage.open(bad)), refused);
        assert_eq!(kind(storage.exists(bad)), refused);
        assert_eq!(kind(storage.rename("a", bad)), refused);
        assert_eq!(kind(storage.remove(bad)), refused);
    }
}

fn the_list_holds_all_names_and_no_lock(storage: &dyn Storage, _: &dyn Storage) {
    let _lock = storage.lock().unwrap();
    write(storage, "a", b"1");
    drop(storage.create_log("b", 100).unwrap());
    drop(storage.create("c", WriteHint::of(FileKind::Meta)).unwrap());
    storage.remove("a").unwrap();
    let mut names = storage.list().unwrap();
    names.sort();
    assert_eq!(names, ["b", "c"]);
    assert!(storage.exists("c").unwrap() && !storage.exists("a").unwrap());
}

fn a_removed_file_is_still_read_through_open_handles(storage: &dyn Storage, _: &dyn Storage) {
    write(storage, "a", b"old");
    let file = storage.open("a").unwrap();
    storage.remove("a").unwrap();
    storage.sync_names().unwrap();
    write(storage, "a", b"another");
    assert_eq!(read_all(&*file), b"old");
}

fn a_freed_part_is_zeros_or_as_before_and_the_rest_stays(storage: &dyn Storage, _: &dyn Storage) {
    write(storage, "a", &[7; 40_000]);
    let freed = storage.free_part("a", 1_000..35_000);
    assert_eq!(freed > 0, storage.freed_block_bytes().is_some());
    let bytes = read(storage, "a");
    let zeros = bytes.iter().filter(|&&byte| byte == 0).count() as u64;
    assert_eq!((bytes.len(), zeros), (40_000, freed));
    let is_outside = |at: &usize| *at < 1_000 || *at >= 35_000;
    assert!((0..bytes.len()).filter(is_outside).all(|at| bytes[at] == 7));
    assert_eq!(storage.free_part("missing", 0..35_000), 0);
    assert_eq!(storage.free_part("a", 50_000..60_000), 0, "behind the end");
}

fn a_rename_replaces_its_target(storage: &dyn Storage, _: &dyn Storage) {
    write(storage, "a", b"new");
    write(storage, "b", b"old");
    let old = storage.open("b").unwrap();
    storage.rename("a", "b").unwrap();
    storage.sync_names().unwrap();
    assert_eq!(read(storage, "b"), b"new");
    assert_eq!(read_all(&*old), b"old");
    assert_eq!(storage.list().unwrap(), ["b"]);
}

fn a_new_log_is_all_zeros(storage: &dyn Storage, _: &dyn Storage) {
    for bytes in [0, 1, 4096, 3_000_000] {
        let name = format!("log-{bytes}");
        let log = storage.create_log(&name, bytes).unwrap();
        assert_eq!(log.name(), name);
        assert!(read(storage, &name) == vec![0; bytes as usize]);
    }
}

fn a_log_in_steps_takes_what_is_prepared(storage: &dyn Storage, _: &dyn Storage) {
    let log = storage.create_log_in_steps("log", 1 << 20, 8192).unwrap();
    assert!(read(storage, "log") == vec![0; 1 << 20]);
    log.write_at(4096, &[1; 4096]).unwrap();
    for (through, pace) in
        [(16 << 10, Pace::AheadOfSyncs), (40 << 10, Pace::Hurried), (1 << 20, Pace::AheadOfWrites)]
    {
        log.prepare(through, pace).unwrap();
        log.write_at(through - 100, &[2; 100]).unwrap();
        log.sync().unwrap();
    }
    let bytes = read(storage, "log");
    assert!(bytes[..4096] == [0; 4096] && bytes[4096..8192] == [1; 4096]);
    assert!(bytes[(40 << 10) - 100..40 << 10] == [2; 100] && bytes[(1 << 20) - 100..] == [2; 100]);
    assert_eq!(bytes.iter().filter(|&&byte| byte != 0).count(), 4096 + 300);
    assert!(storage.create_log_in_steps("log", 4096, 0).is_err(), "the name is taken");
}

fn log_writes_land_where_they_are_put(storage: &dyn Storage, _: &dyn Storage) {
    let log = storage.create_log("log", 10_000).unwrap();
    let mut expected = vec![0; 10_000];
    let mut rng = Rng::new(9);
    for _ in 0..100 {
        let start = rng.below(10_001) as usize;
        let end = start + rng.below(10_001 - start as u64) as usize;
        rng.fill(&mut expected[start..end]);
        log.write_at(start as u64, &expected[start..end]).unwrap();
    }
    assert!(read(storage, "log") == expected, "before the sync");
    log.sync().unwrap();
    assert!(read(storage, "log") == expected);
}

fn log_writes_outside_the_log_fail_and_write_nothing(storage: &dyn Storage, _: &dyn Storage) {
    let log = storage.create_log("log", 1000).unwrap();
    for offset in [997, 1000, 5000, u64::MAX - 1, u64::MAX] {
        assert_eq!(kind(log.write_at(offset, b"1234")), Some(ErrorKind::InvalidInput));
    }
    log.write_at(996, b"1234").unwrap();
    assert_eq!(read(storage, "log")[990..], *b"\0\0\0\0\0\x001234");
}

fn a_log_takes_bytes_again_where_it_gave_space_back(storage: &dyn Storage, _: &dyn Storage) {
    storage.create_log("old", 1 << 20).unwrap().write_at(0, &[3; 1 << 20]).unwrap();
    let log = storage.recycle_log("old", "log", 1 << 20).unwrap().expect("it can be recycled");
    log.write_at(0, &[1; 4096]).unwrap();
    // Some storages keep it.
    log.give_back(8192);
    log.write_at(4096, &[1; 4096]).unwrap();
    for through in [40 << 10, 1 << 20] {
        log.prepare(through, Pace::AheadOfSyncs).unwrap();
        log.write_at(through - 100, &[2; 100]).unwrap();
    }
    log.sync().unwrap();
    let bytes = read(storage, "log");
    assert!(bytes.len() == 1 << 20 && bytes[..8192] == [1; 8192]);
    assert!(bytes[(40 << 10) - 100..40 << 10] == [2; 100] && bytes[(1 << 20) - 100..] == [2; 100]);
    assert!(bytes[8192..].iter().all(|byte| [0, 2, 3].contains(byte)), "zeros, or as before");
}

fn a_recycled_log_keeps_its_bytes_and_takes_new_ones(storage: &dyn Storage, _: &dyn Storage) {
    let old = storage.create_log("log-1", 4096).unwrap();
    old.write_at(0, b"old bytes").unwrap();
    old.sync().unwrap();
    drop(old);
    let new = storage.recycle_log("log-1", "log-2", 4096).unwrap().expect("it can be recycled");
    assert_eq!(storage.list().unwrap(), ["log-2"]);
    assert_eq!(new.name(), "log-2");
    new.write_at(0, b"new").unwrap();
    new.sync().unwrap();
    assert_eq!(read(storage, "log-2")[..10], *b"new bytes\0");
}

fn a_log_of_another_size_is_not_recycled(storage: &dyn Storage, _: &dyn Storage) {
    drop(storage.create_log("log-1", 4096).unwrap());
    assert!(storage.recycle_log("log-1", "log-2", 8192).unwrap().is_none());
    assert_eq!(storage.list().unwrap(), ["log-1"]);
}

fn a_log_is_not_recycled_over_a_file(storage: &dyn Storage, _: &dyn Storage) {
    drop(storage.create_log("log-1", 4096).unwrap());
    write(storage, "log-2", b"in use");
    let refused = storage.recycle_log("log-1", "log-2", 4096);
    assert_eq!(kind(refused), Some(ErrorKind::AlreadyExists));
    assert_eq!(read(storage, "log-2"), b"in use");
}

fn a_linked_file_outlives_its_source(storage: &dyn Storage, other: &dyn Storage) {
    let bytes = vec![7; 3_000_000];
    write(storage, "a", &bytes);
    storage.link_to("a", other).unwrap();
    other.sync_names().unwrap();
    storage.remove("a").unwrap();
    assert!(read(other, "a") == bytes);
}

fn a_link_does_not_replace_a_file(storage: &dyn Storage, other: &dyn Storage) {
    write(storage, "a", b"mine");
    write(other, "a", b"theirs");
    assert_eq!(kind(storage.link_to("a", other)), Some(ErrorKind::AlreadyExists));
    assert_eq!(read(other, "a"), b"theirs");
}

fn a_file_is_linked_into_another_kind_of_storage(storage: &dyn Storage, _: &dyn Storage) {
    let directory = tempfile::tempdir().unwrap();
    let posix = PosixStorage::create(directory.path()).unwrap();
    let memory = MemoryStorage::new();
    write(storage, "a", b"travels");
    for other in [&posix as &dyn Storage, &memory] {
        storage.link_to("a", other).unwrap();
        assert_eq!(read(other, "a"), b"travels");
    }
}

fn the_lock_is_held_once_and_released_on_drop(storage: &dyn Storage, other: &dyn Storage) {
    let held = storage.lock().unwrap();
    match storage.lock().err() {
        Some(Error::Locked { dir, pid }) => {
            assert_eq!((dir, pid), (storage.describe(), std::process::id().to_string()));
        }
        other => panic!("{other:?}"),
    }
    drop(other.lock().unwrap());
    drop(held);
    drop(storage.lock().unwrap());
}

#[test]
fn a_log_is_charged_for_its_syncs_and_the_bytes_written_between_them() {
    let fastest = DeviceProfile::ALL[DeviceProfile::ALL.len() - 1];
    let device = Device::emulated(fastest, Arc::new(SystemClock::new()));
    let storage = DeviceStorage::new(MemoryStorage::new(), device.clone());
    let log = storage.create_log("log", 4096).unwrap();
    storage.create("table", TABLE).unwrap().sync().unwrap();
    assert_eq!(device.served().syncs, 0, "nothing but a log's sync costs anything");
    log.write_at(0, &[1; 100]).unwrap();
    log.write_at(100, &[2; 50]).unwrap();
    log.sync().unwrap();
    log.write_at(5000, &[1]).unwrap_err();
    drop(log);
    storage.open_log("log").unwrap().sync().unwrap();
    storage.recycle_log("log", "next", 4096).unwrap().unwrap().sync().unwrap();
    let served = device.served();
    assert_eq!((served.syncs, served.bytes), (3, 150));
    assert!(served.achieved_mean >= served.requested_mean);
}
