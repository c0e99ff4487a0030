//! What is durable, and what may be.

use super::crash::{CrashState, WordChoice};
use super::history::Event;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The bytes of a word, which a crash does not tear.
pub(super) const WORD_BYTES: usize = size_of::<u64>();

/// Every word's durable value and the values stored since.
#[derive(Clone, Debug)]
pub struct Medium {
    durable: Arc<Vec<u64>>,
    /// Changes with each change of `durable`, and differs between media.
    generation: u64,
    /// By word, the stores since the durable value, in their order.
    pending: BTreeMap<u32, Vec<Store>>,
    /// By thread, what it has flushed since its last fence: words, each with the store flushed.
    flushed: HashMap<u64, Vec<(u32, u64)>>,
    stores: u64,
}

#[derive(Clone, Copy, Debug)]
struct Store {
    /// Counts all stores of the medium.
    number: u64,
    value: u64,
}

fn new_generation() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

impl Medium {
    /// A medium on which `words` are durable.
    pub(super) fn new(words: Vec<u64>) -> Medium {
        Medium::sharing(Arc::new(words))
    }

    pub(super) fn sharing(durable: Arc<Vec<u64>>) -> Medium {
        Medium {
            durable,
            generation: new_generation(),
            pending: BTreeMap::new(),
            flushed: HashMap::new(),
            stores: 0,
        }
    }

    /// The durable words, if there is nothing else.
    pub(super) fn durable_if_settled(&self) -> Option<Arc<Vec<u64>>> {
        self.pending.is_empty().then(|| self.durable.clone())
    }

    /// The value that a running program sees.
    pub(super) fn latest(&self, word: u32) -> u64 {
        let stored = self.pending.get(&word).and_then(|stores| stores.last());
        stored.map_or(self.durable[word as usize], |store| store.value)
    }

    /// What a running program sees.
    pub(super) fn shown(&self) -> Vec<u64> {
        let mut words = Vec::clone(&self.durable);
        for (&word, stores) in &self.pending {
            if let Some(store) = stores.last() {
                words[word as usize] = store.value;
            }
        }
        words
    }

    /// The medium as a process that dies leaves it to the next: what its threads have flushed and
    /// not fenced, no fence will decide.
    pub(super) fn after_process(&self) -> Medium {
        Medium { generation: new_generation(), flushed: HashMap::new(), ..self.clone() }
    }

    /// What a crash now may leave.
    pub fn crash(&self) -> CrashState {
        let choices = self.pending.iter().filter_map(|(&word, stores)| {
            let durable = self.durable[word as usize];
            let mut values = vec![durable];
            for store in stores {
                if !values.contains(&store.value) {
                    values.push(store.value);
                }
            }
            (values.len() > 1).then_some(WordChoice { word, values })
        });
        CrashState::new(self.durable.clone(), self.generation, choices.collect())
    }

    /// Lets an event happen.
    pub fn apply(&mut self, event: &Event) {
        match event {
            Event::Write { thread, first, words, unflushed } => {
                let flushed = self.flushed.entry(*thread).or_default();
                for (word, &value) in (*first..).zip(words) {
                    self.stores += 1;
                    let store = Store { number: self.stores, value };
                    self.pending.entry(word).or_default().push(store);
                    if !unflushed.contains(&word) {
                        flushed.push((word, store.number));
                    }
                }
            }
            Event::Fence { thread } => {
                for (word, number) in self.flushed.remove(thread).unwrap_or_default() {
                    self.arrive(word, number);
                }
            }
            Event::Mark(_) => {}
        }
    }

    /// The store `number` of `word` is durable, and so none before it is possible any more.
    fn arrive(&mut self, word: u32, number: u64) {
        // Nothing is found if a later store of the word is durable already.
        let Some(stores) = self.pending.get_mut(&word) else { return };
        let Some(at) = stores.iter().position(|store| store.number == number) else { return };
        let value = stores[at].value;
        stores.drain(..=at);
        if stores.is_empty() {
            self.pending.remove(&word);
        }
        if self.durable[word as usize] != value {
            Arc::make_mut(&mut self.durable)[word as usize] = value;
            self.generation = new_generation();
        }
    }

    /// Makes `words` what they are in `source`, and forgets what was stored.
    pub(super) fn reset(&mut self, source: &[u64], words: &[u32]) {
        self.pending.clear();
        self.flushed.clear();
        let durable = Arc::make_mut(&mut self.durable);
        for &word in words {
            durable[word as usize] = source[word as usize];
        }
        self.generation = new_generation();
    }

    /// Makes a word durable as it is.
    pub(super) fn set(&mut self, word: u32, value: u64) {
        Arc::make_mut(&mut self.durable)[word as usize] = value;
    }
}
