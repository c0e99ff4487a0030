//! `esker serve --followers`, `esker follow` and `esker promote`.

use crate::Scratch;
use crate::serving::Serving;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

/// Where a node serves followers: its second line.
fn followers(node: &mut Serving) -> String {
    let line = node.line();
    let rest = line.strip_prefix("followers on ").unwrap_or_else(|| panic!("{line:?}"));
    rest.split(": ").next().unwrap().to_owned()
}

/// A process that is killed in the end.
struct Running(Child);

impl Running {
    fn interrupt(mut self) {
        let pid = self.0.id().to_string();
        assert!(Command::new("kill").args(["-INT", &pid]).status().unwrap().success());
        assert_eq!(self.0.wait().unwrap().code(), Some(0));
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_follower_catches_up_is_read_and_is_promoted() {
    let scratch = Scratch::new();
    let mut node = Serving::start(&scratch, &["--create", "db", "--followers", "127.0.0.1:0"]);
    let address = followers(&mut node);
    node.nvme(&scratch, &["store", "greeting", "hello"], b"").expect("");
    let done = scratch.run(&["follow", &address, "copy", "--once"]).expect_status(0);
    assert!(done.text().contains("has all writes up to seqno 1"), "{}", done.text());
    scratch.run(&["get", "copy", "greeting"]).expect("hello\n");
    scratch.run(&["put", "copy", "greeting", "no"]).expect_failure(2, "follows another database");

    node.nvme(&scratch, &["store", "greeting", "again"], b"").expect("");
    let arguments = ["follow", &address, "copy", "--json"];
    let mut child = scratch.command(&arguments).stdout(Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let child = Running(child);
    let current = lines.map(Result::unwrap).find(|line| line.contains("\"current\"")).unwrap();
    assert!(current.contains("\"applied\":2") && current.contains("\"behind\":0"), "{current}");
    scratch.run(&["get", "copy", "greeting"]).expect("again\n");
    scratch.run(&["promote", "copy"]).expect_failure(2, "is in use by");
    child.interrupt();
    node.stop();

    let consumers = scratch.run(&["consumers", "db"]).expect_status(0);
    assert!(consumers.text().contains("follower "), "{}", consumers.text());
    scratch.run(&["promote", "db"]).expect_failure(2, "follows no other database");
    scratch.run(&["promote", "copy"]).expect_status(0);
    scratch.run(&["put", "copy", "greeting", "mine"]).expect_status(0);
    scratch.run(&["get", "copy", "greeting"]).expect("mine\n");
    scratch
        .run(&["follow", &address, "copy", "--once"])
        .expect_failure(2, "follows no other database");
}

#[test]
fn a_wrong_secret_keeps_a_follower_out() {
    const SECRET: &str = "DHHC-1:00:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh+KfiaR:";
    let scratch = Scratch::new();
    let hosts = scratch.file("hosts", format!("nqn.known {SECRET}\n").as_bytes());
    let secret = scratch.file("secret", SECRET.as_bytes());
    let wrong = scratch.file("wrong", SECRET.replace(":00:", ":01:").as_bytes());
    let arguments = ["--create", "db", "--followers", "127.0.0.1:0", "--hosts", &hosts];
    let mut node = Serving::start(&scratch, &arguments);
    let address = followers(&mut node);
    let right = ["follow", &address, "copy", "--once", "--host", "nqn.known", "--secret", &secret];
    scratch.run(&right).expect_status(0);
    let arguments = ["follow", &address, "copy", "--host", "nqn.known", "--secret", &wrong];
    let mut child = scratch.command(&arguments).stdout(Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let _child = Running(child);
    // A connection that was lost may be said before.
    let mut lines = lines.map(Result::unwrap);
    assert!(lines.any(|line| line.contains("not connected: authentication failed")));
    node.stop();
}
