//! Point reads of the updated keys, each as often as it was updated: alone, or concurrently with
//! one thread that updates at full speed.

use super::{Updates, scatter::Scatter};
use crate::distributions::Distribution;
use crate::worker::share_of;
use crate::{KeyBuffer, OperationKind, Step, Worker, Workload};
use esker_api::Ordered;
use esker_base::{Result, Rng};

/// Reads after updates, or during them.
#[derive(Debug)]
pub struct Reads<'u> {
    updates: &'u Updates,
    operations: u64,
    beside_updates: bool,
    pass: u64,
}

impl<'u> Reads<'u> {
    /// So many reads of what `updates` has written, by as many threads.
    pub fn after(updates: &'u Updates, operations: u64) -> Self {
        Reads { updates, operations, beside_updates: false, pass: 0 }
    }

    /// The same while one thread more goes on with the updates.
    pub fn beside(updates: &'u Updates, operations: u64) -> Self {
        Reads { updates, operations, beside_updates: true, pass: 0 }
    }
}

impl Reads<'_> {
    /// The same, but of keys drawn anew. What was read in another pass may have a copy in memory, which says nothing of
    /// the store. Where some keys are much hotter than others, those come in every pass.
    pub fn in_pass(self, pass: u64) -> Self {
        Reads { pass, ..self }
    }
}

impl Workload for Reads<'_> {
    fn worker<'a>(
        &'a self,
        store: &'a dyn Ordered,
        _thread: usize,
        mut rng: Rng,
    ) -> Result<Box<dyn Worker + 'a>> {
        let options = &self.updates.options;
        Ok(Box::new(Reader {
            store,
            rng: Rng::new(rng.next_u64() ^ self.pass),
            heat: options.heat.distribution(),
            there: self.updates.inserted(),
            scatter: Scatter::new(options.key_bytes),
            key: KeyBuffer::new(options.key_bytes),
        }))
    }

    fn operations(&self) -> u64 {
        self.share(0)
    }

    fn share(&self, thread: usize) -> u64 {
        share_of(self.operations, self.updates.options.threads, thread)
    }

    fn endless(&self) -> bool {
        true
    }

    fn looks_up(&self) -> bool {
        true
    }

    fn writes(&self) -> bool {
        false
    }

    fn companion(&self) -> Option<Box<dyn Workload + '_>> {
        self.beside_updates.then(|| Box::new(Going(self.updates)) as Box<dyn Workload>)
    }
}

struct Reader<'a> {
    store: &'a dyn Ordered,
    rng: Rng,
    heat: Box<dyn Distribution>,
    /// How many keys there are; none are added meanwhile.
    there: u64,
    scatter: Scatter,
    key: KeyBuffer,
}

impl Worker for Reader<'_> {
    fn step(&mut self) -> Result<Step> {
        if self.there == 0 {
            return Ok(Step::END);
        }
        let number = self.heat.next(&mut self.rng, self.there);
        let key = self.key.set(self.scatter.of(number));
        let (found, bytes) = match self.store.get(key)? {
            Some(value) => (1, key.len() + value.len()),
            None => (0, 0),
        };
        Ok(Step {
            kind: OperationKind::Read,
            operations: 1,
            found,
            bytes: bytes as u64,
            ..Step::END
        })
    }
}

/// Updates that go on, as one thread's work.
struct Going<'u>(&'u Updates);

impl Workload for Going<'_> {
    fn worker<'a>(
        &'a self,
        store: &'a dyn Ordered,
        _thread: usize,
        rng: Rng,
    ) -> Result<Box<dyn Worker + 'a>> {
        self.0.worker(store, 0, rng)
    }

    fn operations(&self) -> u64 {
        self.0.operations()
    }

    fn endless(&self) -> bool {
        true
    }

    fn looks_up(&self) -> bool {
        false
    }

    fn writes(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::updates::{Heat, Options};
    use crate::{Model, stream};
    use esker_api::{Cursor, KeyRange, Kv, Snapshot, Value, WriteBatch};
    use std::collections::BTreeSet;
    use std::sync::Mutex;

    fn updated(options: &Options) -> (Updates, Model) {
        let (updates, model) = (Updates::new(options), Model::new());
        let mut worker = updates.worker(&model, 0, stream(1, "updates", 0)).unwrap();
        for _ in 0..updates.share(0) {
            worker.step().unwrap();
        }
        drop(worker);
        (updates, model)
    }

    fn options(heat: Heat) -> Options {
        Options { records: 500, updates_per_key: 1.0, heat, ..Options::default() }
    }

    #[test]
    fn every_read_finds_its_key() {
        for heat in [Heat::Uniform, Heat::Zipfian] {
            let (updates, model) = updated(&options(heat));
            let reads = Reads::after(&updates, 700);
            let mut reader = reads.worker(&model, 0, stream(1, "reads", 0)).unwrap();
            assert_eq!(reads.share(0), 700);
            for _ in 0..700 {
                let step = reader.step().unwrap();
                assert_eq!((step.kind, step.found, step.bytes), (OperationKind::Read, 1, 210));
            }
        }
    }

    /// A model that keeps in mind which keys were read.
    struct Noting<'m>(&'m Model, Mutex<BTreeSet<Vec<u8>>>);

    impl Kv for Noting<'_> {
        fn get(&self, key: &[u8]) -> Result<Option<Value>> {
            self.1.lock().unwrap().insert(key.to_vec());
            self.0.get(key)
        }
        fn write(&self, batch: &WriteBatch) -> Result<()> {
            self.0.write(batch)
        }
    }

    impl Ordered for Noting<'_> {
        fn cursor(&self, range: KeyRange) -> Result<Box<dyn Cursor + '_>> {
            self.0.cursor(range)
        }
        fn cursor_at<'a>(
            &'a self,
            range: KeyRange,
            snapshot: &'a dyn Snapshot,
        ) -> Result<Box<dyn Cursor + 'a>> {
            self.0.cursor_at(range, snapshot)
        }
        fn get_at(&self, key: &[u8], snapshot: &dyn Snapshot) -> Result<Option<Value>> {
            self.0.get_at(key, snapshot)
        }
        fn snapshot(&self) -> Result<Box<dyn Snapshot + '_>> {
            self.0.snapshot()
        }
    }

    #[test]
    fn each_pass_reads_other_keys_and_the_same_every_time() {
        let (updates, model) = updated(&options(Heat::Uniform));
        let read = |pass| {
            let store = Noting(&model, Mutex::default());
            let reads = Reads::after(&updates, 20).in_pass(pass);
            let mut reader = reads.worker(&store, 0, stream(1, "reads", 0)).unwrap();
            (0..20).for_each(|_| assert_eq!(reader.step().unwrap().found, 1));
            drop(reader);
            store.1.into_inner().unwrap()
        };
        let passes = [0, 1, 2].map(read);
        assert_eq!(passes, [0, 1, 2].map(read));
        for [a, b] in [[0, 1], [0, 2], [1, 2]] {
            // Of 500 keys 20 are read: one of them twice is to be expected.
            assert!(passes[a].intersection(&passes[b]).count() < 6, "passes {a} and {b}");
        }
    }

    #[test]
    fn an_empty_store_has_nothing_to_read() {
        let (updates, model) = (Updates::new(&options(Heat::Uniform)), Model::new());
        let reads = Reads::after(&updates, 5);
        let mut reader = reads.worker(&model, 0, stream(1, "reads", 0)).unwrap();
        assert_eq!(reader.step().unwrap(), Step::END);
    }

    #[test]
    fn updates_go_on_beside_reads_if_that_is_asked_for() {
        let (updates, model) = updated(&options(Heat::Uniform));
        assert!(Reads::after(&updates, 1).companion().is_none());
        let reads = Reads::beside(&updates, 1);
        let companion = reads.companion().unwrap();
        let mut worker = companion.worker(&model, 0, stream(1, "more", 0)).unwrap();
        let before = model.writes();
        for _ in 0..100 {
            assert_eq!(worker.step().unwrap().kind, OperationKind::Update);
        }
        assert_eq!((model.writes() - before, model.pairs().len()), (100, 500));
    }
}
