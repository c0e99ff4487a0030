//! `key`, and `--key-file` of other commands.

use crate::Scratch;

const SECRET: &str = "Xq9vTnKwSecret";

/// Whether `SECRET` is in a file under `dir`.
fn is_readable(dir: &std::path::Path) -> bool {
    std::fs::read_dir(dir).unwrap().any(|entry| {
        let path = entry.unwrap().path();
        let bytes = |path| std::fs::read(path).unwrap();
        match path.is_dir() {
            true => is_readable(&path),
            false => bytes(path).windows(SECRET.len()).any(|it| it == SECRET.as_bytes()),
        }
    })
}

#[test]
fn every_command_takes_the_keys_of_an_encrypted_database() {
    let scratch = Scratch::new();
    let with = |arguments: &[&str]| scratch.run(&[arguments, &["--key-file", "keys"]].concat());
    scratch.run(&["key", "new", "keys"]).expect_status(0);
    with(&["put", "--create", "db", SECRET, SECRET]).expect("");
    with(&["get", "db", SECRET]).expect(&format!("{SECRET}\n"));
    with(&["backup", "db", "repo"]).expect_status(0);
    with(&["backups", "repo", "--verify"]).expect_status(0);
    with(&["restore", "repo", "restored"]).expect_status(0);
    with(&["get", "restored", SECRET]).expect(&format!("{SECRET}\n"));
    with(&["checkpoint", "db", "copy"]).expect_status(0);
    with(&["get", "copy", SECRET]).expect(&format!("{SECRET}\n"));
    for command in ["check", "repair", "stats", "levels", "dump-manifest", "scan", "keyspaces"] {
        with(&[command, "db"]).expect_status(0);
    }
    assert!(!is_readable(&scratch.path("")));
    // The search would find it.
    scratch.run(&["put", "--create", "plain", SECRET, SECRET]).expect("");
    assert!(is_readable(&scratch.path("plain")));
}

#[test]
fn a_database_is_refused_without_its_key_and_with_one_that_it_does_not_need() {
    let scratch = Scratch::new();
    scratch.run(&["key", "new", "keys"]).expect_status(0);
    scratch.run(&["key", "new", "others"]).expect_status(0);
    scratch.run(&["put", "--create", "db", "a", "1", "--key-file", "keys"]).expect("");
    scratch.run(&["put", "--create", "plain", "a", "1"]).expect("");
    for command in [&["get", "db", "a"][..], &["put", "db", "a", "2"], &["repair", "db"]] {
        scratch.run(command).expect_failure(2, "db is encrypted, and no key was given");
        let with = |keys| [command, &["--key-file", keys]].concat();
        scratch.run(&with("others")).expect_failure(2, "and the keys given are");
        scratch.run(&with("missing")).expect_failure(2, "could not read missing");
        let plain: Vec<&str> = with("keys")
            .into_iter()
            .map(|word| if word == "db" { "plain" } else { word })
            .collect();
        scratch.run(&plain).expect_failure(2, "plain is not encrypted, and a key was given");
    }
    let keys = std::fs::read_to_string(scratch.path("keys")).unwrap();
    let mut command = scratch.command(&["get", "db", "a"]);
    let done = command.env("ESKER_KEY", keys.trim()).output().unwrap();
    assert_eq!(done.stdout, b"1\n");
    let done = command.env("ESKER_KEY", "secret").output().unwrap();
    let message = String::from_utf8(done.stderr).unwrap();
    assert!(message.contains("ESKER_KEY") && !message.contains("secret"), "{message}");
}

#[test]
fn keys_are_rotated_by_a_compaction() {
    let scratch = Scratch::new();
    let first = scratch.run(&["key", "new", "keys", "--json"]).json();
    scratch.run(&["put", "--create", "db", "a", "1", "--key-file", "keys"]).expect("");
    scratch.run(&["compact", "db", "--key-file", "keys"]).expect_status(0);
    let second = scratch.run(&["key", "new", "keys", "--json"]).json();
    let usage = || scratch.run(&["key", "usage", "db", "--json"]).json()["keys"].clone();
    assert_eq!(usage().as_array().unwrap().len(), 1);
    assert_eq!(usage()[0]["key"], first["key"]);
    scratch.run(&["compact", "db", "--key-file", "keys"]).expect_status(0);
    assert_eq!(usage().as_array().unwrap().len(), 1, "{}", usage());
    assert_eq!(usage()[0]["key"], second["key"]);
    // Without the old one.
    let text = std::fs::read_to_string(scratch.path("keys")).unwrap();
    scratch.file("keys", text.lines().next().unwrap().as_bytes());
    scratch.run(&["get", "db", "a", "--key-file", "keys"]).expect("1\n");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        scratch.run(&["key", "new", "fresh"]).expect_status(0);
        let mode = std::fs::metadata(scratch.path("fresh")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }
}
