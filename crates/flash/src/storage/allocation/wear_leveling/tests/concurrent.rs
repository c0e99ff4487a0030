//! What writers and other handles do during a move.

use super::*;
use crate::placement::LEVEL_0;
use esker_base::background::Priority;
use esker_base::{Background, Threads};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread;

#[test]
fn what_logs_become_and_they_themselves_wait_for_no_move() {
    let (_, storage) = filled(3);
    storage.core.run_if_due(LEVEL_0);
    storage.create_log("log", 100).unwrap();
    assert_eq!(storage.usage().levelled_bytes, 0);
}

/// The log has the least worn chunk, and its record fills that.
#[test]
fn a_log_stays_where_it_is() {
    let (device, storage) = device();
    let log = storage.create_log("log", CHUNK as u64).unwrap();
    log.write_at(0, &[5; CHUNK - 32]).unwrap();
    write(&storage, "file", 6, CHUNK).unwrap();
    wear(&storage, &[TO], 100);
    level(&storage);
    assert_eq!(
        (chunks_of(&storage, "log"), chunks_of(&storage, "file")),
        (vec![FROM as u32], vec![TO as u32])
    );
    log.write_at(CHUNK as u64 - 32, &[5; 32]).unwrap();
    drop(log);
    check_twice(&device, storage, &[("log", 5, CHUNK), ("file", 6, CHUNK)]);
}

/// It takes its chunks one by one, and is a file when it has all. Here it has the first, and that is the least worn.
#[test]
fn the_chunks_of_a_log_that_is_being_made_stay_its_own() {
    let (device, storage) = device();
    write(&storage, "file", 6, CHUNK).unwrap();
    wear(&storage, &[FROM], 1);
    wear(&storage, &[TO], 100);
    let (other, again) = (Arc::downgrade(&storage), Arc::downgrade(&device));
    device.at(Call::Flush, move || {
        let second = move || {
            level(&other.upgrade().unwrap());
            Ok(())
        };
        again.upgrade().unwrap().at(Call::Flush, second);
        Ok(())
    });
    let log = storage.create_log("log", 2 * CHUNK as u64).unwrap();
    assert_eq!(chunks_of(&storage, "file"), [TO as u32]);
    log.write_at(0, &[5; 2 * CHUNK]).unwrap();
    drop(log);
    check_twice(&device, storage, &[("log", 5, 2 * CHUNK), ("file", 6, CHUNK)]);
}

#[test]
fn a_file_that_is_written_stays_where_it_is_until_it_is_done() {
    let (device, storage) = device();
    let mut file = storage.create("0", WriteHint::table(6)).unwrap();
    file.append(&[0; CHUNK]).and_then(|()| file.sync()).unwrap();
    wear(&storage, &[TO], 100);
    level(&storage);
    assert_eq!(chunks_of(&storage, "0"), [FROM as u32]);
    file.append(&[0; CHUNK]).and_then(|()| file.sync()).unwrap();
    drop(file);
    wear(&storage, &[TO], 100);
    level(&storage);
    assert_eq!(chunks_of(&storage, "0"), [TO, FROM + 1].map(|chunk| chunk as u32));
    check_twice(&device, storage, &[("0", 0, 2 * CHUNK)]);
}

/// Two files share the chunk.
#[test]
fn of_files_in_a_chunk_those_are_moved_that_are_there_in_the_end() {
    let (device, storage) = device();
    write(&storage, "0", 0, CHUNK / 2).unwrap();
    write(&storage, "1", 1, CHUNK / 2).unwrap();
    wear(&storage, &[TO], 100);
    let other = Arc::downgrade(&storage);
    device.at(Call::Write(TO), move || other.upgrade().unwrap().remove("0"));
    level(&storage);
    assert_eq!(chunks_of(&storage, "1"), [TO as u32]);
    storage.core.state.lock().sweep();
    assert_eq!(storage.usage().live_bytes, CHUNK as u64 / 2);
    assert_eq!(storage.usage().free_chunks as usize, CHUNKS - FROM - 1);
    check_twice(&device, storage, &[("1", 1, CHUNK / 2)]);
}

/// Its chunk is reset and has another file before it is copied.
#[test]
fn a_file_that_is_removed_meanwhile_need_not_be_readable() {
    let (device, storage) = filled(1);
    wear(&storage, &(FROM + 1..TO).collect::<Vec<_>>(), 1);
    let other = Arc::downgrade(&storage);
    device.at(Call::Read(FROM), move || {
        let storage = other.upgrade().unwrap();
        storage.remove("0")?;
        write(&storage, "new", 7, 4096)?;
        assert_eq!(chunks_of(&storage, "new"), [FROM as u32]);
        Ok(())
    });
    level(&storage);
    let usage = storage.usage();
    assert_eq!((usage.live_bytes, usage.levelling_failures), (4096, 0));
    assert_eq!(usage.free_chunks as usize, CHUNKS - FROM - 1);
    check_twice(&device, storage, &[("new", 7, 4096)]);
}

#[test]
fn what_is_moved_to_make_room_meanwhile_stays_there() {
    let (device, storage) = device();
    write(&storage, "0", 0, CHUNK / 2).unwrap();
    write(&storage, "dead", 1, CHUNK / 2).unwrap();
    storage.remove("dead").unwrap();
    storage.core.state.lock().sweep();
    wear(&storage, &[TO], 100);
    let other = Arc::downgrade(&storage);
    device.at(Call::Write(TO), move || {
        let storage = other.upgrade().unwrap();
        let core = &storage.core;
        assert!(core.state.lock().collect_one(core)?);
        Ok(())
    });
    level(&storage);
    assert_eq!(chunks_of(&storage, "0"), [FROM as u32 + 1]);
    assert_eq!(storage.usage().live_bytes, CHUNK as u64 / 2);
    check_twice(&device, storage, &[("0", 0, CHUNK / 2)]);
}

/// The last free chunk but the one that is kept to move to.
#[test]
fn who_finds_no_room_waits_for_the_end_of_a_move() {
    let (device, storage) = filled((CHUNKS - FROM - 2) as u8);
    assert_eq!(storage.usage().free_chunks, 2);
    let other = Arc::downgrade(&storage);
    let (say, hear) = mpsc::channel();
    device.at(Call::Write(TO), move || {
        let storage = other.upgrade().unwrap();
        assert_eq!(storage.usage().free_chunks, 1);
        let (writer, is_done) = (storage.clone(), Arc::new(AtomicBool::new(false)));
        let done = is_done.clone();
        let work = move || {
            let written = write(&writer, "new", 77, CHUNK);
            drop(writer);
            done.store(true, Ordering::Release);
            say.send(written).unwrap();
        };
        Threads.spawn("writer", Priority::Normal, Box::new(work))?;
        // A thread that is woken too early waits again.
        while !storage.core.given_back.notify_one() && !is_done.load(Ordering::Acquire) {
            thread::yield_now();
        }
        Ok(())
    });
    level(&storage);
    hear.recv().unwrap().unwrap();
    check_twice(&device, storage, &[("0", 0, CHUNK), ("new", 77, CHUNK)]);
}
