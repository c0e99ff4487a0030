//! A small company on the model of transactions.

mod conditions;
mod operations;

use super::*;
use crate::model::{Model, TransactionalModel};
use crate::{OperationKind, Step, Workload, stream};
use esker_api::Isolation;
use std::collections::BTreeMap;

fn options() -> Options {
    let (warehouses, items, customers) = (2, 50, 20);
    let (transactions, clients) = (1_000, 3);
    Options { warehouses, items, customers, transactions, clients, ..Options::default() }
}

fn run_part(workload: &dyn Workload, thread: usize) -> Vec<Step> {
    let unused = Model::new();
    let mut worker = workload.worker(&unused, thread, stream(1, "tpcc", thread as u64)).unwrap();
    (0..workload.share(thread)).map(|_| worker.step().unwrap()).collect()
}

fn run(workload: &dyn Workload, threads: usize) -> Vec<Step> {
    (0..threads).flat_map(|thread| run_part(workload, thread)).collect()
}

fn loaded(options: &Options) -> TransactionalModel {
    let model = TransactionalModel::new();
    run(&Load::new(options, &model).unwrap(), options.clients);
    model
}

#[track_caller]
fn expect_consistent(model: &TransactionalModel, options: &Options) {
    let differences = check(model, options).unwrap();
    assert!(differences.is_empty(), "{differences}");
}

#[test]
fn the_load_is_consistent_and_does_not_depend_on_the_clients() {
    let (three, seven) = (options(), Options { clients: 7, ..options() });
    let models = [loaded(&three), loaded(&seven)];
    expect_consistent(&models[0], &three);
    for id in 0..11 {
        let pairs = |model: &TransactionalModel| model.pairs(esker_base::KeyspaceId(id)).unwrap();
        assert_eq!(pairs(&models[0]), pairs(&models[1]));
    }
}

#[test]
fn all_transactions_leave_the_company_consistent() {
    let options = options();
    let model = loaded(&options);
    let terminals = Terminals::new(&options, &model).unwrap();
    let steps = run(&terminals, options.clients);
    expect_consistent(&model, &options);

    let mut kinds: BTreeMap<_, u64> = BTreeMap::new();
    for step in &steps {
        let OperationKind::Named(name) = step.kind else { panic!("{:?}", step.kind) };
        *kinds.entry(name).or_default() += 1;
    }
    // 1,000 cards of decks of 23, but for what the last decks of three clients hold back.
    assert!(kinds["new_order"].abs_diff(435) < 20 && kinds["payment"].abs_diff(435) < 20);
    for rare in ["order_status", "delivery", "stock_level"] {
        assert!(kinds[rare].abs_diff(43) < 5, "{rare}: {}", kinds[rare]);
    }
    let acknowledged = terminals.acknowledged();
    let commits: u64 = steps.iter().map(|step| step.transactions.commits).sum();
    assert_eq!(acknowledged.len() as u64, commits);
    assert!(verify(&model, acknowledged).unwrap().is_empty());
    let rollbacks: u64 = steps.iter().map(|step| step.transactions.rollbacks).sum();
    assert!((1..15).contains(&rollbacks), "a hundredth of the new orders: {rollbacks}");
}

#[test]
fn transactions_stay_consistent_under_threads() {
    for isolation in [Isolation::ReadCommitted, Isolation::Snapshot] {
        // One warehouse, so that threads meet.
        let options =
            Options { warehouses: 1, clients: 4, transactions: 600, isolation, ..options() };
        let model = loaded(&options);
        let terminals = Terminals::new(&options, &model).unwrap();
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let terminals = &terminals;
                scope.spawn(move || run_part(terminals, thread));
            }
        });
        expect_consistent(&model, &options);
        assert!(verify(&model, terminals.acknowledged()).unwrap().is_empty());
    }
}

#[test]
fn one_seed_gives_one_history() {
    let content = || {
        let options = Options { transactions: 200, ..options() };
        let model = loaded(&options);
        run(&Terminals::new(&options, &model).unwrap(), options.clients);
        (0..11).map(|id| model.pairs(esker_base::KeyspaceId(id)).unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(content(), content());
}

#[test]
fn options_that_can_not_be_run_are_refused_by_name() {
    for (bad, name) in [
        (Options { warehouses: 0, ..options() }, "warehouses is 0"),
        (Options { items: 5, ..options() }, "items is 5"),
        (Options { customers: 3_001, ..options() }, "customers is 3001"),
        (Options { clients: 0, ..options() }, "clients is 0"),
    ] {
        let message = bad.check().unwrap_err().to_string();
        assert!(message.starts_with(name), "{message}");
    }
    assert!(Options::default().is_full_size() && !options().is_full_size());
}
