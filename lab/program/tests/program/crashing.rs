//! histories, kill.

use crate::Scratch;

#[test]
fn a_few_histories_run() {
    let scratch = Scratch::new();
    let done = scratch.run(&["histories", "--seeds", "3", "--first-seed", "7"]).expect_status(0);
    assert!(done.text().contains("crashes"), "{done:?}");
    let args = ["histories", "--seeds", "3", "--first-seed", "7", "--json"];
    let totals = scratch.run(&args).expect_status(0).json();
    assert!(totals["batches"].as_u64() > Some(0), "{totals}");
}

#[test]
fn totals_of_damage_and_of_pools_are_json_if_that_is_asked_for() {
    let scratch = Scratch::new();
    let args = ["damage", "--trials", "2", "--json"];
    let totals = scratch.run(&args).expect_status(0).json();
    let trials = totals.as_array().unwrap().iter().map(|image| image["trials"].as_u64().unwrap());
    assert_eq!(trials.sum::<u64>(), 2, "{totals}");
    let totals = scratch.run(&["pool", "--images", "10", "--json"]).expect_status(0).json();
    let sampled = ["frames", "whole"].map(|kind| totals[kind]["sampled"].as_u64().unwrap());
    assert!(sampled.iter().sum::<u64>() >= 10, "{totals}");
}

#[test]
fn children_that_are_killed_are_processes_of_this_program() {
    let scratch = Scratch::new();
    let done = scratch.run(&["kill", "--rounds", "3", "--dir", "killed"]).expect_status(0);
    assert!(done.text().contains("rounds: 3"), "{done:?}");
    let totals = scratch.run(&["kill", "--rounds", "1", "--dir", "again", "--json"]);
    assert_eq!(totals.expect_status(0).json()["rounds"], 1);
}
