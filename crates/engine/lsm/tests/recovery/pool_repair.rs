//! A pool that is damaged, or lost: what is said, and what a repair keeps.

use crate::pool_place;
use crate::pool_place::{POOL_BYTES, Place, assert_all, put_all};
use esker_api::{Cursor, KeyRange};
use esker_base::Error;
use esker_base::background::Stepped;
use esker_lsm::inspect::Inspector;
use esker_lsm::inspect::repair::{MissingLogPolicy, RepairReport};
use esker_lsm::manifest::manifest_file::Record;
use esker_lsm::manifest::version_edit::VersionChange;
use esker_lsm::{Db, Env, Log, Settings};
use esker_memtable::{SEGMENT_HEADER_BYTES, SegmentHeader};
use esker_pmem::{Accept, Pool};
use esker_storage::PosixStorage;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

/// The bytes that `put_all`'s frames take.
const FRAME_BYTES: u64 = 192;

/// The writes in tables; those behind them are in the pool alone.
const IN_TABLES: u64 = 100;
const WRITES: u64 = 300;

/// A database as a killed process leaves it.
fn killed() -> Place {
    let place = Place::new();
    let db = place.open().unwrap();
    put_all(&db, 0..IN_TABLES);
    db.flush().unwrap();
    put_all(&db, IN_TABLES..WRITES);
    place.after_kill(db)
}

fn inspector(place: &Place) -> Inspector {
    Inspector::open_with_pool(place.dir(), &place.pool(), true).unwrap()
}

fn problems(place: &Place) -> Vec<String> {
    let mut problems = Vec::new();
    inspector(place).check(&mut |problem| problems.push(problem.to_string())).unwrap();
    problems
}

fn repair(place: &Place) -> RepairReport {
    inspector(place).repair(MissingLogPolicy::Refuse).unwrap()
}

/// Flips a bit of the pool.
fn flip(place: &Place, at: u64) {
    let mut bytes = std::fs::read(place.pool()).unwrap();
    bytes[at as usize] ^= 0x40;
    std::fs::write(place.pool(), bytes).unwrap();
}

/// Flips a bit of the pool that the process that has it open sees.
fn damage_in_place(place: &Place, at: u64) {
    let pool = std::fs::OpenOptions::new().read(true).write(true).open(place.pool()).unwrap();
    let mut byte = [0];
    pool.read_exact_at(&mut byte, at).unwrap();
    pool.write_all_at(&[byte[0] ^ 0x80], at).unwrap();
}

/// The extent with the writes: its number, and where it starts.
fn extent(place: &Place) -> (u32, u64) {
    let pool = Pool::open_read_only(place.pool(), Accept::Emulated).unwrap();
    let extents = pool.used().into_iter().map(|epoch| pool.extent(epoch).unwrap());
    let mut written = extents.filter(|extent| {
        let (mut header, mut first) = ([0; SEGMENT_HEADER_BYTES], [0; 4]);
        extent.read(0, &mut header).unwrap();
        extent.read(header.len(), &mut first).unwrap();
        first == SegmentHeader::decode(&header, "pool").unwrap().mark().to_le_bytes()
    });
    let extent = written.next().unwrap();
    (extent.index(), extent.offset())
}

/// Opens it, writes on, and opens it again.
fn goes_on(place: &Place, kept: u64) {
    let db = place.open().unwrap();
    assert_all(&db, 0..kept);
    assert!(db.get(&db.default_keyspace(), pool_place::key(kept)).unwrap().is_none());
    put_all(&db, kept..1_000);
    db.close().unwrap();
    assert!(problems(place).is_empty());
    assert_all(&place.open().unwrap(), 0..1_000);
}

#[test]
fn a_sound_pool_is_checked_and_repaired_without_change() {
    let place = killed();
    assert_eq!(problems(&place), [""; 0]);
    let pool = Pool::open_read_only(place.pool(), Accept::Emulated).unwrap().used();
    let repaired = repair(&place);
    assert_eq!(repaired.log_entries, WRITES - IN_TABLES);
    assert!(repaired.cut_logs.is_empty() && repaired.set_aside.is_empty(), "{repaired:?}");
    assert_eq!(Pool::open_read_only(place.pool(), Accept::Emulated).unwrap().used(), pool);
    goes_on(&place, WRITES);
}

#[test]
fn of_a_pool_with_a_damaged_frame_the_writes_before_it_are_kept() {
    let place = killed();
    flip(&place, extent(&place).1 + 64 + 50 * FRAME_BYTES + 40);
    assert!(place.open().err().unwrap().is_corruption());
    assert_eq!(problems(&place).len(), 1);
    let repaired = repair(&place);
    assert_eq!((repaired.log_entries, repaired.cut_logs.len()), (50, 1), "{repaired:?}");
    assert!(repaired.set_aside.is_empty(), "{repaired:?}");
    goes_on(&place, IN_TABLES + 50);
}

#[test]
fn a_frame_that_is_damaged_under_an_open_database_is_reported_by_the_flush() {
    // Every byte of a frame's header, and one of its entry.
    for byte in (0..32).chain([40]) {
        let place = Place::new();
        let db = place.open().unwrap();
        put_all(&db, 0..WRITES);
        damage_in_place(&place, extent(&place).1 + 64 + 50 * FRAME_BYTES + byte);
        let error = db.flush().unwrap_err();
        assert!(error.is_corruption(), "byte {byte}: {error}");
        // It keeps being reported, and what was written stays in the pool.
        assert!(db.flush().unwrap_err().is_corruption(), "byte {byte}");
        assert_eq!(db.stats().flushes, 0);
    }
}

/// The edit that listed the log is lost, and no damaged byte shows it.
#[test]
fn a_log_that_no_edit_lists_any_more_is_found_again() {
    let place = Place::new();
    let db = stepped(&place);
    put_all(&db, 0..WRITES);
    let place = place.copy();
    let manifest = inspector(&place).manifest().unwrap();
    let holds_writes = |epoch| {
        let log = inspector(&place).log(epoch);
        log.is_ok_and(|log| !log.scan.frames.is_empty())
    };
    let lists = |record: &&Record| {
        record.edit.changes.iter().any(|change| match change {
            VersionChange::AddLog { epoch, .. } => holds_writes(*epoch),
            _ => false,
        })
    };
    let offset = manifest.records.iter().rfind(lists).unwrap().offset;
    let path = place.dir().join(&manifest.name);
    let file = std::fs::OpenOptions::new().write(true).open(path).unwrap();
    file.set_len(offset).unwrap();
    let refused = place.open().err().unwrap();
    assert!(refused.to_string().contains("edits are missing"), "{refused}");
    assert!(Db::open_read_only(place.dir(), place.settings()).is_err());
    assert!(!problems(&place).is_empty());
    let repaired = repair(&place);
    assert_eq!(repaired.adopted_logs.len(), 1, "{repaired:?}");
    goes_on(&place, WRITES);
}

#[test]
fn a_rebuild_copies_what_it_drops_of_a_pool() {
    let place = killed();
    let manifest = inspector(&place).manifest().unwrap().name;
    std::fs::remove_file(place.dir().join(manifest)).unwrap();
    flip(&place, extent(&place).1 + 64 + 50 * FRAME_BYTES + 40);
    let repaired = repair(&place);
    assert!(!repaired.rebuilt.is_empty() && repaired.cut_logs.len() == 1, "{repaired:?}");
    let [kept] = &repaired.kept_logs[..] else { panic!("{repaired:?}") };
    assert!(place.dir().join(kept).exists());
    goes_on(&place, IN_TABLES + 50);
}

#[test]
fn of_a_pool_with_a_damaged_segment_header_the_tables_are_kept() {
    let place = killed();
    flip(&place, extent(&place).1 + 20);
    assert!(place.open().err().unwrap().is_corruption());
    let repaired = repair(&place);
    assert_eq!((repaired.log_entries, repaired.cut_logs.len()), (0, 1), "{repaired:?}");
    goes_on(&place, IN_TABLES);
}

#[test]
fn a_damaged_table_beside_a_pool_is_given_up_and_the_pool_kept() {
    let place = killed();
    let tables = std::fs::read_dir(place.dir()).unwrap().map(|file| file.unwrap().path());
    let table = tables.into_iter().find(|path| path.extension().is_some_and(|e| e == "tables"));
    let table = table.unwrap();
    let mut bytes = std::fs::read(&table).unwrap();
    bytes[3] ^= 1;
    std::fs::write(&table, bytes).unwrap();
    let repaired = repair(&place);
    assert_eq!((repaired.lost_tables.len(), repaired.set_aside.len()), (1, 1), "{repaired:?}");
    assert!(repaired.cut_logs.is_empty(), "{repaired:?}");
    assert_all(&place.open().unwrap(), IN_TABLES..WRITES);
}

#[test]
fn a_damaged_state_word_is_made_out_from_the_segment() {
    let extents = Pool::open_read_only(killed().pool(), Accept::Emulated).unwrap().extents();
    for index in 0..extents as u64 {
        let place = killed();
        flip(&place, 4096 + 8 * index + 3);
        let refused = place.open().err().unwrap();
        assert!(matches!(refused, Error::PoolDamaged { .. }), "{refused}");
        assert!(refused.to_string().contains("`esker repair DB --pool FILE`"), "{refused}");
        let found = problems(&place);
        assert!(found.len() == 1 && found[0].contains("state word"), "{index}: {found:?}");
        let repaired = repair(&place);
        assert_eq!(repaired.mended_pool.len(), 1, "{index}: {repaired:?}");
        assert_eq!(repaired.log_entries, WRITES - IN_TABLES, "{index}: {repaired:?}");
        assert!(repaired.cut_logs.is_empty(), "{index}: {repaired:?}");
        goes_on(&place, WRITES);
    }
}

/// Its header is sound, so it is in use, by a newer program.
#[test]
fn a_segment_of_a_newer_format_in_an_extent_of_unknown_state_is_not_freed() {
    let place = killed();
    let (index, at) = extent(&place);
    let mut bytes = std::fs::read(place.pool()).unwrap();
    let header = &mut bytes[at as usize..][..SEGMENT_HEADER_BYTES];
    header[8] = 9;
    let checksum = esker_base::checksum::crc32c(&header[..SEGMENT_HEADER_BYTES - 4]);
    header[SEGMENT_HEADER_BYTES - 4..].copy_from_slice(&checksum.to_le_bytes());
    bytes[4096 + 8 * index as usize] ^= 0x40;
    std::fs::write(place.pool(), &bytes).unwrap();
    for refused in [
        inspector(&place).repair(MissingLogPolicy::Refuse).err(),
        inspector(&place).repair(MissingLogPolicy::GiveUp).err(),
        inspector(&place).check(&mut |_| {}).err(),
    ] {
        let refused = refused.unwrap();
        assert!(matches!(refused, Error::NewerVersion { found: 9, .. }), "{refused}");
    }
    // But for the place that says who has it open.
    let after = std::fs::read(place.pool()).unwrap();
    assert!(after[..128] == bytes[..128] && after[152..] == bytes[152..]);
}

#[test]
fn either_word_of_the_owner_says_whose_the_pool_is() {
    for at in [64, 79] {
        let place = killed();
        flip(&place, at);
        assert!(matches!(place.open().err().unwrap(), Error::PoolDamaged { offset: 64, .. }));
        assert_eq!(repair(&place).mended_pool.len(), 1);
        goes_on(&place, WRITES);
    }
}

/// A copy of the directory has the pool in use.
#[test]
fn a_pool_that_is_in_use_is_neither_checked_nor_repaired() {
    let place = killed();
    let twin = place.copy_dir();
    let db = place.open().unwrap();
    let inspector = Inspector::open_with_pool(twin.path(), &place.pool(), true).unwrap();
    let locked = |error: Error| matches!(error, Error::Locked { dir, .. } if dir.contains("pool"));
    assert!(locked(inspector.check(&mut |_| {}).unwrap_err()));
    assert!(locked(inspector.repair(MissingLogPolicy::GiveUp).unwrap_err()));
    assert_all(&db, 0..WRITES);
}

#[test]
fn of_a_database_whose_pool_is_lost_the_tables_are_kept() {
    let place = killed();
    std::fs::remove_file(place.pool()).unwrap();
    let says = |error: Error, what: &[&str]| {
        let text = error.to_string();
        assert!(what.iter().all(|what| text.contains(what)), "{text}");
    };
    let advice = ["writes up to 100", "--give-up-logs", "without `--pool`"];
    says(place.open().err().unwrap(), &advice);
    says(Db::open_read_only(place.dir(), place.settings()).err().unwrap(), &advice);
    let looking = Inspector::open_with_pool(place.dir(), &place.pool(), true);
    says(looking.err().unwrap(), &advice);

    // A new pool does not have them either.
    drop(Pool::create(place.pool(), POOL_BYTES, Accept::Emulated).unwrap());
    says(place.open().err().unwrap(), &["writes in a log", "--give-up-logs"]);

    let without = Inspector::open(place.dir(), None).unwrap();
    let refused = without.repair(MissingLogPolicy::Refuse).unwrap_err().to_string();
    let asked = ["give --pool", "give --log-dir", "--give-up-logs", "after 100"];
    let order: Vec<_> = asked.iter().map(|what| refused.find(what)).collect();
    assert!(order.is_sorted() && order[0].is_some(), "{refused}");
    without.repair(MissingLogPolicy::GiveUp).unwrap();
    goes_on(&place, IN_TABLES);
}

#[test]
fn a_pool_that_is_lost_after_closing_costs_nothing() {
    let place = Place::new();
    let db = place.open().unwrap();
    put_all(&db, 0..10);
    db.close().unwrap();
    std::fs::remove_file(place.pool()).unwrap();
    let text = place.open().err().unwrap().to_string();
    assert!(text.contains("all writes") && text.contains("a new pool will do"), "{text}");
    drop(Pool::create(place.pool(), POOL_BYTES, Accept::Emulated).unwrap());
    goes_on(&place, 10);
}

#[test]
fn a_pool_that_was_forgotten_is_asked_for() {
    let place = killed();
    let text = Db::open(place.dir(), Settings::default()).err().unwrap().to_string();
    assert!(text.find("--pool") < text.find("--log-dir"), "{text}");
    assert!(text.contains("--pool"), "{text}");
    let elsewhere = tempfile::tempdir().unwrap();
    let dir = Some(elsewhere.path().to_owned());
    let log = Log::File { dir, sync: esker_lsm::SyncPolicy::Os };
    let text = Db::open(place.dir(), Settings::default().log(log)).err().unwrap();
    assert!(text.to_string().contains("the pool"), "{text}");
}

/// A database whose background work is done when it is asked for.
fn stepped(place: &Place) -> Db {
    let env = Env::over(Arc::new(PosixStorage::open(place.dir()).unwrap()))
        .background(Arc::new(Stepped))
        .pool(Pool::open(place.pool(), Accept::Emulated).unwrap());
    Db::open_with(env, place.settings()).unwrap()
}

#[test]
fn an_entry_that_is_damaged_where_writes_go_on_is_reported_by_reads_and_by_sorting() {
    let place = Place::new();
    let db = stepped(&place);
    let keyspace = db.default_keyspace();
    // More than a chunk, which is sorted while its segment takes writes.
    for number in 0..5_000_u64 {
        db.put(&keyspace, number.to_be_bytes(), b"").unwrap();
    }
    // The kind of entry 7. Every frame takes a line.
    damage_in_place(&place, extent(&place).1 + 64 + 64 * 7 + 32 + 1);
    assert_eq!(db.get(&keyspace, 8_u64.to_be_bytes()).unwrap().as_deref(), Some(&b""[..]));
    assert_eq!(db.background_error().map(|error| error.to_string()), None);
    while db.run_background_job() {}
    assert!(db.background_error().unwrap().is_corruption());
    let error = db.get(&keyspace, 7_u64.to_be_bytes()).unwrap_err();
    assert!(error.is_corruption() && error.to_string().contains("offset 544"), "{error}");
}

#[test]
fn a_cursor_reports_the_damaged_entry_that_it_comes_to() {
    let place = Place::new();
    let db = stepped(&place);
    let keyspace = db.default_keyspace();
    for number in 0..10_u64 {
        db.put(&keyspace, number.to_be_bytes(), b"").unwrap();
    }
    let mut cursor = db.cursor(&keyspace, KeyRange::all()).unwrap();
    assert!(cursor.seek(&6_u64.to_be_bytes()).is_ok() && cursor.current().is_some());
    damage_in_place(&place, extent(&place).1 + 64 + 64 * 7 + 32 + 1);
    let moved = (0..3).map(|_| cursor.next()).find_map(Result::err);
    assert!(moved.unwrap().is_corruption());
}

#[test]
fn a_length_that_damage_made_huge_is_reported() {
    let place = Place::new();
    let db = stepped(&place);
    let keyspace = db.default_keyspace();
    // With the value's length going on, its bytes are the next of that number.
    let key = [&[0xff; 8][..], &[1]].concat();
    db.put(&keyspace, &key, b"value").unwrap();
    damage_in_place(&place, extent(&place).1 + 64 + 32 + 3);
    assert!(db.get(&keyspace, &key).unwrap_err().is_corruption());
}
