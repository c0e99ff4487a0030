//! Verified runs: quiet about a correct store, and an error at the first wrong answer.

use super::faulty::{Fault, Faulty};
use super::*;
use esker_api::Kv;
use esker_base::{Error, Result};

fn verified(mix: Mix) -> Options {
    Options { records: 200, operations: 300, verify: true, mix, ..small() }
}

const READ: Mix = Mix { read: 1.0, ..Mix::NONE };
const SCAN: Mix = Mix { scan: 1.0, ..Mix::NONE };
const MODIFY: Mix = Mix { read_modify_write: 1.0, ..Mix::NONE };

/// A run of `mix` on a loaded store that has `fault`.
fn run_with(fault: Fault, options: &Options) -> Result<Vec<Step>> {
    let store = Faulty::new(loaded(options), fault);
    run(&Run::new(options), options.threads, &store)
}

fn failure(fault: Fault, options: &Options) -> (String, String) {
    match run_with(fault, options) {
        Err(Error::WrongAnswer { key, what }) => (key, what),
        other => panic!("{fault:?} gave {:?}", other.map(|steps| steps.len())),
    }
}

#[test]
fn a_correct_store_passes() {
    let every = Mix { read: 1.0, update: 1.0, insert: 1.0, scan: 1.0, read_modify_write: 1.0 };
    for update in [Update::Whole, Update::Field] {
        for threads in [1, 3] {
            let options = Options { update, threads, ..verified(every) };
            assert_eq!(run_with(Fault::None, &options).unwrap().len(), 300);
        }
    }
}

#[test]
fn values_that_were_never_written_fail_reads_scans_and_modifications() {
    for fault in [Fault::FlipsBits, Fault::Truncates, Fault::MixesKeys] {
        for mix in [READ, SCAN, MODIFY] {
            let (key, what) = failure(fault, &verified(mix));
            assert!(key.starts_with("user") && what.contains("no write of this key"), "{what}");
        }
    }
}

#[test]
fn records_that_are_gone_fail_reads_scans_and_modifications() {
    for mix in [READ, SCAN, MODIFY] {
        let (_, what) = failure(Fault::LosesRecords, &verified(mix));
        assert_eq!(what, "it gave nothing, and the record was written");
    }
}

#[test]
fn a_scan_that_stands_still_fails() {
    let (_, what) = failure(Fault::Repeats, &verified(SCAN));
    assert!(what.starts_with("a scan gave it after key user"), "{what}");
}

#[test]
fn a_planted_value_is_named_with_its_key_and_its_bytes() {
    let options = verified(READ);
    let model = loaded(&options);
    let mut key = RecordKey::new(KeyOrder::Hashed, 1);
    for number in 0..200 {
        model.put(key.set(number), b"planted by hand\n").unwrap();
    }
    let message = run(&Run::new(&options), 1, &model).unwrap_err().to_string();
    assert!(message.starts_with("a read of key user"), "{message}");
    assert!(message.contains("16 bytes") && message.contains("planted by hand\\n"), "{message}");
}

#[test]
fn without_verification_nothing_is_looked_at() {
    for fault in [Fault::FlipsBits, Fault::LosesRecords, Fault::Repeats] {
        for mix in [READ, SCAN] {
            let options = Options { verify: false, ..verified(mix) };
            assert_eq!(run_with(fault, &options).unwrap().len(), 300);
        }
    }
}

#[test]
fn inserted_records_must_be_there_and_other_programs_parts_need_not() {
    let newest = Options { requests: Requests::Latest, ..verified(READ) };
    let part = Options { load_start: 199, ..newest.clone() };
    let steps = run_with(Fault::None, &part).unwrap();
    let found: u64 = steps.iter().map(|step| step.found).sum();
    assert!(found > 0 && found < 300, "{found} found");
    let mix = Mix { insert: 1.0, read: 9.0, ..Mix::NONE };
    let (lost, what) = failure(Fault::LosesInserts, &Options { mix, ..newest });
    assert_eq!(what, "it gave nothing, and the record was written");
    let mut key = RecordKey::new(KeyOrder::Hashed, 1);
    assert!((200..500).any(|number| key.set(number) == lost.as_bytes()), "{lost} was loaded");
}

#[test]
fn values_that_acknowledged_writes_replaced_fail_reads_scans_and_modifications() {
    for fault in [Fault::LosesUpdates, Fault::ServesPrevious] {
        for update in [Update::Whole, Update::Field] {
            for mix in [
                Mix { read: 1.0, update: 1.0, ..Mix::NONE },
                Mix { scan: 1.0, update: 1.0, ..Mix::NONE },
                MODIFY,
            ] {
                let (_, what) = failure(fault, &Options { update, ..verified(mix) });
                assert!(what.contains("which an acknowledged write had replaced"), "{what}");
            }
        }
    }
}

#[test]
fn a_worker_knows_what_another_one_wrote() {
    let mix = Mix { read: 1.0, update: 1.0, ..Mix::NONE };
    let options = Options { records: 1, requests: Requests::Uniform, ..verified(mix) };
    let store = Faulty::new(loaded(&options), Fault::LosesUpdates);
    let run = Run::new(&options);
    let mut writer = run.worker(&store, 0, stream(5, "ycsb", 0)).unwrap();
    while writer.step().unwrap().kind != OperationKind::Update {}
    let mut reader = run.worker(&store, 1, stream(5, "ycsb", 1)).unwrap();
    let error = std::iter::repeat_with(|| reader.step()).find_map(Result::err).unwrap();
    assert!(matches!(error, Error::WrongAnswer { .. }));
}

#[test]
fn a_run_after_another_takes_what_it_finds_and_tells_its_own_writes_from_it() {
    let mix = Mix { read: 1.0, update: 1.0, ..Mix::NONE };
    let options = verified(mix);
    let model = loaded(&options);
    for _ in 0..3 {
        run(&Run::new(&options), 1, &model).unwrap();
    }
    let store = Faulty::new(model, Fault::LosesUpdates);
    assert!(matches!(run(&Run::new(&options), 1, &store), Err(Error::WrongAnswer { .. })));
}

#[test]
fn a_correct_store_passes_with_threads_that_meet_at_a_few_records() {
    let mix = Mix { read: 4.0, update: 4.0, insert: 0.1, scan: 1.0, read_modify_write: 1.0 };
    for update in [Update::Whole, Update::Field] {
        let base = Options { records: 4, operations: 6_000, threads: 4, ..verified(mix) };
        let options = Options { update, requests: Requests::Uniform, ..base };
        let (run, model) = (Run::new(&options), loaded(&options));
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let (run, model) = (&run, &model);
                scope.spawn(move || {
                    let rng = stream(8, "ycsb", thread as u64);
                    let mut worker = run.worker(model, thread, rng).unwrap();
                    for _ in 0..run.share(thread) {
                        worker.step().unwrap();
                    }
                });
            }
        });
    }
}

#[test]
fn scans_that_end_early_or_pass_over_records_fail() {
    for (fault, text) in [
        (Fault::EndsEarly, "a scan ended at key user"),
        (Fault::Skips, "a scan passed over it to key user"),
    ] {
        let (key, what) = failure(fault, &verified(SCAN));
        assert!(key.starts_with("user") && what.starts_with(text), "{what}");
    }
}

#[test]
fn threads_do_not_write_the_same_values() {
    let options = Options { records: 300, threads: 3, field_bytes: 40, ..small() };
    let values: std::collections::HashSet<_> =
        loaded(&options).pairs().into_iter().map(|pair| pair.1).collect();
    assert_eq!(values.len(), 300);
}
