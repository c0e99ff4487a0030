//! shell, from a pipe and at a terminal; count.

use crate::{Done, Scratch};
use std::io::{Read, Write};
use std::process::Stdio;

fn script(scratch: &Scratch, lines: &str) -> Done {
    scratch.run_with(&["shell", "db"], lines.as_bytes())
}

#[test]
fn a_script_does_what_the_same_commands_would() {
    let scratch = Scratch::new();
    let lines = "put greeting 'hello world'  # a comment\n\
        \n\
        put -k users --hex 00ff 41\n\
        get greeting\n\
        scan -k users --hex\n\
        put \"two words\" b\n\
        count\n\
        count --prefix gr --json\n\
        delete --prefix two\n\
        scan --keys-only\n\
        stats --json\n\
        exit\n\
        get never\n";
    let done = scratch.run_with(&["shell", "--create", "db"], lines.as_bytes()).expect_status(0);
    let (facts, stats) = done.text().rsplit_once("greeting\n").unwrap();
    assert_eq!(facts, "hello world\n00ff\t41\n2\n{\"keyspace\":\"default\",\"pairs\":1}\n");
    assert!(stats.starts_with('{') && stats.lines().count() == 1, "{stats}");
    assert_eq!(done.err, "");
    scratch.run(&["get", "db", "greeting"]).expect("hello world\n");
    scratch.run(&["count", "db", "--from", "h"]).expect("0\n");
}

#[test]
fn the_first_command_that_fails_ends_a_script_with_its_status() {
    let scratch = Scratch::with_pairs(&[("a", "1"), ("b", "2")]);
    script(&scratch, "get b --bogus\n").expect_failure(2, "line 1: ");
    script(&scratch, "get none\nput c 3\n").expect_failure(1, "line 1: key none not found");
    script(&scratch, "\nput 'c 3\n").expect_failure(2, "line 2: a quote is not closed");
    script(&scratch, "drop-keyspace none\n").expect_failure(2, "no keyspace");
    script(&scratch, "put --memory 64MiB c 3\n").expect_failure(2, "option of `esker shell`");
    script(&scratch, "put --create c 3\n").expect_failure(2, "option of `esker shell`");
    script(&scratch, "put c -\n").expect_failure(2, "standard input");
    script(&scratch, "repair\n").expect_failure(2, "unrecognized subcommand");
    let json = scratch.run_with(&["shell", "db", "--json"], b"get b\nget none\n");
    let json = json.expect_status(1);
    assert_eq!(json.text(), "{\"key\":\"b\",\"value\":\"2\"}\n");
    assert!(json.err.contains("\"kind\":\"not_found\""), "{json:?}");
    scratch.run(&["scan", "db"]).expect("a\t1\nb\t2\n");
    scratch.run(&["shell", "none"]).expect_failure(2, "--create");
}

#[test]
fn help_shows_what_a_line_takes() {
    let scratch = Scratch::with_pairs(&[]);
    let done = script(&scratch, "help\nhelp scan\nscan --help\n").expect_status(0);
    let help = done.text();
    assert!(help.contains("drop-keyspace") && help.matches("--reverse").count() == 2, "{help}");
    for not_here in ["--pool", "--accept-torn-log", "repair", "serve"] {
        assert!(!help.contains(not_here), "{not_here} in {help}");
    }
}

#[test]
fn a_shell_for_reading_runs_beside_one_that_writes() {
    let scratch = Scratch::with_pairs(&[("a", "1")]);
    let _writer = scratch.open();
    script(&scratch, "get a\n").expect_failure(2, "in use by process");
    let read_only = |lines: &[u8]| scratch.run_with(&["shell", "db", "--read-only"], lines);
    read_only(b"get a\n").expect("1\n");
    read_only(b"put b 2\n").expect_failure(2, "line 1: ");
}

/// Runs the shell at a terminal that `script` of util-linux makes, types each of `typed` once its
/// text has been shown, and gives all that was shown; `None` where there is no `script`.
fn at_terminal(scratch: &Scratch, typed: &[(&str, &str)]) -> Option<String> {
    let shell = format!("exec {} shell db", crate::PROGRAM);
    // A test that hangs fails after this many seconds.
    let mut command = std::process::Command::new("timeout");
    command.args(["60", "script", "-qec", &shell, "/dev/null"]).current_dir(scratch.path("."));
    command.env("ESKER_HISTORY", "").env("TERM", "xterm");
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    if let Err(error) = std::process::Command::new("script").arg("--version").output() {
        esker_base::skipped("shell at a terminal", format_args!("no script: {error}"));
        return None;
    }
    let mut child = command.spawn().unwrap();
    let (mut keys, mut screen) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
    let mut shown = Vec::new();
    let mut seen = 0;
    for (text, typed) in typed {
        let find =
            |shown: &[u8]| shown.windows(text.len()).position(|window| window == text.as_bytes());
        let found = loop {
            if let Some(found) = find(&shown[seen..]) {
                break found;
            }
            let mut bytes = [0; 256];
            let read = screen.read(&mut bytes).unwrap();
            assert!(read > 0, "{:?} before {text:?}", String::from_utf8_lossy(&shown));
            shown.extend_from_slice(&bytes[..read]);
        };
        seen += found + text.len();
        keys.write_all(typed.as_bytes()).unwrap();
        keys.flush().unwrap();
    }
    screen.read_to_end(&mut shown).unwrap();
    let shown = String::from_utf8_lossy(&shown).into_owned();
    assert_eq!(child.wait().unwrap().code(), Some(0), "{shown}");
    Some(shown)
}

#[test]
fn a_terminal_has_a_prompt_and_no_error_ends_it() {
    let scratch = Scratch::with_pairs(&[("a", "one")]);
    let prompt = "esker> ";
    let typed = [
        (prompt, "get none\r"),
        ("not found", ""),
        (prompt, "put left out\x03"),
        (prompt, "get a\r"),
        ("one", ""),
        (prompt, "\x04"),
    ];
    if at_terminal(&scratch, &typed).is_some() {
        scratch.run(&["scan", "db"]).expect("a\tone\n");
    }
}

#[test]
fn a_terminal_completes_the_word_at_the_cursor() {
    let scratch = Scratch::with_pairs(&[("a", "one")]);
    // After the tab the whole command is shown, and a return runs it.
    let typed = [
        ("esker> ", "drop-k\t"),
        ("drop-keyspace ", "none\r"),
        ("no keyspace", ""),
        ("esker> ", "get -k def\t"),
        ("default ", "a\r"),
        ("one", ""),
        ("esker> ", "\x04"),
    ];
    at_terminal(&scratch, &typed);
}

#[test]
fn an_interrupt_stops_the_command_and_not_the_shell() {
    let scratch = Scratch::new();
    let db = scratch.open();
    for number in 0..40_000u32 {
        db.put(&db.default_keyspace(), format!("key {number:010}"), [b'v'; 20]).unwrap();
    }
    db.close().unwrap();
    // Nobody reads what the scan prints before it is interrupted, so it cannot end before.
    let typed = [
        ("esker> ", "scan\r"),
        ("key 0000000010", "\x03"),
        ("interrupted", "count\r"),
        ("40000", "exit\r"),
    ];
    if let Some(shown) = at_terminal(&scratch, &typed) {
        assert!(!shown.contains("key 0000039999"), "the scan went on to its end");
    }
}
