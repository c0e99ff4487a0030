//! Tailing iterators, of column families in both orders.

use super::c::*;
use super::reverse::sorted;
use super::{Compare, Store, bytewise, reverse};

/// A tailing iterator of a store with these keys.
fn tailing(store: &Store, keys: [&[u8]; 2]) -> P {
    keys.iter().for_each(|key| store.put(key, b"v"));
    rocksdb_readoptions_set_tailing(store.read, 1);
    rocksdb_create_iterator(store.db, store.read)
}

#[test]
fn the_end_of_a_tailing_iterator_moves() {
    for (compare, keys) in
        [(bytewise as Compare, [b"a", b"b", b"c", b"d"]), (reverse, [b"d", b"c", b"b", b"a"])]
    {
        let store = sorted(compare);
        let iterator = tailing(&store, [keys[0], keys[1]]);
        rocksdb_iter_seek_to_first(iterator);
        assert_eq!(key_of(iterator), keys[0]);
        // Behind the current entry, and behind the end.
        store.put(keys[3], b"v");
        rocksdb_iter_next(iterator);
        rocksdb_iter_next(iterator);
        assert_eq!(key_of(iterator), keys[3]);
        store.put(keys[2], b"v");
        rocksdb_iter_next(iterator);
        assert_eq!(rocksdb_iter_valid(iterator), 0, "{:?} is before the last entry", keys[2]);
        // A seek sees all, in either direction.
        rocksdb_iter_seek_to_first(iterator);
        assert_eq!(store.keys(iterator), keys);
        rocksdb_iter_seek(iterator, start(keys[2]), 1);
        assert_eq!(store.keys(iterator), keys[2..]);
        rocksdb_iter_destroy(iterator);
    }
}

#[test]
fn a_tailing_iterator_with_a_snapshot_stays_at_it() {
    for compare in [bytewise as Compare, reverse] {
        let store = sorted(compare);
        store.put(b"b", b"v");
        let snapshot = rocksdb_create_snapshot(store.db);
        rocksdb_readoptions_set_snapshot(store.read, snapshot);
        let iterator = tailing(&store, [b"a", b"c"]);
        rocksdb_iter_seek_to_first(iterator);
        assert_eq!(store.keys(iterator), [b"b"]);
        rocksdb_iter_destroy(iterator);
        rocksdb_release_snapshot(store.db, snapshot);
    }
}
