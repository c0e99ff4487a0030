//! A pool some of whose words are corrupt.
#![cfg(target_os = "linux")]

use esker_base::Error;
use esker_pmem::pool::PoolRepair;
use esker_pmem::{Accept, Pool};
use std::path::PathBuf;

/// A pool of database 77 with segment 5 in extent 0, after `change`.
fn pool_after(change: impl FnOnce(&mut Vec<u8>)) -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir_in("/dev/shm").unwrap();
    let path = dir.path().join("pool");
    let pool = Pool::create(&path, 1 << 20, Accept::Emulated).unwrap();
    pool.claim(77).unwrap();
    pool.acquire(5, &[9; 64]).unwrap().unwrap();
    drop(pool);
    let mut bytes = std::fs::read(&path).unwrap();
    change(&mut bytes);
    std::fs::write(&path, bytes).unwrap();
    (dir, path)
}

#[test]
fn an_extent_of_unknown_state_is_neither_used_nor_free() {
    let (_dir, path) = pool_after(|bytes| bytes[4096] ^= 1);
    let (pool, problems) = Pool::inspect(&path, Accept::Emulated, PoolRepair::Beside).unwrap();
    assert_eq!((problems.len(), pool.unknown(), pool.used()), (1, vec![0], vec![]));
    assert_eq!(pool.free(), pool.extents() - 1);
    let mut header = [0; 64];
    pool.look_into(0).read(0, &mut header).unwrap();
    assert_eq!(header, [9; 64]);
}

#[test]
fn what_was_presumed_holds_once_it_is_written() {
    for epoch in [Some(5), None] {
        let (_dir, path) = pool_after(|bytes| bytes[4096] ^= 1);
        let (pool, _) = Pool::inspect(&path, Accept::Emulated, PoolRepair::ToMend).unwrap();
        pool.presume(0, epoch);
        assert_eq!(pool.holds(5), epoch.is_some());
        drop(pool);
        assert!(Pool::open(&path, Accept::Emulated).is_err(), "nothing was written");

        let (pool, _) = Pool::inspect(&path, Accept::Emulated, PoolRepair::ToMend).unwrap();
        pool.presume(0, epoch);
        pool.write_presumed().unwrap();
        drop(pool);
        let pool = Pool::open(&path, Accept::Emulated).unwrap();
        assert_eq!((pool.used(), pool.owner()), (epoch.into_iter().collect(), Some(77)));
    }
}

#[test]
fn either_word_says_whose_a_pool_is() {
    for at in [64, 72] {
        let (_dir, path) = pool_after(|bytes| bytes[at] ^= 1);
        let (pool, _) = Pool::inspect(&path, Accept::Emulated, PoolRepair::ToMend).unwrap();
        assert_eq!(pool.owner(), None);
        assert!(!pool.presume_owner(78) && pool.presume_owner(77));
        pool.write_presumed().unwrap();
        drop(pool);
        assert_eq!(Pool::open(&path, Accept::Emulated).unwrap().owner(), Some(77));
    }
    let (_dir, path) = pool_after(|bytes| bytes[64..72].fill(0));
    let (pool, _) = Pool::inspect(&path, Accept::Emulated, PoolRepair::ToMend).unwrap();
    assert!(!pool.presume_owner(77), "a complement alone is no claim");
}

#[test]
fn a_pool_is_inspected_alone_or_beside_its_writer() {
    let (_dir, path) = pool_after(|_| {});
    let writer = Pool::open(&path, Accept::Emulated).unwrap();
    let inspect = |how| Pool::inspect(&path, Accept::Emulated, how);
    assert!(inspect(PoolRepair::Beside).is_ok());
    for how in [PoolRepair::Alone, PoolRepair::ToMend] {
        assert!(matches!(inspect(how), Err(Error::Locked { .. })), "{how:?}");
    }
    drop(writer);
    let alone = inspect(PoolRepair::Alone).unwrap();
    assert!(matches!(Pool::open(&path, Accept::Emulated), Err(Error::Locked { .. })));
    assert!(matches!(alone.0.write_presumed(), Err(Error::ReadOnly)));
}
