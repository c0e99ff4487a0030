//! The load, run against the model.

use super::*;
use crate::Model;

/// Runs all threads of `options` one after the other and gives the kinds of their steps in order.
fn run(options: &Options, model: &Model) -> Vec<OperationKind> {
    options.check().unwrap();
    let load = Updates::new(options);
    let mut kinds = Vec::new();
    for thread in 0..options.threads {
        let rng = stream(options.seed, "updates", thread as u64);
        let mut worker = load.worker(model, thread, rng).unwrap();
        assert!(load.share(thread) <= load.operations());
        for _ in 0..load.share(thread) {
            let step = worker.step().unwrap();
            assert_eq!(step.bytes, (options.key_bytes + options.value_bytes) as u64);
            kinds.push(step.kind);
        }
    }
    kinds
}

fn options() -> Options {
    Options { records: 1_000, updates_per_key: 2.5, threads: 3, ..Options::default() }
}

#[test]
fn every_key_is_there_and_written_as_often_as_asked_on_average() {
    for key_bytes in [2, 8, 10, 16] {
        let options = Options { key_bytes, ..options() };
        let model = Model::new();
        let kinds = run(&options, &model);
        assert_eq!(kinds.len() as u64, options.writes());
        assert_eq!((options.writes(), model.writes()), (3_500, 3_500));
        assert_eq!(model.pairs().len(), 1_000, "keys of {key_bytes} bytes");
        let inserts = kinds.iter().filter(|&&kind| kind == OperationKind::Insert).count();
        assert_eq!(inserts, 1_000);
        let sizes = |(key, value): &(Vec<u8>, Vec<u8>)| (key.len(), value.len());
        assert!(model.pairs().iter().all(|pair| sizes(pair) == (key_bytes, 200)));
    }
}

#[test]
fn a_thread_updates_only_after_its_inserts() {
    let kinds = run(&Options { threads: 1, ..options() }, &Model::new());
    assert!(kinds[..1_000].iter().all(|&kind| kind == OperationKind::Insert));
    assert!(kinds[1_000..].iter().all(|&kind| kind == OperationKind::Update));
}

#[test]
fn no_updates_is_a_load_alone() {
    let model = Model::new();
    assert_eq!(run(&Options { updates_per_key: 0.0, ..options() }, &model).len(), 1_000);
    assert_eq!(model.pairs().len(), 1_000);
}

#[test]
fn the_live_bytes_stop_growing_with_the_keys() {
    let (load, model) = (Updates::new(&options()), Model::new());
    assert_eq!(load.live_bytes(0), Some(0));
    let mut worker = load.worker(&model, 0, stream(1, "updates", 0)).unwrap();
    for (steps, live) in [(10, 2_100), (990, 210_000), (500, 210_000)] {
        for _ in 0..steps {
            worker.step().unwrap();
        }
        assert_eq!(load.live_bytes(0), Some(live));
    }
}

#[test]
fn workers_made_again_go_on_where_others_stopped() {
    let (load, model) = (Updates::new(&options()), Model::new());
    let mut kinds = Vec::new();
    for (thread, steps) in [(1, 300), (0, 300), (1, 500), (2, 50)] {
        let mut worker = load.worker(&model, thread, stream(1, "updates", 0)).unwrap();
        kinds.extend((0..steps).map(|_| worker.step().unwrap().kind));
    }
    assert!(kinds[..1_000].iter().all(|&kind| kind == OperationKind::Insert));
    assert!(kinds[1_000..].iter().all(|&kind| kind == OperationKind::Update));
    assert_eq!(model.pairs().len(), 1_000);
}

#[test]
fn only_keys_whose_insert_is_acknowledged_are_updated() {
    let load = Updates::new(&Options { records: 100, ..options() });
    let model = Model::new();
    let mut updater = load.updater(&model, 0, stream(1, "updates", 0));
    let inserts: Vec<_> = (0..100).map(|_| load.inserts.take_below(100).unwrap()).collect();
    let mut going_on = inserts.into_iter().skip(40).collect::<Vec<_>>();
    for _ in 0..1_000 {
        assert!(matches!(updater.next(), Next::Update(number) if number < 40));
    }
    going_on.clear();
    let numbers = (0..1_000).map(|_| match updater.next() {
        Next::Update(number) => number,
        Next::Insert(insert) => panic!("number {} is inserted again", insert.number),
    });
    assert!(numbers.max().unwrap() > 90);
}

#[test]
fn threads_do_not_write_the_same_values() {
    let (load, model) = (Updates::new(&options()), Model::new());
    for thread in 0..3 {
        let mut worker = load.worker(&model, thread, stream(1, "updates", 0)).unwrap();
        for _ in 0..300 {
            worker.step().unwrap();
        }
    }
    let values: std::collections::HashSet<_> = model.pairs().into_iter().map(|p| p.1).collect();
    assert_eq!(values.len(), 900);
}

/// How often each key is written, most often first.
fn write_counts(heat: Heat) -> Vec<u64> {
    let options = Options { records: 1_000, updates_per_key: 99.0, heat, ..Options::default() };
    let (load, model) = (Updates::new(&options), Model::new());
    let mut worker = load.updater(&model, 0, stream(1, "updates", 0));
    let mut counts = vec![0; 1_000];
    for _ in 0..load.share(0) {
        let number = match worker.next() {
            Next::Insert(insert) => insert.number,
            Next::Update(number) => number,
        };
        counts[number as usize] += 1;
    }
    counts.sort_unstable_by(|a, b| b.cmp(a));
    counts
}

#[test]
fn uniform_updates_fall_on_all_keys_alike() {
    let counts = write_counts(Heat::Uniform);
    assert!(counts[0] < 150 && counts[999] > 60, "{} to {}", counts[0], counts[999]);
}

#[test]
fn zipfian_updates_have_few_hot_keys_and_leave_none_out() {
    let counts = write_counts(Heat::Zipfian);
    // The hottest key's share of 99,000 updates, 1 / zeta(1,000) at 0.99.
    let share = (counts[0] - 1) as f64 / 99_000.0;
    assert!((share - 0.1289).abs() < 0.005, "{share}");
    assert!((1..40).contains(&counts[999]), "{}", counts[999]);
}
