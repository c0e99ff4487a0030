//! demo.

use crate::{Scratch, names};
use std::process::{Command, Stdio};

#[test]
fn the_demo_proves_its_claims_and_leaves_a_database_that_can_be_read() {
    let scratch = Scratch::new();
    let done = scratch.run(&["demo", "--dir", "db"]).expect_status(0);
    assert!(done.err.is_empty(), "{done:?}");
    let text = done.text();
    assert!(text.contains("34,924 records") && text.contains("Every check passed"), "{text}");
    assert!(text.contains("✓") && !text.contains("✗"), "{text}");
    assert_eq!(text.matches("none is torn").count(), 3, "{text}");
    assert!(!text.contains('\x1b'), "colour without a terminal: {text}");

    let euro = scratch.run(&["get", "db", "20AC", "-k", "unicode"]).expect_status(0);
    assert!(euro.text().contains("\"name\":\"EURO SIGN\""), "{euro:?}");
    scratch.run(&["demo", "--dir", "db"]).expect_failure(2, "is not an empty directory");
}

#[test]
fn the_demo_cleans_up_after_itself() {
    let scratch = Scratch::new();
    std::fs::create_dir(scratch.path("tmp")).unwrap();
    let run = |arguments: &[&str]| {
        let output =
            scratch.command(arguments).env("TMPDIR", scratch.path("tmp")).output().unwrap();
        assert!(output.status.success(), "{output:?}");
    };
    run(&["demo"]);
    assert!(names(&scratch.path("tmp")).is_empty());
    run(&["demo", "--keep"]);
    assert_eq!(names(&scratch.path("tmp")).len(), 1);
}

/// Interrupts a program that works in a temporary directory, and expects nothing left of it.
fn interrupt(arguments: &[&str], signal: &str) {
    let scratch = Scratch::new();
    let tmp = scratch.path("tmp");
    std::fs::create_dir(&tmp).unwrap();
    let mut child = scratch
        .command(arguments)
        .env("TMPDIR", &tmp)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    // The directory appears after the program has begun to listen, and then a database in it.
    let is_at_work =
        || names(&tmp).first().is_some_and(|dir| tmp.join(dir).join("CURRENT").exists());
    while !is_at_work() {
        assert!(child.try_wait().unwrap().is_none(), "it ended by itself");
        std::thread::yield_now();
    }
    let killed = Command::new("kill").args([signal, &child.id().to_string()]).status().unwrap();
    assert!(killed.success());
    assert_eq!(child.wait().unwrap().code(), Some(130), "{arguments:?}");
    assert!(names(&tmp).is_empty(), "{:?}", names(&tmp));
}

#[test]
fn an_interrupted_bench_or_demo_cleans_up_after_itself() {
    interrupt(&["bench", "db", "--cases", "fillrandom", "--duration", "600"], "-INT");
    interrupt(&["demo"], "-TERM");
}
