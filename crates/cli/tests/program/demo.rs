//! demo.

use crate::scratch::interrupt;
use crate::{Scratch, names};

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

#[test]
fn an_interrupted_bench_or_demo_cleans_up_after_itself() {
    interrupt(&["bench", "--dir", "tmp", "--seconds", "600"], "-INT");
    interrupt(&["demo"], "-TERM");
}
