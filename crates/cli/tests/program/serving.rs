//! `esker serve` and `esker nvme`, two processes and a socket between them.

use crate::{Done, Scratch};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, ChildStdout, Command, Stdio};

/// A node that serves, and where.
pub struct Serving {
    child: Child,
    pub address: String,
    output: BufReader<ChildStdout>,
}

impl Serving {
    pub fn start(scratch: &Scratch, arguments: &[&str]) -> Self {
        let mut all = vec!["serve", "--listen", "127.0.0.1:0"];
        all.extend_from_slice(arguments);
        Self::run(scratch, &all)
    }

    pub fn run(scratch: &Scratch, arguments: &[&str]) -> Self {
        Self::spawn(&mut scratch.command(arguments))
    }

    pub fn spawn(command: &mut Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let mut serving = Serving { child, address: String::new(), output };
        let first = serving.line();
        let rest = first.strip_prefix("listening on ").unwrap_or_else(|| panic!("{first:?}"));
        serving.address = rest.split(',').next().unwrap().to_owned();
        serving
    }

    /// The next line that it says.
    pub fn line(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        line
    }

    pub fn nvme(&self, scratch: &Scratch, arguments: &[&str], input: &[u8]) -> Done {
        let (action, rest) = arguments.split_first().unwrap();
        let mut all = vec!["nvme", action, "--address", &self.address];
        all.extend_from_slice(rest);
        scratch.run_with(&all, input)
    }

    /// Kills it; it is waited for when this goes.
    pub fn kill(&self) {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args(["-KILL", &pid]).status().unwrap().success());
    }

    pub fn stop(mut self) {
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
    let node = Serving::start(&scratch, &["--create", "db"]);
    node.nvme(&scratch, &["store", "greeting", "hello"], b"").expect("");
    let long = vec![0xa5; 300_000];
    node.nvme(&scratch, &["store", "long", "-"], &long).expect("");
    node.nvme(&scratch, &["retrieve", "greeting"], b"").expect("hello");
    assert!(node.nvme(&scratch, &["retrieve", "long"], b"").expect_status(0).out == long);
    node.nvme(&scratch, &["list"], b"").expect("greeting\nlong\n");
    node.nvme(&scratch, &["store", "long", "x", "--if-absent"], b"")
        .expect_failure(1, "key long exists already");
    node.nvme(&scratch, &["delete", "long"], b"").expect("");
    node.nvme(&scratch, &["exist", "long"], b"").expect_failure(1, "key long not found");
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
    store(&["--host", "nqn.known", "--secret", &wrong]).expect_failure(2, "authentication failed");
    store(&["--host", "nqn.known"]).expect_failure(2, "authentication failed");
    store(&["--host", "nqn.other", "--secret", &secret]).expect_failure(2, "refused to connect");
    node.stop();
}

/// What it does without TLS is said in both builds; what it does with it, in that one.
#[test]
fn a_host_with_a_tls_key_stays_out_without_it() {
    const KEY: &str = "NVMeTLSkey-1:01:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh+KfiaR:";
    const OTHER: &str = "NVMeTLSkey-1:01:AOcdzrleIqiiPISmrKKB8PFe/QNIrvqdDqvhXZ3hOpWDEj+D:";
    let scratch = Scratch::new();
    let hosts = scratch.file("hosts", format!("nqn.known {KEY}\nnqn.open\n").as_bytes());
    let (key, other) =
        (scratch.file("key", KEY.as_bytes()), scratch.file("other", OTHER.as_bytes()));
    let help = scratch.run(&["serve", "--help"]);
    let help = help.text();
    assert_eq!(help.contains("built without TLS"), !esker_tls::IS_BUILT, "{help}");
    if !esker_tls::IS_BUILT {
        let node = ["serve", "--memory", "1MiB", "--hosts", &hosts];
        scratch.run(&node).expect_failure(2, "has a TLS key: this program was built without TLS");
        let host = ["nvme", "exist", "k", "--tls-key", &key, "--address", "127.0.0.1:1"];
        scratch.run(&host).expect_status(2);
        return;
    }
    let node = Serving::start(&scratch, &["--memory", "1MiB", "--hosts", &hosts]);
    let store =
        |more: &[&str]| node.nvme(&scratch, &[&["store", "k", "v"][..], more].concat(), b"");
    store(&["--host", "nqn.known", "--tls-key", &key]).expect("");
    store(&["--host", "nqn.known", "--tls-key", &other]).expect_failure(2, "TLS with 127.0.0.1:");
    store(&["--host", "nqn.open", "--tls-key", &key]).expect_failure(2, "TLS with 127.0.0.1:");
    store(&["--host", "nqn.known"]).expect_failure(2, "refused to connect");
    store(&["--host", "nqn.open"]).expect("");
    let found = node.nvme(&scratch, &["discover", "--host", "nqn.known"], b"");
    let found = found.text();
    assert!(found.ends_with("\tTLS\n"), "{found}");
    node.stop();
}

#[test]
fn a_secret_in_place_of_its_file_is_not_repeated() {
    const WORDS: [&str; 2] = [
        "DHHC-1:00:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh+KfiaR:",
        "NVMeTLSkey-1:01:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh+KfiaR:",
    ];
    let scratch = Scratch::new();
    let line = format!("nqn.known {} {}\n", WORDS[0], WORDS[1]);
    let hosts = scratch.file("hosts", line.as_bytes());
    for arguments in [
        &["nvme", "exist", "k", "--secret", WORDS[0]][..],
        &["nvme", "exist", "k", "--tls-key", WORDS[1]],
        &["serve", "--memory", "1MiB", "--hosts", WORDS[1]],
        &["serve", "--config", &hosts],
    ] {
        for more in [&[][..], &["--json"]] {
            let done = scratch.run(&[arguments, more].concat()).expect_status(2);
            assert!(!done.err.contains("AAECAwQF"), "{done:?}");
            let is_said = done.err.contains("the key itself") || done.err.contains("line 1: ");
            assert!(is_said, "{done:?}");
        }
    }
}

/// All of a node's files are found by what was opened, not by their names again.
#[test]
fn a_node_stays_with_its_files_when_their_directory_is_renamed() {
    let scratch = Scratch::new();
    std::fs::create_dir(scratch.path("home")).unwrap();
    let config = scratch.file("home/node.toml", ALL_KINDS.as_bytes());
    let node = Serving::run(&scratch, &["serve", "--config", &config]);
    let store = |key: &str, namespace: &str| {
        let value = vec![0xa5; 1_000_000];
        for number in 0..4 {
            let key = format!("{key}{number}");
            let place = ["store", &key, "-", "--namespace", namespace];
            node.nvme(&scratch, &place, &value).expect("");
        }
    };
    (1..=2).for_each(|namespace| store("a", &namespace.to_string()));
    std::fs::rename(scratch.path("home"), scratch.path("moved")).unwrap();
    // Others of the same names, where they were.
    std::fs::create_dir(scratch.path("home")).unwrap();
    scratch.file("home/blocks", b"somebody else's");
    scratch.file("home/store", b"somebody else's");
    scratch.run(&["put", "home/db", "key", "value", "--create"]).expect_status(0);
    (1..=2).for_each(|namespace| store("b", &namespace.to_string()));
    node.stop();
    for name in ["home/blocks", "home/store"] {
        assert_eq!(std::fs::read(scratch.path(name)).unwrap(), b"somebody else's");
    }
    scratch.run(&["get", "home/db", "key"]).expect("value\n");
    assert_eq!(scratch.run(&["scan", "home/db", "--keys-only"]).text(), "key\n");
    scratch.run(&["check", "moved/db"]).expect_status(0);
    let node = Serving::run(&scratch, &["serve", "--config", "moved/node.toml"]);
    for namespace in ["1", "2"] {
        let listed = node.nvme(&scratch, &["list", "--namespace", namespace], b"");
        let listed = listed.text();
        assert_eq!(listed.lines().count(), 8, "{listed}");
    }
    node.stop();
}

const ALL_KINDS: &str = r#"
listen = "127.0.0.1:0"
metrics = "127.0.0.1:0"
reactors = 2

[[namespace]]
kind = "hash"
path = "store"
bytes = "64MiB"

[[namespace]]
kind = "lsm"
create = true
path = "db"

[[namespace]]
kind = "ram"
bytes = "1MiB"

[[namespace]]
kind = "block"
path = "blocks"
bytes = "8MiB"
volatile_cache = true
"#;

#[test]
fn a_file_says_what_is_served_and_it_is_there_again_after_a_kill() {
    let scratch = Scratch::new();
    let config = scratch.file("node.toml", ALL_KINDS.as_bytes());
    let value = vec![0xa5; 100_000];
    {
        let mut node = Serving::run(&scratch, &["serve", "--config", &config]);
        assert!(node.line().starts_with("metrics on http://127.0.0.1:"));
        assert!(node.line().starts_with("namespace 1: a hash store with 0 keys, opened in "));
        assert!(node.line().starts_with("namespace 2: keys; what is ack"));
        assert!(node.line().starts_with("namespace 3: keys in memory; nothing"));
        assert!(node.line().starts_with("namespace 4: 8.00 MiB in blocks of 4096 bytes; "));
        for namespace in ["1", "2", "3"] {
            let place = ["store", "k", "-", "--namespace", namespace];
            node.nvme(&scratch, &place, &value).expect("");
        }
        node.child.kill().unwrap();
    }
    let node = Serving::run(&scratch, &["serve", "--config", &config]);
    for (namespace, is_there) in [("1", true), ("2", true), ("3", false)] {
        let found = node.nvme(&scratch, &["retrieve", "k", "--namespace", namespace], b"");
        match is_there {
            true => assert!(found.expect_status(0).out == value),
            false => drop(found.expect_status(1)),
        }
    }
    let second = scratch.run(&["hash", "check", "store"]);
    second.expect_failure(2, &format!("in use by process {}", node.child.id()));
    node.stop();
}

pub fn get(address: &str, path: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {address}\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn metrics_count_what_was_done_and_health_asks_every_reactor() {
    let scratch = Scratch::new();
    let config = scratch.file("node.toml", ALL_KINDS.as_bytes());
    let mut node = Serving::run(&scratch, &["serve", "--config", &config]);
    let line = node.line();
    let address = line.split("//").nth(1).unwrap().split('/').next().unwrap();
    assert!(get(address, "/health").ends_with("\r\n\r\nok\n"));
    node.nvme(&scratch, &["store", "k", "v"], b"").expect("");
    node.nvme(&scratch, &["exist", "other"], b"").expect_status(1);
    let page = get(address, "/metrics");
    assert!(page.starts_with("HTTP/1.1 200 OK\r\n"));
    for expected in [
        "\nesker_node_commands_failed_total 0\n",
        "\nesker_node_namespace_capacity_bytes{namespace=\"4\",kind=\"block\"} 8388608\n",
        "\nesker_node_namespace_used_bytes{namespace=\"3\",kind=\"ram\"} 0\n",
    ] {
        assert!(page.contains(expected), "{expected:?} in {page}");
    }
    assert!(get(address, "/").starts_with("HTTP/1.1 404 "));
    node.stop();
}

#[test]
fn metrics_of_a_hash_store_have_its_index_its_writes_and_its_recovery() {
    let scratch = Scratch::new();
    let config = scratch.file("node.toml", ALL_KINDS.as_bytes());
    let mut node = Serving::run(&scratch, &["serve", "--config", &config]);
    let line = node.line();
    let address = line.split("//").nth(1).unwrap().split('/').next().unwrap();
    let figure = |name: &str| -> Option<f64> {
        let start = format!("\nesker_node_namespace_{name}{{namespace=\"1\",kind=\"hash\"}} ");
        let page = get(address, "/metrics");
        Some(page.split_once(&start)?.1.lines().next()?.parse().unwrap())
    };
    assert_eq!((figure("keys"), figure("index_bytes_per_key")), (Some(0.0), None));
    let value = vec![7; 100_000];
    for key in ["a", "b", "a"] {
        node.nvme(&scratch, &["store", key, "-"], &value).expect("");
    }
    assert_eq!(figure("keys"), Some(2.0));
    assert_eq!(figure("index_bytes_per_key"), figure("index_bytes").map(|bytes| bytes / 2.0));
    assert_eq!(figure("stored_bytes_total"), Some(3.0 * 100_001.0));
    let written = figure("device_bytes_per_stored_byte").unwrap();
    assert!((1.0..2.0).contains(&written), "{written}");
    assert!(figure("recovery_seconds").unwrap() > 0.0);
    assert!(figure("recovery_read_bytes").unwrap() > 0.0);
    assert_eq!(figure("recovery_replayed_writes"), Some(0.0));
    node.stop();
}

#[test]
fn a_damaged_namespace_is_served_as_failed_and_the_others_as_ever() {
    let scratch = Scratch::new();
    let config = scratch.file("node.toml", ALL_KINDS.as_bytes());
    Serving::run(&scratch, &["serve", "--config", &config]).stop();
    let store = std::fs::File::options().write(true).open(scratch.path("store")).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&store, &[0xff; 64 << 10], 0).unwrap();
    scratch.file("db/CURRENT", b"nonsense");
    let mut node = Serving::run(&scratch, &["serve", "--config", &config]);
    let line = node.line();
    let metrics = line.split("//").nth(1).unwrap().split('/').next().unwrap();
    assert!(node.line().starts_with("namespace 1: failed: "));
    assert!(node.line().starts_with("namespace 2: failed: "));
    let at = |namespace| ["--namespace", namespace];
    for failed in ["1", "2"] {
        let store = [&["store", "k", "v"][..], &at(failed)].concat();
        node.nvme(&scratch, &store, b"").expect_failure(2, "namespace not ready");
    }
    node.nvme(&scratch, &[&["store", "k", "v"][..], &at("3")].concat(), b"").expect("");
    node.nvme(&scratch, &[&["retrieve", "k"][..], &at("3")].concat(), b"").expect("v");
    let health = get(metrics, "/health");
    assert!(health.starts_with("HTTP/1.1 503 "), "{health}");
    for named in ["namespace 1 (hash): every command fails", "namespace 2 (lsm): every command"] {
        assert!(health.contains(named), "{health}");
    }
    let page = get(metrics, "/metrics");
    for (namespace, kind, failed) in [("1", "hash", 1), ("2", "lsm", 1), ("4", "block", 0)] {
        let labels = format!("namespace=\"{namespace}\",kind=\"{kind}\"");
        let line = format!("\nesker_node_namespace_failed{{{labels}}} {failed}\n");
        assert!(page.contains(&line), "{line:?} in {page}");
    }
    node.stop();
}

#[test]
fn a_node_without_a_namespace_that_can_be_opened_does_not_start() {
    let scratch = Scratch::new();
    scratch.run(&["put", "--create", "db", "k", "v"]).expect_status(0);
    scratch.file("db/CURRENT", b"nonsense");
    scratch.run(&["serve", "db"]).expect_failure(2, "no namespace could be opened: ");
}

#[test]
fn a_file_that_makes_no_sense_is_refused_by_name() {
    let scratch = Scratch::new();
    let config = scratch.file("node.toml", b"[[namespace]]\nkind = \"tape\"\n");
    scratch.run(&["serve", "--config", &config]).expect_failure(2, "node.toml: ");
    let config = scratch.file("node.toml", b"[[namespace]]\nkind = \"hash\"\npath = \"none\"\n");
    scratch.run(&["serve", "--config", &config]).expect_failure(2, "a new file needs a size");
}

#[test]
fn a_node_that_is_not_there_is_named() {
    let scratch = Scratch::new();
    let done = scratch.run(&["nvme", "exist", "k", "--address", "127.0.0.1:1", "--timeout", "1"]);
    done.expect_failure(2, "could not reach 127.0.0.1:1");
    let done = scratch.run(&["nvme", "exist", "k", "--nqn", "node"]);
    done.expect_failure(2, "nqn.");
}

#[test]
fn more_threads_than_can_be_meant_are_refused() {
    let scratch = Scratch::new();
    let serve = ["serve", "--memory", "1M", "--reactors", "257"];
    scratch.run(&serve).expect_failure(2, "257 is not in 1..=256");
    let namespace = "[[namespace]]\nkind = \"ram\"\nbytes = \"1M\"\n";
    let file = scratch.file("node.toml", format!("reactors = 257\n{namespace}").as_bytes());
    scratch.run(&["serve", "--config", &file]).expect_failure(2, "a node has 1 to 256 reactors");
    scratch.run(&["bench", "--threads", "1025"]).expect_failure(2, "1025 is not in 1..=1024");
}

#[test]
fn a_value_without_end_is_refused_before_the_node_is_asked() {
    let scratch = Scratch::new();
    let zero = std::fs::File::open("/dev/zero").unwrap();
    let store = ["nvme", "store", "k", "-", "--address", "127.0.0.1:1"];
    let output = scratch.command(&store).stdin(zero).output().unwrap();
    Done::of(output).expect_failure(2, "standard input holds more than 1,048,576 bytes");
}

#[test]
fn a_node_is_found_by_name_and_asked_at_least_once() {
    let scratch = Scratch::new();
    let serving = Serving::start(&scratch, &["--memory", "1M"]);
    let port = serving.address.rsplit(':').next().unwrap();
    let address = format!("localhost:{port}");
    let ping = ["nvme", "ping", "--address", &address, "--count"];
    let done = scratch.run(&[&ping[..], &["3"]].concat()).expect_status(0);
    assert!(done.text().starts_with("3 round trips"), "{done:?}");
    scratch.run(&[&ping[..], &["0"]].concat()).expect_failure(2, "0 is not in 1..");
    scratch.run(&["nvme", "ping", "--timeout", "0"]).expect_failure(2, "0 is not in 1..");
    scratch
        .run(&["nvme", "ping", "--address", "localhost"])
        .expect_failure(2, "such as localhost:4420");
    serving.stop();
}
