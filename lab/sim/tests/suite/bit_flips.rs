//! A flipped bit, at every byte of every kind of file: never a panic, never a wrong answer. Either
//! it does no harm, or it is reported with the file and a place in it.

use crate::common;
use crate::common::{Pairs, disk, key, lose_power, pairs};
use esker_base::{Error, Result, Rng};
use esker_lsm::{Db, SyncPolicy};
use esker_storage::FaultStorage;

fn open(disk: &FaultStorage) -> Result<Db> {
    common::open(disk, SyncPolicy::Always)
}

fn put(db: &Db, pairs: &mut Pairs, number: u32, bytes: usize) {
    common::put(db, number, bytes).unwrap();
    pairs.insert(key(number), vec![number as u8; bytes]);
}

/// A disk as a power loss leaves it after `work`, and what it must hold.
fn disk_after(work: impl FnOnce(&Db, &mut Pairs)) -> (FaultStorage, Pairs) {
    let disk = disk(7);
    let db = open(&disk).unwrap();
    let mut pairs = Pairs::new();
    work(&db, &mut pairs);
    (lose_power(&disk, db), pairs)
}

/// All that can be read, by scans and by gets.
fn read_all(disk: &FaultStorage) -> Result<Pairs> {
    let db = open(disk)?;
    let pairs = pairs(&db)?;
    for number in 0..200 {
        let found = db.get(&db.default_keyspace(), key(number))?;
        let scanned = pairs.get(&key(number)).map(|value| &value[..]);
        assert_eq!(found.as_deref(), scanned, "get and scan");
    }
    Ok(pairs)
}

/// What became of a flip.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Seen {
    Reported,
    Harmless,
    Torn,
}

/// Flips a bit of `name` at `offset`, and reads. `torn` is what may also be found.
fn flip(disk: &FaultStorage, name: &str, offset: u64, pairs: &Pairs, torn: Option<&Pairs>) -> Seen {
    let disk = disk.crash_image(Rng::new(1));
    disk.bit_flip(name, offset, (offset % 8) as u8);
    match read_all(&disk) {
        Ok(found) if found == *pairs => Seen::Harmless,
        Ok(found) if Some(&found) == torn => Seen::Torn,
        Ok(found) => panic!("byte {offset} of {name}: {} pairs, silently", found.len()),
        Err(Error::Corruption { file, offset: place, .. }) => {
            assert!(!file.is_empty(), "byte {offset} of {name}: the report names no file");
            let length = disk.read_all(name).map_or(0, |bytes| bytes.len() as u64);
            assert!(place <= length, "byte {offset} of {name}: reported at {place} of {file}");
            Seen::Reported
        }
        Err(error) => panic!("byte {offset} of {name}: no report of corruption: {error}"),
    }
}

fn file_ending_in(disk: &FaultStorage, end: &str) -> String {
    let files = disk.files();
    let mut names = files.iter().filter(|name| name.ends_with(end));
    names.next_back().unwrap_or_else(|| panic!("no {end} in {files:?}")).clone()
}

#[test]
fn every_byte_of_a_table_is_guarded() {
    let (disk, pairs) = disk_after(|db, pairs| {
        (0..60).for_each(|number| put(db, pairs, number, 100));
        db.delete_range(&db.default_keyspace(), b"key 010"..b"key 013").unwrap();
        (10..13).for_each(|number| {
            pairs.remove(&key(number));
        });
        db.flush().unwrap();
    });
    let name = file_ending_in(&disk, ".tables");
    let bytes = disk.read_all(&name).unwrap().len() as u64;
    for offset in 0..bytes {
        assert_eq!(flip(&disk, &name, offset, &pairs, None), Seen::Reported, "byte {offset}");
    }
}

/// Where the frames of the log `name` start, and where the last ends.
fn frames(disk: &FaultStorage, name: &str) -> Vec<u64> {
    let bytes = disk.read_all(name).unwrap();
    let header = esker_memtable::SegmentHeader::decode(&bytes, name).unwrap();
    let scan = esker_memtable::scan(&bytes, &header, None);
    scan.frames.iter().map(|frame| frame.offset).chain([scan.end]).collect()
}

#[test]
fn every_acknowledged_frame_but_the_last_is_guarded() {
    let (disk, pairs) =
        disk_after(|db, pairs| (0..25).for_each(|number| put(db, pairs, number, 60)));
    let name = file_ending_in(&disk, ".log");
    let frames = frames(&disk, &name);
    assert_eq!(frames.len(), 26);
    let (last, end) = (frames[24], frames[25]);
    let mut without_last = pairs.clone();
    without_last.pop_last();
    for offset in 0..end {
        let seen = flip(&disk, &name, offset, &pairs, Some(&without_last));
        let expected = if offset < last { Seen::Reported } else { Seen::Torn };
        assert_eq!(seen, expected, "byte {offset}");
    }
    // Behind the end there is nothing yet, so nothing can be lost.
    for offset in (end..64 << 10).step_by(61) {
        assert_eq!(flip(&disk, &name, offset, &pairs, None), Seen::Harmless, "byte {offset}");
    }
}

/// Every bit of the last frame, in a log file that began as zeros and in a recycled one.
#[test]
fn a_flipped_bit_of_the_last_frame_is_told() {
    let fresh = disk_after(|db, pairs| (0..5).for_each(|number| put(db, pairs, number, 60)));
    let recycled = disk_after(|db, pairs| {
        for number in 0..100 {
            put(db, pairs, number, 3000);
            while db.run_background_job() {}
        }
        db.flush().unwrap();
        (100..103).for_each(|number| put(db, pairs, number, 60));
    });
    for ((disk, pairs), has_zeros_beyond) in [(fresh, true), (recycled, false)] {
        let mut logs = disk.files().into_iter().filter(|name| name.ends_with(".log"));
        let name = logs.rfind(|name| frames(&disk, name).len() > 1).unwrap();
        let bytes = disk.read_all(&name).unwrap();
        let header = esker_memtable::SegmentHeader::decode(&bytes, &name).unwrap();
        assert_eq!(header.has_zeros_beyond(), has_zeros_beyond);
        let frames = frames(&disk, &name);
        let (last, end) = (frames[frames.len() - 2], frames[frames.len() - 1]);
        for at in last * 8..end * 8 {
            let disk = disk.crash_image(Rng::new(1));
            disk.bit_flip(&name, at / 8, (at % 8) as u8);
            let db = open(&disk).unwrap();
            let told = db.torn_tail().unwrap_or_else(|| panic!("bit {at} of {name}: silently"));
            assert_eq!((told.offset, &told.later), (last, &None), "bit {at} of {name}");
            assert_eq!(common::pairs(&db).unwrap().len(), pairs.len() - 1, "bit {at} of {name}");
        }
    }
}

#[test]
fn every_frame_of_a_log_that_others_follow_is_guarded() {
    let (disk, pairs) =
        disk_after(|db, pairs| (0..70).for_each(|number| put(db, pairs, number, 1500)));
    let logs: Vec<_> = disk.files().into_iter().filter(|name| name.ends_with(".log")).collect();
    assert!(logs.len() > 1, "{logs:?}");
    let end = *frames(&disk, &logs[0]).last().unwrap();
    let start = end - 3500;
    for offset in (0..200).chain(start..end) {
        assert_eq!(flip(&disk, &logs[0], offset, &pairs, None), Seen::Reported, "byte {offset}");
    }
}

#[test]
fn frames_that_were_recovered_once_are_guarded_to_the_last() {
    let (disk, pairs) =
        disk_after(|db, pairs| (0..10).for_each(|number| put(db, pairs, number, 60)));
    // Opened, and dead before anything was flushed.
    let db = open(&disk).unwrap();
    let disk = lose_power(&disk, db);
    let name = file_ending_in(&disk, ".log");
    let end = *frames(&disk, &name).last().unwrap();
    for offset in 0..end {
        assert_eq!(flip(&disk, &name, offset, &pairs, None), Seen::Reported, "byte {offset}");
    }
}

#[test]
fn every_byte_of_a_manifest_is_guarded() {
    // Work that leaves edits of every kind behind the snapshot, and pairs in tables and in the log.
    let (disk, pairs) = disk_after(|db, pairs| {
        (0..20).for_each(|number| put(db, pairs, number, 60));
        db.flush().unwrap();
        let other = db.keyspace("other", Default::default()).unwrap();
        db.put(&other, b"k", b"v").unwrap();
        db.drop_keyspace(&other).unwrap();
        (20..40).for_each(|number| put(db, pairs, number, 60));
        db.flush().unwrap();
        db.compact().unwrap();
        (40..60).for_each(|number| put(db, pairs, number, 60));
    });
    let name = file_ending_in(&disk, ".manifest");
    let bytes = disk.read_all(&name).unwrap().len() as u64;
    for offset in 0..bytes {
        assert_eq!(flip(&disk, &name, offset, &pairs, None), Seen::Reported, "byte {offset}");
    }
}

#[test]
fn the_record_that_lists_a_log_is_guarded_by_the_log() {
    let (disk, pairs) =
        disk_after(|db, pairs| (0..5).for_each(|number| put(db, pairs, number, 60)));
    let name = file_ending_in(&disk, ".manifest");
    let bytes = disk.read_all(&name).unwrap().len() as u64;
    for offset in 0..bytes {
        assert_eq!(flip(&disk, &name, offset, &pairs, None), Seen::Reported, "byte {offset}");
    }
}

#[test]
fn every_byte_of_a_closed_manifest_is_guarded() {
    let (disk, pairs) = disk_after(|db, pairs| {
        (0..20).for_each(|number| put(db, pairs, number, 60));
        db.clone().close().unwrap();
    });
    let name = file_ending_in(&disk, ".manifest");
    let bytes = disk.read_all(&name).unwrap().len() as u64;
    // The last record only says that all is well; without it, the rest says so too.
    let seen: Vec<_> = (0..bytes).map(|at| flip(&disk, &name, at, &pairs, None)).collect();
    let reported = seen.iter().filter(|&&seen| seen == Seen::Reported).count();
    assert!(reported * 2 > seen.len(), "{reported} of {}", seen.len());
}

#[test]
fn every_byte_of_current_is_guarded() {
    let (disk, pairs) =
        disk_after(|db, pairs| (0..5).for_each(|number| put(db, pairs, number, 60)));
    let bytes = disk.read_all("CURRENT").unwrap().len() as u64;
    for offset in 0..bytes {
        assert_eq!(flip(&disk, "CURRENT", offset, &pairs, None), Seen::Reported, "{offset}");
    }
}
