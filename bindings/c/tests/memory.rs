//! Cycles of handles leave no allocation behind.

// It has less use for some of them.
#[allow(dead_code, unused_macros, unused_imports)]
#[path = "interface/support.rs"]
#[macro_use]
mod support;

use esker_c::cursor::*;
use esker_c::database::esker_write;
use esker_c::open::*;
use esker_c::transaction::*;
use std::alloc::{GlobalAlloc, Layout, System};
use std::ptr::null;
use std::sync::atomic::{AtomicIsize, Ordering};
use support::*;

/// The allocator of the system, with a count of what is allocated now, by all threads.
struct Counting;

static LIVE: AtomicIsize = AtomicIsize::new(0);

// SAFETY: it only passes on what the allocator of the system does.
unsafe impl GlobalAlloc for Counting {
    // SAFETY: that of the trait.
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        LIVE.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller's arguments.
        unsafe { System.alloc(layout) }
    }

    // SAFETY: that of the trait.
    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        LIVE.fetch_sub(1, Ordering::Relaxed);
        // SAFETY: the caller's arguments.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Runs `cycle` so often, and fails if every second one left an allocation. Background work may have
/// some.
#[track_caller]
fn stays_flat(cycles: isize, mut cycle: impl FnMut()) {
    // What is made once is made here.
    (0..cycles / 10).for_each(|_| cycle());
    let before = LIVE.load(Ordering::Relaxed);
    (0..cycles).for_each(|_| cycle());
    let left = LIVE.load(Ordering::Relaxed) - before;
    assert!(left < cycles / 2, "{left} allocations are left of {cycles} cycles");
}

/// One test, as others would allocate meanwhile.
#[test]
fn cycles_of_handles_leave_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(&dir.path().join("db"));
    let users = keyspace(&db, "users");
    for number in 0..100 {
        put(&users, format!("{number:03}"), vec![7; 5_000]).unwrap();
    }
    let ks = Some(&*users);

    stays_flat(100_000, || {
        let mut cursor = make!(esker_cursor_range, ks, None, null(), 0, null(), 0).unwrap();
        call!(esker_cursor_first, Some(&mut cursor)).unwrap();
        esker_cursor_free(Some(cursor));
    });
    stays_flat(10_000, || {
        let transaction = make!(esker_begin, Some(&*db), 0, 0).unwrap();
        let tx = Some(&*transaction);
        let mut cursor =
            make!(esker_transaction_cursor_range, tx, ks, null(), 0, null(), 0).unwrap();
        call!(esker_cursor_first, Some(&mut cursor)).unwrap();
        let (key, value) = (b"000".as_ptr(), b"value".as_ptr());
        call!(esker_transaction_put, tx, ks, key, 3, value, 5).unwrap();
        call!(esker_rollback, tx).unwrap();
        assert_eq!(status(call!(esker_cursor_next, Some(&mut cursor))), ESKER_TRANSACTION_ENDED);
        esker_transaction_free(Some(transaction));
        esker_cursor_free(Some(cursor));
    });
    stays_flat(10_000, || {
        get(&users, "000").unwrap();
        get(&users, "none").unwrap_err();
        failure(call!(esker_write, Some(&*db), None));
    });
    stays_flat(40, || {
        call!(esker_close, Some(open(&dir.path().join("other")))).unwrap();
    });
}
