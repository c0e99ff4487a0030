//! A store in a file, with its threads.

use esker_api::{Kv, WriteBatch};
use esker_base::{Error, KeyspaceId, Rng, Threads, hash64};
use esker_hashstore::check::{check, scrub};
use esker_hashstore::device::FileDevice;
use esker_hashstore::partition::StoreCondition;
use esker_hashstore::repair::repair;
use esker_hashstore::{CreateSettings, HashStore, Unreadable, store_file};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

struct Place {
    directory: tempfile::TempDir,
}

impl Place {
    fn new(bytes: u64, partitions: u32) -> Self {
        Self::with(bytes, CreateSettings::default().partitions(partitions))
    }

    fn with(bytes: u64, settings: CreateSettings) -> Self {
        let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let place = Place { directory };
        HashStore::create(&place.path(), Some(bytes), &settings, &mut Rng::new(1)).unwrap();
        place
    }

    fn path(&self) -> PathBuf {
        self.directory.path().join("store")
    }

    fn open(&self) -> HashStore {
        HashStore::open(&self.path(), &Threads).unwrap()
    }
}

fn value(number: u32) -> Vec<u8> {
    let mut value = vec![0; (number * 37 % 9000) as usize];
    Rng::new(u64::from(number)).fill(&mut value);
    value
}

#[test]
fn what_is_stored_is_there_until_it_is_deleted() {
    let place = Place::new(8 << 20, 4);
    let store = place.open();
    assert_eq!(store.get(b"k").unwrap(), None);
    store.put(b"k", b"one").unwrap();
    store.put(b"k", b"two").unwrap();
    store.put(b"empty", b"").unwrap();
    assert_eq!(store.get(b"k").unwrap().unwrap(), b"two");
    assert_eq!(store.get(b"empty").unwrap().unwrap(), b"");
    assert!(store.exists(b"k").unwrap() && !store.exists(b"j").unwrap());
    assert!(store.remove(b"k").unwrap() && !store.remove(b"k").unwrap());
    assert_eq!(store.get(b"k").unwrap(), None);
}

#[test]
fn a_store_may_be_on_a_condition() {
    let place = Place::new(8 << 20, 2);
    let store = place.open();
    assert!(!store.store(b"k", b"1", StoreCondition::IfPresent).unwrap());
    assert!(store.store(b"k", b"2", StoreCondition::IfAbsent).unwrap());
    assert!(!store.store(b"k", b"3", StoreCondition::IfAbsent).unwrap());
    assert!(store.store(b"k", b"4", StoreCondition::IfPresent).unwrap());
    assert_eq!(store.get(b"k").unwrap().unwrap(), b"4");
}

/// Every third of a thousand keys is deleted.
fn expect_all_but_thirds(store: &HashStore) {
    for number in 0..1000u32 {
        let expected = (number % 3 != 0).then(|| value(number));
        let found = store.get(&number.to_le_bytes()).unwrap();
        assert_eq!(found.as_deref(), expected.as_deref(), "{number}");
    }
}

#[test]
fn a_store_that_is_opened_again_is_the_same() {
    let place = Place::new(16 << 20, 4);
    let store = place.open();
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let store = &store;
            scope.spawn(move || {
                for number in (0..1000u32).filter(|number| number % 8 == thread) {
                    store.put(&number.to_le_bytes(), &value(number)).unwrap();
                    if number % 3 == 0 {
                        store.delete(&number.to_le_bytes()).unwrap();
                    }
                }
            });
        }
    });
    expect_all_but_thirds(&store);
    let stats = store.stats().unwrap();
    assert_eq!((stats.keys, stats.changes), (666, 1334));
    assert!(stats.syncs < 1334 + 4 * stats.checkpoints, "writers share syncs");
    store.close().unwrap();
    let store = place.open();
    assert_eq!((store.opened().keys, store.opened().replayed), (666, 0));
    expect_all_but_thirds(&store);
}

#[test]
fn several_values_are_read_at_once() {
    let place = Place::new(8 << 20, 4);
    let store = place.open();
    for number in 0..100u32 {
        store.put(&number.to_le_bytes(), &value(number)).unwrap();
    }
    let keys: Vec<_> = (50..150u32).map(u32::to_le_bytes).collect();
    let keys: Vec<_> = keys.iter().map(|key| &key[..]).collect();
    for (number, found) in (50..).zip(store.multi_get(&keys).unwrap()) {
        assert_eq!(found.is_some(), number < 100);
        assert!(found.is_none_or(|found| found == value(number)[..]));
    }
}

#[test]
fn a_list_can_be_resumed_and_is_in_order_of_hash_and_key() {
    let place = Place::new(8 << 20, 4);
    let store = place.open();
    let mut expected: Vec<Vec<u8>> = (0..300u32).map(|n| n.to_le_bytes().to_vec()).collect();
    for key in &expected {
        store.put(key, b"").unwrap();
    }
    expected.sort_by_key(|key| (hash64(key), key.clone()));
    for page in [1, 7, 300, 1000, usize::MAX] {
        let mut listed: Vec<Vec<u8>> = Vec::new();
        loop {
            let next = store.list(listed.last().map(|key| &key[..]), page).unwrap();
            if next.is_empty() {
                break;
            }
            assert!(next.len() <= page);
            listed.extend(next);
        }
        assert_eq!(listed, expected, "pages of {page}");
    }
    // The key that was listed last may be gone meanwhile.
    store.delete(&expected[99]).unwrap();
    assert_eq!(store.list(Some(&expected[99]), 2).unwrap(), expected[100..102]);
}

#[test]
fn keys_may_be_long() {
    let place = Place::with(8 << 20, CreateSettings::default().bytes_a_key(512).partitions(1));
    let store = place.open();
    for bytes in [1, 16, 17, 500, 65_536] {
        store.put(&vec![7; bytes], &value(bytes as u32)).unwrap();
    }
    store.close().unwrap();
    let store = place.open();
    for bytes in [1, 16, 17, 500, 65_536] {
        assert_eq!(store.get(&vec![7; bytes]).unwrap().unwrap(), value(bytes as u32)[..]);
    }
    assert!(matches!(store.put(&vec![7; 65_537], b""), Err(Error::KeyTooLong { bytes: 65_537 })));
    assert!(matches!(store.put(b"", b""), Err(Error::EmptyKey)));
}

#[test]
fn what_a_hash_store_cannot_do_is_refused() {
    let place = Place::new(8 << 20, 1);
    let store = place.open();
    let mut batch = WriteBatch::new();
    batch.put(KeyspaceId::DEFAULT, b"a", b"1");
    batch.put(KeyspaceId::DEFAULT, b"b", b"2");
    let refused = store.write(&batch).unwrap_err();
    assert!(refused.to_string().contains("write them one by one"), "{refused}");
    let mut batch = WriteBatch::new();
    batch.put(KeyspaceId::DEFAULT, b"", b"1");
    assert!(matches!(store.write(&batch), Err(Error::EmptyKey)));
    let refused = store.put(b"k", &vec![0; 4 << 20]).unwrap_err();
    assert!(matches!(refused, Error::ValueTooLong { .. }), "{refused}");
    assert_eq!(store.stats().unwrap().keys, 0);
}

#[test]
fn a_store_that_cannot_be_is_refused() {
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    for (at, (bytes, partitions)) in
        [(100_000, 1), (8 << 20, 3), (8 << 20, 0), (8 << 20, 128), (8 << 20, 64)]
            .into_iter()
            .enumerate()
    {
        let settings = CreateSettings::default().partitions(partitions);
        let path = directory.path().join(at.to_string());
        let created = HashStore::create(&path, Some(bytes), &settings, &mut Rng::new(1));
        assert!(matches!(created, Err(Error::InvalidSetting { .. })), "{partitions}: {created:?}");
    }
}

#[test]
fn a_store_is_opened_once_at_a_time() {
    let place = Place::new(8 << 20, 1);
    let store = place.open();
    let second = HashStore::open(&place.path(), &Threads).map(drop);
    let own = std::process::id().to_string();
    assert!(matches!(&second, Err(Error::Locked { pid, .. }) if *pid == own), "{second:?}");
    drop(store);
    place.open();
}

/// What another process does that makes a store on the same new path: this one leaves its file alone.
#[test]
fn a_file_that_somebody_else_fills_is_left_alone() {
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let (path, partial) = (directory.path().join("store"), directory.path().join("store.partial"));
    std::fs::write(&partial, b"theirs").unwrap();
    let theirs = std::fs::File::open(&partial).unwrap();
    theirs.lock().unwrap();
    let created = FileDevice::create(&path, Some(1 << 20)).map(drop);
    let own = std::process::id().to_string();
    assert!(matches!(&created, Err(Error::Locked { pid, .. }) if *pid == own), "{created:?}");
    assert_eq!(std::fs::read(&partial).unwrap(), b"theirs");
    assert!(!path.exists());
}

#[test]
fn a_file_that_somebody_else_has_filled_is_left_alone() {
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let (path, partial) = (directory.path().join("store"), directory.path().join("store.partial"));
    std::fs::write(&partial, b"theirs").unwrap();
    std::fs::hard_link(&partial, directory.path().join("served")).unwrap();
    let created = FileDevice::create(&path, Some(1 << 20)).map(drop);
    assert!(created.unwrap_err().to_string().contains("exists"));
    assert_eq!(std::fs::read(&partial).unwrap(), b"theirs");
    assert!(!path.exists());
}

#[test]
fn what_is_left_of_a_process_that_died_is_filled_anew() {
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let (path, partial) = (directory.path().join("store"), directory.path().join("store.partial"));
    std::fs::write(&partial, vec![7; 3 << 20]).unwrap();
    let device = FileDevice::create(&path, Some(2 << 20)).unwrap();
    assert!(!partial.exists());
    assert!(std::fs::read(&path).unwrap() == vec![0; 2 << 20]);
    let second = FileDevice::open(&path).map(drop);
    assert!(matches!(second, Err(Error::Locked { .. })), "{second:?}");
    drop(device);
}

#[test]
fn a_file_has_no_name_before_there_is_a_store_in_it() {
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let path = directory.path().join("store");
    let names = || std::fs::read_dir(directory.path()).unwrap().count();
    let create = |fails: bool| {
        FileDevice::create_with(&path, Some(1 << 20), |device| {
            let created = store_file::create(device, &CreateSettings::default(), &mut Rng::new(1));
            assert!(created.is_ok() && !path.exists());
            if fails { Err(Error::Closed) } else { Ok(()) }
        })
    };
    assert!(matches!(create(true), Err(Error::Closed)));
    assert_eq!(names(), 0);
    drop(create(false).unwrap());
    assert_eq!(names(), 1);
    HashStore::open(&path, &Threads).unwrap();
}

#[test]
fn what_is_no_store_is_refused() {
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let path = directory.path().join("other");
    for bytes in [0, 100, 8 << 20] {
        std::fs::write(&path, vec![7; bytes]).unwrap();
        let opened = HashStore::open(&path, &Threads).map(drop);
        assert!(matches!(opened, Err(Error::NotADatabase { .. })), "{opened:?}");
    }
}

#[test]
fn damage_to_a_value_is_never_returned_and_scrub_says_where_it_is() {
    let place = Place::new(8 << 20, 2);
    let store = place.open();
    let wanted = vec![0xa5; 3000];
    store.put(b"damaged", &wanted).unwrap();
    store.put(b"sound", &wanted).unwrap();
    store.close().unwrap();
    let bytes = std::fs::read(place.path()).unwrap();
    let key_at = bytes.windows(13).position(|bytes| bytes == b"damaged\xa5\xa5\xa5\xa5\xa5\xa5");
    let at = key_at.unwrap() as u64 + 1000;
    let file = std::fs::File::options().write(true).open(place.path()).unwrap();
    file.write_all_at(&[0xa4], at).unwrap();
    drop(file);
    let device = FileDevice::open(&place.path()).unwrap();
    assert!(check(&device).unwrap().problems.is_empty());
    let report = scrub(&device).unwrap();
    assert_eq!((report.keys, report.sound_values), (2, 1));
    let [Error::HashStoreDamaged { offset, what, .. }] = &report.problems[..] else {
        panic!("{:?}", report.problems);
    };
    assert!(*offset <= at && at < offset + 3584 && what.contains("key damaged"), "{what}");
    drop(device);
    let store = place.open();
    let read = store.get(b"damaged");
    assert!(matches!(&read, Err(error) if error.is_corruption()), "{read:?}");
    assert_eq!(store.get(b"sound").unwrap().unwrap(), wanted[..]);
    // It can be stored again.
    store.put(b"damaged", &wanted).unwrap();
    assert_eq!(store.get(b"damaged").unwrap().unwrap(), wanted[..]);
}

#[test]
fn one_copy_of_the_superblock_is_enough() {
    let place = Place::new(8 << 20, 2);
    place.open().put(b"k", b"v").unwrap();
    let file = std::fs::File::options().write(true).open(place.path()).unwrap();
    file.write_all_at(&[0; 4096], 0).unwrap();
    assert_eq!(place.open().get(b"k").unwrap().unwrap(), b"v");
    file.write_all_at(&[1], 4096 + 60).unwrap();
    let opened = HashStore::open(&place.path(), &Threads).map(drop);
    assert!(opened.is_err_and(|error| error.is_corruption()));
}

/// A store of many values, and the bytes that it has.
fn filled(place: &Place) -> HashStore {
    let store = place.open();
    (0..300).for_each(|number| store.put(&key(number), &value(number)).unwrap());
    store
}

fn key(number: u32) -> Vec<u8> {
    format!("key {number}").into_bytes()
}

fn shorten(place: &Place, bytes: u64) {
    std::fs::File::options().write(true).open(place.path()).unwrap().set_len(bytes).unwrap();
}

#[test]
fn a_file_that_is_shortened_or_removed_while_it_is_open_fails_the_next_write_by_name() {
    for is_removed in [false, true] {
        let place = Place::new(8 << 20, 2);
        let store = filled(&place);
        match is_removed {
            true => std::fs::remove_file(place.path()).unwrap(),
            false => shorten(&place, 5 << 20),
        }
        let what =
            if is_removed { "removed while in use" } else { "from 8388608 to 5242880 bytes" };
        // One of each partition at least.
        let failed = (0..20).filter_map(|number| store.put(&key(number), &value(1)).err());
        let failed: Vec<String> = failed.map(|error| error.to_string()).collect();
        assert_eq!(failed.len(), 20);
        assert!(failed.iter().all(|error| error.contains(what)), "{failed:?}");
        assert!(failed[0].contains(place.path().to_str().unwrap()), "{}", failed[0]);
        assert!(store.close().is_err());
    }
}

#[test]
fn of_a_file_that_was_shortened_a_repair_keeps_what_is_left() {
    let place = Place::new(8 << 20, 2);
    filled(&place).close().unwrap();
    shorten(&place, 5 << 20);
    let refused = HashStore::open(&place.path(), &Threads).map(drop).unwrap_err().to_string();
    assert!(refused.contains("8388608 bytes and has 5242880"), "{refused}");
    assert!(refused.contains("esker hash repair"), "{refused}");
    let mut device = FileDevice::open(&place.path()).unwrap();
    for report in [check(&device).unwrap(), scrub(&device).unwrap()] {
        assert!(!report.problems.is_empty());
    }
    let sound = scrub(&device).unwrap().sound_values;
    assert!(repair(&device, Unreadable::Fail).is_err());
    device.lengthen(8 << 20).unwrap();
    let repaired = repair(&device, Unreadable::Fail).unwrap();
    assert!(repaired.keys >= sound && sound > 50, "{repaired:?}, {sound}");
    assert!(scrub(&device).unwrap().problems.is_empty());
    drop(device);
    let store = place.open();
    let found = (0..300).filter_map(|number| Some((number, store.get(&key(number)).unwrap()?)));
    let found: Vec<_> = found.collect();
    assert_eq!(found.len() as u64, repaired.keys);
    assert!(found.iter().all(|(number, found)| **found == value(*number)[..]));
    store.put(b"another", &value(7)).unwrap();
    store.close().unwrap();
}
