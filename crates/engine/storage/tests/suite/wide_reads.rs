//! Wide reads: the same bytes and errors as reads one by one, by each way to do them.

use esker_base::background::{Body, CountedThreads, Running, Stepped};
use esker_base::{Background, FileKind, Priority, Result, Rng, Threads, WriteHint, skipped};
use esker_storage::{
    FaultStorage, MemoryStorage, PosixStorage, ReadPath, ReadRequest, ReadableFile, Storage,
    WideReader,
};
use std::sync::Arc;

const FILE_BYTES: usize = 1_000_003;
const LIMIT_BYTES: usize = 4 << 20;

fn content() -> Vec<u8> {
    let mut bytes = vec![0; FILE_BYTES];
    Rng::new(1).fill(&mut bytes);
    bytes
}

fn write(storage: &dyn Storage, bytes: &[u8]) {
    let mut file = storage.create("a", WriteHint::of(FileKind::Table)).unwrap();
    file.append(bytes).unwrap();
    file.sync().unwrap();
}

/// A directory with a file, opened past the page cache.
struct Direct {
    _directory: tempfile::TempDir,
    file: Arc<dyn ReadableFile>,
}

impl Direct {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let storage = PosixStorage::open(directory.path()).unwrap().with_direct_reads(true);
        write(&storage, &content());
        let file = storage.open_for_caching("a").unwrap();
        Direct { _directory: directory, file }
    }

    /// Whether the file system has direct I/O. If not, the cached bytes need no wide read.
    fn is_direct(&self) -> bool {
        let is_direct = !self.file.read_cached_at(0, &mut [0; 1]);
        if !is_direct {
            skipped("wide reads past the page cache", "no direct I/O for temporary files");
        }
        is_direct
    }

    fn requests(&self, ranges: &[(u64, usize)]) -> Vec<ReadRequest<'_>> {
        let file = &*self.file;
        ranges.iter().map(|&(offset, bytes)| ReadRequest { file, offset, bytes }).collect()
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_file_opened_for_caching_brings_into_the_page_cache_what_is_read_alone() {
    let directory = tempfile::tempdir().unwrap();
    let storage = PosixStorage::open(directory.path()).unwrap();
    write(&storage, &content());
    let is_cached = |file: &dyn ReadableFile, offset| file.read_cached_at(offset, &mut [0; 1]);
    let file = storage.open_for_caching("a").unwrap();
    // All is cached of a file that was just written.
    let opened = std::fs::File::open(directory.path().join("a")).unwrap();
    let _ = rustix::fs::fadvise(&opened, 0, None, rustix::fs::Advice::DontNeed);
    if is_cached(&*file, 500_000) {
        let what = "reads of files that are opened for caching";
        skipped(what, "the file system of temporary files keeps all in memory");
        return;
    }
    const PIECE_BYTES: u64 = 16 << 10;
    const PIECES: std::ops::Range<u64> = 10..40;
    let mut piece = [0; PIECE_BYTES as usize];
    let mut cached_before = Vec::new();
    for number in PIECES {
        let at = number * PIECE_BYTES;
        // The first page may be one of the piece before.
        if is_cached(&*file, at + 4096) {
            cached_before.push(number);
        }
        file.read_exact_at(at, &mut piece).unwrap();
        assert!(is_cached(&*file, at + 4096));
    }
    // The kernel keeps pages that it holds for itself at that moment, and need not say which.
    // Had it read on, the first piece would have brought most of the others.
    let few = (PIECES.end - PIECES.start) as usize / 3;
    assert!(cached_before.len() <= few, "the kernel has read on to {cached_before:?}");
}

/// Threads that end before they have done anything.
struct Dying;

impl Background for Dying {
    fn spawn(
        &self,
        name: &str,
        priority: Priority,
        _body: Body,
    ) -> Result<Option<Box<dyn Running>>> {
        Threads.spawn(name, priority, Box::new(|| {}))
    }
}

fn ranges(seed: u64) -> Vec<(u64, usize)> {
    let mut rng = Rng::new(seed);
    let mut ranges = vec![(0, FILE_BYTES), (0, 0), (FILE_BYTES as u64 - 1, 1), (4095, 2)];
    ranges.extend((0..300).map(|_| {
        let offset = rng.below(FILE_BYTES as u64);
        let bytes = rng.below(10_000).min(FILE_BYTES as u64 - offset);
        (offset, bytes as usize)
    }));
    ranges
}

fn expect_content(found: &[u8], (offset, bytes): (u64, usize)) {
    let content = content();
    let offset = offset as usize;
    assert!(found == &content[offset..offset + bytes], "{bytes} bytes at {offset}");
}

#[test]
fn the_bytes_are_those_of_single_reads_by_a_ring_and_by_threads_and_without_them() {
    let direct = Direct::new();
    let (threads, none): (Arc<dyn Background>, Arc<dyn Background>) =
        (Arc::new(Threads), Arc::new(Stepped));
    let readers = [
        (WideReader::new(threads.clone(), LIMIT_BYTES), None),
        (WideReader::new(threads.clone(), LIMIT_BYTES).without_ring(), Some(ReadPath::Threads)),
        (WideReader::new(none, LIMIT_BYTES), Some(ReadPath::Callers)),
        (WideReader::new(Arc::new(Dying), LIMIT_BYTES), Some(ReadPath::Callers)),
        (WideReader::new(threads, 50_000), None),
        (WideReader::without_threads(), Some(ReadPath::Callers)),
    ];
    for (reader, path) in readers {
        let ranges = ranges(2);
        let found = reader.read_all(&direct.requests(&ranges));
        assert_eq!(found.len(), ranges.len());
        for (range, found) in ranges.iter().zip(found) {
            expect_content(&found.unwrap(), *range);
        }
        if direct.is_direct() {
            let is_as_expected =
                path.map_or(reader.path() != ReadPath::Callers, |it| it == reader.path());
            assert!(is_as_expected, "{reader:?}");
        }
    }
}

#[test]
fn an_error_is_that_of_its_range_alone_and_names_file_and_offset() {
    let direct = Direct::new();
    let beyond = FILE_BYTES as u64 - 10;
    for background in [Arc::new(Threads) as Arc<dyn Background>, Arc::new(Stepped)] {
        let reader = WideReader::new(background, LIMIT_BYTES);
        let ranges = [(10, 20), (beyond, 20), (u64::MAX - 5, 3), (500, 5000), (7, 7)];
        let found = reader.read_all(&direct.requests(&ranges));
        for at in [0, 3, 4] {
            expect_content(found[at].as_ref().unwrap(), ranges[at]);
        }
        let text = found[1].as_ref().unwrap_err().to_string();
        assert!(text.contains("/a") && text.contains(&beyond.to_string()), "{text}");
        assert!(found[2].as_ref().unwrap_err().is_corruption());
    }
}

#[test]
fn no_thread_is_started_for_few_ranges_or_cached_ones() {
    let background = Arc::new(CountedThreads::new(""));
    let reader = WideReader::new(background.clone(), LIMIT_BYTES);
    let direct = Direct::new();
    reader.read_all(&direct.requests(&[(1, 2), (3, 4)]));
    let directory = tempfile::tempdir().unwrap();
    let storage = PosixStorage::open(directory.path()).unwrap();
    write(&storage, &content());
    let file = storage.open_for_caching("a").unwrap();
    let request = |at: u64| ReadRequest { file: &*file, offset: 5_000 * at, bytes: 4_000 };
    let requests: Vec<_> = (0..100).map(request).collect();
    for (request, found) in requests.iter().zip(reader.read_all(&requests)) {
        expect_content(&found.unwrap(), (request.offset, request.bytes));
    }
    assert_eq!((background.started(), reader.charged_bytes()), (0, 0));
    if direct.is_direct() {
        reader.read_all(&direct.requests(&[(1, 2), (3, 4), (5, 6)]));
        assert!(background.started() > 0);
        assert_eq!(reader.charged_bytes(), LIMIT_BYTES);
        assert!(reader.has_just_started() && !reader.has_just_started());
    }
}

#[test]
fn buffers_take_no_more_than_the_limit_and_are_given_back() {
    let direct = Direct::new();
    let reader = WideReader::new(Arc::new(Threads), 64 << 10);
    let request = ReadRequest { file: &*direct.file, offset: 0, bytes: 16 << 10 };
    for _ in 0..10 {
        // Half of the limit is for those that wait for their bytes.
        let started: Vec<_> = (0..5).map(|_| reader.start(&request)).collect();
        assert_eq!(started.iter().flatten().count(), 2);
        for read in started.into_iter().flatten() {
            expect_content(&read.wait(&request).unwrap(), (0, 16 << 10));
        }
    }
    let kept = reader.start(&request).unwrap().wait(&request).unwrap();
    let other = reader.start(&request).unwrap();
    assert!(reader.start(&request).is_none(), "bytes that are held count");
    drop((kept, other));
    assert!(reader.start(&request).is_some());
}

#[test]
fn a_compaction_reads_ahead_of_itself_where_the_page_cache_does_not() {
    let direct = Direct::new();
    let request = ReadRequest { file: &*direct.file, offset: 0, bytes: 8 << 10 };
    let reader = WideReader::new(Arc::new(Threads), 64 << 10);
    let started: Vec<_> = (0..4).map(|_| reader.start_for_compaction(&request)).collect();
    if direct.is_direct() {
        assert_ne!(reader.path(), ReadPath::Callers);
        assert!(format!("{reader:?}").contains("16384 of 65536"), "a quarter at most: {reader:?}");
    }
    for read in started {
        expect_content(&read.wait(&request).unwrap(), (0, 8 << 10));
    }
    let directory = tempfile::tempdir().unwrap();
    let storage = PosixStorage::open(directory.path()).unwrap();
    write(&storage, &content());
    let file = storage.open_for_caching("a").unwrap();
    let request = ReadRequest { file: &*file, offset: 0, bytes: 8 << 10 };
    let reader = WideReader::new(Arc::new(Threads), 64 << 10);
    expect_content(&reader.start_for_compaction(&request).wait(&request).unwrap(), (0, 8 << 10));
    assert_eq!((reader.path(), reader.charged_bytes()), (ReadPath::Callers, 0));
}

#[test]
fn reads_that_nobody_waits_for_end_with_their_reader() {
    let direct = Direct::new();
    for may_use_ring in [true, false] {
        let reader = WideReader::new(Arc::new(Threads), LIMIT_BYTES);
        let reader = if may_use_ring { reader } else { reader.without_ring() };
        let request = ReadRequest { file: &*direct.file, offset: 0, bytes: FILE_BYTES };
        let (waited_for, other) = (reader.start(&request).unwrap(), reader.start(&request));
        drop(other);
        drop(reader);
        expect_content(&waited_for.wait(&request).unwrap(), (0, FILE_BYTES));
    }
}

/// More ranges than can be read at once, while single ones come in between.
#[test]
fn groups_of_several_threads_each_get_their_own_ranges() {
    let direct = Direct::new();
    for may_use_ring in [true, false] {
        let reader = WideReader::new(Arc::new(Threads), LIMIT_BYTES);
        let reader = &if may_use_ring { reader } else { reader.without_ring() };
        std::thread::scope(|scope| {
            for seed in 0..4 {
                let direct = &direct;
                scope.spawn(move || {
                    for (range, found) in
                        ranges(seed).iter().zip(reader.read_all(&direct.requests(&ranges(seed))))
                    {
                        expect_content(&found.unwrap(), *range);
                    }
                    for range in ranges(seed + 10).into_iter().take(50) {
                        let request = direct.requests(&[range])[0];
                        if let Some(read) = reader.start(&request) {
                            expect_content(&read.wait(&request).unwrap(), range);
                        }
                    }
                });
            }
        });
    }
}

#[test]
fn a_closed_reader_has_no_thread_and_leaves_reads_to_callers() {
    let direct = Direct::new();
    let reader = WideReader::new(Arc::new(Threads), LIMIT_BYTES);
    let request = ReadRequest { file: &*direct.file, offset: 0, bytes: FILE_BYTES };
    let begun = reader.start(&request).unwrap();
    reader.close();
    reader.close();
    expect_content(&begun.wait(&request).unwrap(), (0, FILE_BYTES));
    expect_content(&reader.start(&request).unwrap().wait(&request).unwrap(), (0, FILE_BYTES));
    for (range, found) in ranges(4).iter().zip(reader.read_all(&direct.requests(&ranges(4)))) {
        expect_content(&found.unwrap(), *range);
    }
    let (background, unused) = (Arc::new(CountedThreads::new("")), ranges(5));
    let reader = WideReader::new(background.clone(), LIMIT_BYTES);
    reader.close();
    reader.read_all(&direct.requests(&unused));
    assert_eq!(background.started(), 0);
}

#[test]
fn a_simulated_disk_is_read_range_by_range_in_order() {
    let disk = FaultStorage::new(Rng::new(1));
    disk.write_all("a", &content());
    let file = disk.open("a").unwrap();
    let reader = WideReader::new(Arc::new(Threads), LIMIT_BYTES);
    let request = |at: u64| ReadRequest { file: &*file, offset: 1_000 * at, bytes: 100 };
    let requests: Vec<_> = (0..50).map(request).collect();
    for failing in [0, 1, 30, 49] {
        disk.fail_read_after(failing);
        for (at, found) in (0..).zip(reader.read_all(&requests)) {
            match found {
                Ok(found) => expect_content(&found, (1_000 * at, 100)),
                Err(error) => {
                    assert_eq!(at, failing, "{error}");
                    let place = format!("fault/a at offset {}", 1_000 * at);
                    assert!(error.to_string().contains(&place), "{error}");
                    continue;
                }
            }
            assert_ne!(at, failing, "a read that failed");
        }
    }
    assert_eq!(reader.path(), ReadPath::Callers);
}

#[test]
fn files_in_memory_are_read_by_their_callers() {
    let storage = MemoryStorage::new();
    write(&storage, &content());
    let file = storage.open("a").unwrap();
    let background = Arc::new(CountedThreads::new(""));
    let reader = WideReader::new(background.clone(), LIMIT_BYTES);
    let requests: Vec<_> = ranges(3)
        .into_iter()
        .map(|(offset, bytes)| ReadRequest { file: &*file, offset, bytes })
        .collect();
    for (request, found) in requests.iter().zip(reader.read_all(&requests)) {
        expect_content(&found.unwrap(), (request.offset, request.bytes));
    }
    assert_eq!(background.started(), 0);
}
