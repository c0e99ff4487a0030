//! What the traced program does, what it acknowledges by a line on its output, and whether that is
//! found again.

use esker_lsm::{Db, KeyspaceSettings, Log, Settings, SyncPolicy};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

pub const SCRIPT: &str = "ESKER_TRACED_SCRIPT";
pub const PLACE: &str = "ESKER_TRACED_PLACE";

/// Lines that acknowledge something begin with this.
const MARK: &str = "acknowledged ";

/// One use of databases, in directories below the place that it is given.
pub struct Script {
    pub name: &'static str,
    run: fn(&Path),
}

pub const SCRIPTS: [Script; 4] = [
    Script { name: "always", run: always },
    Script { name: "synced later", run: synced_later },
    Script { name: "logs elsewhere", run: logs_elsewhere },
    Script { name: "directory made before", run: directory_made_before },
];

/// What must be found after a power cut.
#[derive(Default)]
pub struct Acknowledged {
    /// By database: how many of its entries, from the first on.
    pairs: BTreeMap<String, u32>,
    keyspaces: BTreeSet<(String, String)>,
    finished: bool,
}

impl Acknowledged {
    /// Takes note of a line. Says whether it acknowledges anything.
    pub fn hear(&mut self, line: &str) -> bool {
        // The test harness may have begun the line.
        let Some((_, promise)) = line.split_once(MARK) else {
            return false;
        };
        let words: Vec<_> = promise.split_whitespace().collect();
        match words[..] {
            ["pairs", database, pairs] => {
                let pairs: u32 = pairs.parse().unwrap();
                let known = self.pairs.entry(database.to_owned()).or_default();
                *known = pairs.max(*known);
            }
            ["keyspace", database, name] => {
                self.keyspaces.insert((database.to_owned(), name.to_owned()));
            }
            ["end"] => self.finished = true,
            _ => panic!("{line}"),
        }
        true
    }

    pub fn is_finished(&self) -> bool {
        self.finished
    }
}

fn acknowledge(what: &str) {
    // One line is one write.
    println!("{MARK}{what}");
}

/// Acknowledges every third put: each is inspected in a power cut or two.
fn tell(pairs: &str, number: u32) {
    if number % 3 == 2 {
        acknowledge(&format!("pairs {pairs}"));
    }
}

fn settings(database: &Path, sync: SyncPolicy) -> Settings {
    let logs = database.with_file_name("logs");
    let dir = database.file_name().is_some_and(|name| name == "split").then_some(logs);
    let log = Log::File { dir, sync };
    let default_keyspace = KeyspaceSettings::default();
    let (segment_bytes, memory_bytes) = (64 << 10, 8 << 20);
    Settings::default()
        .log(log)
        .segment_bytes(segment_bytes)
        .memory_bytes(memory_bytes)
        .default_keyspace(default_keyspace)
}

fn key(number: u32) -> [u8; 4] {
    number.to_be_bytes()
}

fn value(number: u32) -> Vec<u8> {
    let mut value = vec![number as u8; 2_500];
    value[..4].copy_from_slice(&number.to_le_bytes());
    value
}

fn put(db: &Db, number: u32) {
    db.put(&db.default_keyspace(), key(number), value(number)).unwrap();
}

/// Puts with each write acknowledged, through several segments, flushes and a compaction.
fn always(place: &Path) {
    let path = place.join("new/parents/always");
    let settings = settings(&path, SyncPolicy::Always);
    let db = Db::open(&path, settings.clone()).unwrap();
    acknowledge("pairs new/parents/always 0");
    for number in 0..120 {
        put(&db, number);
        tell(&format!("new/parents/always {}", number + 1), number);
        if number == 50 {
            db.keyspace("other", KeyspaceSettings::default()).unwrap();
            acknowledge("keyspace new/parents/always other");
        }
        if number == 80 {
            db.compact().unwrap();
        }
    }
    db.checkpoint(place.join("copies/first")).unwrap();
    acknowledge("pairs copies/first 120");
    drop(db);
    let db = Db::open(&path, settings).unwrap();
    for number in 120..150 {
        put(&db, number);
        tell(&format!("new/parents/always {}", number + 1), number);
    }
    db.close().unwrap();
    acknowledge("pairs new/parents/always 150");
}

/// Puts that are acknowledged for power loss by a sync, a flush, or a batch that asks for it.
fn synced_later(place: &Path) {
    let path = place.join("later");
    let db = Db::open(&path, settings(&path, SyncPolicy::Os)).unwrap();
    for round in 0..9_u32 {
        let first = round * 10;
        (first..first + 9).for_each(|number| put(&db, number));
        let last = first + 9;
        match round % 3 {
            0 => {
                put(&db, last);
                db.sync().unwrap();
            }
            1 => {
                put(&db, last);
                db.flush().unwrap();
            }
            _ => {
                let mut batch = db.batch();
                batch.put(&db.default_keyspace(), key(last), value(last));
                batch.set_sync(true);
                db.write(&batch).unwrap();
            }
        }
        acknowledge(&format!("pairs later {}", last + 1));
    }
    // No close: what follows is a killed process, as far as the files tell.
    std::mem::forget(db);
}

/// Logs in a directory of their own.
fn logs_elsewhere(place: &Path) {
    let path = place.join("split");
    let db = Db::open(&path, settings(&path, SyncPolicy::Always)).unwrap();
    for number in 0..60 {
        put(&db, number);
        tell(&format!("split {}", number + 1), number);
    }
    db.close().unwrap();
    acknowledge("pairs split 60");
}

/// A directory whose name was not synced, as a process that was killed leaves it.
fn directory_made_before(place: &Path) {
    let path = place.join("made");
    std::fs::create_dir(&path).unwrap();
    let db = Db::open(&path, settings(&path, SyncPolicy::Always)).unwrap();
    for number in 0..5 {
        put(&db, number);
        acknowledge(&format!("pairs made {}", number + 1));
    }
    db.close().unwrap();
}

/// The child. Without its environment it is a test that has nothing to do.
#[test]
fn traced() {
    let (Some(script), Some(place)) = (std::env::var_os(SCRIPT), std::env::var_os(PLACE)) else {
        return;
    };
    let mut go = String::new();
    std::io::stdin().read_line(&mut go).unwrap();
    let script = SCRIPTS.iter().find(|known| *known.name == *script).expect("a known script");
    (script.run)(Path::new(&place));
    acknowledge("end");
}

/// Checks what a power cut has left in `place`.
pub fn check(place: &Path, acknowledged: &Acknowledged) {
    for (name, &pairs) in &acknowledged.pairs {
        let path = place.join(name);
        let opened = Db::open_existing(&path, settings(&path, SyncPolicy::Always));
        let db = opened.unwrap_or_else(|error| panic!("{name}, with {pairs} pairs: {error}"));
        let found: Vec<_> = db.range(&db.default_keyspace(), ..).collect();
        let found: Vec<_> = found.into_iter().map(|pair| pair.unwrap()).collect();
        // More than was acknowledged may be there, but no hole.
        let count = found.len() as u32;
        assert!(count >= pairs, "{name}: {count} pairs are left of {pairs}");
        for (number, pair) in (0..).zip(&found) {
            assert!(pair.0 == key(number)[..] && pair.1 == value(number), "{name}: pair {number}");
        }
        for (_, keyspace) in acknowledged.keyspaces.iter().filter(|(of, _)| of == name) {
            db.open_keyspace(keyspace).unwrap();
        }
    }
}
