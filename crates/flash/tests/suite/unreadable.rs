//! Devices of which something can't be read when they are opened: what it said may be newer than what can be read.

use esker_base::WriteHint;
use esker_flash::chunk_device::{BLOCK_BYTES, ChunkDevice, MemoryChunkDevice};
use esker_flash::storage::{LostFile, look, repair};
use esker_flash::{Chunk, FlashStorage, Geometry};
use esker_storage::Storage;
use std::sync::Arc;

const LOG_BYTES: u64 = 40_000;

fn open(device: &MemoryChunkDevice) -> esker_base::Result<FlashStorage> {
    FlashStorage::open(Arc::new(device.clone()))
}

/// The bytes of all files.
fn content(storage: &FlashStorage) -> Vec<(String, Vec<u8>)> {
    let names = storage.list().unwrap().into_iter();
    let read = |name: String| {
        let file = storage.open(&name).unwrap();
        let mut bytes = vec![0; file.len().unwrap() as usize];
        file.read_exact_at(0, &mut bytes).unwrap();
        (name, bytes)
    };
    names.map(read).collect()
}

/// A device with three generations of the journal, files, and a log.
fn device() -> MemoryChunkDevice {
    let device = MemoryChunkDevice::new(Geometry::of_blocks(1, 1, 24, 32 << 10));
    for round in 0..3u8 {
        let storage = open(&device).unwrap();
        let mut file = storage.create(&format!("file-{round}"), WriteHint::table(1)).unwrap();
        file.append(&[round; 9_000]).unwrap();
        file.sync().unwrap();
        if round == 2 {
            let log = storage.create_log("log", LOG_BYTES).unwrap();
            (0..4).for_each(|at| log.write_at(at * 10_000, &[7; 10_000]).unwrap());
            log.sync().unwrap();
        }
        storage.sync_names().unwrap();
    }
    device
}

fn blocks(device: &MemoryChunkDevice, chunk: Chunk) -> impl Iterator<Item = u64> {
    (0..device.written(chunk).unwrap()).step_by(BLOCK_BYTES as usize)
}

/// With each block of the journal unreadable in turn.
#[test]
fn a_journal_that_cannot_be_read_fails_the_open_and_nothing_is_changed() {
    let device = device();
    let expected = content(&open(&device).unwrap());
    assert_eq!(expected.len(), 4);
    let journal = [0, 1, 2, 3].map(|place| device.geometry().chunk(place));
    let calls = device.calls();
    let mut failed = 0;
    for chunk in journal {
        for at in blocks(&device, chunk) {
            device.set_readable(chunk, at, false);
            let refused = open(&device).err().unwrap();
            assert!(refused.to_string().contains("the device is gone"), "{refused}");
            device.set_readable(chunk, at, true);
            failed += 1;
        }
    }
    assert!(failed > 10, "{failed}");
    assert_eq!(device.calls(), calls);
    assert!(content(&open(&device).unwrap()) == expected);
}

#[test]
fn a_log_that_cannot_be_read_fails_the_open() {
    let device = device();
    let expected = content(&open(&device).unwrap());
    // Chunks that begin with a record that names an edit of the journal.
    let is_log = |chunk: &Chunk| {
        let mut first = vec![0; BLOCK_BYTES as usize];
        let found = device.read(*chunk, 0, &mut first);
        found.is_ok() && first[..4] == 0x4d46_4b45u32.to_le_bytes()
    };
    let chunks = (4..24).map(|index| device.geometry().chunk(index));
    let chunks: Vec<Chunk> = chunks.filter(is_log).collect();
    assert_eq!(chunks.len(), 2);
    for chunk in chunks {
        for at in blocks(&device, chunk) {
            device.set_readable(chunk, at, false);
            assert!(open(&device).is_err(), "{chunk:?}, {at}");
            device.set_readable(chunk, at, true);
        }
    }
    assert!(content(&open(&device).unwrap()) == expected);
}

fn take_offline(device: &MemoryChunkDevice, place: usize) {
    let chunk = device.geometry().chunk(place);
    device.reset(chunk).unwrap();
    device.break_chunk(chunk);
}

/// The device's generations are in its first three chunks.
#[test]
fn a_device_whose_newest_journal_went_bad_is_refused_and_left_as_it_is() {
    let device = device();
    take_offline(&device, 2);
    let calls = device.calls();
    let refused = open(&device).err().unwrap();
    assert!(refused.to_string().contains("may have had the newest journal"), "{refused}");
    assert_eq!(device.calls(), calls);
}

/// The log's last chunk is written in part, which an open finishes.
#[test]
fn a_refused_device_with_few_active_chunks_has_none_of_them_finished() {
    let device = device();
    take_offline(&device, 2);
    device.limit_active(8);
    let (calls, active) = (device.calls(), device.active());
    open(&device).err().unwrap();
    assert_eq!(device.calls(), calls);
    assert!(!active.is_empty() && device.active() == active, "{active:?}");
}

#[test]
fn journals_that_are_known_to_be_bad_are_passed_over() {
    let device = device();
    let expected = content(&open(&device).unwrap());
    let begin_another = || {
        let storage = open(&device).unwrap();
        drop(storage.create("passing", WriteHint::table(1)).unwrap());
        storage.remove("passing").unwrap();
        storage.sync_names().unwrap();
    };
    begin_another();
    // The newest is in the fourth chunk now, and the one after it would be in the first but for that.
    take_offline(&device, 1);
    for _ in 0..6 {
        begin_another();
        assert!(content(&open(&device).unwrap()) == expected);
    }
    // Of the chunks 0, 2 and 3 the newest is in the last.
    take_offline(&device, 0);
    let refused = open(&device).err().unwrap();
    assert!(refused.to_string().contains("chunk 0 has gone bad"), "{refused}");
}

#[test]
fn a_new_device_with_bad_chunks_is_laid_out() {
    let device = MemoryChunkDevice::new(Geometry::of_blocks(1, 1, 24, 32 << 10));
    [0, 2].iter().for_each(|place| device.break_chunk(device.geometry().chunk(*place)));
    for round in 0..5 {
        let storage = open(&device).unwrap();
        assert_eq!(storage.list().unwrap().len(), round);
        drop(storage.create(&format!("file-{round}"), WriteHint::table(1)).unwrap());
        storage.sync_names().unwrap();
    }
}

/// Both of the first two data chunks are half dead; what is alive in the first can't be read.
#[test]
fn room_is_made_elsewhere_if_a_chunk_cannot_be_moved() {
    const HALF: usize = 16 << 10;
    let device = MemoryChunkDevice::new(Geometry::of_blocks(1, 1, 12, 2 * HALF as u32));
    let storage = open(&device).unwrap();
    let make = |number: u8| {
        let mut file = storage.create(&format!("file-{number}"), WriteHint::table(6)).unwrap();
        file.append(&[number; HALF])?;
        file.sync()
    };
    (0..14).for_each(|number| make(number).unwrap());
    [0, 2].iter().for_each(|number| storage.remove(&format!("file-{number}")).unwrap());
    storage.sync_names().unwrap();
    device.set_readable(device.geometry().chunk(4), HALF as u64, false);
    make(14).unwrap();
    device.set_readable(device.geometry().chunk(4), HALF as u64, true);
    drop(storage);
    let found = content(&open(&device).unwrap());
    assert_eq!(found.len(), 13);
    for (name, bytes) in found {
        let number: u8 = name["file-".len()..].parse().unwrap();
        assert!(bytes == [number; HALF], "{name}");
    }
}

/// The only chunk that could be emptied can't be read: that is no full device, and removing files helps.
#[test]
fn a_chunk_that_cannot_be_read_is_told_when_no_other_can_be_emptied() {
    const HALF: usize = 16 << 10;
    let device = MemoryChunkDevice::new(Geometry::of_blocks(1, 1, 12, 2 * HALF as u32));
    let storage = open(&device).unwrap();
    let make = |number: u8| {
        let mut file = storage.create(&format!("file-{number}"), WriteHint::table(6)).unwrap();
        let done = file.append(&[number; HALF]).and_then(|()| file.sync());
        drop(file);
        done.inspect_err(|_| storage.remove(&format!("file-{number}")).unwrap())
    };
    (0..14).for_each(|number| make(number).unwrap());
    storage.remove("file-0").unwrap();
    device.set_readable(device.geometry().chunk(4), HALF as u64, false);
    let refused = make(14).unwrap_err();
    assert!(!refused.is_out_of_space(), "{refused}");
    assert!(refused.to_string().contains("can't be read"), "{refused}");
    storage.remove("file-2").unwrap();
    storage.remove("file-3").unwrap();
    make(15).unwrap();
    // The chunk is free, so nothing but room is missing.
    let full = (16..30).find_map(|number| make(number).err()).unwrap();
    assert!(!full.is_out_of_space(), "{full}");
    storage.remove("file-1").unwrap();
    make(30).unwrap();
    let full = (31..40).find_map(|number| make(number).err()).unwrap();
    assert!(full.is_out_of_space(), "{full}");
}

const CHUNK: usize = 32 << 10;

/// A device on which the files `0`, `1` and `2` have a chunk, two and three, one after the other.
fn filled() -> MemoryChunkDevice {
    let device = MemoryChunkDevice::new(Geometry::of_blocks(1, 1, 24, CHUNK as u32));
    let storage = open(&device).unwrap();
    for number in 0..3u8 {
        let mut file = storage.create(&number.to_string(), WriteHint::table(6)).unwrap();
        file.append(&vec![number; CHUNK * (1 + usize::from(number))]).unwrap();
        file.sync().unwrap();
    }
    storage.sync_names().unwrap();
    device
}

/// The places of the chunks that have nothing but this, in the order in which they were written.
fn chunks_of(device: &MemoryChunkDevice, number: u8) -> Vec<usize> {
    let is_of = |place: &usize| {
        let mut found = vec![0; CHUNK];
        let read = device.read(device.geometry().chunk(*place), 0, &mut found);
        read.is_ok() && found == [number; CHUNK]
    };
    (4..24).filter(is_of).collect()
}

fn read(storage: &FlashStorage, name: &str, at: usize) -> esker_base::Result<Vec<u8>> {
    let mut found = vec![0; CHUNK];
    storage.open(name)?.read_exact_at(at as u64, &mut found).map(|()| found)
}

#[test]
fn a_chunk_that_went_bad_costs_what_lies_there_and_nothing_else() {
    let device = filled();
    let good_bytes = open(&device).unwrap().usage().good_bytes;
    let bad = chunks_of(&device, 1)[1];
    take_offline(&device, bad);
    let storage = open(&device).unwrap();
    let refused = read(&storage, "1", CHUNK).unwrap_err().to_string();
    let told = format!("chunk {bad} of a device in memory has gone bad");
    assert!(refused.contains(&told) && refused.contains("from byte 32768 on"), "{refused}");
    assert!(refused.contains("`esker flash info`"), "{refused}");
    assert!(read(&storage, "1", 0).unwrap() == [1; CHUNK]);
    for (name, bytes) in [("0", vec![0; CHUNK]), ("2", vec![2; CHUNK])] {
        assert!(read(&storage, name, 0).unwrap() == bytes, "{name}");
    }
    assert_eq!(storage.usage().good_bytes, good_bytes - CHUNK as u64);
    assert_eq!(storage.usage().live_bytes, 5 * CHUNK as u64);
}

#[test]
fn what_is_lost_is_listed_file_by_file_until_the_files_are_removed() {
    let device = filled();
    let (one, two) = (chunks_of(&device, 1)[0] as u32, chunks_of(&device, 2)[2] as u32);
    [one, two].iter().for_each(|place| take_offline(&device, *place as usize));
    let lost = |name: &str, chunk| {
        let (name, chunks, bytes) = (name.to_owned(), vec![chunk], CHUNK as u64);
        LostFile { name, is_log: false, chunks, bytes }
    };
    assert_eq!(look(&device).unwrap().lost, [lost("1", one), lost("2", two)]);
    let storage = open(&device).unwrap();
    ["1", "2"].iter().for_each(|name| storage.remove(name).unwrap());
    storage.sync_names().unwrap();
    assert_eq!(look(&device).unwrap().lost, []);
}

/// Bad chunks are never written, and the rest of the device is, to the last chunk.
#[test]
fn a_device_that_lost_a_chunk_is_written_on() {
    let device = filled();
    let bad = chunks_of(&device, 1)[1];
    take_offline(&device, bad);
    let storage = open(&device).unwrap();
    let mut made = 0;
    let full = loop {
        let mut file = storage.create(&format!("new-{made}"), WriteHint::table(6)).unwrap();
        match file.append(&[9; CHUNK]).and_then(|()| file.sync()) {
            Ok(()) => made += 1,
            Err(error) => break error,
        }
        if made == 2 {
            storage.remove("1").unwrap();
        }
    };
    assert!(full.is_out_of_space(), "{full}");
    // Of 20 chunks one is bad, one is kept to move to, and four have the other files.
    assert_eq!(made, 20 - 1 - 1 - 4);
    assert_eq!(device.written(device.geometry().chunk(bad)).unwrap(), 0);
}

/// A device with a log of so many writes of 10,000 bytes, and the places of its chunks, in order.
fn logged(writes: u64) -> (MemoryChunkDevice, Vec<usize>) {
    let device = MemoryChunkDevice::new(Geometry::of_blocks(1, 1, 24, CHUNK as u32));
    let before = open(&device).unwrap();
    let log = before.create_log("log", 3 * CHUNK as u64).unwrap();
    (0..writes).for_each(|at| log.write_at(at * 10_000, &[7; 10_000]).unwrap());
    log.sync().unwrap();
    before.sync_names().unwrap();
    drop((log, before));
    (device, vec![4, 5, 6])
}

#[test]
fn a_log_that_lost_a_chunk_which_may_have_had_something_fails_the_open() {
    // A chunk takes two writes and a part of a third.
    for (writes, place) in [(1, 0), (4, 0), (4, 1), (9, 2), (0, 0)] {
        let (device, chunks) = logged(writes);
        take_offline(&device, chunks[place]);
        let calls = device.calls();
        let refused = open(&device).err().unwrap().to_string();
        let told = format!("chunk {} has gone bad, which had a part of the log log", chunks[place]);
        assert!(refused.contains(&told), "{writes}, {place}: {refused}");
        assert_eq!(device.calls(), calls);
        assert!(FlashStorage::open_to_read(Arc::new(device.clone())).is_err());
        let lost = look(&device).unwrap().lost;
        assert!(lost.len() == 1 && lost[0].is_log, "{lost:?}");
    }
}

#[test]
fn a_log_that_lost_a_chunk_behind_its_end_goes_on_without_it() {
    for (writes, places) in [(1, &[1, 2][..]), (0, &[1, 2]), (4, &[2])] {
        let (device, chunks) = logged(writes);
        places.iter().for_each(|place| take_offline(&device, chunks[*place]));
        assert_eq!(look(&device).unwrap().lost, []);
        let storage = open(&device).unwrap();
        let log = storage.open_log("log").unwrap();
        (writes..9).for_each(|at| log.write_at(at * 10_000, &[7; 10_000]).unwrap());
        log.sync().unwrap();
        drop((log, storage));
        let storage = open(&device).unwrap();
        assert!(content(&storage)[0].1[..90_000] == [7; 90_000], "{writes}");
    }
}

#[test]
fn a_log_that_went_on_behind_a_bad_chunk_is_opened_again_and_again() {
    let (device, chunks) = logged(1);
    take_offline(&device, chunks[1]);
    let storage = open(&device).unwrap();
    let log = storage.open_log("log").unwrap();
    // What does not fit into the first chunk goes to the third.
    (1..4).for_each(|at| log.write_at(at * 10_000, &[7; 10_000]).unwrap());
    log.sync().unwrap();
    drop((log, storage));
    for _ in 0..2 {
        let storage = open(&device).unwrap();
        assert!(content(&storage)[0].1[..40_000] == [7; 40_000]);
    }
}

/// The places of the chunks that begin with a record of a log that names an edit of the journal.
fn logs(device: &MemoryChunkDevice) -> Vec<usize> {
    let is_log = |place: &usize| {
        let mut first = vec![0; BLOCK_BYTES as usize];
        let found = device.read(device.geometry().chunk(*place), 0, &mut first);
        found.is_ok() && first[..4] == 0x4d46_4b45u32.to_le_bytes()
    };
    (4..device.geometry().chunks()).filter(is_log).collect()
}

/// Empties the chunk with the newest generation of the journal.
fn lose_newest(device: &MemoryChunkDevice) {
    let geometry = device.geometry();
    let generation = |place: usize| {
        let mut header = vec![0; BLOCK_BYTES as usize];
        device.read(geometry.chunk(place), 0, &mut header).ok()?;
        Some((u64::from_le_bytes(header[24..32].try_into().unwrap()), place))
    };
    let (_, newest) = (0..4).filter_map(generation).max().unwrap();
    device.reset(geometry.chunk(newest)).unwrap();
    device.flush().unwrap();
}

#[test]
fn a_block_that_no_file_has_may_be_unreadable_wherever_it_is() {
    let device = device();
    // A log without a file, with a record in each block.
    let storage = open(&device).unwrap();
    let log = storage.create_log("removed", LOG_BYTES).unwrap();
    (0..6).for_each(|at| log.write_at(at * 100, &[9; 100]).unwrap());
    log.sync().unwrap();
    drop(log);
    let before = logs(&device);
    storage.remove("removed").unwrap();
    storage.sync_names().unwrap();
    drop(storage);
    // A snapshot without the log: its id may be given again.
    open(&device).unwrap().rename("file-0", "renamed").unwrap();
    let expected = content(&open(&device).unwrap());
    let removed = device.geometry().chunk(*before.last().unwrap());
    assert_eq!(blocks(&device, removed).count(), 6);
    for at in blocks(&device, removed) {
        device.set_readable(removed, at, false);
        assert_eq!(look(&device).unwrap().doubt, None);
        let repaired = repair(Arc::new(device.clone())).unwrap();
        assert!(!repaired.is_changed && repaired.problems.is_empty(), "{:?}", repaired.problems);
        assert!(content(&open(&device).unwrap()) == expected, "byte {at}");
        device.set_readable(removed, at, true);
    }
}

/// Lost edits removed the files of a chunk and gave it to a log.
#[test]
fn a_log_proves_what_is_lost_in_a_chunk_that_the_journal_gives_to_another_file() {
    // One generation of the journal has all edits of a process.
    const CHUNK: usize = 128 << 10;
    let fill = |storage: &FlashStorage, is_log: bool, name: &str| match is_log {
        true => {
            let log = storage.create_log(name, CHUNK as u64).unwrap();
            log.write_at(0, &[1; 100]).and_then(|()| log.sync())
        }
        false => {
            let mut file = storage.create(name, WriteHint::table(1)).unwrap();
            file.append(&[1; CHUNK]).and_then(|()| file.sync())
        }
    };
    for is_log in [false, true] {
        let device = MemoryChunkDevice::new(Geometry::of_blocks(1, 1, 12, CHUNK as u32));
        let storage = open(&device).unwrap();
        let names: Vec<String> = (0..if is_log { 4 } else { 7 }).map(|it| it.to_string()).collect();
        names.iter().for_each(|name| fill(&storage, is_log, name).unwrap());
        storage.sync_names().unwrap();
        drop(storage);
        let storage = open(&device).unwrap();
        names.iter().for_each(|name| storage.remove(name).unwrap());
        storage.sync_names().unwrap();
        // The first ones have the chunks that were never written.
        let news = |it: usize| storage.create_log(&format!("new-{it}"), CHUNK as u64).ok();
        let news: Vec<_> = (0..6).map_while(news).collect();
        storage.sync_names().unwrap();
        let newest = news.last().unwrap();
        newest.write_at(0, &[7; 100]).and_then(|()| newest.sync()).unwrap();
        drop((news, storage));
        lose_newest(&device);
        let refused = open(&device).err().unwrap().to_string();
        assert!(refused.contains("was durable"), "{refused}");
        assert!(look(&device).unwrap().doubt.is_some());
    }
}

#[test]
fn a_read_only_chunk_of_an_older_device_proves_nothing() {
    let device = device();
    let old = logs(&device)[0];
    let geometry = device.geometry();
    (0..24).filter(|place| *place != old).for_each(|it| device.reset(geometry.chunk(it)).unwrap());
    device.flush().unwrap();
    device.make_read_only(geometry.chunk(old));
    assert_eq!(look(&device).unwrap().doubt, None);
    // It is laid out, and opened again.
    for _ in 0..2 {
        assert_eq!(content(&open(&device).unwrap()), []);
        assert!(!repair(Arc::new(device.clone())).unwrap().is_changed);
    }
}

#[test]
fn an_open_reads_a_block_of_what_no_file_has() {
    const CHUNK: u64 = 4 << 20;
    let device = MemoryChunkDevice::new(Geometry::of_blocks(1, 1, 32, CHUNK as u32));
    let storage = open(&device).unwrap();
    for number in 0..10 {
        let name = number.to_string();
        let log = storage.create_log(&name, CHUNK).unwrap();
        (0..900).for_each(|at| log.write_at(at * 100, &[9; 100]).unwrap());
        log.sync().unwrap();
        storage.remove(&name).unwrap();
    }
    let last = storage.create("last", WriteHint::table(1)).unwrap();
    drop((last, storage));
    let chunks = logs(&device);
    assert!(chunks.len() >= 10, "{chunks:?}");
    let journal: u64 =
        (0..4).map(|place| device.written(device.geometry().chunk(place)).unwrap()).sum();
    // The damaged length of a record, which also seems to name a later edit.
    let damaged = device.geometry().chunk(chunks[0]);
    let mut bytes = vec![0; 4 << 20];
    device.read(damaged, 0, &mut bytes[..BLOCK_BYTES as usize]).unwrap();
    bytes[4..8].copy_from_slice(&(3u32 << 20).to_le_bytes());
    bytes[29] += 1;
    device.reset(damaged).and_then(|()| device.write(damaged, 0, &bytes)).unwrap();
    let before = device.read_in_all();
    assert_eq!(look(&device).unwrap().doubt, None);
    let read = device.read_in_all() - before;
    // What the journal's chunks have is read twice.
    assert!(read <= 2 * journal + chunks.len() as u64 * BLOCK_BYTES, "{read} with {journal}");
}

#[test]
fn a_log_anywhere_on_a_large_device_proves_what_is_lost() {
    let device = MemoryChunkDevice::new(Geometry::of_blocks(1, 1, 20_000, CHUNK as u32));
    let storage = open(&device).unwrap();
    storage.create_log("log", CHUNK as u64).unwrap();
    storage.sync_names().unwrap();
    drop(storage);
    let storage = open(&device).unwrap();
    let log = storage.create_log("newer", CHUNK as u64).unwrap();
    storage.sync_names().unwrap();
    log.write_at(0, &[7; 100]).and_then(|()| log.sync()).unwrap();
    drop((log, storage));
    lose_newest(&device);
    let geometry = device.geometry();
    let mut bytes = vec![0; BLOCK_BYTES as usize];
    let found = logs(&device)[0];
    device.read(geometry.chunk(found), 0, &mut bytes).unwrap();
    for place in [found, 10_000, 19_999] {
        (4..20_000).for_each(|it| device.reset(geometry.chunk(it)).unwrap());
        device.write(geometry.chunk(place), 0, &bytes).unwrap();
        device.flush().unwrap();
        let doubt = look(&device).unwrap().doubt.unwrap();
        assert!(doubt.contains(&format!("a log in chunk {place} proves")), "{doubt}");
    }
}
