//! Inserts that are still going on, and inserts that fail.

use super::*;
use esker_api::{Cursor, KeyRange, Kv, Snapshot, Value, WriteBatch};
use esker_base::Result;
use std::collections::HashSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, Sender, channel};

/// What becomes of the write of one key.
enum Gate {
    /// It says that it has begun, and waits.
    Waits {
        begun: Sender<()>,
        go_on: Mutex<Receiver<()>>,
    },
    Panics,
    Fails,
}

/// A model with a gate before one key, which remembers what it was asked for.
struct Gated {
    model: Model,
    key: Vec<u8>,
    gate: Gate,
    asked: Mutex<HashSet<Vec<u8>>>,
}

impl Gated {
    fn new(options: &Options, number: u64, gate: Gate) -> Self {
        let key = key_of(number);
        Gated { model: loaded(options), key, gate, asked: Mutex::default() }
    }

    fn asked_for(&self, number: u64) -> bool {
        self.asked.lock().unwrap().contains(&key_of(number))
    }
}

fn key_of(number: u64) -> Vec<u8> {
    RecordKey::new(KeyOrder::Hashed, 1).set(number).to_vec()
}

impl Kv for Gated {
    fn get(&self, key: &[u8]) -> Result<Option<Value>> {
        self.asked.lock().unwrap().insert(key.to_vec());
        self.model.get(key)
    }

    fn write(&self, batch: &WriteBatch) -> Result<()> {
        if batch.iter().any(|entry| entry.key == self.key) {
            match &self.gate {
                Gate::Waits { begun, go_on } => {
                    begun.send(()).unwrap();
                    go_on.lock().unwrap().recv().unwrap();
                }
                Gate::Panics => panic!("a store's fault"),
                Gate::Fails => return Err(esker_base::Error::ReadOnly),
            }
        }
        self.model.write(batch)
    }
}

impl Ordered for Gated {
    fn cursor(&self, range: KeyRange) -> Result<Box<dyn Cursor + '_>> {
        self.model.cursor(range)
    }

    fn cursor_at<'a>(
        &'a self,
        range: KeyRange,
        snapshot: &'a dyn Snapshot,
    ) -> Result<Box<dyn Cursor + 'a>> {
        self.model.cursor_at(range, snapshot)
    }

    fn get_at(&self, key: &[u8], snapshot: &dyn Snapshot) -> Result<Option<Value>> {
        self.model.get_at(key, snapshot)
    }

    fn snapshot(&self) -> Result<Box<dyn Snapshot + '_>> {
        self.model.snapshot()
    }
}

#[test]
fn nothing_from_the_first_unacknowledged_insert_on_is_asked_for() {
    let mix = Mix { read: 1.0, insert: 1.0, ..Mix::NONE };
    let sizes = Options { records: 50, operations: 400, threads: 2, verify: true, ..small() };
    let options = Options { mix, requests: Requests::Latest, ..sizes };
    let (begun, has_begun) = channel();
    let (open, go_on) = channel();
    let gate = Gate::Waits { begun, go_on: Mutex::new(go_on) };
    // Number 50 is the first insert.
    let store = Gated::new(&options, 50, gate);
    let run = Run::new(&options);
    std::thread::scope(|scope| {
        // Opens the gate also if an assertion below fails.
        let open = open;
        let blocked = scope.spawn(|| {
            let mut worker = run.worker(&store, 0, stream(1, "ycsb", 0)).unwrap();
            while run.inserted() == 0 {
                worker.step().unwrap();
            }
        });
        has_begun.recv().unwrap();
        let mut worker = run.worker(&store, 1, stream(1, "ycsb", 1)).unwrap();
        let steps: Vec<_> = (0..300).map(|_| worker.step().unwrap()).collect();
        let inserts = count(&steps, OperationKind::Insert);
        assert!(inserts > 100, "others go on inserting");
        assert_eq!(run.inserted(), 0);
        assert!(store.asked_for(49) && (50..=50 + inserts).all(|number| !store.asked_for(number)));
        open.send(()).unwrap();
        blocked.join().unwrap();
        assert_eq!(run.inserted(), inserts + 1);
        for _ in 0..100 {
            worker.step().unwrap();
        }
        assert!((51..=50 + inserts).any(|number| store.asked_for(number)));
    });
}

#[test]
fn an_insert_that_fails_or_panics_holds_up_nobody_and_is_not_missed() {
    let mix = Mix { read: 1.0, insert: 1.0, ..Mix::NONE };
    let sizes = Options { records: 50, operations: 400, threads: 2, verify: true, ..small() };
    let options = Options { mix, requests: Requests::Latest, ..sizes };
    for gate in [Gate::Fails, Gate::Panics] {
        let (store, run) = (Gated::new(&options, 50, gate), Run::new(&options));
        let mut failing = run.worker(&store, 0, stream(1, "ycsb", 0)).unwrap();
        let ended = catch_unwind(AssertUnwindSafe(|| {
            std::iter::repeat_with(|| failing.step()).find_map(Result::err)
        }));
        assert!(!matches!(ended, Ok(None)));
        assert_eq!(run.inserted(), 1);
        let mut worker = run.worker(&store, 1, stream(1, "ycsb", 1)).unwrap();
        for _ in 0..200 {
            worker.step().unwrap();
        }
        assert!(store.asked_for(50) && run.inserted() > 50);
    }
}
