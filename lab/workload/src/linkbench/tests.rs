//! The graph on the model of transactions.

use super::graph::{FIRST_LINK_TYPE, Graph};
use super::operations::{Client, Ends};
use super::rows::{Count, Keyspaces, Link, list_key};
use super::*;
use crate::model::interrupted::Interrupted;
use crate::model::{Model, TransactionalModel};
use crate::{OperationKind, Step, Transactions, Workload, stream};
use esker_api::{Isolation, Transactional, WriteBatch};
use std::collections::BTreeMap;

const ENDS: Ends = Ends { id1: 7, link_type: FIRST_LINK_TYPE, id2: 9 };

fn options() -> Options {
    Options { nodes: 300, requests: 4_000, threads: 3, ..Options::default() }
}

/// Runs every thread's part, one after the other.
fn run(workload: &dyn Workload, threads: usize) -> Vec<Step> {
    let mut steps = Vec::new();
    for thread in 0..threads {
        steps.append(&mut run_part(workload, thread));
    }
    steps
}

fn run_part(workload: &dyn Workload, thread: usize) -> Vec<Step> {
    let unused = Model::new();
    let mut worker =
        workload.worker(&unused, thread, stream(1, "linkbench", thread as u64)).unwrap();
    let (mut steps, mut done) = (Vec::new(), 0);
    while done < workload.share(thread) {
        steps.push(worker.step().unwrap());
        done += steps.last().unwrap().operations;
    }
    steps
}

fn loaded(options: &Options) -> TransactionalModel {
    let model = TransactionalModel::new();
    run(&Load::new(options, &model).unwrap(), options.threads);
    model
}

fn client<'a>(model: &'a TransactionalModel) -> Client<'a> {
    Client::new(model, Keyspaces::of(model).unwrap(), &options())
}

fn rows(model: &TransactionalModel, keyspace: &str) -> usize {
    model.pairs(model.keyspace(keyspace).unwrap()).unwrap().len()
}

#[test]
fn the_load_makes_every_node_with_its_links_and_counts() {
    let options = options();
    let model = loaded(&options);
    let graph = Graph::new(&options);
    assert_eq!(rows(&model, "nodes"), 300);
    let links: u64 = (1..=300).map(|id| graph.degree(id)).sum();
    assert_eq!(rows(&model, "links"), links as usize);
    assert!(check(&model).unwrap().is_empty());
    let client = client(&model);
    for id in 1..=300 {
        let links = graph.links(id, FIRST_LINK_TYPE);
        assert_eq!(client.count_links(id, FIRST_LINK_TYPE).unwrap().0, links);
        assert_eq!(client.get_link_list(id, FIRST_LINK_TYPE, None).unwrap().rows, links);
    }
}

#[test]
fn the_content_does_not_depend_on_the_number_of_requests() {
    let (one, two) = (loaded(&options()), loaded(&Options { requests: 1, ..options() }));
    for keyspace in ["nodes", "links", "links_by_time", "counts"] {
        let pairs = |model: &TransactionalModel| model.pairs(model.keyspace(keyspace).unwrap());
        assert_eq!(pairs(&one).unwrap(), pairs(&two).unwrap());
    }
}

#[test]
fn a_link_is_added_once_and_counted_once() {
    let model = TransactionalModel::new();
    let mut client = client(&model);
    assert!(!client.put_link(ENDS, 5, b"one").unwrap());
    assert!(client.put_link(ENDS, 6, b"two").unwrap(), "it was there");
    assert_eq!(client.count_links(7, FIRST_LINK_TYPE).unwrap().0, 1);
    let listed = client.get_link_list(7, FIRST_LINK_TYPE, None).unwrap();
    assert_eq!((listed.rows, listed.oldest), (1, (6, 9)));
    assert!(check(&model).unwrap().is_empty());
}

#[test]
fn a_deleted_link_is_hidden_and_can_come_back() {
    let model = TransactionalModel::new();
    let mut client = client(&model);
    client.put_link(ENDS, 5, b"one").unwrap();
    assert!(client.delete_link(ENDS, 6).unwrap());
    assert!(!client.delete_link(ENDS, 7).unwrap(), "it is hidden already");
    assert_eq!(client.count_links(7, FIRST_LINK_TYPE).unwrap().0, 0);
    assert_eq!(client.get_links(7, FIRST_LINK_TYPE, &[9]).unwrap().rows, 0);
    assert_eq!(rows(&model, "links"), 1, "the row stays");
    assert!(!client.put_link(ENDS, 8, b"two").unwrap());
    assert_eq!(client.count_links(7, FIRST_LINK_TYPE).unwrap().0, 1);
    assert_eq!(client.get_links(7, FIRST_LINK_TYPE, &[8, 9]).unwrap().rows, 1);
    assert!(check(&model).unwrap().is_empty());
    assert_eq!(client.transactions, Transactions { commits: 3, rollbacks: 0, retries: 0 });
}

#[test]
fn a_list_gives_the_newest_links_first_and_goes_on_after_one() {
    let model = TransactionalModel::new();
    let mut client = client(&model);
    for (id2, time) in [(10, 30), (11, 10), (12, 20), (13, 20)] {
        client.put_link(Ends { id2, ..ENDS }, time, b"").unwrap();
    }
    client.put_link(Ends { id1: 8, ..ENDS }, 5, b"").unwrap();
    let list = |after| client.get_link_list(7, FIRST_LINK_TYPE, after).unwrap();
    assert_eq!((list(None).rows, list(None).oldest), (4, (10, 11)));
    assert_eq!((list(Some((20, 12))).rows, list(Some((20, 13))).rows), (2, 1));
    assert_eq!(list(Some((10, 11))).rows, 0);
}

#[test]
fn a_deleted_node_leaves_its_links() {
    let model = loaded(&options());
    let mut client = client(&model);
    let links = rows(&model, "links");
    assert!(client.update_node(7, 1, b"new").unwrap());
    assert!(client.delete_node(7).unwrap());
    assert!(!client.delete_node(7).unwrap() && !client.update_node(7, 2, b"").unwrap());
    assert_eq!(client.get_node(7).unwrap().rows, 0);
    assert_eq!((rows(&model, "nodes"), rows(&model, "links")), (299, links));
    client.add_node(301, 3, b"data").unwrap();
    assert_eq!(client.get_node(301).unwrap().rows, 1);
}

#[test]
fn all_requests_leave_counts_right() {
    let options = options();
    let model = loaded(&options);
    let before = rows(&model, "links");
    let steps = run(&Requests::new(&options, &model).unwrap(), 3);
    assert_eq!(steps.len(), 4_000);
    assert!(rows(&model, "links") > before);
    assert!(check(&model).unwrap().is_empty());
    let mut kinds: BTreeMap<_, u64> = BTreeMap::new();
    for step in &steps {
        let OperationKind::Named(name) = step.kind else { panic!("{:?}", step.kind) };
        *kinds.entry(name).or_default() += 1;
    }
    assert_eq!(kinds.len(), 10);
    let commits: u64 = steps.iter().map(|step| step.transactions.commits).sum();
    assert!(
        (700..1_300).contains(&commits),
        "30% of 4,000 write, most of them something: {commits}"
    );
}

#[test]
fn nodes_of_a_second_run_go_on_from_those_of_the_first() {
    let options = options();
    let model = loaded(&options);
    let added = |steps: Vec<Step>| {
        steps.iter().filter(|step| step.kind == OperationKind::Named("add_node")).count()
    };
    let last = || {
        let last = model.pairs(model.keyspace("nodes").unwrap()).unwrap().pop().unwrap().0;
        u64::from_be_bytes(last.try_into().unwrap())
    };
    let mut ids = 300;
    for _ in 0..2 {
        ids += added(run(&Requests::new(&options, &model).unwrap(), 3)) as u64;
        assert_eq!(last(), ids);
    }
}

#[test]
fn links_of_a_second_run_are_newer_than_all_of_the_first() {
    let options = options();
    let model = loaded(&options);
    let links = || {
        let pairs = model.pairs(model.keyspace("links").unwrap()).unwrap();
        let time = |value: &[u8]| Link::decode(b"", value).unwrap().time;
        let times = pairs.into_iter().map(|(key, value)| (key, time(&value)));
        times.collect::<BTreeMap<_, _>>()
    };
    let mut before = links();
    for _ in 0..2 {
        run(&Requests::new(&options, &model).unwrap(), 3);
        let after = links();
        let newest_before = *before.values().max().unwrap();
        let changed = after.iter().filter(|&(key, time)| before.get(key) != Some(time));
        let oldest_changed = changed.map(|(_, &time)| time).min().unwrap();
        assert!(oldest_changed > newest_before, "{oldest_changed}, {newest_before}");
        before = after;
    }
}

#[test]
fn counts_stay_right_under_threads() {
    for isolation in [Isolation::ReadCommitted, Isolation::Snapshot] {
        // Few nodes, so that threads meet.
        let options = Options { nodes: 5, threads: 4, isolation, ..options() };
        let model = loaded(&options);
        let requests = Requests::new(&options, &model).unwrap();
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let requests = &requests;
                scope.spawn(move || run_part(requests, thread));
            }
        });
        let differences = check(&model).unwrap();
        assert!(differences.is_empty(), "{isolation}: {differences}");
    }
}

/// Changes one row by hand.
fn plant(model: &TransactionalModel, keyspace: &str, key: &[u8], value: Option<&[u8]>) {
    let keyspace = model.keyspace(keyspace).unwrap();
    let mut batch = WriteBatch::new();
    match value {
        Some(value) => batch.put(keyspace, key, value),
        None => batch.delete(keyspace, key),
    }
    model.write(&batch).unwrap();
}

#[test]
fn a_miscount_is_found_and_named() {
    let model = loaded(&options());
    let graph = Graph::new(&options());
    let id = (1..).find(|&id| graph.links(id, FIRST_LINK_TYPE) == 2).unwrap();
    let mut value = Vec::new();
    Count { count: 3, ..Count::default() }.encode(&mut value);
    plant(&model, "counts", &list_key(id, FIRST_LINK_TYPE), Some(&value));
    let text = check(&model).unwrap().to_string();
    let expected = format!("the count of node {id}, type {FIRST_LINK_TYPE}: 2 was expected, 3");
    assert!(text.starts_with(&expected), "{text}");
}

#[test]
fn a_count_without_links_and_links_without_a_count_are_found() {
    let model = loaded(&options());
    let mut value = Vec::new();
    Count { count: 1, ..Count::default() }.encode(&mut value);
    plant(&model, "counts", &list_key(9_999, 1), Some(&value));
    let graph = Graph::new(&options());
    let id = (1..).find(|&id| graph.degree(id) > 0).unwrap();
    plant(&model, "counts", &list_key(id, FIRST_LINK_TYPE), None);
    assert_eq!(check(&model).unwrap().count(), 2);
}

#[test]
fn a_list_that_misses_a_link_is_found() {
    let model = loaded(&options());
    let (key, _) = model.pairs(model.keyspace("links_by_time").unwrap()).unwrap().swap_remove(40);
    plant(&model, "links_by_time", &key, None);
    let differences = check(&model).unwrap();
    assert_eq!(differences.count(), 1);
    assert!(differences.first()[0].starts_with("the list of node "), "{differences}");
}

#[test]
fn a_graph_without_nodes_or_clients_is_refused() {
    for bad in [Options { nodes: 0, ..options() }, Options { threads: 0, ..options() }] {
        assert!(bad.check().is_err());
    }
}

/// A change of links; whether there was a visible one.
type Change = fn(&mut Client<'_>) -> bool;

/// Runs `one` and, after its read number `after`, `two`, on a node with two links. Whether it came so far.
fn interrupt(after: usize, one: Change, two: Change) -> bool {
    let model = TransactionalModel::new();
    for id2 in [8, 9] {
        client(&model).put_link(Ends { id2, ..ENDS }, id2, b"").unwrap();
    }
    let store = Interrupted::new(&model, after, || {
        two(&mut client(&model));
    });
    one(&mut Client::new(&store, Keyspaces::of(&model).unwrap(), &options()));
    let differences = check(&model).unwrap();
    assert!(differences.is_empty(), "after read {after}: {differences}");
    store.has_come()
}

#[test]
fn counts_stay_right_whatever_comes_between_two_reads() {
    let changes: [Change; 5] = [
        |client| client.put_link(Ends { id2: 10, ..ENDS }, 50, b"").unwrap(),
        |client| client.put_link(Ends { id2: 11, ..ENDS }, 60, b"").unwrap(),
        |client| client.put_link(ENDS, 70, b"").unwrap(),
        |client| client.delete_link(ENDS, 80).unwrap(),
        |client| client.delete_link(Ends { id2: 8, ..ENDS }, 90).unwrap(),
    ];
    for one in changes {
        for two in changes {
            let points = (0..).take_while(|&after| interrupt(after, one, two)).count();
            assert!((1..=2).contains(&points), "a link is read, and a count: {points}");
        }
    }
}
