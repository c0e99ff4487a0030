//! Checkpoints that another process asks for while this one has the database open.

use esker_base::background::Stepped;
use esker_base::{Clock, Error, Rng, SystemClock};
use esker_lsm::stats::{CallKind, LiveStatus};
use esker_lsm::{Db, Env, Log, Requested, Settings, SyncPolicy};
use esker_lsm::{request_checkpoint, request_status};
use esker_storage::{PosixStorage, Storage};
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

fn settings(answers_requests: bool) -> Settings {
    let log = Log::File { dir: None, sync: SyncPolicy::Os };
    let (segment_bytes, memory_bytes) = (256 << 10, 8 << 20);
    Settings::default()
        .log(log)
        .segment_bytes(segment_bytes)
        .memory_bytes(memory_bytes)
        .answers_requests(answers_requests)
}

fn filled(dir: &Path, answers_requests: bool) -> Db {
    let db = Db::open(dir, settings(answers_requests)).unwrap();
    for number in 0..2_000_u32 {
        db.put(&db.default_keyspace(), number.to_be_bytes(), [7; 200]).unwrap();
    }
    db
}

fn ask(dir: &Path, target: &Path, seed: u64) -> esker_base::Result<Requested> {
    request_checkpoint(dir, target, &SystemClock::new(), seed, &|| true)
}

fn count(dir: &Path) -> usize {
    let db = Db::open(dir, settings(false)).unwrap();
    db.range(&db.default_keyspace(), ..).count()
}

fn request_files(dir: &Path) -> Vec<String> {
    let names = dir.read_dir().unwrap();
    let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.filter(|name| name.starts_with("REQUEST") || name.starts_with("ANSWER")).collect()
}

#[test]
fn the_process_that_has_it_open_makes_the_checkpoint() {
    let [dir, copies] = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let db = filled(dir.path(), true);
    let copy = copies.path().join("copy");
    assert_eq!(ask(dir.path(), &copy, 1).unwrap(), Requested::Done);
    assert_eq!(count(&copy), 2_000);
    // It holds a database by now.
    let refused = ask(dir.path(), &copy, 2).unwrap_err();
    assert!(matches!(refused, Error::RequestFailed { .. }), "{refused}");
    assert!(refused.to_string().contains("holds a database already"), "{refused}");
    // The answer comes before the request goes. The bell may be rung once more for nothing.
    db.close().unwrap();
    let left = request_files(dir.path());
    assert!(left.iter().all(|name| name == "REQUEST"), "{left:?}");
}

#[test]
fn a_program_answers_without_a_thread() {
    let [dir, copies] = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let db = filled(dir.path(), false);
    let copy = copies.path().join("copy");
    assert!(!db.answer_request().unwrap());
    std::thread::scope(|scope| {
        let asked = scope.spawn(|| ask(dir.path(), &copy, 1));
        while !db.answer_request().unwrap() {
            std::thread::yield_now();
        }
        assert_eq!(asked.join().unwrap().unwrap(), Requested::Done);
    });
    assert_eq!(count(&copy), 2_000);
}

/// A clock that does not wait.
struct Quick;

impl Clock for Quick {
    fn now(&self) -> Duration {
        Duration::ZERO
    }
    fn sleep(&self, _: Duration) {}
}

#[test]
fn a_request_that_nobody_takes_is_given_up() {
    let [dir, copies] = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let _db = filled(dir.path(), false);
    let copy = copies.path().join("copy");
    let refused = request_checkpoint(dir.path(), &copy, &Quick, 1, &|| true).unwrap_err();
    assert!(matches!(refused, Error::Unanswered { .. }), "{refused}");
    assert!(!copy.exists());
    assert_eq!(request_files(dir.path()), [""; 0]);
}

/// What a test does once a requester, or an open, has waited so many times.
type Act = Box<dyn Fn(u32) + Send + Sync>;

/// A clock whose waits are counted, and during which the test acts.
struct Acting {
    waits: AtomicU32,
    act: Act,
}

impl Clock for Acting {
    fn now(&self) -> Duration {
        Duration::ZERO
    }
    fn sleep(&self, _: Duration) {
        let waits = self.waits.fetch_add(1, Ordering::Relaxed) + 1;
        assert!(waits < 1_000, "it waits forever");
        (self.act)(waits);
    }
}

fn ask_while(dir: &Path, target: &Path, act: Act) -> esker_base::Result<Requested> {
    request_checkpoint(dir, target, &Acting { waits: AtomicU32::new(0), act }, 1, &|| true)
}

fn request_of(target: &Path) -> String {
    let body = format!("checkpoint\n{}", target.display());
    format!("{}\n{body}", body.len())
}

/// The file of the request that `ask_while` makes.
fn own_request() -> String {
    format!("REQUEST.{:016x}", Rng::new(1).next_u64())
}

#[test]
fn a_requester_fails_once_its_request_is_gone_without_an_answer() {
    let [dir, copies] = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let db = filled(dir.path(), false);
    let failed = |copy: &str, act: fn(&Path, &Db)| {
        let (at, db) = (dir.path().to_owned(), db.clone());
        let act = move |waits| {
            if waits == 2 {
                act(&at, &db);
            }
        };
        let error = ask_while(dir.path(), &copies.path().join(copy), Box::new(act)).unwrap_err();
        assert!(matches!(error, Error::RequestFailed { .. }), "{error}");
        assert!(error.to_string().contains("no answer"), "{error}");
        assert_eq!(request_files(dir.path()), [""; 0]);
    };
    // Another process opens the database, before or after the request was taken.
    failed("before", |dir, _| std::fs::remove_file(dir.join(own_request())).unwrap());
    failed("after", |dir, _| {
        let taken = dir.join(own_request() + ".taken");
        std::fs::rename(dir.join(own_request()), &taken).unwrap();
        std::fs::remove_file(taken).unwrap();
    });
    // There is no room for the answer.
    failed("full", |dir, db| {
        let number = Rng::new(1).next_u64();
        std::fs::write(dir.join(format!("ANSWER.{number:016x}")), "9\n").unwrap();
        assert!(db.answer_request().is_err());
    });
    // The request is none.
    failed("none", |dir, db| {
        std::fs::write(dir.join(own_request()), "7\nnothing").unwrap();
        assert!(db.answer_request().unwrap());
    });
}

#[test]
fn a_request_waits_for_as_long_as_another_one_takes() {
    let [dir, copies] = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let db = filled(dir.path(), false);
    let taken = dir.path().join("REQUEST.0000000000000007.taken");
    std::fs::write(&taken, request_of(&copies.path().join("other"))).unwrap();
    let copy = copies.path().join("copy");
    let act = move |waits| {
        if waits == 300 {
            std::fs::remove_file(&taken).unwrap();
            assert!(db.answer_request().unwrap());
        }
    };
    assert_eq!(ask_while(dir.path(), &copy, Box::new(act)).unwrap(), Requested::Done);
    assert_eq!(count(&copy), 2_000);
}

#[test]
fn a_requester_that_gives_up_leaves_the_requests_of_others() {
    let [dir, copies] = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let db = filled(dir.path(), false);
    let [first, second, copy] = ["first", "second", "copy"].map(|name| copies.path().join(name));
    let ring = |dir: &Path| std::fs::write(dir.join("REQUEST"), "").unwrap();
    let [one, two] = [1, 2].map(|number| dir.path().join(format!("REQUEST.{number:016x}")));
    std::fs::write(&one, request_of(&first)).unwrap();
    let late = request_of(&second);
    let placed = two.clone();
    // The second one comes in the moment in which this one gives up.
    let act = move |waits| {
        if waits == 100 {
            std::fs::write(&placed, &late).unwrap();
        }
    };
    let refused = ask_while(dir.path(), &copy, Box::new(act)).unwrap_err();
    assert!(matches!(refused, Error::Unanswered { .. }), "{refused}");
    assert!(one.exists() && two.exists());
    ring(dir.path());
    assert!(db.answer_request().unwrap() && db.answer_request().unwrap());
    assert_eq!([count(&first), count(&second)], [2_000; 2]);
    // Nothing is left to do, nor to look for.
    assert!(!db.answer_request().unwrap() && !copy.exists());
    assert!(!dir.path().join("REQUEST").exists());
}

#[test]
fn a_requester_rings_until_its_request_is_taken() {
    let [dir, copies] = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let db = filled(dir.path(), false);
    let at = dir.path().to_owned();
    // The answering process has listed the directory before the request came.
    let act = move |waits| match waits {
        2 => std::fs::remove_file(at.join("REQUEST")).unwrap(),
        4 => assert!(db.answer_request().unwrap()),
        _ => {}
    };
    let copy = copies.path().join("copy");
    assert_eq!(ask_while(dir.path(), &copy, Box::new(act)).unwrap(), Requested::Done);
    assert_eq!(count(&copy), 2_000);
}

#[test]
fn a_request_that_is_taken_cannot_be_cancelled() {
    let [dir, copies] = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let _db = filled(dir.path(), false);
    let taken = dir.path().join(own_request() + ".taken");
    let goes_on = || {
        // It is taken between the requester's look and its cancellation.
        std::fs::rename(dir.path().join(own_request()), &taken).unwrap();
        false
    };
    let copy = copies.path().join("copy");
    let asked = request_checkpoint(dir.path(), &copy, &Quick, 1, &goes_on);
    assert_eq!(asked.unwrap(), Requested::Abandoned);
    assert!(taken.exists());
}

#[test]
fn a_requester_notices_that_nobody_has_it_open() {
    let [dir, copies] = [(); 2].map(|()| tempfile::tempdir().unwrap());
    filled(dir.path(), false).close().unwrap();
    let asked = ask(dir.path(), &copies.path().join("copy"), 1).unwrap();
    assert_eq!(asked, Requested::NotOpen);
    assert_eq!(request_files(dir.path()), [""; 0]);
}

#[test]
fn an_open_waits_for_a_requester_that_looks_whether_it_is_closed() {
    let dir = tempfile::tempdir().unwrap();
    filled(dir.path(), false).close().unwrap();
    let open = |act: Act| {
        let storage = Arc::new(PosixStorage::open(dir.path()).unwrap());
        let clock = Arc::new(Acting { waits: AtomicU32::new(0), act });
        let env = Env::over(storage).clock(clock.clone()).background(Arc::new(Stepped));
        let opened = Db::open_with(env, settings(false));
        (opened, clock.waits.load(Ordering::Relaxed))
    };
    let lock = || PosixStorage::open(dir.path()).unwrap().lock().unwrap();
    let held = Mutex::new(Some(lock()));
    let (opened, waits) = open(Box::new(move |waits| {
        if waits == 3 {
            *held.lock().unwrap() = None;
        }
    }));
    assert_eq!(waits, 3);
    opened.unwrap().close().unwrap();
    let _held = lock();
    let (refused, waits) = open(Box::new(|_| {}));
    let error = refused.err().unwrap();
    assert!(matches!(error, Error::Locked { .. }), "{error}");
    assert!(waits <= 20, "{waits}");
}

#[test]
fn what_a_crash_left_of_requests_is_removed_at_the_next_open_and_not_done() {
    let dir = tempfile::tempdir().unwrap();
    filled(dir.path(), false).close().unwrap();
    let copy = dir.path().with_extension("never");
    let whole = request_of(&copy);
    let request = format!("REQUEST.{:016x}", 1);
    for name in ["REQUEST", &request, &format!("{request}.taken"), "ANSWER.0000000000000001"] {
        std::fs::write(dir.path().join(name), &whole).unwrap();
    }
    let db = Db::open(dir.path(), settings(true)).unwrap();
    assert_eq!(request_files(dir.path()), [""; 0]);
    // Half of a request is none yet, and never one that can't be read.
    std::fs::write(dir.path().join("REQUEST"), "").unwrap();
    std::fs::write(dir.path().join(request), &whole[..20]).unwrap();
    assert!(!db.answer_request().unwrap());
    db.close().unwrap();
    assert!(!copy.exists());
}

#[test]
fn a_request_that_nobody_took_can_be_cancelled() {
    let [dir, copies] = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let db = filled(dir.path(), false);
    let copy = copies.path().join("copy");
    let asked = request_checkpoint(dir.path(), &copy, &SystemClock::new(), 1, &|| false);
    assert!(matches!(asked, Err(Error::Cancelled { .. })), "{asked:?}");
    assert_eq!(request_files(dir.path()), [""; 0]);
    assert!(!db.answer_request().unwrap() && !copy.exists());
    db.close().unwrap();
}

#[test]
fn a_checkpoint_that_ends_early_leaves_nothing_behind() {
    let [dir, copies] = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let db = filled(dir.path(), false);
    // Several tables, so that it stops between two of them; and too few for a compaction to make one of them.
    for number in 0..2_u32 {
        db.put(&db.default_keyspace(), number.to_be_bytes(), [8; 200]).unwrap();
        db.flush().unwrap();
    }
    let (new, empty) = (copies.path().join("deep/new"), copies.path().join("empty"));
    std::fs::create_dir(&empty).unwrap();
    for target in [&new, &empty] {
        let calls = std::cell::Cell::new(0);
        let stopped = db.checkpoint_while(target, &|| calls.replace(calls.get() + 1) == 0);
        assert!(matches!(stopped, Err(Error::Cancelled { .. })), "{stopped:?}");
        assert_eq!(calls.get(), 2);
    }
    assert!(!copies.path().join("deep").exists());
    let is_lock = |entry: std::io::Result<std::fs::DirEntry>| entry.unwrap().file_name() == "LOCK";
    assert!(empty.read_dir().unwrap().all(is_lock));
    db.checkpoint(&empty).unwrap();
    assert_eq!(count(&empty), 2_000);
    let refused = db.checkpoint(&empty).unwrap_err();
    assert!(matches!(refused, Error::DatabaseExists { .. }), "{refused}");
    assert_eq!(count(&empty), 2_000);
    db.close().unwrap();
}

#[test]
fn the_process_that_has_it_open_gives_its_status() {
    let dir = tempfile::tempdir().unwrap();
    let db = filled(dir.path(), true);
    let ask = |seed| request_status(dir.path(), &SystemClock::new(), seed, &|| true).unwrap();
    let first = ask(1).unwrap();
    assert_eq!(first.pid, std::process::id());
    assert_eq!(first.metric("esker_writes_total"), 2_000.0);
    let keyspace = db.default_keyspace();
    (0..30_u32).for_each(|n| assert!(keyspace.get(n.to_be_bytes()).unwrap().is_some()));
    db.flush().unwrap();
    let second = ask(2).unwrap();
    assert!(second.at > first.at);
    let gets = |status: &LiveStatus| {
        let found = status.calls.iter().find(|it| it.call == CallKind::Get).unwrap();
        (found.count, found.times.count())
    };
    // The first status was the reason to count, and so few calls are all timed. On a machine that is
    // slow enough, the watch ends before the last of them.
    let (count, timed) = gets(&second);
    assert_eq!(gets(&first), (0, 0));
    assert!(count <= 30 && count == timed, "{count}, {timed}");
    let level = &second.levels[0];
    assert_eq!(
        (&level.keyspace[..], level.tables > 0, level.fill.is_some()),
        ("default", true, true)
    );
    assert!(second.events.iter().any(|event| event.starts_with("flush of ")), "{second:?}");
    db.close().unwrap();
    assert_eq!(ask(3), None);
    assert_eq!(request_files(dir.path()), [""; 0]);
}

#[test]
fn a_status_that_is_not_understood_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let _db = filled(dir.path(), false);
    // An older version leaves an unknown request unanswered; another one answers in words of its own.
    for answer in ["status\nsomething else\nend\n", "status\n"] {
        let path = dir.path().to_owned();
        let act: Act = Box::new(move |_| {
            let requests = request_files(&path);
            let Some(number) = requests.iter().find_map(|name| name.strip_prefix("REQUEST."))
            else {
                return;
            };
            let text = format!("{}\n{answer}", answer.len());
            std::fs::write(path.join(format!("ANSWER.{number}")), text).unwrap();
        });
        let clock = Acting { waits: AtomicU32::new(0), act };
        let error = request_status(dir.path(), &clock, 1, &|| true).unwrap_err();
        assert!(matches!(error, Error::RequestFailed { .. }), "{error}");
        request_files(dir.path()).iter().for_each(|name| {
            std::fs::remove_file(dir.path().join(name)).unwrap();
        });
    }
}
