//! A bounded number of open files.

use esker_base::{Error, Result, Rng, WriteHint};
use esker_storage::{
    FileCache, FileSystemWrapper, MemoryStorage, ReadableFile, Storage, WritableFile,
};
use parking_lot::Mutex;
use rustix::io::Errno;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

type Hook = Box<dyn FnOnce() + Send>;

/// A storage that counts its open files, and refuses to open or create a file while so many are open.
struct Counting {
    below: MemoryStorage,
    open: Arc<AtomicUsize>,
    most: usize,
    refused: Arc<AtomicUsize>,
    /// Called by the next open, before it opens the file.
    before_open: Arc<Mutex<Option<Hook>>>,
}

impl Counting {
    fn expect_descriptor(&self, name: &str) -> Result<()> {
        if self.open.load(Ordering::SeqCst) == self.most {
            self.refused.fetch_add(1, Ordering::SeqCst);
            return Err(Error::io("open", name, Errno::MFILE.into()));
        }
        Ok(())
    }
}

struct Counted {
    file: Arc<dyn ReadableFile>,
    open: Arc<AtomicUsize>,
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.open.fetch_sub(1, Ordering::SeqCst);
    }
}

impl ReadableFile for Counted {
    fn read_exact_at(&self, offset: u64, out: &mut [u8]) -> Result<()> {
        self.file.read_exact_at(offset, out)
    }
    fn len(&self) -> Result<u64> {
        self.file.len()
    }
    fn name(&self) -> &str {
        self.file.name()
    }
}

impl FileSystemWrapper for Counting {
    fn below(&self) -> &dyn Storage {
        &self.below
    }
    fn open_for_caching(&self, name: &str) -> Result<Arc<dyn ReadableFile>> {
        let hook = self.before_open.lock().take();
        hook.into_iter().for_each(|hook| hook());
        self.expect_descriptor(name)?;
        let file = self.below.open(name)?;
        self.open.fetch_add(1, Ordering::SeqCst);
        Ok(Arc::new(Counted { file, open: self.open.clone() }))
    }
    fn create(&self, name: &str, hint: WriteHint) -> Result<Box<dyn WritableFile>> {
        self.expect_descriptor(name)?;
        self.below.create(name, hint)
    }
}

struct World {
    storage: Arc<dyn Storage>,
    cache: FileCache,
    open: Arc<AtomicUsize>,
    refused: Arc<AtomicUsize>,
    before_open: Arc<Mutex<Option<Hook>>>,
}

impl World {
    /// Files "0", "1" and so on, each with its number as its bytes.
    fn new(files: u8, limit: usize, most: usize) -> World {
        let (below, open) = (MemoryStorage::new(), Arc::new(AtomicUsize::new(0)));
        (0..files).for_each(|number| write(&below, &number.to_string(), number));
        let (cache, refused) = (FileCache::new(limit), Arc::new(AtomicUsize::new(0)));
        let before_open: Arc<Mutex<Option<Hook>>> = Arc::default();
        let storage = Arc::new(cache.storage(Arc::new(Counting {
            below,
            open: open.clone(),
            most,
            refused: refused.clone(),
            before_open: before_open.clone(),
        })));
        World { storage, cache, open, refused, before_open }
    }

    fn reader(&self, number: u8) -> Arc<dyn ReadableFile> {
        self.storage.open_for_caching(&number.to_string()).unwrap()
    }

    #[track_caller]
    fn expect_open(&self, files: usize) {
        assert_eq!((self.open.load(Ordering::SeqCst), self.cache.open_files()), (files, files));
    }
}

fn write(storage: &dyn Storage, name: &str, byte: u8) {
    let mut file = storage.create(name, WriteHint::table(0)).unwrap();
    file.append(&[byte; 100]).unwrap();
    file.sync().unwrap();
}

#[track_caller]
fn expect(reader: &dyn ReadableFile, byte: u8) {
    let mut bytes = [0xff; 10];
    reader.read_exact_at(40, &mut bytes).unwrap();
    assert_eq!((bytes, reader.len().unwrap()), ([byte; 10], 100));
}

#[test]
fn files_beyond_the_limit_are_closed_and_read_all_the_same() {
    let world = World::new(20, 3, usize::MAX);
    let readers: Vec<_> = (0..20).map(|number| world.reader(number)).collect();
    world.expect_open(3);
    let mut rng = Rng::new(1);
    for _ in 0..1000 {
        let number = rng.below(20) as u8;
        expect(&*readers[usize::from(number)], number);
        world.expect_open(3);
    }
    assert!(world.cache.opens() > 500, "{:?}", world.cache);
    drop(readers);
    world.expect_open(0);
}

#[test]
fn a_file_that_is_read_often_stays_open() {
    let world = World::new(20, 4, usize::MAX);
    let readers: Vec<_> = (0..20).map(|number| world.reader(number)).collect();
    expect(&*readers[0], 0);
    let before = world.cache.opens();
    for number in (1..20).cycle().take(190) {
        expect(&*readers[0], 0);
        expect(&*readers[number], number as u8);
    }
    // A sweep of the hand may find that one was read just before.
    assert!(world.cache.opens() - before <= 190 + 19, "the first was closed again and again");
}

#[test]
fn readers_of_one_file_share_it() {
    let world = World::new(2, 3, usize::MAX);
    let readers = [0; 5].map(|number| world.reader(number));
    world.expect_open(1);
    readers.iter().for_each(|reader| expect(&**reader, 0));
    assert_eq!(world.cache.opens(), 1);
}

#[test]
fn a_file_that_is_removed_or_replaced_can_still_be_read() {
    let world = World::new(10, 1, usize::MAX);
    let readers: Vec<_> = (0..10).map(|number| world.reader(number)).collect();
    world.storage.remove("2").unwrap();
    world.storage.rename("4", "3").unwrap();
    for _ in 0..3 {
        readers.iter().zip(0..).for_each(|(reader, number)| expect(&**reader, number));
    }
    expect(&*world.reader(3), 4);
    assert!(world.storage.open_for_caching("2").is_err());
    write(&*world.storage, "2", 77);
    expect(&*world.reader(2), 77);
    expect(&*readers[2], 2);
    drop(readers);
    world.expect_open(0);
}

#[test]
fn a_file_that_is_removed_while_it_is_opened_again_can_be_read() {
    let world = World::new(2, 1, usize::MAX);
    let readers = [world.reader(0), world.reader(1)];
    // The first was closed for the second.
    let storage = world.storage.clone();
    *world.before_open.lock() = Some(Box::new(move || storage.remove("0").unwrap()));
    expect(&*readers[0], 0);
    assert!(world.before_open.lock().is_none());
    expect(&*readers[1], 1);
    expect(&*readers[0], 0);
    drop(readers);
    world.expect_open(0);
}

#[test]
fn a_file_whose_removal_fails_keeps_its_readers() {
    let world = World::new(2, 2, 1);
    let [renamed, removed] = [world.reader(0), world.reader(1)];
    world.storage.rename("0", "2").unwrap();
    assert!(world.storage.remove("1").is_err(), "no descriptor is left to keep it open");
    expect(&*renamed, 0);
    drop(renamed);
    world.storage.remove("1").unwrap();
    expect(&*removed, 1);
}

#[test]
fn a_create_without_descriptors_gets_some_back() {
    let world = World::new(10, 20, 10);
    let readers: Vec<_> = (0..10).map(|number| world.reader(number)).collect();
    write(&*world.storage, "new", 77);
    assert!(world.cache.open_files() <= 5, "{:?}", world.cache);
    readers.iter().zip(0..).for_each(|(reader, number)| expect(&**reader, number));
    expect(&*world.storage.open("new").unwrap(), 77);
}

#[test]
fn a_cache_that_met_the_limit_of_the_process_stays_below_it_for_a_while() {
    let world = World::new(20, 15, 10);
    let readers: Vec<_> = (0..20).map(|number| world.reader(number)).collect();
    let read_all = |rounds| {
        for _ in 0..rounds {
            readers.iter().zip(0..).for_each(|(reader, number)| expect(&**reader, number));
        }
    };
    read_all(3);
    assert_eq!(world.refused.load(Ordering::SeqCst), 1);
    read_all(20);
    assert!(world.refused.load(Ordering::SeqCst) > 1, "the limit is never tried again");
}

#[test]
fn a_file_without_a_reader_is_removed_unopened() {
    let world = World::new(3, 1, usize::MAX);
    drop(world.reader(0));
    let before = world.cache.opens();
    world.storage.remove("0").unwrap();
    assert_eq!(world.cache.opens(), before);
    world.expect_open(0);
}

#[test]
fn a_process_that_is_out_of_descriptors_gets_some_back() {
    let world = World::new(20, 15, 10);
    let readers: Vec<_> = (0..20).map(|number| world.reader(number)).collect();
    for _ in 0..3 {
        readers.iter().zip(0..).for_each(|(reader, number)| expect(&**reader, number));
        assert!(world.open.load(Ordering::SeqCst) <= 10);
    }
}

#[test]
fn a_lower_limit_closes_files_at_the_next_open() {
    let world = World::new(20, 15, usize::MAX);
    let readers: Vec<_> = (0..15).map(|number| world.reader(number)).collect();
    world.expect_open(15);
    world.cache.set_limit(4);
    expect(&*world.reader(19), 19);
    assert!(world.cache.open_files() <= 4, "{:?}", world.cache);
    readers.iter().zip(0..).for_each(|(reader, number)| expect(&**reader, number));
    assert!(world.cache.open_files() <= 4, "{:?}", world.cache);
}

#[test]
fn a_file_that_cannot_be_opened_is_not_counted() {
    let world = World::new(1, 3, usize::MAX);
    assert!(world.storage.open_for_caching("nothing").is_err());
    world.expect_open(0);
    expect(&*world.reader(0), 0);
}

/// What the threads find does not depend on their order.
#[test]
fn threads_may_read_while_files_are_closed_and_removed() {
    let world = World::new(20, 2, usize::MAX);
    let readers: Vec<_> = (0..20).map(|number| world.reader(number)).collect();
    std::thread::scope(|scope| {
        for seed in 0..3 {
            let readers = &readers;
            scope.spawn(move || {
                let mut rng = Rng::new(seed);
                for _ in 0..2000 {
                    let number = rng.below(20) as u8;
                    expect(&*readers[usize::from(number)], number);
                }
            });
        }
        (0..10).for_each(|number: u8| world.storage.remove(&number.to_string()).unwrap());
    });
    drop(readers);
    world.expect_open(0);
}
