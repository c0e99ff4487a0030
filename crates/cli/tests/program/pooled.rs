//! Databases whose log is a pool: every command with `--pool`, without it, and with one that is not fit.
#![cfg(target_os = "linux")]

use crate::damage::flip;
use crate::{Done, Scratch, names};
use esker::env::Env;
use esker::{Log, Settings};
use esker_base::checksum::crc32c;
use esker_base::{SystemClock, background::Stepped};
use esker_pmem::{Accept, Pool};
use esker_storage::PosixStorage;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A directory for the database, and one on tmpfs for pools.
struct Pooled {
    scratch: Scratch,
    memory: tempfile::TempDir,
}

impl Pooled {
    /// One with an empty pool.
    fn new() -> Self {
        let memory = tempfile::tempdir_in("/dev/shm").unwrap();
        let pooled = Pooled { scratch: Scratch::new(), memory };
        pooled.create("pool");
        pooled
    }

    /// Tables with `a`; then, only in the pool, `b`, twice: as a killed process leaves it, in `db`.
    fn killed() -> Self {
        let pooled = Pooled::new();
        let live = pooled.memory.path().join("live");
        drop(Pool::create(&live, 1 << 20, Accept::Emulated).unwrap());
        let log = Log::Pmem { pool: live.clone(), emulated: true };
        let settings = Settings::default().log(log);
        let db = esker::Db::open(pooled.scratch.path("live"), settings).unwrap();
        let keyspace = db.default_keyspace();
        db.put(&keyspace, b"a", b"1").unwrap();
        db.flush().unwrap();
        // The flush gives its extent back after it is over for who waits for it.
        db.wait_for_compactions().unwrap();
        db.put(&keyspace, b"b", b"0").unwrap();
        db.put(&keyspace, b"b", b"2").unwrap();
        // The next segment is listed, and nothing changes any more.
        while db.stats().logs < 2 {
            std::thread::yield_now();
        }
        let (from, to) = (pooled.scratch.path("live"), pooled.scratch.path("db"));
        std::fs::create_dir(&to).unwrap();
        for name in names(&from) {
            std::fs::copy(from.join(&name), to.join(&name)).unwrap();
        }
        std::fs::copy(&live, pooled.path("pool")).unwrap();
        db.close().unwrap();
        pooled
    }

    fn path(&self, name: &str) -> PathBuf {
        self.memory.path().join(name)
    }

    fn create(&self, name: &str) {
        let path = self.path(name);
        let create = ["pmem", "create", path.to_str().unwrap(), "--bytes", "1M", "--emulated"];
        self.scratch.run(&create).expect_status(0);
    }

    fn run_with(&self, pool: &str, arguments: &[&str]) -> Done {
        let pool = self.path(pool);
        let pool = ["--pool", pool.to_str().unwrap(), "--emulated"];
        self.scratch.run(&[arguments, &pool].concat())
    }

    fn run(&self, arguments: &[&str]) -> Done {
        self.run_with("pool", arguments)
    }

    /// The commands that open the database all refuse it so, and change nothing.
    #[track_caller]
    fn expect_refusal(&self, pool: &str, parts: &[&str]) {
        let before = names(&self.scratch.path("db"));
        for command in [
            &["put", "--create", "db", "k", "v"][..],
            &["get", "db", "a"],
            &["stats", "db"],
            &["check", "db"],
            &["repair", "db"],
        ] {
            let done = self.run_with(pool, command);
            // A check reads what it can, and reports problems.
            assert!(done.status == 2 || (command[0] == "check" && done.status == 1), "{done:?}");
            let text = format!("{}{}", done.text(), done.err);
            assert!(parts.iter().all(|part| text.contains(part)), "{command:?}: {done:?}");
            assert!(!done.err.contains("panicked"), "{done:?}");
        }
        assert_eq!(names(&self.scratch.path("db")), before);
    }
}

fn change(path: &Path, change: impl FnOnce(&mut Vec<u8>)) {
    let mut bytes = std::fs::read(path).unwrap();
    change(&mut bytes);
    std::fs::write(path, bytes).unwrap();
}

#[test]
fn every_command_works_on_a_database_with_a_pool() {
    let pooled = Pooled::new();
    pooled.run(&["put", "--create", "db", "a", "1"]).expect("");
    pooled.run(&["put", "--create", "db", "b", "2"]).expect("");
    pooled.run(&["get", "db", "a"]).expect("1\n");
    pooled.run(&["delete", "db", "a"]).expect("");
    pooled.run(&["scan", "db"]).expect("b\t2\n");
    pooled.run(&["compact", "db"]).expect_status(0);
    for command in ["stats", "levels", "keyspaces", "dump-manifest", "check"] {
        pooled.run(&[command, "db"]).expect_status(0);
    }
    let done = pooled.run(&["repair", "db"]).expect_status(0);
    assert!(done.text().contains("nothing had to be dropped"), "{done:?}");
}

#[test]
fn what_a_killed_process_left_in_a_pool_is_read_checked_and_dumped() {
    let pooled = Pooled::killed();
    pooled.run(&["scan", "db"]).expect("a\t1\nb\t2\n");
    let done = pooled.run(&["dump-frames", "db"]).expect_status(0);
    assert!(done.text().contains(" put b 2\n"), "{done:?}");
    let json = pooled.run(&["check", "db", "--json"]).expect_status(0).json();
    assert_eq!((&json["log_entries"], &json["log_segments"]), (&2.into(), &2.into()), "{json}");
    let done = pooled.run(&["repair", "db"]).expect_status(0);
    assert!(done.text().contains("nothing had to be dropped"), "{done:?}");
    pooled.run(&["put", "--create", "db", "c", "3"]).expect("");
    pooled.run(&["scan", "db"]).expect("a\t1\nb\t2\nc\t3\n");
}

#[test]
fn a_pool_that_was_forgotten_is_asked_for_first() {
    let pooled = Pooled::killed();
    for command in
        [&["put", "--create", "db", "k", "v"][..], &["get", "db", "a"], &["repair", "db"]]
    {
        let done = pooled.scratch.run(command).expect_status(2);
        let (pool, dir) = (done.err.find("--pool"), done.err.find("--log-dir"));
        assert!(pool.is_some() && pool < dir, "{command:?}: {done:?}");
    }
    let done = pooled.scratch.run(&["check", "db"]).expect_status(1);
    assert!(done.text().contains("`--pool`"), "{done:?}");
    pooled.run(&["scan", "db"]).expect("a\t1\nb\t2\n");
}

#[test]
fn an_emulated_pool_is_asked_for_by_name() {
    let pooled = Pooled::killed();
    let pool = pooled.path("pool");
    let get = ["get", "db", "a", "--pool", pool.to_str().unwrap()];
    pooled.scratch.run(&get).expect_failure(2, "by name");
}

#[test]
fn what_shows_a_database_says_that_its_pool_is_emulated() {
    let pooled = Pooled::killed();
    for command in ["stats", "check", "dump-frames"] {
        let done = pooled.run(&[command, "db"]).expect_status(0);
        assert!(done.text().contains("emulated (DRAM"), "{command}: {done:?}");
    }
    for command in ["stats", "check"] {
        let json = pooled.run(&[command, "db", "--json"]).expect_status(0).json();
        let domain = json["pool_domain"].as_str();
        assert!(domain.is_some_and(|domain| domain.starts_with("emulated")), "{command}: {json}");
    }
}

#[test]
fn a_copy_of_a_pool_on_a_disk_is_looked_at_and_not_written_to() {
    let pooled = Pooled::killed();
    let copy = pooled.scratch.path("copy");
    std::fs::copy(pooled.path("pool"), &copy).unwrap();
    let copy = copy.to_str().unwrap();
    let done = pooled.scratch.run(&["pmem", "info", copy]).expect_status(0);
    if !done.text().contains("a copy") {
        let why = "the temporary directory is memory, where a copy is a pool";
        return esker_base::skipped("a pool's copy on a disk", why);
    }
    assert!(done.text().contains("\nstores    none here\n"), "{done:?}");
    let done = pooled.scratch.run(&["pmem", "check", copy]).expect_status(0);
    assert!(done.text().ends_with("no problems found\n"), "{done:?}");
    for command in [&["scan", "db"][..], &["check", "db"], &["dump-frames", "db"]] {
        let done = pooled.scratch.run(&[command, &["--pool", copy]].concat()).expect_status(0);
        assert!(!done.text().is_empty(), "{done:?}");
    }
    for command in [
        &["put", "--create", "db", "k", "v"][..],
        &["put", "--create", "new", "k", "v"],
        &["repair", "db"],
    ] {
        let done = pooled.scratch.run(&[command, &["--pool", copy, "--emulated"]].concat());
        assert!(done.status == 2 && done.err.contains("MAP_SYNC"), "{command:?}: {done:?}");
    }
    assert!(!pooled.scratch.path("new").exists());
}

#[test]
fn a_lost_pool_says_which_writes_it_had_and_how_to_go_on() {
    let pooled = Pooled::killed();
    pooled.expect_refusal("nowhere", &["no such file", "up to 1,", "repair db --give-up-logs"]);
    pooled.scratch.run(&["repair", "db", "--give-up-logs"]).expect_status(0);
    pooled.create("new");
    pooled.run_with("new", &["put", "--create", "db", "c", "3"]).expect("");
    pooled.run_with("new", &["scan", "db"]).expect("a\t1\nc\t3\n");
}

#[test]
fn another_databases_pool_is_refused_by_every_command() {
    let pooled = Pooled::killed();
    pooled.create("theirs");
    pooled.run_with("theirs", &["put", "--create", "other", "x", "1"]).expect("");
    pooled.expect_refusal("theirs", &["belongs to another database"]);
    pooled.run_with("theirs", &["scan", "other"]).expect("x\t1\n");
}

#[test]
fn a_pool_that_was_cut_off_is_refused_by_every_command() {
    let pooled = Pooled::killed();
    change(&pooled.path("pool"), |bytes| bytes.truncate(300_000));
    pooled.expect_refusal("pool", &["truncated here", "--give-up-logs"]);
}

#[test]
fn a_pool_of_a_newer_format_is_refused_by_every_command() {
    let pooled = Pooled::killed();
    change(&pooled.path("pool"), |bytes| {
        bytes[8] = 9;
        let crc = crc32c(&bytes[..60]);
        bytes[60..64].copy_from_slice(&crc.to_le_bytes());
    });
    pooled.expect_refusal("pool", &["has format version 9", "in it alone"]);
}

#[test]
fn a_pool_with_a_broken_header_is_refused_and_given_up_only_when_asked_for() {
    let pooled = Pooled::killed();
    flip(&pooled.path("pool"), 20);
    pooled.expect_refusal("pool", &["offset 60", "--give-up-logs"]);
    pooled.scratch.run(&["repair", "db", "--give-up-logs"]).expect_status(0);
    pooled.scratch.run(&["scan", "db"]).expect("a\t1\n");
}

#[test]
fn a_damaged_state_word_is_mended_without_loss() {
    let pooled = Pooled::killed();
    flip(&pooled.path("pool"), 4096);
    let done = pooled.run(&["get", "db", "a"]).expect_status(2);
    assert!(done.err.contains("`esker repair DB --pool FILE`"), "{done:?}");
    let done = pooled.run(&["check", "db"]).expect_status(1);
    assert!(done.text().contains("state word of extent 0"), "{done:?}");
    let done = pooled.run(&["repair", "db"]).expect_status(0);
    assert!(done.text().contains("mended the pool: at offset 4096"), "{done:?}");
    pooled.run(&["scan", "db"]).expect("a\t1\nb\t2\n");
    pooled.run(&["check", "db"]).expect_status(0);
}

#[test]
fn a_pool_that_is_being_written_to_is_shown_and_not_checked() {
    let pooled = Pooled::new();
    let log = Log::Pmem { pool: pooled.path("pool"), emulated: true };
    let settings = Settings::default().log(log);
    let db = esker::Db::open(pooled.scratch.path("db"), settings).unwrap();
    db.put(&db.default_keyspace(), b"k", b"v").unwrap();
    let pool = pooled.path("pool");
    let pool = pool.to_str().unwrap();
    pooled.scratch.run(&["pmem", "info", pool]).expect_status(0);
    pooled.scratch.run(&["pmem", "check", pool]).expect_failure(2, "is in use by process");
    pooled.run(&["get", "db", "k"]).expect("v\n");
    db.close().unwrap();
    pooled.scratch.run(&["pmem", "check", pool]).expect_status(0);
}

/// A recovery gives the seqnos of a torn tail out again, in the next segment.
#[test]
fn a_torn_tail_that_a_recovery_went_on_from_is_no_problem() {
    let pooled = Pooled::killed();
    let path = pooled.path("pool");
    // Tear the last frame; recover; and be killed again before the flush.
    change(&path, |bytes| {
        let at = bytes.windows(2).rposition(|pair| pair == b"b2").unwrap();
        bytes[at + 1] ^= 1;
    });
    let log = Log::Pmem { pool: path.clone(), emulated: true };
    let settings = Settings::default().log(log);
    // Without threads, nothing is flushed before the kill.
    let env = Env::over(Arc::new(PosixStorage::open(pooled.scratch.path("db")).unwrap()))
        .pool(Pool::open(&path, Accept::Emulated).unwrap())
        .clock(Arc::new(SystemClock::new()))
        .background(Arc::new(Stepped))
        .seed(0);
    let db = esker::Db::open_with(env, settings).unwrap();
    for value in [b"3", b"4"] {
        db.put(&db.default_keyspace(), b"c", value).unwrap();
    }
    std::fs::copy(&path, pooled.path("copy")).unwrap();
    let copy = pooled.path("copy");
    let done = pooled.scratch.run(&["pmem", "check", copy.to_str().unwrap()]).expect_status(0);
    assert!(done.text().contains("a crash left it"), "{done:?}");
    assert!(!done.text().contains("no problems found"), "something was left out: {done:?}");
    db.close().unwrap();
}

#[test]
fn batches_and_refusals_go_by_the_pool_s_extents() {
    // Of a pool of a MiB, 16 KiB or 256 entries are a batch.
    let pooled = Pooled::new();
    let put = ["put", "--create", "db", "k", &"v".repeat(32 << 10), "--ttl", "1h"];
    pooled.run(&put).expect_status(2);
    assert!(!pooled.scratch.path("db").exists());
    let lines: String = (0..2_000).map(|number| format!("k{number:04}\tv\n")).collect();
    pooled.scratch.file("all.tsv", format!("esker:key\tesker:value\n{lines}").as_bytes());
    pooled.run(&["import", "db", "all.tsv"]).expect_status(0);
}

#[test]
fn a_damaged_write_in_a_pool_is_a_problem_of_the_pool() {
    let pooled = Pooled::killed();
    let path = pooled.path("pool");
    let bytes = std::fs::read(&path).unwrap();
    // The first of the two writes of `b`: the second shows that it was acknowledged.
    let at = bytes.windows(4).position(|window| window == [1, 1, b'b', b'0']).unwrap();
    flip(&path, at + 3);
    let check = ["pmem", "check", path.to_str().unwrap()];
    let done = pooled.scratch.run(&check).expect_status(1);
    assert!(done.text().contains("at offset") && !done.text().contains("no problems"), "{done:?}");
    let json = pooled.scratch.run(&[&check[..], &["--json"]].concat()).expect_status(1).json();
    assert_eq!(json["problems"].as_array().unwrap().len(), 1, "{json}");
}
