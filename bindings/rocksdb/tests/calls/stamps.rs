//! Column families whose keys have timestamps, against a model.

use crate::c::*;
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::ffi::{CString, c_char, c_int, c_uchar};
use std::ptr::{null, null_mut};
use tempfile::TempDir;

extern "C" fn name(_: P) -> B {
    c"stamped".as_ptr()
}

fn sign(order: Ordering) -> c_int {
    order as c_int
}

fn number(bytes: &[u8]) -> u64 {
    u64::from_le_bytes(bytes.try_into().unwrap())
}

extern "C" fn by_number(_: P, a: B, a_length: usize, b: B, b_length: usize) -> c_int {
    sign(number(&lent(a, a_length)).cmp(&number(&lent(b, b_length))))
}

/// Sorts by the keys, and then the larger timestamp first.
fn compare(is_reverse: bool, a: &[u8], b: &[u8]) -> c_int {
    let ((a, one), (b, other)) = (a.split_at(a.len() - 8), b.split_at(b.len() - 8));
    let order = if is_reverse { b.cmp(a) } else { a.cmp(b) };
    sign(order.then(number(other).cmp(&number(one))))
}

fn compare_without(
    is_reverse: bool,
    a: Vec<u8>,
    a_has: c_uchar,
    b: Vec<u8>,
    b_has: c_uchar,
) -> c_int {
    let cut = |key: Vec<u8>, has: c_uchar| key[..key.len() - 8 * usize::from(has)].to_vec();
    let (a, b) = (cut(a, a_has), cut(b, b_has));
    sign(if is_reverse { b.cmp(&a) } else { a.cmp(&b) })
}

extern "C" fn up(_: P, a: B, a_length: usize, b: B, b_length: usize) -> c_int {
    compare(false, &lent(a, a_length), &lent(b, b_length))
}

extern "C" fn down(_: P, a: B, a_length: usize, b: B, b_length: usize) -> c_int {
    compare(true, &lent(a, a_length), &lent(b, b_length))
}

extern "C" fn up_without(
    _: P,
    a: B,
    a_length: usize,
    a_has: c_uchar,
    b: B,
    b_length: usize,
    b_has: c_uchar,
) -> c_int {
    compare_without(false, lent(a, a_length), a_has, lent(b, b_length), b_has)
}

extern "C" fn down_without(
    _: P,
    a: B,
    a_length: usize,
    a_has: c_uchar,
    b: B,
    b_length: usize,
    b_has: c_uchar,
) -> c_int {
    compare_without(true, lent(a, a_length), a_has, lent(b, b_length), b_has)
}

/// Sorts keys by their lengths first.
extern "C" fn by_length(
    _: P,
    _: B,
    a_length: usize,
    a_has: c_uchar,
    _: B,
    b_length: usize,
    b_has: c_uchar,
) -> c_int {
    let length = |length: usize, has: c_uchar| length - 8 * usize::from(has);
    sign(length(a_length, a_has).cmp(&length(b_length, b_has)))
}

/// Options for keys with timestamps.
pub fn stamped_options(is_reverse: bool) -> P {
    let (order, without): (Compare, CompareWithoutStamps) =
        if is_reverse { (down, down_without) } else { (up, up_without) };
    let options = rocksdb_options_create();
    rocksdb_options_set_create_if_missing(options, 1);
    let null = null_mut();
    let order = rocksdb_comparator_with_ts_create(null, null, order, by_number, without, name, 8);
    rocksdb_options_set_comparator(options, order);
    rocksdb_comparator_destroy(order);
    options
}

/// A database whose keys have timestamps.
pub struct Stamped {
    pub options: P,
    pub read: P,
    pub write: P,
    pub db: P,
    pub dir: TempDir,
}

impl Stamped {
    pub fn new(is_reverse: bool) -> Self {
        let (options, dir) = (stamped_options(is_reverse), tempfile::tempdir().unwrap());
        let (read, write) = (rocksdb_readoptions_create(), rocksdb_writeoptions_create());
        let mut stamped = Stamped { options, read, write, db: null_mut(), dir };
        stamped.reopen();
        stamped
    }

    pub fn path(&self) -> CString {
        path(&self.dir.path().join("db"))
    }

    pub fn reopen(&mut self) {
        rocksdb_close(self.db);
        let path = self.path();
        self.db = with_error(|error| rocksdb_open(self.options, path.as_ptr(), error)).unwrap();
    }

    pub fn put(&self, key: &[u8], stamp: &[u8], value: &[u8]) -> Result<(), String> {
        let (stamp, stamp_length) = (start(stamp), stamp.len());
        let (value, length) = (start(value), value.len());
        with_error(|error| {
            let (db, write) = (self.db, self.write);
            rocksdb_put_with_ts(
                db,
                write,
                start(key),
                key.len(),
                stamp,
                stamp_length,
                value,
                length,
                error,
            );
        })
    }

    pub fn delete(&self, key: &[u8], stamp: u64) {
        let stamp = stamp.to_le_bytes();
        with_error(|error| {
            let (db, write) = (self.db, self.write);
            rocksdb_delete_with_ts(db, write, start(key), key.len(), start(&stamp), 8, error);
        })
        .unwrap();
    }

    /// The value of a key at a timestamp, with its own.
    pub fn get(&self, key: &[u8], stamp: u64) -> Result<Option<(Vec<u8>, u64)>, String> {
        let stamp = stamp.to_le_bytes();
        rocksdb_readoptions_set_timestamp(self.read, start(&stamp), 8);
        let (mut length, mut stamp_length) = (0, 0);
        let mut found: *mut c_char = null_mut();
        let value = with_error(|error| {
            let (db, read) = (self.db, self.read);
            let (key, key_length) = (start(key), key.len());
            rocksdb_get_with_ts(
                db,
                read,
                key,
                key_length,
                &mut length,
                &mut found,
                &mut stamp_length,
                error,
            )
        })?;
        let found = taken(found, stamp_length);
        Ok(taken(value, length).map(|value| (value, number(&found.unwrap()))))
    }

    pub fn flush(&self) {
        let options = rocksdb_flushoptions_create();
        with_error(|error| rocksdb_flush(self.db, options, error)).unwrap();
        rocksdb_flushoptions_destroy(options);
    }

    /// Compacts with `low` as the lowest timestamp that may be read.
    pub fn compact(&self, low: u64) {
        let options = rocksdb_compactoptions_create();
        let low = low.to_le_bytes();
        rocksdb_compactoptions_set_full_history_ts_low(options, start(&low), 8);
        rocksdb_compact_range_opt(self.db, options, null(), 0, null(), 0);
        rocksdb_compactoptions_destroy(options);
    }

    pub fn low(&self) -> Vec<u8> {
        let family = rocksdb_get_default_column_family_handle(self.db);
        let mut length = 0;
        let call = rocksdb_get_full_history_ts_low;
        let low = with_error(|error| call(self.db, family, &mut length, error)).unwrap();
        rocksdb_column_family_handle_destroy(family);
        taken(low, length).unwrap()
    }

    pub fn raise(&self, low: &[u8]) -> Result<(), String> {
        let family = rocksdb_get_default_column_family_handle(self.db);
        let call = rocksdb_increase_full_history_ts_low;
        let raised = with_error(|error| call(self.db, family, start(low), low.len(), error));
        rocksdb_column_family_handle_destroy(family);
        raised
    }

    /// All versions with timestamps within the limits.
    pub fn versions(&self, since: u64, at: u64) -> Vec<Entry> {
        let (since, at) = (since.to_le_bytes(), at.to_le_bytes());
        let read = rocksdb_readoptions_create();
        rocksdb_readoptions_set_timestamp(read, start(&at), 8);
        rocksdb_readoptions_set_iter_start_ts(read, start(&since), 8);
        let iterator = rocksdb_create_iterator(self.db, read);
        rocksdb_iter_seek_to_first(iterator);
        let all = entries(iterator, rocksdb_iter_next);
        rocksdb_iter_seek_to_last(iterator);
        let mut back = entries(iterator, rocksdb_iter_prev);
        back.reverse();
        assert_eq!(all, back);
        rocksdb_iter_destroy(iterator);
        rocksdb_readoptions_destroy(read);
        all
    }
}

impl Drop for Stamped {
    fn drop(&mut self) {
        rocksdb_close(self.db);
        rocksdb_readoptions_destroy(self.read);
        rocksdb_writeoptions_destroy(self.write);
        rocksdb_options_destroy(self.options);
    }
}

/// Key, value and timestamp.
type Entry = (Vec<u8>, Vec<u8>, u64);

fn entry(iterator: P) -> Option<Entry> {
    if rocksdb_iter_valid(iterator) == 0 {
        return None;
    }
    let mut length = 0;
    let stamp = rocksdb_iter_timestamp(iterator, &mut length);
    let stamp = number(&lent(stamp, length));
    let value = rocksdb_iter_value(iterator, &mut length);
    Some((key_of(iterator), lent(value, length), stamp))
}

fn entries(iterator: P, step: extern "C" fn(P)) -> Vec<Entry> {
    let mut all = Vec::new();
    while let Some(entry) = entry(iterator) {
        all.push(entry);
        step(iterator);
    }
    with_error(|error| rocksdb_iter_get_error(iterator, error)).unwrap();
    all
}

/// All versions, by key and timestamp. `None` is a delete.
#[derive(Default)]
struct Model {
    versions: BTreeMap<(Vec<u8>, u64), Option<Vec<u8>>>,
}

impl Model {
    fn get(&self, key: &[u8], at: u64) -> Option<(Vec<u8>, u64)> {
        let mut up_to = self.versions.range((key.to_vec(), 0)..=(key.to_vec(), at));
        let ((_, stamp), value) = up_to.next_back()?;
        value.clone().map(|value| (value, *stamp))
    }

    /// What an iterator shows, in its order.
    fn all(&self, keys: &[Vec<u8>], at: u64) -> Vec<Entry> {
        let entry =
            |key: &Vec<u8>| self.get(key, at).map(|(value, stamp)| (key.clone(), value, stamp));
        keys.iter().filter_map(entry).collect()
    }

    /// What an iterator over all versions shows, in its order.
    fn internal(&self, keys: &[Vec<u8>], since: u64, at: u64) -> Vec<Entry> {
        let of_key = |key: &Vec<u8>| {
            let range = (key.clone(), since)..=(key.clone(), at);
            let version = |((key, stamp), value): (&(Vec<u8>, u64), &Option<Vec<u8>>)| {
                let kind = if value.is_some() { 1 } else { 0x14 };
                let key = [&key[..], &stamp.to_le_bytes(), &[kind], &[0; 7]].concat();
                (key, value.clone().unwrap_or_default(), *stamp)
            };
            self.versions.range(range).rev().map(version).collect::<Vec<_>>()
        };
        keys.iter().flat_map(of_key).collect()
    }
}

/// Compares iterators at `at`, with bounds and seeks, with the model. `keys` are sorted.
fn check_iterators(stamped: &Stamped, model: &Model, keys: &[Vec<u8>], at: u64, random: &mut u64) {
    let expected = model.all(keys, at);
    let (low, high) = {
        let one = draw(random, keys.len());
        let other = draw(random, keys.len());
        (one.min(other), one.max(other))
    };
    for (low, high) in [(0, keys.len()), (low, high)] {
        let stamp = at.to_le_bytes();
        let read = rocksdb_readoptions_create();
        rocksdb_readoptions_set_timestamp(read, start(&stamp), 8);
        if high < keys.len() {
            let (first, end) = (&keys[low], &keys[high]);
            rocksdb_readoptions_set_iterate_lower_bound(read, start(first), first.len());
            rocksdb_readoptions_set_iterate_upper_bound(read, start(end), end.len());
        }
        let within = &keys[low..high];
        let expected: Vec<_> =
            expected.iter().filter(|entry| within.contains(&entry.0)).cloned().collect();
        let iterator = rocksdb_create_iterator(stamped.db, read);
        rocksdb_iter_seek_to_first(iterator);
        assert_eq!(entries(iterator, rocksdb_iter_next), expected);
        rocksdb_iter_seek_to_last(iterator);
        let mut back = entries(iterator, rocksdb_iter_prev);
        back.reverse();
        assert_eq!(back, expected);
        for target in within {
            let place = |key: &Vec<u8>| keys.iter().position(|it| it == key).unwrap();
            let after = expected.iter().find(|it| place(&it.0) >= place(target));
            rocksdb_iter_seek(iterator, start(target), target.len());
            assert_eq!(entry(iterator).as_ref(), after, "seek {target:?} at {at}");
            // A step back, and forth again.
            rocksdb_iter_prev(iterator);
            let before = expected.iter().rfind(|it| place(&it.0) < place(target));
            let before = before.filter(|_| after.is_some());
            assert_eq!(entry(iterator).as_ref(), before, "prev from {target:?} at {at}");
            rocksdb_iter_next(iterator);
            assert_eq!(entry(iterator).as_ref(), after.filter(|_| before.is_some()));
            let before = expected.iter().rfind(|it| place(&it.0) <= place(target));
            rocksdb_iter_seek_for_prev(iterator, start(target), target.len());
            assert_eq!(entry(iterator).as_ref(), before, "seek_for_prev {target:?} at {at}");
        }
        rocksdb_iter_destroy(iterator);
        rocksdb_readoptions_destroy(read);
    }
}

/// A number below `end`, the same in each run.
fn draw(random: &mut u64, end: usize) -> usize {
    *random =
        random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    ((*random >> 33) % end as u64) as usize
}

fn check(stamped: &Stamped, model: &Model, keys: &[Vec<u8>], stamps: &[u64], random: &mut u64) {
    for &at in stamps {
        for key in keys {
            assert_eq!(stamped.get(key, at).unwrap(), model.get(key, at), "{key:?} at {at}");
        }
        check_iterators(stamped, model, keys, at, random);
    }
}

#[test]
fn reads_at_timestamps_agree_with_a_model() {
    for is_reverse in [false, true] {
        let mut stamped = Stamped::new(is_reverse);
        let (mut model, mut random) = (Model::default(), 7);
        let mut keys: Vec<Vec<u8>> = vec![Vec::new()];
        for first in [0, 1, b'a', 0xff] {
            keys.extend([vec![first], vec![first, 0], vec![first, 0xff], vec![first, 0, 1]]);
        }
        keys.sort();
        if is_reverse {
            keys.reverse();
        }
        let stamps = [0, 1, 255, 256, 70_000, u64::MAX];
        for round in 0..3 {
            for _ in 0..60 {
                let key = keys[draw(&mut random, keys.len())].clone();
                let stamp = stamps[draw(&mut random, stamps.len())];
                let value = vec![b'v'; draw(&mut random, 3)];
                let is_delete = draw(&mut random, 4) == 0;
                match is_delete {
                    true => stamped.delete(&key, stamp),
                    false => stamped.put(&key, &stamp.to_le_bytes(), &value).unwrap(),
                }
                model.versions.insert((key, stamp), (!is_delete).then_some(value));
            }
            check(&stamped, &model, &keys, &stamps, &mut random);
            match round {
                0 => stamped.flush(),
                1 => stamped.reopen(),
                _ => {}
            }
        }
        for (since, at) in [(0, u64::MAX), (1, 256), (255, 255), (2, 254), (256, 1)] {
            let expected = if since > at { Vec::new() } else { model.internal(&keys, since, at) };
            assert_eq!(stamped.versions(since, at), expected, "{since} to {at}");
        }
        stamped.compact(255);
        assert_eq!(stamped.low(), 255_u64.to_le_bytes());
        check(&stamped, &model, &keys, &[255, 256, 70_000, u64::MAX], &mut random);
        // Of each key the newest version up to 255 is left, and none if that says deleted, unless an
        // iterator over all versions since 255 shows it.
        let base = |key: &Vec<u8>, stamp: u64| model.get(key, 255).is_some_and(|it| it.1 == stamp);
        let left: BTreeMap<_, _> = model
            .versions
            .iter()
            .filter(|((key, stamp), _)| *stamp >= 255 || base(key, *stamp))
            .map(|(version, value)| (version.clone(), value.clone()))
            .collect();
        assert!(left.len() < model.versions.len());
        let left = Model { versions: left };
        assert_eq!(stamped.versions(0, u64::MAX), left.internal(&keys, 0, u64::MAX));
    }
}

#[test]
fn history_below_the_lowest_timestamp_is_refused() {
    let mut stamped = Stamped::new(false);
    stamped.put(b"k", &1_u64.to_le_bytes(), b"old").unwrap();
    stamped.put(b"k", &2_u64.to_le_bytes(), b"new").unwrap();
    assert_eq!(stamped.low(), b"");
    stamped.raise(&2_u64.to_le_bytes()).unwrap();
    let error = stamped.raise(&1_u64.to_le_bytes()).unwrap_err();
    assert!(error.contains("is higher than provided ts: 1"), "{error}");
    assert!(stamped.raise(b"short").unwrap_err().starts_with("Invalid argument: "));
    stamped.raise(&2_u64.to_le_bytes()).unwrap();
    for _ in 0..2 {
        let error = stamped.get(b"k", 1).unwrap_err();
        assert!(error.contains("is smaller than full_history_ts_low: 2"), "{error}");
        assert_eq!(stamped.get(b"k", 2).unwrap(), Some((b"new".to_vec(), 2)));
        let iterator = rocksdb_create_iterator(stamped.db, {
            rocksdb_readoptions_set_timestamp(stamped.read, start(&1_u64.to_le_bytes()), 8);
            stamped.read
        });
        rocksdb_iter_seek_to_first(iterator);
        assert_eq!(rocksdb_iter_valid(iterator), 0);
        assert!(with_error(|error| rocksdb_iter_get_error(iterator, error)).is_err());
        rocksdb_iter_destroy(iterator);
        stamped.reopen();
    }
}

#[test]
fn a_database_with_timestamps_is_opened_with_its_comparator_only() {
    let mut stamped = Stamped::new(false);
    rocksdb_close(std::mem::replace(&mut stamped.db, null_mut()));
    let path = stamped.path();
    let plain = rocksdb_options_create();
    let reverse = stamped_options(true);
    for options in [plain, reverse] {
        let error = with_error(|error| rocksdb_open(options, path.as_ptr(), error)).unwrap_err();
        assert!(error.starts_with("Invalid argument: "), "{error}");
    }
    let store = crate::Store::new(|_| {});
    let name = c"stamped".as_ptr();
    let call = rocksdb_create_column_family;
    let family = with_error(|error| call(store.db, stamped.options, name, error)).unwrap();
    let (key, value) = (start(b"k"), start(b"v"));
    let put = |error| rocksdb_put_cf(store.db, store.write, family, key, 1, value, 1, error);
    let error = with_error(put).unwrap_err();
    assert!(error.contains("stamped that enables timestamp"), "{error}");
    rocksdb_column_family_handle_destroy(family);
    rocksdb_options_destroy(plain);
    rocksdb_options_destroy(reverse);
    stamped.reopen();
}

#[test]
fn other_orders_with_timestamps_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = path(&dir.path().join("db"));
    let null = null_mut();
    let create = rocksdb_comparator_with_ts_create;
    let orders = [
        create(null, null, up, by_number, by_length, name, 8),
        create(null, null, up, by_number, down_without, name, 8),
        create(null, null, up, by_number, up_without, name, 4),
    ];
    for order in orders {
        let options = rocksdb_options_create();
        rocksdb_options_set_create_if_missing(options, 1);
        rocksdb_options_set_comparator(options, order);
        let error = with_error(|error| rocksdb_open(options, path.as_ptr(), error)).unwrap_err();
        assert!(error.starts_with("Not implemented: comparator \"stamped\""), "{error}");
        rocksdb_comparator_destroy(order);
        rocksdb_options_destroy(options);
    }
}

/// A write of a version that a compaction is about to delete is there afterwards, whichever is first.
#[test]
fn a_write_while_versions_are_trimmed_is_kept() {
    const KEYS: u32 = 6_000;
    const LOW: u64 = 10;
    // The library may be called by several threads, and `Stamped` has pointers to it alone.
    struct Shared(Stamped);
    // SAFETY: a database may be used by several threads, as `c.h` says.
    unsafe impl Sync for Shared {}
    impl Shared {
        fn compact(&self) {
            self.0.compact(LOW);
        }

        fn put(&self, key: u32) {
            self.0.put(&key.to_be_bytes(), &5_u64.to_le_bytes(), b"new").unwrap();
        }
    }
    let stamped = Stamped::new(false);
    for key in 0..KEYS {
        stamped.put(&key.to_be_bytes(), &4_u64.to_le_bytes(), b"old").unwrap();
        stamped.delete(&key.to_be_bytes(), 5);
    }
    let shared = Shared(stamped);
    std::thread::scope(|scope| {
        scope.spawn(|| shared.compact());
        // From the last key on: the compaction comes to it last.
        scope.spawn(|| (0..KEYS).rev().for_each(|key| shared.put(key)));
    });
    let lost = (0..KEYS).filter(|key| shared.0.get(&key.to_be_bytes(), LOW).unwrap().is_none());
    assert_eq!(lost.count(), 0);
}
