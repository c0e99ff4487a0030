//! `esker serve` and `esker nvme`, two processes and a socket between them.

use crate::{Done, Scratch};
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

/// A node that serves, and where.
struct Serving {
    child: Child,
    address: String,
}

impl Serving {
    fn start(scratch: &Scratch, arguments: &[&str]) -> Self {
        let mut command = scratch.command(&["serve", "--listen", "127.0.0.1:0"]);
        let mut child = command.args(arguments).stdout(Stdio::piped()).spawn().unwrap();
        let mut first = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut first).unwrap();
        let rest = first.strip_prefix("listening on ").unwrap_or_else(|| panic!("{first:?}"));
        let address = rest.split(',').next().unwrap().to_owned();
        Serving { child, address }
    }

    fn nvme(&self, scratch: &Scratch, arguments: &[&str], input: &[u8]) -> Done {
        let (action, rest) = arguments.split_first().unwrap();
        let mut all = vec!["nvme", action, "--address", &self.address];
        all.extend_from_slice(rest);
        scratch.run_with(&all, input)
    }

    fn stop(mut self) {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args(["-INT", &pid]).status().unwrap().success());
        assert_eq!(self.child.wait().unwrap().code(), Some(0));
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn keys_go_over_the_wire_and_stay_in_the_database() {
    let scratch = Scratch::new();
    let node = Serving::start(&scratch, &["db"]);
    node.nvme(&scratch, &["store", "greeting", "hello"], b"").expect("");
    let long = vec![0xa5; 300_000];
    node.nvme(&scratch, &["store", "long", "-"], &long).expect("");
    node.nvme(&scratch, &["retrieve", "greeting"], b"").expect("hello");
    assert!(node.nvme(&scratch, &["retrieve", "long"], b"").expect_status(0).out == long);
    node.nvme(&scratch, &["list"], b"").expect("greeting\nlong\n");
    node.nvme(&scratch, &["store", "long", "x", "--if-absent"], b"").expect_failure(1, "already");
    node.nvme(&scratch, &["delete", "long"], b"").expect("");
    node.nvme(&scratch, &["exist", "long"], b"").expect_failure(1, "there is no key long");
    let found = node.nvme(&scratch, &["discover"], b"").expect_status(0);
    assert_eq!(found.text(), format!("nqn.2024-01.io.esker:node\t{}\n", node.address));
    node.stop();
    scratch.run(&["get", "db", "greeting"]).expect("hello\n");
}

#[test]
fn a_node_in_memory_says_that_nothing_survives() {
    let scratch = Scratch::new();
    let node = Serving::start(&scratch, &["--memory", "1MiB"]);
    node.nvme(&scratch, &["store", "k", "v"], b"").expect("");
    node.nvme(&scratch, &["retrieve", "k"], b"").expect("v");
    assert!(node.nvme(&scratch, &["ping", "--count", "10"], b"").text().starts_with("10 round"));
    node.stop();
    scratch.run(&["serve"]).expect_status(2);
}

#[test]
fn hosts_that_are_not_listed_or_have_no_secret_stay_out() {
    const SECRET: &str = "DHHC-1:00:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh+KfiaR:";
    let scratch = Scratch::new();
    let hosts = scratch.file("hosts", format!("nqn.known {SECRET}\n").as_bytes());
    let secret = scratch.file("secret", SECRET.as_bytes());
    let wrong = scratch.file("wrong", SECRET.replace(":00:", ":01:").as_bytes());
    let node = Serving::start(&scratch, &["--memory", "1MiB", "--hosts", &hosts]);
    let store = |more: &[&str]| {
        let mut all = vec!["store", "k", "v"];
        all.extend_from_slice(more);
        node.nvme(&scratch, &all, b"")
    };
    store(&["--host", "nqn.known", "--secret", &secret]).expect("");
    store(&["--host", "nqn.known", "--secret", &wrong]).expect_failure(1, "authentication failed");
    store(&["--host", "nqn.known"]).expect_failure(1, "authentication failed");
    store(&["--host", "nqn.other", "--secret", &secret]).expect_failure(1, "refused to connect");
    node.stop();
}

#[test]
fn a_node_that_is_not_there_is_named() {
    let scratch = Scratch::new();
    let done = scratch.run(&["nvme", "exist", "k", "--address", "127.0.0.1:1", "--timeout", "1"]);
    done.expect_failure(1, "could not reach 127.0.0.1:1");
    let done = scratch.run(&["nvme", "exist", "k", "--nqn", "node"]);
    done.expect_failure(2, "nqn.");
}
