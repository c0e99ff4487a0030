//! Nothing of an entry can be read in any file.

use crate::{keys, small};
use esker_backup::Repository;
use esker_base::SystemClock;
use esker_lsm::{Db, KeyspaceSettings, Log, Settings, SyncPolicy, request_status};
use esker_storage::Encryption;
use std::path::Path;
use std::time::Duration;

/// What must not be found: in names of keyspaces, in keys and in values.
const SECRETS: [&str; 3] = ["Kh7qWzTnamed", "Zr4vXkQwkeyed", "Bn9mLpYtvalue"];

/// How often each secret is in the files under `dir`.
fn found_in(dir: &Path) -> [usize; 3] {
    let mut found = [0; 3];
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        let inside = match path.is_dir() {
            true => found_in(&path),
            false => {
                let bytes = std::fs::read(&path).unwrap();
                SECRETS.map(|secret| {
                    bytes.windows(secret.len()).filter(|it| *it == secret.as_bytes()).count()
                })
            }
        };
        for (sum, more) in found.iter_mut().zip(inside) {
            *sum += more;
        }
    }
    found
}

fn put(db: &Db, from: u32) {
    let named = db.keyspace(SECRETS[0], KeyspaceSettings::default()).unwrap();
    for keyspace in [&named, &db.default_keyspace()] {
        for number in from..from + 200 {
            let (key, value) = (SECRETS[1], SECRETS[2]);
            keyspace
                .put(format!("{number:04} {key}"), format!("{value} {number} {value}"))
                .unwrap();
        }
    }
    named.delete(format!("{from:04} {}", SECRETS[1])).unwrap();
    // In value files, once they are flushed.
    let apart = KeyspaceSettings::default().separation_threshold(16);
    let apart = db.keyspace("apart", apart).unwrap();
    (from..from + 50).for_each(|number| {
        apart.put(format!("{number:04}"), format!("{0} {number} {0}", SECRETS[2])).unwrap();
    });
}

/// Leaves files of all kinds under `dir`, and checks that their entries are there.
fn use_all(dir: &Path, settings: &Settings, encryption: Option<&Encryption>) {
    let open = || Db::open(dir.join("db"), settings.clone()).unwrap();
    let db = open();
    put(&db, 0);
    // In a log only.
    let in_log = found_in(dir);
    assert!(in_log.iter().all(|&found| (found == 0) == encryption.is_some()), "{in_log:?}");
    db.flush().unwrap();
    put(&db, 100);
    db.compact().unwrap();
    put(&db, 200);
    db.checkpoint(dir.join("checkpoint")).unwrap();
    let repository = Repository::create_with(dir.join("repository"), encryption).unwrap();
    repository.ship(&db, 1 << 30).unwrap();
    put(&db, 300);
    let shipped = repository.ship(&db, 1 << 30).unwrap();
    assert!(shipped.shipments > 0);
    repository.back_up(&db).unwrap();
    repository.restore(None, dir.join("restored")).unwrap();
    let point = esker_backup::PointInTime::Seqno(shipped.seqno);
    repository.restore_to(point, dir.join("restored to")).unwrap();
    // As after a crash.
    std::mem::forget(db);
}

/// The entries of the database in `dir`.
fn entries(dir: &Path, settings: &Settings) -> usize {
    let db = Db::open_read_only(dir, settings.clone()).unwrap();
    let named = db.open_keyspace(SECRETS[0]).unwrap();
    let found = named.get(format!("0150 {}", SECRETS[1])).unwrap().unwrap();
    assert!(found.starts_with(SECRETS[2].as_bytes()));
    named.iter().count()
}

#[test]
fn nothing_of_an_entry_is_in_any_file() {
    let dir = tempfile::tempdir().unwrap();
    let encryption = Encryption::from(keys(&[1]));
    let settings = small().encryption(encryption.clone());
    use_all(dir.path(), &settings, Some(&encryption));
    for (name, expected) in
        [("db", 496), ("checkpoint", 397), ("restored", 496), ("restored to", 496)]
    {
        assert_eq!(entries(&dir.path().join(name), &settings), expected, "{name}");
        assert!(dir.path().join(name).join("CURRENT").exists());
    }
    assert_eq!(found_in(dir.path()), [0; 3]);
}

#[test]
fn the_search_finds_what_is_not_encrypted() {
    let dir = tempfile::tempdir().unwrap();
    use_all(dir.path(), &small(), None);
    for name in ["db", "checkpoint", "repository", "restored", "restored to"] {
        let found = found_in(&dir.path().join(name));
        assert!(found.iter().all(|&found| found > 0), "{name}: {found:?}");
    }
}

/// What `esker top` is answered is in a file that is not encrypted while it reads it.
#[test]
fn answers_to_other_processes_have_no_names_and_keys() {
    let has_secrets = |settings: Settings| {
        let dir = tempfile::tempdir().unwrap();
        let settings = settings.slow_call(Duration::from_micros(1)).answers_requests(true);
        let db = Db::open(dir.path(), settings).unwrap();
        put(&db, 0);
        db.compact().unwrap();
        let named = db.open_keyspace(SECRETS[0]).unwrap();
        named.get(format!("0001 {}", SECRETS[1])).unwrap().unwrap();
        let clock = SystemClock::new();
        let status = request_status(dir.path(), &clock, 1, &|| true).unwrap().unwrap();
        let text = format!("{status:?}");
        [SECRETS[0], SECRETS[1]].map(|secret| text.contains(secret))
    };
    assert_eq!(has_secrets(small()), [true; 2], "the search finds what is not hidden");
    assert_eq!(has_secrets(small().encryption(keys(&[1]))), [false; 2]);
}

#[test]
fn logs_of_their_own_directory_are_encrypted() {
    let dir = tempfile::tempdir().unwrap();
    let log = Log::File { dir: Some(dir.path().join("logs")), sync: SyncPolicy::Os };
    let settings = small().log(log).encryption(keys(&[1]));
    let db = Db::open(dir.path().join("db"), settings.clone()).unwrap();
    put(&db, 0);
    assert_eq!(found_in(dir.path()), [0; 3]);
    db.close().unwrap();
    let db = Db::open(dir.path().join("db"), settings).unwrap();
    put(&db, 0);
    db.close().unwrap();
    assert_eq!(found_in(dir.path()), [0; 3]);
}
