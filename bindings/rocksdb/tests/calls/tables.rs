//! Lists of tables, and estimates of sizes, of column families in both orders.

use super::c::*;
use super::reverse::sorted;
use super::{Compare, Store, bytewise, reverse};
use std::ffi::{CStr, c_char};
use std::ptr::null_mut;

fn flush(store: &Store) {
    let flush = rocksdb_flushoptions_create();
    with_error(|error| rocksdb_flush(store.db, flush, error)).unwrap();
    rocksdb_flushoptions_destroy(flush);
}

fn text(text: B) -> String {
    // SAFETY: the library lends a text that a zero ends.
    unsafe { CStr::from_ptr(text) }.to_str().unwrap().to_owned()
}

/// The keys of a call that lends one, or gives a copy.
fn key(call: impl FnOnce(*mut usize) -> B) -> Vec<u8> {
    let mut length = 0;
    let key = call(&mut length);
    lent(key, length)
}

fn copy(call: impl FnOnce(*mut usize) -> *mut c_char) -> Option<Vec<u8>> {
    let mut length = 0;
    let key = call(&mut length);
    taken(key, length)
}

#[test]
fn live_files_have_their_keys_in_the_order_of_the_family() {
    for (compare, first, last) in [(bytewise as Compare, b"a", b"c"), (reverse, b"c", b"a")] {
        let store = sorted(compare);
        let files = rocksdb_livefiles(store.db);
        assert_eq!(rocksdb_livefiles_count(files), 0);
        rocksdb_livefiles_destroy(files);
        [b"b", b"c", b"a"].iter().for_each(|key| store.put(*key, b"v"));
        with_error(|error| rocksdb_delete(store.db, store.write, start(b"b"), 1, error)).unwrap();
        flush(&store);

        let files = rocksdb_livefiles(store.db);
        assert_eq!(rocksdb_livefiles_count(files), 1);
        assert_eq!(text(rocksdb_livefiles_column_family_name(files, 0)), "default");
        let (dir, name) = (rocksdb_livefiles_directory(files, 0), rocksdb_livefiles_name(files, 0));
        let stored = std::fs::metadata(text(dir) + &text(name)).unwrap().len();
        let bytes = rocksdb_livefiles_size(files, 0) as u64;
        assert!(0 < bytes && bytes <= stored, "{bytes} of {stored}");
        assert_eq!(key(|length| rocksdb_livefiles_smallestkey(files, 0, length)), first);
        assert_eq!(key(|length| rocksdb_livefiles_largestkey(files, 0, length)), last);
        assert_eq!(rocksdb_livefiles_entries(files, 0), 3);
        assert_eq!(rocksdb_livefiles_deletions(files, 0), 1);
        let seqnos = [rocksdb_livefiles_smallest_seqno, rocksdb_livefiles_largest_seqno];
        let [oldest, newest] = seqnos.map(|seqno| seqno(files, 0));
        assert!(0 < oldest && oldest < newest, "{oldest} to {newest}");
        // There is no second one.
        assert!(rocksdb_livefiles_name(files, 1).is_null());
        assert!(key(|length| rocksdb_livefiles_smallestkey(files, 1, length)).is_empty());
        rocksdb_livefiles_destroy(files);

        let metadata = rocksdb_get_column_family_metadata(store.db);
        assert_eq!(rocksdb_column_family_metadata_get_file_count(metadata), 1);
        assert_eq!(rocksdb_column_family_metadata_get_size(metadata), bytes);
        let mut bounds = Vec::new();
        for level in 0..rocksdb_column_family_metadata_get_level_count(metadata) {
            let level = rocksdb_column_family_metadata_get_level_metadata(metadata, level);
            for at in 0..rocksdb_level_metadata_get_file_count(level) {
                let file = rocksdb_level_metadata_get_sst_file_metadata(level, at);
                bounds.push((
                    copy(|length| rocksdb_sst_file_metadata_get_smallestkey(file, length)),
                    copy(|length| rocksdb_sst_file_metadata_get_largestkey(file, length)),
                ));
                rocksdb_sst_file_metadata_destroy(file);
            }
            rocksdb_level_metadata_destroy(level);
        }
        assert_eq!(bounds, [(Some(first.to_vec()), Some(last.to_vec()))]);
        rocksdb_column_family_metadata_destroy(metadata);
    }
}

type Range<'a> = (&'a [u8], &'a [u8]);

/// Calls an estimate with ranges.
fn sizes<const N: usize>(
    ranges: [Range<'_>; N],
    call: impl FnOnce(*const B, *const usize, *const B, *const usize, *mut u64, *mut *mut c_char),
) -> Result<[u64; N], String> {
    let (starts, ends) = (ranges.map(|it| start(it.0)), ranges.map(|it| start(it.1)));
    let (start_lengths, end_lengths) = (ranges.map(|it| it.0.len()), ranges.map(|it| it.1.len()));
    let mut sizes = [u64::MAX; N];
    let (from, to) =
        ((starts.as_ptr(), start_lengths.as_ptr()), (ends.as_ptr(), end_lengths.as_ptr()));
    with_error(|error| call(from.0, from.1, to.0, to.1, sizes.as_mut_ptr(), error)).map(|()| sizes)
}

#[test]
fn sizes_are_of_ranges_in_the_order_of_the_family() {
    for (compare, is_reverse) in [(bytewise as Compare, false), (reverse, true)] {
        let store = sorted(compare);
        let family = rocksdb_get_default_column_family_handle(store.db);
        // All keys, some of them, none, and a range that ends before it begins.
        let up: [Range<'_>; 4] = [(b"a", b"z"), (b"k500", b"z"), (b"x", b"z"), (b"z", b"a")];
        let down: [Range<'_>; 4] = [(b"z", b"a"), (b"k500", b"a"), (b"a", b""), (b"a", b"z")];
        let ranges = if is_reverse { down } else { up };
        let with_flags = |flags| {
            sizes(ranges, |starts, start_lengths, ends, end_lengths, sizes, error| {
                rocksdb_approximate_sizes_cf_with_flags(
                    store.db,
                    family,
                    4,
                    starts,
                    start_lengths,
                    ends,
                    end_lengths,
                    flags,
                    sizes,
                    error,
                );
            })
        };
        let plain = || {
            sizes(ranges, |starts, start_lengths, ends, end_lengths, sizes, error| {
                rocksdb_approximate_sizes(
                    store.db,
                    4,
                    starts,
                    start_lengths,
                    ends,
                    end_lengths,
                    sizes,
                    error,
                );
            })
        };
        let with_options = |options| {
            sizes(ranges, |starts, start_lengths, ends, end_lengths, sizes, error| {
                rocksdb_approximate_sizes_with_options(
                    store.db,
                    options,
                    4,
                    starts,
                    start_lengths,
                    ends,
                    end_lengths,
                    sizes,
                    error,
                );
            })
        };
        let value = |at: u32| at.wrapping_mul(0x9e37_79b9).to_le_bytes().repeat(25);
        (0..1000).for_each(|at| store.put(format!("k{at:03}").as_bytes(), &value(at)));
        // In the MemTable.
        assert_eq!(plain(), Ok([0; 4]));
        let [all, half, none, inverted] = with_flags(1).unwrap();
        assert!(0 < half && half < all && all <= 200_000, "{half} of {all}");
        assert_eq!([none, inverted], [0; 2]);
        assert_eq!(with_flags(2), Ok([0; 4]));
        assert_eq!(with_flags(3), with_flags(1));
        assert!(with_flags(0).unwrap_err().contains("Invalid options"));
        let options = rocksdb_size_approximation_options_create();
        assert_eq!(with_options(options), Ok([0; 4]));
        rocksdb_size_approximation_options_set_include_memtables(options, 1);
        assert_eq!(with_options(options), with_flags(1));
        // In a table.
        flush(&store);
        let [all, half, none, inverted] = plain().unwrap();
        assert!(0 < half && half < all && all <= 200_000, "{half} of {all}");
        assert_eq!([none, inverted], [0; 2]);
        assert_eq!(with_flags(2), plain());
        assert_eq!(with_options(null_mut()), plain());
        rocksdb_size_approximation_options_set_include_files(options, 0);
        assert_eq!(with_options(options), with_flags(1));
        rocksdb_size_approximation_options_set_include_memtables(options, 0);
        assert!(with_options(options).unwrap_err().contains("Invalid options"));
        rocksdb_size_approximation_options_destroy(options);
        rocksdb_column_family_handle_destroy(family);
    }
}
