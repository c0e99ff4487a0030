//! Files that a killed process left unfinished, or that are damaged, hide nothing that is sound.

use super::*;
use esker_lsm::inspect::logs::LogDump;

fn is_log(name: &str) -> bool {
    name.ends_with(".log")
}

/// Two keyspaces whose writes are in the log alone, as a killed process leaves them; and the file that its flush
/// would have written.
fn before_a_flush() -> (Arc<MemoryStorage>, String, Vec<u8>, Pairs) {
    let storage = Arc::new(MemoryStorage::new());
    let db = open(&storage).unwrap();
    let other = db.keyspace("other", KeyspaceSettings::default()).unwrap();
    for key in 0..100u32 {
        db.put(&db.default_keyspace(), key.to_be_bytes(), [1; 100]).unwrap();
        db.put(&other, key.to_be_bytes(), [2; 100]).unwrap();
    }
    let before = copy(&*storage);
    let expected = pairs(&db);
    db.flush().unwrap();
    let name = tables(&*storage).pop().unwrap();
    let bytes = read(&*storage, &name);
    before.remove(&read_current(&*before).unwrap()).unwrap();
    (before, name, bytes, expected)
}

#[track_caller]
fn expect_all(storage: &Arc<MemoryStorage>, expected: &Pairs) {
    let repaired = repair(storage);
    let db = open(storage).unwrap();
    // The name may be in the manifest and in an unfinished table only.
    let named = |(key, value): (Vec<u8>, Vec<u8>)| match key.strip_prefix(b"keyspace-1/") {
        Some(key) => ([b"other/", key].concat(), value),
        None => (key, value),
    };
    let found: Pairs = pairs(&db).into_iter().map(named).collect();
    assert_eq!(different(&found, expected), [""; 0], "{repaired:?}");
    db.put(&db.default_keyspace(), 5u32.to_be_bytes(), b"newest").unwrap();
    let found = db.get(&db.default_keyspace(), 5u32.to_be_bytes()).unwrap();
    assert_eq!(found.as_deref(), Some(&b"newest"[..]));
    db.close().unwrap();
    inspector(storage).check(&mut |problem| panic!("{problem}")).unwrap();
}

#[test]
fn a_flush_that_was_cut_off_hides_no_write_of_the_log() {
    let (before, name, bytes, expected) = before_a_flush();
    // In the second table, in its last bytes, and in the first table.
    for length in [bytes.len() - 500, bytes.len() - 3, bytes.len() / 3] {
        let storage = copy(&*before);
        let mut file = storage.create(&name, WriteHint::of(FileKind::Meta)).unwrap();
        file.append(&bytes[..length]).unwrap();
        expect_all(&storage, &expected);
    }
}

#[test]
fn a_flush_with_holes_hides_no_write_of_the_log() {
    let (before, name, bytes, expected) = before_a_flush();
    let mut bytes = bytes;
    bytes[512..1024].fill(0);
    let mut file = before.create(&name, WriteHint::of(FileKind::Meta)).unwrap();
    file.append(&bytes).unwrap();
    expect_all(&before, &expected);
}

#[test]
fn a_damaged_output_of_a_compaction_hides_none_of_its_inputs() {
    let storage = Arc::new(MemoryStorage::new());
    let db = open(&storage).unwrap();
    for round in 0..2u8 {
        for key in 0..200u32 {
            let key = key * 2 + u32::from(round);
            db.put(&db.default_keyspace(), key.to_be_bytes(), [round; 100]).unwrap();
        }
        db.flush().unwrap();
    }
    let expected = pairs(&db);
    let before = copy(&*storage);
    db.compact().unwrap();
    let [output] = &tables(&*storage)[..] else { panic!("more than one output") };
    let mut bytes = read(&*storage, output);
    bytes[600] ^= 1;
    for name in before.list().unwrap() {
        if is_log(&name) || name.ends_with(".manifest") {
            before.remove(&name).unwrap();
        }
    }
    let mut file = before.create(output, WriteHint::of(FileKind::Meta)).unwrap();
    file.append(&bytes).unwrap();
    expect_all(&before, &expected);
}

#[test]
fn frames_behind_a_damaged_one_are_named() {
    let storage = Arc::new(MemoryStorage::new());
    let db = open(&storage).unwrap();
    let put = |keys: std::ops::Range<u32>| {
        for key in keys {
            db.put(&db.default_keyspace(), key.to_be_bytes(), [7; 100]).unwrap();
        }
    };
    put(0..10);
    db.flush().unwrap();
    put(10..60);
    let storage = copy(&*storage);
    storage.remove(&read_current(&*storage).unwrap()).unwrap();
    let holds_frames = |name: &&String| is_log(name) && read(&*storage, name)[64..68] != [0; 4];
    let names = storage.list().unwrap();
    let log = names.iter().filter(holds_frames).max().unwrap();
    let frame =
        read(&*storage, log)[64..].windows(100).position(|value| value == [7; 100]).unwrap();
    flip(&*storage, log, 64 + frame + 20 * 152);
    let repaired = repair(&storage);
    let [cut] = &repaired.cut_logs[..] else { panic!("{repaired:?}") };
    assert!(cut.starts_with(log) && cut.contains("whole frames behind it"), "{cut}");
    assert!(storage.exists(&format!("{log}.damaged")).unwrap());
}

/// The logs that have frames, oldest first.
fn logs_with_frames(storage: &Arc<MemoryStorage>) -> Vec<LogDump> {
    let inspector = inspector(storage);
    let logs = inspector.logs().unwrap().into_iter().map(|epoch| inspector.log(epoch).unwrap());
    logs.filter(|log| !log.scan.frames.is_empty()).collect()
}

/// A recovery leaves an unfinished batch out and gives its seqnos to other writes. If the log with the
/// first of these writes is unreadable, the log after it must not count as the rest of the batch.
#[test]
fn a_log_that_overlaps_an_unfinished_batch_is_not_the_rest_of_it() {
    let storage = Arc::new(MemoryStorage::new());
    let db = open(&storage).unwrap();
    let put = |db: &Db, number: u32, value: [u8; 3_000]| {
        db.put(&db.default_keyspace(), number.to_be_bytes(), value).unwrap();
    };
    put(&db, 0, [1; 3_000]);
    db.flush().unwrap();
    put(&db, 1, [1; 3_000]);
    let mut batch = db.batch();
    for number in 100..145u32 {
        batch.put(&db.default_keyspace(), number.to_be_bytes(), [2; 1_000]);
    }
    db.write(&batch).unwrap();
    let storage = copy(&*storage);
    let log = logs_with_frames(&storage).pop().unwrap();
    let last = log.scan.frames.last().unwrap();
    let mut bytes = read(&*storage, &log.name);
    bytes[last.offset as usize..].fill(0);
    replace(&*storage, &log.name, &bytes);
    let db = open(&storage).unwrap();
    // One log of the first of these writes, and another of the rest.
    (200..260).for_each(|number| put(&db, number, [3; 3_000]));
    let storage = copy(&*storage);
    let [first, lost, next, ..] = &logs_with_frames(&storage)[..] else { panic!("too few logs") };
    let batch_end = first.scan.frames.last().unwrap();
    assert!(batch_end.continues && next.scan.frames[0].first_seqno < batch_end.next_seqno());
    flip(&*storage, &lost.name, 20);
    storage.remove(&read_current(&*storage).unwrap()).unwrap();
    let repaired = repair(&storage);
    let gap = |cut: &String| cut.starts_with(&next.name) && cut.contains("are missing");
    assert!(repaired.cut_logs.iter().any(gap), "{repaired:?}");
    let found = pairs(&open(&storage).unwrap());
    let marks: Vec<u8> = found.values().map(|value| value[0]).collect();
    assert_eq!(marks, [1, 1], "only the writes before the batch are sure");
}
