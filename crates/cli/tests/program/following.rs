//! `esker serve --followers`, `esker follow` and `esker promote`.

use crate::Scratch;
use crate::serving::{Serving, get};
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

/// Where a node serves followers of its namespace `number`: in a line of its start.
fn followers_of(node: &mut Serving, number: u32) -> String {
    let start = format!("followers of namespace {number} on ");
    // One line more than there can be before it fails.
    let line = (0..20).map(|_| node.line()).find(|line| line.starts_with(&start)).unwrap();
    line[start.len()..].split(": ").next().unwrap().to_owned()
}

fn followers(node: &mut Serving) -> String {
    followers_of(node, 1)
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

/// The follower is suspended, so that it applies nothing any more.
#[test]
fn a_node_that_stops_names_the_followers_that_lag_and_waits_for_them_no_longer_than_some_seconds() {
    let scratch = Scratch::new();
    let said = scratch.path("said");
    let arguments =
        ["serve", "--listen", "127.0.0.1:0", "--create", "db", "--followers", "127.0.0.1:0"];
    let mut command = scratch.command(&arguments);
    let mut node = Serving::spawn(command.stderr(std::fs::File::create(&said).unwrap()));
    let address = followers(&mut node);
    let arguments = ["follow", &address, "copy", "--name", "slow", "--json"];
    let mut child = scratch.command(&arguments).stdout(Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let child = Running(child);
    lines.map(Result::unwrap).find(|line| line.contains("\"current\"")).unwrap();
    let pid = child.0.id().to_string();
    assert!(Command::new("kill").args(["-STOP", &pid]).status().unwrap().success());
    for key in ["a", "b"] {
        node.nvme(&scratch, &["store", key, "value"], b"").expect("");
    }
    node.stop();
    let said = std::fs::read_to_string(said).unwrap();
    let lines: Vec<_> = said.lines().filter(|line| line.contains("\"slow\"")).collect();
    let [waits, gives_up] = lines[..] else { panic!("{said}") };
    assert!(waits.contains("namespace 1: waiting for followers: \"slow\" (127.0.0.1:"), "{said}");
    assert!(gives_up.contains("no longer waiting for followers: \"slow\" ("), "{said}");
    assert!(lines.iter().all(|line| line.contains("), 2 writes behind for ")), "{said}");
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

/// Each database of a configuration has followers of its own, and the page of metrics shows them.
#[test]
fn a_configuration_says_where_followers_are_served() {
    let scratch = Scratch::new();
    let namespace = |path: &str| {
        let place = format!("kind = \"lsm\"\ncreate = true\npath = \"{path}\"\n");
        format!("[[namespace]]\n{place}followers = \"127.0.0.1:0\"\nfollowers_keep = \"64MiB\"\n")
    };
    let ram = "[[namespace]]\nkind = \"ram\"\nbytes = \"1MiB\"\n";
    let node = "listen = \"127.0.0.1:0\"\nmetrics = \"127.0.0.1:0\"\n";
    let text = format!("{node}{ram}{}{}", namespace("a"), namespace("b"));
    let config = scratch.file("node.toml", text.as_bytes());
    let mut node = Serving::run(&scratch, &["serve", "--config", &config]);
    let metrics = node.line();
    let metrics = metrics.split("//").nth(1).unwrap().split('/').next().unwrap().to_owned();
    for (number, copy) in [(2, "copy-a"), (3, "copy-b")] {
        let address = followers_of(&mut node, number);
        let place = ["store", "k", copy, "--namespace", &number.to_string()];
        node.nvme(&scratch, &place, b"").expect("");
        scratch.run(&["follow", &address, copy, "--once"]).expect_status(0);
        scratch.run(&["get", copy, "k"]).expect(&format!("{copy}\n"));
    }
    let page = get(&metrics, "/metrics");
    for number in [2, 3] {
        let labels = format!("{{namespace=\"{number}\",kind=\"lsm\"}}");
        assert!(page.contains(&format!("\nesker_node_namespace_followers{labels} ")), "{page}");
    }
    assert!(!page.contains("esker_node_namespace_followers{namespace=\"1\""), "{page}");
    node.stop();
    let consumers = scratch.run(&["consumers", "b"]).expect_status(0);
    assert!(consumers.text().contains("of at most 64"), "{}", consumers.text());
}
