//! A pool in a file: what it keeps, what it refuses, and what it says then.
#![cfg(target_os = "linux")]

use esker_base::Error;
use esker_pmem::{Accept, Domain, Extent, Pool};
use std::path::PathBuf;
use std::sync::Arc;

const BYTES: u64 = 1 << 20;

/// A directory on tmpfs.
fn memory() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").unwrap()
}

fn pool_in(dir: &tempfile::TempDir) -> (PathBuf, Arc<Pool>) {
    let path = dir.path().join("pool");
    let pool = Pool::create(&path, BYTES, Accept::Emulated).unwrap();
    (path, pool)
}

fn bytes(extent: &Extent) -> &[u8] {
    // SAFETY: the tests write from one thread and do not write while they read.
    unsafe { std::slice::from_raw_parts(extent.pointer(), extent.len()) }
}

#[test]
fn what_is_acquired_is_there_when_the_pool_is_opened_again() {
    let dir = memory();
    let (path, pool) = pool_in(&dir);
    assert_eq!(pool.domain(), Domain::Emulated);
    assert_eq!((pool.owner(), pool.used()), (None, vec![]));
    pool.claim(77).unwrap();
    let extent = pool.acquire(5, &[9; 64]).unwrap().unwrap();
    // SAFETY: nobody else has the extent.
    let span = unsafe { extent.write_frame(64, &[1; 32], &[2; 50], 128) }.fence().into_inner();
    assert_eq!((span.epoch, span.at, span.len), (5, 64, 128));
    pool.acquire(3, &[8; 64]).unwrap().unwrap();
    let identity = pool.identity();
    drop((extent, pool));

    let pool = Pool::open(&path, Accept::Emulated).unwrap();
    assert_eq!((pool.identity(), pool.owner(), pool.used()), (identity, Some(77), vec![3, 5]));
    let extent = pool.extent(5).unwrap();
    let frame = [&[9; 64][..], &[1; 32], &[2; 50], &[0; 46]].concat();
    assert_eq!(bytes(&extent)[..192], frame);
    assert!(pool.extent(4).is_none());
}

#[test]
fn an_extent_is_handed_out_again_only_when_its_last_handle_is_gone() {
    let dir = memory();
    let (_, pool) = pool_in(&dir);
    let held: Vec<_> = (1..).map_while(|epoch| pool.acquire(epoch, &[0; 64]).unwrap()).collect();
    assert_eq!(held.len(), pool.extents());
    let again = pool.extent(1).unwrap();
    pool.release(1).unwrap();
    assert!(!pool.used().contains(&1) && pool.extent(1).is_none());
    assert!(pool.acquire(100, &[0; 64]).unwrap().is_none());
    drop(held);
    assert!(pool.acquire(100, &[0; 64]).unwrap().is_none(), "one handle is left");
    drop(again);
    assert_eq!(pool.acquire(100, &[0; 64]).unwrap().unwrap().epoch(), 100);
}

#[test]
fn a_second_opener_is_refused_by_name_and_a_reader_is_not() {
    let dir = memory();
    let (path, pool) = pool_in(&dir);
    pool.acquire(5, &[9; 64]).unwrap().unwrap();
    let Err(Error::Locked { dir: name, pid }) = Pool::open(&path, Accept::Emulated) else {
        panic!("the pool is open")
    };
    assert_eq!((name, pid), (path.display().to_string(), std::process::id().to_string()));
    let reader = Pool::open_read_only(&path, Accept::Emulated).unwrap();
    assert_eq!(reader.used(), [5]);
    assert!(matches!(reader.acquire(6, &[]), Err(Error::ReadOnly)));
    assert!(matches!(reader.release(5), Err(Error::ReadOnly)));
    assert!(matches!(reader.claim(5), Err(Error::ReadOnly)));
    drop((pool, reader));
    Pool::open(&path, Accept::Emulated).unwrap();
}
