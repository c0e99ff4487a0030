//! Every case, run for real against the model.

use super::*;
use crate::{KeyBuffer, Model, Step, Workload, stream};
use esker_api::Ordered;
use std::collections::BTreeSet;

fn options() -> Options {
    Options { num: 2_000, ..Options::default() }
}

/// Runs `case` to its end with one thread and adds up its steps.
fn run(case: Case, options: &Options, store: &dyn Ordered) -> Step {
    options.check().unwrap();
    let job = Job::new(case, options);
    let mut worker = job.worker(store, 0, stream(options.seed, case.name(), 0)).unwrap();
    let mut total = Step::default();
    while total.operations < job.operations() {
        let step = worker.step().unwrap();
        if step == Step::END {
            break;
        }
        total.operations += step.operations;
        total.found += step.found;
        total.bytes += step.bytes;
    }
    total
}

fn filled(case: Case) -> Model {
    let model = Model::new();
    run(case, &options(), &model);
    model
}

fn numbers(model: &Model) -> Vec<u64> {
    model.pairs().iter().map(|(key, _)| KeyBuffer::number(key).unwrap()).collect()
}

#[test]
fn fillseq_writes_every_key_once() {
    let model = Model::new();
    let total = run(Case::FillSeq, &options(), &model);
    assert_eq!(numbers(&model), (0..2_000).collect::<Vec<_>>());
    assert_eq!((total.operations, total.bytes), (2_000, 2_000 * 116));
    assert_eq!(model.writes(), 2_000);
    assert!(model.pairs().iter().all(|(key, value)| key.len() == 16 && value.len() == 100));
}

#[test]
fn fillrandom_draws_with_replacement() {
    let model = filled(Case::FillRandom);
    assert_eq!(model.writes(), 2_000);
    let distinct = numbers(&model).len();
    assert!((1_200..1_330).contains(&distinct), "{distinct} distinct keys; 63% were expected");
}

#[test]
fn overwrite_adds_writes_but_no_keys_to_a_full_store() {
    let model = filled(Case::FillSeq);
    let before = model.pairs();
    run(Case::Overwrite, &options(), &model);
    assert_eq!(model.writes(), 4_000);
    assert_eq!(numbers(&model).len(), 2_000);
    assert_ne!(model.pairs(), before);
}

#[test]
fn batches_are_filled_and_written_whole() {
    let model = Model::new();
    let total = run(Case::FillSeq, &Options { batch: 300, ..options() }, &model);
    assert_eq!(total.operations, 2_100, "the last batch is a full one too");
    assert_eq!(numbers(&model).len(), 2_000, "it starts again at the first key");
}

#[test]
fn readrandom_finds_what_was_filled() {
    let all = run(Case::ReadRandom, &options(), &filled(Case::FillSeq));
    assert_eq!((all.operations, all.found, all.bytes), (2_000, 2_000, 2_000 * 116));
    let some = run(Case::ReadRandom, &options(), &filled(Case::FillRandom));
    assert!((1_200..1_330).contains(&some.found), "{} found; 63% were expected", some.found);
    let none = run(Case::ReadRandom, &options(), &Model::new());
    assert_eq!((none.operations, none.found, none.bytes), (2_000, 0, 0));
}

#[test]
fn the_number_of_reads_can_be_set() {
    let options = Options { reads: Some(123), ..options() };
    assert_eq!(run(Case::ReadRandom, &options, &filled(Case::FillSeq)).operations, 123);
    assert_eq!(run(Case::ReadSeq, &options, &filled(Case::FillSeq)).operations, 123);
}

#[test]
fn readmissing_finds_nothing_in_a_full_store() {
    for key_bytes in [4, 8, 16] {
        let options = Options { key_bytes, ..options() };
        let model = Model::new();
        run(Case::FillSeq, &options, &model);
        assert_eq!(run(Case::ReadRandom, &options, &model).found, 2_000);
        let total = run(Case::ReadMissing, &options, &model);
        assert_eq!((total.operations, total.found), (2_000, 0));
    }
}

#[test]
fn scans_read_all_pairs_and_stop_at_the_end() {
    let model = filled(Case::FillRandom);
    let distinct = numbers(&model).len() as u64;
    for case in [Case::ReadSeq, Case::ReadReverse] {
        let total = run(case, &options(), &model);
        assert_eq!((total.operations, total.found), (distinct, distinct));
        assert_eq!(total.bytes, distinct * 116);
    }
}

#[test]
fn seekrandom_reads_on_as_asked() {
    let model = filled(Case::FillSeq);
    let total = run(Case::SeekRandom, &options(), &model);
    assert_eq!((total.operations, total.found, total.bytes), (2_000, 2_000, 0));
    let total = run(Case::SeekRandom, &Options { seek_nexts: 3, ..options() }, &model);
    let most = 2_000 * 3 * 116;
    assert!(total.bytes <= most && total.bytes > most * 99 / 100, "{} of {most}", total.bytes);
    let sparse = run(Case::SeekRandom, &options(), &filled(Case::FillRandom));
    assert!((1_200..1_330).contains(&sparse.found), "{} found exactly", sparse.found);
}

#[test]
fn deleterandom_removes_what_it_draws() {
    let model = filled(Case::FillSeq);
    let total = run(Case::DeleteRandom, &options(), &model);
    assert_eq!((total.operations, total.bytes), (2_000, 2_000 * 16));
    let left = numbers(&model).len();
    assert!((670..800).contains(&left), "{left} keys left; 37% were expected");
}

#[test]
fn readwhilewriting_reads_while_an_overwrite_goes_on() {
    let job = Job::new(Case::ReadWhileWriting, &options());
    assert!(job.looks_up() && !job.writes());
    let companion = job.companion().expect("a writer");
    assert!(companion.writes() && companion.endless());
    let model = filled(Case::FillSeq);
    let mut writer = companion.worker(&model, 0, stream(1, "writer", 0)).unwrap();
    writer.step().unwrap();
    assert_eq!(model.writes(), 2_001);
    assert_eq!(run(Case::ReadWhileWriting, &options(), &model).found, 2_000);
}

#[test]
fn one_seed_gives_one_content_and_another_another() {
    let content = |seed| {
        let model = Model::new();
        run(Case::FillRandom, &Options { seed, ..options() }, &model);
        run(Case::DeleteRandom, &Options { seed, ..options() }, &model);
        model.pairs()
    };
    assert_eq!(content(5), content(5));
    assert_ne!(content(5), content(6));
}

#[test]
fn every_name_parses_back_and_no_other_does() {
    let names: BTreeSet<_> = Case::ALL.map(Case::name).into();
    assert_eq!(names.len(), Case::ALL.len());
    for case in Case::ALL {
        assert_eq!(case.name().parse::<Case>().unwrap(), case);
    }
    let message = "readsequential".parse::<Case>().unwrap_err().to_string();
    assert!(message.contains("readseq"), "{message}");
}
