//! merge, and what other commands say of operands.

use crate::Scratch;

#[test]
fn operands_are_merged_into_the_value() {
    let scratch = Scratch::new();
    scratch.run(&["put", "--create", "db", "other", "1"]).expect("");
    let add = ["merge", "db", "-k", "sums", "visits", "--i64", "--merge", "add_i64"];
    scratch.run(&[&add[..], &["40"]].concat()).expect("");
    scratch.run(&["merge", "db", "-k", "sums", "visits", "--i64", "3"]).expect("");
    scratch.run(&["merge", "db", "-k", "sums", "visits", "--i64", "-1"]).expect("");
    scratch.run(&["get", "db", "-k", "sums", "visits", "--i64"]).expect("42\n");
    scratch.run(&["get", "db", "-k", "sums", "visits", "--value-hex"]).expect("2a00000000000000\n");
    let listed = scratch.run(&["keyspaces", "db"]).expect_status(0);
    assert!(String::from_utf8_lossy(&listed.out).contains("merge operator add_i64"));
    scratch.run(&["compact", "db"]).expect_status(0);
    scratch.run(&["get", "db", "-k", "sums", "visits", "--i64"]).expect("42\n");
    scratch.run(&["check", "db"]).expect_status(0);
    let export = ["export", "db", "-k", "sums", "--format", "jsonl", "--value-hex"];
    let exported = scratch.run(&[&export[..], &["-"]].concat()).expect_status(0);
    assert!(exported.text().contains("\"2a00000000000000\""), "{exported:?}");
}

#[test]
fn a_merge_without_an_operator_or_with_a_bad_operand_is_rejected() {
    let scratch = Scratch::new();
    scratch.run(&["put", "--create", "db", "k", "1"]).expect("");
    scratch.run(&["merge", "db", "k", "1"]).expect_failure(2, "it has no merge operator");
    let add = ["merge", "db", "-k", "sums", "k", "1", "--merge", "add_i64"];
    scratch.run(&add).expect_failure(2, "an integer has 8 bytes, and this has 1");
    scratch.run(&["merge", "db", "-k", "sums", "k", "--i64", "one"]).expect_failure(2, "decimal");
    scratch
        .run(&["merge", "db", "-k", "mine", "k", "1", "--merge", "mine"])
        .expect_failure(2, "\"mine\"");
}
