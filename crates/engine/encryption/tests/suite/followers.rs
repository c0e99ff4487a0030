//! Followers of encrypted databases.

use crate::{expect, keys, small, write};
use esker_base::Error;
use esker_lsm::Db;

#[test]
fn a_follower_sees_what_is_written() {
    let dir = tempfile::tempdir().unwrap();
    let settings = small().encryption(keys(&[1]));
    let db = Db::open(dir.path(), settings.clone()).unwrap();
    write(&db, 0);
    let follower = Db::open_follower(dir.path(), settings.clone(), None).unwrap();
    expect(&follower, 0);
    for round in 1..6 {
        write(&db, round);
        if round == 3 {
            db.compact().unwrap();
        }
        follower.catch_up().unwrap();
        expect(&follower, round);
    }
    // The process after it has a new key, which the follower has, too.
    db.close().unwrap();
    let both = small().encryption(keys(&[1, 2]));
    let follower = Db::open_follower(dir.path(), both, None).unwrap();
    let db = Db::open(dir.path(), small().encryption(keys(&[2, 1]))).unwrap();
    write(&db, 6);
    follower.catch_up().unwrap();
    expect(&follower, 6);
}

#[test]
fn a_follower_needs_the_key() {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path(), small().encryption(keys(&[1]))).unwrap();
    write(&db, 0);
    for settings in [small(), small().encryption(keys(&[2]))] {
        let error = Db::open_follower(dir.path(), settings, None).map(|_| ()).unwrap_err();
        assert!(matches!(error, Error::Encryption(_)), "{error}");
    }
}
