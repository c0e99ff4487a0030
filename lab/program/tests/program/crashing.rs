//! histories, kill.

use crate::Scratch;

#[test]
fn a_few_histories_run() {
    let scratch = Scratch::new();
    let done = scratch.run(&["histories", "--seeds", "3", "--first-seed", "7"]).expect_status(0);
    assert!(done.text().contains("crashes"), "{done:?}");
}

#[test]
fn children_that_are_killed_are_processes_of_this_program() {
    let scratch = Scratch::new();
    let done = scratch.run(&["kill", "--rounds", "3", "--dir", "killed"]).expect_status(0);
    assert!(done.text().contains("rounds: 3"), "{done:?}");
}
