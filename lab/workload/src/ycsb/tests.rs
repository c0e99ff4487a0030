//! Loads and runs, against the model.

use super::*;
use crate::{Model, OperationKind, Step, Workload, stream};
use esker_api::Ordered;

mod faulty;
mod inserts;
mod mixes;
mod verify;

/// A small size, with one thread.
fn small() -> Options {
    Options { records: 2_000, operations: 4_000, field_bytes: 4, ..Options::default() }
}

/// Runs the threads of `workload` one after the other and gives their steps in order.
fn run(
    workload: &dyn Workload,
    threads: usize,
    store: &dyn Ordered,
) -> esker_base::Result<Vec<Step>> {
    let mut steps = Vec::new();
    for thread in 0..threads {
        let mut worker = workload.worker(store, thread, stream(5, "ycsb", thread as u64))?;
        for _ in 0..workload.share(thread) {
            steps.push(worker.step()?);
        }
    }
    Ok(steps)
}

fn loaded(options: &Options) -> Model {
    options.check().unwrap();
    let model = Model::new();
    run(&Load::new(options), options.threads, &model).unwrap();
    model
}

fn count(steps: &[Step], kind: OperationKind) -> u64 {
    steps.iter().filter(|step| step.kind == kind).count() as u64
}

#[test]
fn a_load_writes_every_record_once_however_many_threads_share_it() {
    for threads in [1, 3, 7] {
        let options = Options { threads, ..small() };
        let load = Load::new(&options);
        let shares: u64 = (0..threads).map(|thread| load.share(thread)).sum();
        assert_eq!(shares, 2_000);
        let model = loaded(&options);
        assert_eq!(model.writes(), 2_000);
        let mut key = RecordKey::new(KeyOrder::Hashed, 1);
        let mut expected: Vec<_> = (0..2_000).map(|number| key.set(number).to_vec()).collect();
        expected.sort();
        let pairs = model.pairs();
        assert!(pairs.iter().map(|pair| &pair.0).eq(&expected));
        assert!(pairs.iter().all(|pair| pair.1.len() == 40));
        let live = load.live_bytes(2_000).unwrap() as f64;
        let real: usize = pairs.iter().map(|(key, value)| key.len() + value.len()).sum();
        assert!((live / real as f64 - 1.0).abs() < 0.01, "{live} of {real}");
    }
}

#[test]
fn values_that_differ_have_lengths_of_every_power_of_two() {
    let base =
        Options { fields: 1, field_bytes: 1 << 14, least_value_bytes: Some(1 << 4), ..small() };
    let options = Options { mix: Mix { update: 1.0, ..Mix::NONE }, ..base };
    let model = loaded(&options);
    super::tests::run(&Run::new(&options), 1, &model).unwrap();
    let lengths: Vec<usize> = model.pairs().iter().map(|pair| pair.1.len()).collect();
    assert!(lengths.iter().all(|len| (1 << 4..=1 << 14).contains(len)));
    for power in 4..14 {
        let found = lengths.iter().filter(|len| (1 << power..2 << power).contains(*len)).count();
        assert!((140..=260).contains(&found), "{found} of 2,000 in a tenth");
    }
    let mean = lengths.iter().sum::<usize>() as f64 / 2_000.0;
    let told = options.record_bytes() - 23.3;
    assert!((mean / told - 1.0).abs() < 0.1, "{mean}, and {told} is told");
}

#[test]
fn a_worker_whose_share_is_done_has_nothing_left() {
    let options = Options { records: 3, operations: 3, ..small() };
    let (load, model) = (Load::new(&options), Model::new());
    let mut worker = load.worker(&model, 0, stream(1, "load", 0)).unwrap();
    let steps: Vec<_> = (0..4).map(|_| worker.step().unwrap()).collect();
    assert_eq!((count(&steps, OperationKind::Insert), steps[3]), (3, Step::END));
}

#[test]
fn a_shared_load_writes_its_own_records_only() {
    let options = Options { load_start: 500, load_count: Some(250), ..small() };
    let model = loaded(&options);
    assert_eq!(model.pairs().len(), 250);
    let mut key = RecordKey::new(KeyOrder::Hashed, 1);
    assert!(model.pairs().iter().any(|pair| pair.0 == key.set(749)));
    assert!(model.pairs().iter().all(|pair| pair.0 != key.set(750) && pair.0 != key.set(499)));
}

#[test]
fn a_total_that_does_not_divide_is_done_all_the_same() {
    let options = Options { threads: 7, ..small() };
    let (run, model) = (Run::new(&options), loaded(&options));
    let steps = super::tests::run(&run, 7, &model).unwrap();
    assert_eq!((steps.len(), run.operations()), (4_000, 572));
}

#[test]
fn reads_find_every_record_they_ask_for() {
    for requests in [
        Requests::Uniform,
        Requests::Zipfian,
        Requests::Latest,
        Requests::HOT_SPOT,
        Requests::EXPONENTIAL,
        Requests::Sequential,
    ] {
        let mix = Mix { read: 0.9, insert: 0.1, ..Mix::NONE };
        let options = Options { mix, requests, ..small() };
        let (run, model) = (Run::new(&options), loaded(&options));
        let steps = super::tests::run(&run, 1, &model).unwrap();
        let found: u64 = steps.iter().map(|step| step.found).sum();
        assert_eq!(found, count(&steps, OperationKind::Read), "{requests:?}");
        assert_eq!(model.pairs().len() as u64, 2_000 + run.inserted());
    }
}

#[test]
fn no_thread_asks_for_a_record_before_its_insert_is_acknowledged() {
    for preset in [Preset::D, Preset::E, Preset::H] {
        // With verification a read that gives nothing fails.
        let base = Options { threads: 4, verify: true, ..small() };
        let options = preset.options(&base);
        let (run, model) = (Run::new(&options), loaded(&options));
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let (run, model) = (&run, &model);
                scope.spawn(move || {
                    let rng = stream(6, "ycsb", thread as u64);
                    let mut worker = run.worker(model, thread, rng).unwrap();
                    for _ in 0..run.share(thread) {
                        worker.step().unwrap();
                    }
                });
            }
        });
        assert_eq!(model.pairs().len() as u64, 2_000 + run.inserted());
        assert!(run.inserted() > 100);
    }
}

#[test]
fn inserts_are_of_new_records_alone() {
    let options = Preset::G.options(&Options { threads: 3, ..small() });
    let (run, model) = (Run::new(&options), loaded(&options));
    let steps = super::tests::run(&run, 3, &model).unwrap();
    assert_eq!(count(&steps, OperationKind::Insert), 4_000);
    assert_eq!((model.pairs().len(), model.writes(), run.inserted()), (6_000, 6_000, 4_000));
    // The next run goes on after this one, if it is told.
    let next = Options { records: options.records + run.inserted(), ..options };
    super::tests::run(&Run::new(&next), 3, &model).unwrap();
    assert_eq!(model.pairs().len(), 10_000);
}

#[test]
fn a_scan_reads_as_many_records_as_it_drew_from_the_one_asked_for() {
    let scans = Scans { least: 3, most: 3, lengths: Lengths::Uniform };
    let mix = Mix { scan: 1.0, ..Mix::NONE };
    let options = Options { mix, scans, ..small() };
    let steps = run(&Run::new(&options), 1, &loaded(&options)).unwrap();
    let pair = 40 + 4 + 17..=40 + 4 + 19;
    let (least, most) = (3 * *pair.start() as u64, 3 * *pair.end() as u64);
    let whole = steps.iter().filter(|step| (least..=most).contains(&step.bytes)).count();
    assert!(steps.iter().all(|step| step.found == 1 && step.bytes <= most));
    assert!(whole > 3_900, "all but those at the last two keys: {whole}");
}

#[test]
fn an_update_of_a_field_leaves_the_others_as_they_were() {
    let mix = Mix { update: 1.0, ..Mix::NONE };
    let base = Options { operations: 1, records: 1, mix, ..small() };
    let before = loaded(&base).pairs();
    let changed = |update| {
        let options = Options { update, ..base.clone() };
        let model = loaded(&options);
        let steps = run(&Run::new(&options), 1, &model).unwrap();
        assert_eq!((steps[0].kind, steps[0].found), (OperationKind::Update, 0));
        let after = model.pairs();
        let fields = before[0].1.chunks(4).zip(after[0].1.chunks(4));
        fields.filter(|(before, after)| before != after).count()
    };
    assert_eq!(changed(Update::Field), 1);
    assert!(changed(Update::Whole) > 5);
}

#[test]
fn a_read_modify_write_reads_and_writes() {
    for update in [Update::Whole, Update::Field] {
        let mix = Mix { read_modify_write: 1.0, ..Mix::NONE };
        let options = Options { mix, update, ..small() };
        let model = loaded(&options);
        let steps = run(&Run::new(&options), 1, &model).unwrap();
        assert!(steps.iter().all(|step| step.found == 1 && step.bytes > 2 * (40 + 20)));
        assert_eq!(model.writes(), 6_000);
        let empty = Model::new();
        let steps = run(&Run::new(&options), 1, &empty).unwrap();
        assert!(steps.iter().all(|step| step.found == 0 && step.bytes == 0));
        assert_eq!(empty.writes(), 0, "what is not there is not written");
    }
}

#[test]
fn one_seed_gives_one_content_and_another_another() {
    let content = |seed| {
        let options = Preset::H.options(&Options { seed, ..small() });
        let model = loaded(&options);
        run(&Run::new(&options), 1, &model).unwrap();
        model.pairs()
    };
    assert_eq!(content(1), content(1));
    assert_ne!(content(1), content(2));
}

#[test]
fn the_live_bytes_grow_with_the_inserts() {
    let options = Preset::G.options(&small());
    let (run, model) = (Run::new(&options), loaded(&options));
    let before = run.live_bytes(0).unwrap();
    super::tests::run(&run, 1, &model).unwrap();
    let ratio = run.live_bytes(4_000).unwrap() as f64 / before as f64;
    assert!((ratio - 3.0).abs() < 0.01, "{ratio}");
}
