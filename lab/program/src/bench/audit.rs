//! What a run of transactions must have left in its store. A run that left anything else has measured
//! nothing, and fails.
//!
//! After LinkBench's requests every count is the number of visible links, and every list shows just those;
//! after TPC-C's transactions the specification's twelve conditions hold, and all that was acknowledged to
//! a client, during a warm-up as well, is there. A load is not inspected: what it left, the run after
//! it does.

use super::plan::Task;
use crate::failure::{Failure, Outcome};
use esker::api::Transactional;
use esker_workload::{Differences, Workload, linkbench, tpcc};

/// A workload of transactions, bound to a store.
pub enum Bound<'s> {
    Load(Box<dyn Workload + 's>),
    LinkBench(linkbench::Requests<'s>),
    Tpcc(tpcc::Terminals<'s>, tpcc::Options),
}

impl<'s> Bound<'s> {
    /// The workload of `task`, which is one of transactions.
    pub fn of(task: &Task, store: &'s dyn Transactional) -> esker::Result<Self> {
        Ok(match task {
            Task::LinkBenchLoad(task) => {
                Bound::Load(Box::new(linkbench::Load::new(&task.options(), store)?))
            }
            Task::LinkBench(task) => {
                Bound::LinkBench(linkbench::Requests::new(&task.options(), store)?)
            }
            Task::TpccLoad(task) => Bound::Load(Box::new(tpcc::Load::new(&task.options(), store)?)),
            Task::Tpcc(task) => {
                Bound::Tpcc(tpcc::Terminals::new(&task.options(), store)?, task.options())
            }
            Task::YcsbLoad(_)
            | Task::YcsbRun(_)
            | Task::Updates(_)
            | Task::Shelf(_)
            | Task::Probe(_)
            | Task::Large(_) => {
                unreachable!("it was asked whether it runs transactions")
            }
        })
    }

    /// As the driver sees it.
    pub fn workload(&self) -> &dyn Workload {
        match self {
            Bound::Load(load) => &**load,
            Bound::LinkBench(requests) => requests,
            Bound::Tpcc(terminals, _) => terminals,
        }
    }
}

/// Checks what `bound` has left in `store`, when its clients have gone. Whether there was anything to
/// check.
pub fn audit(bound: &Bound<'_>, store: &dyn Transactional) -> Outcome<bool> {
    match bound {
        Bound::Load(_) => return Ok(false),
        Bound::LinkBench(_) => {
            none("links, lists and counts disagree", &linkbench::check(store)?)?;
        }
        Bound::Tpcc(terminals, options) => {
            let broken = "TPC-C's consistency conditions are broken";
            none(broken, &tpcc::check(store, options)?)?;
            let lost = "acknowledged transactions are missing";
            none(lost, &tpcc::verify(store, terminals.acknowledged())?)?;
        }
    }
    Ok(true)
}

fn none(what: &str, found: &Differences) -> Outcome {
    if found.is_empty() {
        return Ok(());
    }
    let count = crate::units::counted(found.count(), "difference");
    let found = found.to_string();
    Err(Failure::new(format!("after the run {what} ({count}):\n{}", found.trim_end())))
}

#[cfg(test)]
mod tests {
    use super::super::plan::{LinkBenchTask, TpccTask};
    use super::*;
    use esker::api::{KeyRange, WriteBatch};
    use esker_base::Rng;
    use esker_workload::Model;
    use esker_workload::model::TransactionalModel;

    const CLIENTS: usize = 2;

    fn work(workload: &dyn Workload) {
        let unused = Model::new();
        for client in 0..CLIENTS {
            let mut worker = workload.worker(&unused, client, Rng::new(client as u64)).unwrap();
            for _ in 0..workload.share(client) {
                worker.step().unwrap();
            }
        }
    }

    /// Loads a store, works on it, removes the last entry of a keyspace, and says what the audit does.
    fn audited(load: &Task, run: &Task, harmed: Option<&str>) -> Outcome<bool> {
        let store = TransactionalModel::new();
        work(Bound::of(load, &store).unwrap().workload());
        let bound = Bound::of(run, &store).unwrap();
        work(bound.workload());
        if let Some(keyspace) = harmed {
            let id = store.keyspace(keyspace).unwrap();
            let mut cursor = store.cursor(id, KeyRange::all()).unwrap();
            cursor.seek_last().unwrap();
            let key = cursor.current().expect("the keyspace has pairs").0.to_vec();
            drop(cursor);
            let mut batch = WriteBatch::new();
            batch.delete(id, &key);
            store.write(&batch).unwrap();
        }
        audit(&bound, &store)
    }

    const COMPANY: TpccTask = TpccTask {
        warehouses: 1,
        items: 20,
        customers: 10,
        transactions: 200,
        clients: CLIENTS,
        seed: 1,
    };

    fn tpcc(harmed: Option<&str>) -> Outcome<bool> {
        audited(&Task::TpccLoad(COMPANY), &Task::Tpcc(COMPANY), harmed)
    }

    fn linkbench(harmed: Option<&str>) -> Outcome<bool> {
        let task = LinkBenchTask { nodes: 100, requests: 500, clients: CLIENTS, seed: 1 };
        audited(&Task::LinkBenchLoad(task.clone()), &Task::LinkBench(task), harmed)
    }

    #[track_caller]
    fn fails(audited: Outcome<bool>, why: &str) {
        match audited {
            Err(Failure::Failed(message)) => assert!(message.contains(why), "{message}"),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_run_that_did_as_it_should_passes() {
        assert!(tpcc(None).unwrap());
        assert!(linkbench(None).unwrap());
    }

    #[test]
    fn a_link_that_was_lost_fails_the_run() {
        for keyspace in ["links_by_time", "counts"] {
            fails(linkbench(Some(keyspace)), "links, lists and counts disagree (1 difference");
        }
    }

    #[test]
    fn a_row_that_was_lost_fails_the_run() {
        for (table, condition) in [
            ("history", "condition 8"),
            ("orders", "condition 2"),
            ("new_order", "condition 2"),
            ("order_line", "condition 4"),
            ("warehouse", "warehouse 1 has no row"),
            ("stock", "condition 15: rows of stock"),
            ("item", "condition 15: rows of item"),
            ("customer_by_name", "condition 1"),
        ] {
            fails(tpcc(Some(table)), "consistency conditions are broken (");
            fails(tpcc(Some(table)), condition);
        }
    }

    #[test]
    fn what_was_acknowledged_and_is_not_there_fails_the_run() {
        let [worked_on, lagging] = [(), ()].map(|()| TransactionalModel::new());
        for store in [&worked_on, &lagging] {
            work(Bound::of(&Task::TpccLoad(COMPANY), store).unwrap().workload());
        }
        let bound = Bound::of(&Task::Tpcc(COMPANY), &worked_on).unwrap();
        work(bound.workload());
        fails(audit(&bound, &lagging), "acknowledged transactions are missing (");
    }
}
