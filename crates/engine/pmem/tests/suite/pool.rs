//! A pool in a file: what it keeps, what it refuses, and what it says then.
#![cfg(target_os = "linux")]

use esker_base::{Clock, Error};
use esker_pmem::pool::PoolRepair;
use esker_pmem::sim::SimRegion;
use esker_pmem::{Accept, Domain, Extent, InjectedLatency, Pool, Region};
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

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
fn an_extent_is_handed_out_again_only_when_its_handle_is_gone() {
    let dir = memory();
    let (_, pool) = pool_in(&dir);
    let held: Vec<_> = (1..).map_while(|epoch| pool.acquire(epoch, &[0; 64]).unwrap()).collect();
    assert_eq!(held.len(), pool.extents());
    pool.release(1).unwrap();
    assert!(!pool.used().contains(&1) && pool.extent(1).is_none());
    assert!(pool.acquire(100, &[0; 64]).unwrap().is_none(), "the handle is still there");
    drop(held);
    assert_eq!(pool.acquire(100, &[0; 64]).unwrap().unwrap().epoch(), 100);
}

#[test]
fn an_extent_has_one_handle_at_a_time() {
    let dir = memory();
    let (_, pool) = pool_in(&dir);
    let first = pool.acquire(1, &[0; 64]).unwrap().unwrap();
    assert!(pool.extent(1).is_none());
    drop(first);
    let second = pool.extent(1).unwrap();
    assert!(pool.extent(1).is_none());
    drop(second);
    assert!(pool.extent(1).is_some());
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

/// Changes the bytes of a pool's file, and gives the error of opening it then.
fn opened_after(change: impl FnOnce(&mut Vec<u8>)) -> (Error, String) {
    let dir = memory();
    let (path, pool) = pool_in(&dir);
    pool.claim(77).unwrap();
    pool.acquire(5, &[9; 64]).unwrap().unwrap();
    drop(pool);
    let mut bytes = std::fs::read(&path).unwrap();
    change(&mut bytes);
    std::fs::write(&path, bytes).unwrap();
    let error = Pool::open(&path, Accept::Emulated).expect_err("it is not as it was written");
    let read_only = Pool::open_read_only(&path, Accept::Emulated).err().unwrap();
    assert_eq!(error.to_string(), read_only.to_string());
    let text = error.to_string();
    assert!(text.contains(&path.display().to_string()), "{text}");
    (error, text)
}

#[test]
fn a_missing_pool_is_never_a_new_one() {
    let dir = memory();
    let path = dir.path().join("pool");
    let error = Pool::open(&path, Accept::Emulated).err().unwrap();
    let text = error.to_string();
    assert!(matches!(error, Error::PoolRefused { .. }), "{text}");
    assert!(text.contains("no such file") && text.contains("esker pmem create"), "{text}");
    assert!(!path.exists());
}

#[test]
fn a_pool_that_was_cut_off_is_refused() {
    for len in [0, 1, 63, 64, 4095, 4096, 8192, BYTES as usize - 1] {
        let (_, text) = opened_after(|bytes| bytes.truncate(len));
        assert!(text.contains("truncated") || text.contains("ends inside"), "{len}: {text}");
    }
}

#[test]
fn damage_of_the_header_and_of_state_words_names_the_place() {
    for (at, offset) in
        [(9, 60), (40, 60), (62, 60), (64, 64), (79, 64), (4096, 4096), (4111, 4104)]
    {
        let (error, text) = opened_after(|bytes| bytes[at] ^= 0x40);
        assert!(error.is_corruption(), "{at}: {text}");
        assert!(text.contains(&format!("offset {offset}:")), "{at}: {text}");
    }
}

#[test]
fn what_is_no_pool_is_said_to_be_none() {
    let (_, text) = opened_after(|bytes| bytes[..8].fill(0));
    assert!(text.contains("not finished"), "{text}");
    let (_, text) = opened_after(|bytes| bytes[..8].copy_from_slice(b"ESKRSEG1"));
    assert!(text.contains("no Esker pool"), "{text}");
}

#[test]
fn newer_formats_are_refused_by_name() {
    let with = |at: usize, value: u8| {
        opened_after(|bytes| {
            bytes[at] = value;
            let checksum = esker_base::checksum::crc32c(&bytes[..60]);
            bytes[60..64].copy_from_slice(&checksum.to_le_bytes());
        })
    };
    for (at, value, what) in [(8, 2, "format version 2, "), (12, 4, "format features 0x4, ")] {
        let refused = with(at, value).0;
        assert!(matches!(refused, Error::PoolRefused { .. }), "{refused}");
        let text = refused.to_string();
        assert!(text.contains(what) && text.contains("are in it alone"), "{text}");
    }
}

#[test]
fn another_databases_pool_is_refused_and_stays_as_it_is() {
    let dir = memory();
    let (_, pool) = pool_in(&dir);
    pool.claim(77).unwrap();
    pool.claim(77).unwrap();
    let text = pool.claim(78).unwrap_err().to_string();
    assert!(text.contains("another database, 000000000000004d"), "{text}");
    assert!(text.contains("make a new pool with `esker pmem create`"), "{text}");
    assert_eq!(pool.owner(), Some(77));
}

#[test]
fn an_epoch_that_is_in_use_is_not_given_out_twice() {
    let dir = memory();
    let (_, pool) = pool_in(&dir);
    pool.acquire(5, &[0; 64]).unwrap().unwrap();
    assert!(matches!(pool.acquire(5, &[0; 64]), Err(Error::PoolRefused { .. })));
    assert_eq!(pool.used(), [5]);
}

#[test]
fn a_pool_is_not_created_over_a_file_nor_left_half_made() {
    let dir = memory();
    let (path, pool) = pool_in(&dir);
    drop(pool);
    let before = std::fs::read(&path).unwrap();
    assert!(matches!(Pool::create(&path, BYTES, Accept::Emulated), Err(Error::Io { .. })));
    assert_eq!(std::fs::read(&path).unwrap(), before);
    // A device lies among others in memory, where no pool can be: it is in the way all the same.
    let error = Pool::create("/dev/null", BYTES, Accept::Persistent).err().unwrap().to_string();
    assert!(error.contains("exists"), "{error}");

    let path = dir.path().join("other");
    assert!(matches!(
        Pool::create(&path, BYTES, Accept::Persistent),
        Err(Error::PoolRefused { .. })
    ));
    // Larger than the memory of any machine this runs on.
    let error = Pool::create(&path, 1 << 45, Accept::Emulated).err().unwrap();
    assert!(error.is_out_of_space(), "{error}");
    assert!(matches!(
        Pool::create(&path, 4096, Accept::Emulated),
        Err(Error::InvalidSetting { .. })
    ));
    assert!(!path.exists());
}

#[test]
fn a_commit_takes_one_fence_and_its_lines_are_counted() {
    let dir = memory();
    let (_, pool) = pool_in(&dir);
    let extent = pool.acquire(5, &[9; 64]).unwrap().unwrap();
    let before = pool.traffic();
    // SAFETY: nobody else has the extent.
    let _ = unsafe { extent.write_frame(64, &[1; 32], &[2; 100], 192) }.fence();
    let traffic = pool.traffic() - before;
    assert_eq!((traffic.bytes, traffic.flushes, traffic.fences), (192, 3, 1));
    // SAFETY: as above.
    let two = unsafe { (extent.write(256, &[1]), extent.write(300, &[2; 100])) };
    let _ = two.0.and(two.1).fence();
    let traffic = pool.traffic() - before;
    assert_eq!((traffic.bytes, traffic.flushes, traffic.fences), (293, 7, 2));
}

#[test]
fn what_is_thrown_away_is_fenced_all_the_same() {
    let dir = memory();
    let (_, pool) = pool_in(&dir);
    let extent = pool.acquire(5, &[9; 64]).unwrap().unwrap();
    let before = pool.traffic();
    // SAFETY: nobody else has the extent.
    drop(unsafe { extent.write(64, &[1; 64]) });
    assert_eq!((pool.traffic() - before).fences, 1);
}

/// A clock by which a microsecond passes with each look, and that so counts them: a wait looks once for
/// each of its microseconds, and once to begin with.
#[derive(Default)]
struct Looks(AtomicU64);

impl Clock for Looks {
    fn now(&self) -> Duration {
        Duration::from_micros(self.0.fetch_add(1, Ordering::Relaxed))
    }
    fn sleep(&self, _: Duration) {
        unreachable!("a store, a load and a fence give the processor to nobody")
    }
}

#[test]
fn delays_hold_up_each_line_and_each_fence_and_change_nothing_else() {
    let dir = memory();
    let (path, pool) = pool_in(&dir);
    drop(pool);
    let [line_read, line_write, fence] = [10, 100, 1000].map(Duration::from_micros);
    let delays = InjectedLatency { line_read, line_write, fence };
    let looks = Arc::new(Looks::default());
    let pool = Pool::open_delayed(&path, Accept::Emulated, delays, looks.clone()).unwrap();
    let waits = || looks.0.swap(0, Ordering::Relaxed);
    let extent = pool.acquire(5, &[9; 64]).unwrap().unwrap();
    waits();
    // SAFETY: nobody else has the extent.
    let frame = unsafe { extent.write_frame(64, &[1; 32], &[2; 100], 192) };
    assert_eq!(waits(), 3 * 100 + 1, "three lines were stored");
    let _ = frame.fence();
    assert_eq!(waits(), 1000 + 1, "one fence");
    // SAFETY: as above.
    drop(unsafe { extent.write(256, &[3]) });
    assert_eq!(waits(), (100 + 1) + (1000 + 1), "a line, and the fence of what is thrown away");
    extent.before_read(192);
    assert_eq!(waits(), 3 * 10 + 1, "three lines are to be read");
    assert_eq!(bytes(&extent)[64..196], [&[1; 32][..], &[2; 100]].concat());
    assert_eq!(bytes(&extent)[256], 3);
    assert_eq!(waits(), 0);
    pool.release(5).unwrap();
    assert_eq!(waits(), (100 + 1) + (1000 + 1), "a word of state, and its fence");
}

#[test]
fn a_range_is_read_from_any_byte_to_any_byte() {
    let dir = memory();
    let (_, pool) = pool_in(&dir);
    let extent = pool.acquire(5, &(0..64).collect::<Vec<u8>>()).unwrap().unwrap();
    for (start, end) in (0..20).flat_map(|start| (start..40).map(move |end| (start, end))) {
        let mut out = vec![0xee; end - start];
        extent.read(start, &mut out).unwrap();
        assert!(out.into_iter().eq(start as u8..end as u8), "{start}..{end}");
    }
    let mut end = [1; 3];
    extent.read(extent.len() - 3, &mut end).unwrap();
    extent.read(extent.len(), &mut []).unwrap();
    assert_eq!(end, [0; 3]);
}

#[test]
fn what_a_writer_released_is_seen_by_whoever_looks_on() {
    let dir = memory();
    let (path, pool) = pool_in(&dir);
    pool.acquire(5, &[9; 64]).unwrap().unwrap();
    let reader = Pool::open_read_only(&path, Accept::Emulated).unwrap();
    assert!(reader.holds(5) && !reader.holds(6));
    pool.release(5).unwrap();
    pool.acquire(6, &[9; 64]).unwrap().unwrap();
    assert!(!reader.holds(5) && !reader.holds(6));
    let again = reader.look_again().unwrap();
    assert!(again.holds(6) && again.used() == [6]);
}

/// A copy with holes, as a backup makes one, and a store into a hole of a full file system ends the
/// process.
#[test]
fn a_copy_with_holes_has_its_blocks_again_once_it_is_open_for_writing() {
    use std::os::unix::fs::{FileExt, MetadataExt};
    let dir = memory();
    let (path, pool) = pool_in(&dir);
    drop(pool);
    let copy = dir.path().join("copy");
    let file = std::fs::File::create(&copy).unwrap();
    file.write_all_at(&std::fs::read(&path).unwrap()[..8192], 0).unwrap();
    file.set_len(BYTES).unwrap();
    let blocks = || file.metadata().unwrap().blocks() * 512;
    assert!(blocks() < BYTES);
    drop(Pool::open_read_only(&copy, Accept::Emulated).unwrap());
    assert!(blocks() < BYTES, "whoever looks changes nothing");
    drop(Pool::open(&copy, Accept::Emulated).unwrap());
    assert!(blocks() >= BYTES);
}

#[test]
fn a_copy_with_holes_is_looked_at_without_filling_them() {
    use std::os::unix::fs::{FileExt, MetadataExt};
    let dir = memory();
    let (path, pool) = pool_in(&dir);
    drop(pool);
    let copy = dir.path().join("copy");
    let file = std::fs::File::create(&copy).unwrap();
    file.write_all_at(&std::fs::read(&path).unwrap()[..8192], 0).unwrap();
    file.set_len(BYTES).unwrap();
    let blocks = || file.metadata().unwrap().blocks();
    let before = blocks();
    let (pool, _) = Pool::inspect(&copy, Accept::Emulated, PoolRepair::Alone).unwrap();
    for index in 0..pool.extents() as u32 {
        let mut bytes = vec![1; pool.extent_bytes()];
        pool.look_into(index).read(0, &mut bytes).unwrap();
        assert!(bytes.iter().all(|&byte| byte == 0), "{index}");
    }
    assert_eq!(blocks(), before);
}

/// As in a hole of a full file system, a load would end the process.
#[test]
fn what_is_gone_from_a_pool_that_is_looked_at_is_an_error_and_no_signal() {
    let dir = memory();
    let (path, pool) = pool_in(&dir);
    drop(pool.acquire(5, &[9; 64]).unwrap().unwrap());
    let looking = Pool::open_read_only(&path, Accept::Emulated).unwrap();
    let extent = looking.extent(5).unwrap();
    drop(pool);
    let file = std::fs::File::options().write(true).open(&path).unwrap();
    file.set_len(8192).unwrap();
    let error = extent.read(0, &mut [0; 64]).unwrap_err().to_string();
    assert!(error.contains("could not read") && error.contains("pool"), "{error}");
    file.set_len(0).unwrap();
    let error = looking.look_again().err().unwrap().to_string();
    assert!(error.contains("could not read the header of"), "{error}");
}

#[test]
fn what_is_gone_from_under_a_writer_is_an_error_where_it_is_read_and_no_signal() {
    let dir = memory();
    let (path, pool) = pool_in(&dir);
    drop((pool.acquire(5, &[9; 64]).unwrap().unwrap(), pool));
    let file = std::fs::File::options().write(true).open(&path).unwrap();
    let writer = Pool::open(&path, Accept::Emulated).unwrap();
    let extent = writer.extent(5).unwrap();
    file.set_len(extent.offset() + 4096).unwrap();
    extent.expect(0..4096).unwrap();
    extent.read(0, &mut [0; 4096]).unwrap();
    for error in [extent.expect(4096..4097), extent.read(4090, &mut [0; 7])] {
        let error = error.unwrap_err().to_string();
        assert!(error.contains("could not read") && error.contains("extent 0"), "{error}");
    }
    file.set_len(0).unwrap();
    let error = writer.look_again().err().unwrap().to_string();
    assert!(error.contains("could not read the header of"), "{error}");
}

#[test]
fn who_has_a_pool_locked_only_to_look_at_it_is_named_to_the_next() {
    use std::os::unix::fs::FileExt;
    let dir = memory();
    let (path, pool) = pool_in(&dir);
    drop(pool);
    // As the writer before wrote it; and that process is alive, too.
    let file = std::fs::File::options().write(true).open(&path).unwrap();
    file.write_all_at(&[b'1', 0, 0, 0, 0, 0, 0, 0], 128).unwrap();
    let checking = Pool::inspect(&path, Accept::Emulated, PoolRepair::Alone).unwrap();
    let Err(Error::Locked { pid, .. }) = Pool::open(&path, Accept::Emulated) else {
        panic!("the pool is locked")
    };
    assert_eq!(pid, std::process::id().to_string());
    drop(checking);
}

/// Memory whose pages are not available in a range.
struct Exhausted(SimRegion, Range<usize>);

// SAFETY: all memory and all stores are the inner region's.
unsafe impl Region for Exhausted {
    fn base(&self) -> *mut u8 {
        self.0.base()
    }
    fn len(&self) -> usize {
        self.0.len()
    }
    fn domain(&self) -> Domain {
        self.0.domain()
    }
    unsafe fn write(&self, at: usize, bytes: &[u8]) {
        // SAFETY: the caller's.
        unsafe { self.0.write(at, bytes) };
    }
    unsafe fn write_frame(&self, at: usize, header: &[u8; 32], entries: &[u8], whole: usize) {
        // SAFETY: the caller's.
        unsafe { self.0.write_frame(at, header, entries, whole) };
    }
    unsafe fn store_word(&self, at: usize, word: u64) {
        // SAFETY: the caller's.
        unsafe { self.0.store_word(at, word) };
    }
    fn fence(&self) {
        self.0.fence();
    }
    unsafe fn fault_in(&self, at: usize, _bytes: usize) -> std::io::Result<()> {
        match self.1.contains(&at) {
            true => Err(std::io::ErrorKind::StorageFull.into()),
            false => Ok(()),
        }
    }
}

#[test]
fn without_memory_for_an_extent_acquiring_it_fails_and_it_stays_free() {
    let region = Arc::new(Exhausted(SimRegion::new(BYTES as usize), 0..BYTES as usize));
    let pool = Pool::format(region, "pool", 7).unwrap();
    let error = pool.acquire(5, &[9; 64]).err().unwrap();
    assert!(error.is_out_of_space() && error.to_string().contains("pool"), "{error}");
    assert_eq!((pool.free(), pool.used()), (pool.extents(), vec![]));
    // Nor is the epoch taken.
    assert!(matches!(pool.acquire(5, &[9; 64]), Err(Error::Io { .. })));
}

#[test]
fn an_extent_whose_memory_cannot_be_had_keeps_no_other_from_being_acquired() {
    let sound = Pool::format(Arc::new(SimRegion::new(BYTES as usize)), "pool", 7).unwrap();
    let second = sound.acquire(1, &[9; 64]).and_then(|_first| sound.acquire(2, &[9; 64]));
    let start = second.unwrap().unwrap().offset() as usize;

    // The first is the one that would be taken.
    let region = Arc::new(Exhausted(SimRegion::new(BYTES as usize), 0..start));
    let pool = Pool::format(region, "pool", 7).unwrap();
    let extent = pool.acquire(5, &[9; 64]).unwrap().unwrap();
    assert_eq!((extent.index(), pool.used(), pool.free()), (1, vec![5], pool.extents() - 1));
    let held: Vec<_> = (6..).map_while(|epoch| pool.acquire(epoch, &[9; 64]).ok()).collect();
    assert_eq!((held.len(), pool.free()), (pool.extents() - 2, 1));
}
