//! What is said of a peer that can't be opened.

use esker_peers::{NAMES, PeerSettings, check, open};

#[test]
fn an_unknown_peer_is_refused_with_the_names_there_are() {
    let error = check("berkeleydb").unwrap_err().to_string();
    assert!(error.contains("berkeleydb") && error.contains("rocksdb-wal"), "{error}");
}

#[test]
fn a_peer_that_is_not_built_in_is_refused_before_a_file_is_made() {
    let dir = tempfile::tempdir().unwrap();
    for name in NAMES.into_iter().filter(|name| check(name).is_err()) {
        let Err(error) = open(name, dir.path(), &PeerSettings::default()) else {
            panic!("{name} was opened");
        };
        let error = error.to_string();
        assert!(error.contains(name) && error.contains("scripts/install-peers"), "{error}");
        assert!(error.contains("--features peers"), "{error}");
    }
    assert_eq!(dir.path().read_dir().unwrap().count(), 0);
}
