//! What a database must hold: an ordered map per keyspace, and the batches since the last recovery.
//!
//! After a crash the database must be the base with some prefix of those batches applied, each whole.
//! The seqno it recovered to says which prefix; that prefix must reach as far as was promised. An ingest
//! counts as a batch with one write. If it failed after it took its seqno, a crash may bring its entries.

use std::collections::BTreeMap;
use std::sync::Arc;

/// A keyspace's entries.
pub type Pairs = BTreeMap<Vec<u8>, Arc<[u8]>>;

/// When a value expires, in milliseconds, and what is left of it then.
type Expiry = (u64, Option<Arc<[u8]>>);

/// The entries of all keyspaces, by id. Clones share what neither changes.
#[derive(Clone, Default, PartialEq, Debug)]
pub struct World {
    spaces: BTreeMap<u32, Arc<Pairs>>,
    /// The keys whose value expires, with their keyspace.
    expiring: Arc<BTreeMap<(u32, Vec<u8>), Expiry>>,
}

/// One write of a batch.
#[derive(Clone, PartialEq, Debug)]
pub enum Write {
    /// Sets a key.
    Put(u32, Vec<u8>, Arc<[u8]>),
    /// Sets a key until a time, in milliseconds.
    PutUntil(u32, Vec<u8>, Arc<[u8]>, u64),
    /// Appends to a key's value.
    Merge(u32, Vec<u8>, Arc<[u8]>),
    /// Removes a key.
    Delete(u32, Vec<u8>),
    /// Removes the keys from the first to before the second.
    DeleteRange(u32, Vec<u8>, Vec<u8>),
    /// Sets keys, all at one seqno.
    Ingest(u32, Arc<Pairs>),
    /// An ingest that failed. Nothing of it is visible before a crash; after it, nothing or all.
    FailedIngest(u32, Arc<Pairs>),
}

/// Writes that happen together.
pub type Batch = Vec<Write>;

impl World {
    /// The entries of `space`, if nothing in it expires.
    pub fn pairs(&self, space: u32) -> Arc<Pairs> {
        self.spaces.get(&space).cloned().unwrap_or_default()
    }

    /// The same at a time, in milliseconds.
    pub fn pairs_at(&self, space: u32, now: u64) -> Arc<Pairs> {
        let mut pairs = self.pairs(space);
        let of_space = self.expiring.iter().filter(|((of, _), _)| *of == space);
        for ((_, key), (_, left)) in of_space.filter(|(_, (until, _))| *until <= now) {
            let pairs = Arc::make_mut(&mut pairs);
            match left {
                Some(left) => drop(pairs.insert(key.clone(), left.clone())),
                None => drop(pairs.remove(key)),
            }
        }
        pairs
    }

    /// Applies `batch`.
    pub fn apply(&mut self, batch: &Batch) {
        for write in batch {
            match write {
                Write::Put(space, key, value) => {
                    self.stay(*space, key);
                    self.pairs_mut(*space).insert(key.clone(), value.clone());
                }
                Write::PutUntil(space, key, value, until) => {
                    self.pairs_mut(*space).insert(key.clone(), value.clone());
                    let expiring = Arc::make_mut(&mut self.expiring);
                    expiring.insert((*space, key.clone()), (*until, None));
                }
                Write::Merge(space, key, operand) => {
                    let pairs = self.pairs_mut(*space);
                    let base = pairs.get(key).map_or(&[][..], |value| value);
                    let value = [base, operand].concat().into();
                    pairs.insert(key.clone(), value);
                    let own = (*space, key.clone());
                    if self.expiring.contains_key(&own)
                        && let Some((_, left)) = Arc::make_mut(&mut self.expiring).get_mut(&own)
                    {
                        let base = left.as_ref().map_or(&[][..], |value| value);
                        *left = Some([base, operand].concat().into());
                    }
                }
                Write::Delete(space, key) => {
                    self.stay(*space, key);
                    self.pairs_mut(*space).remove(key);
                }
                Write::DeleteRange(space, start, end) => {
                    let is_past = |key: &Vec<u8>| !end.is_empty() && key >= end;
                    self.pairs_mut(*space).retain(|key, _| key < start || is_past(key));
                    Arc::make_mut(&mut self.expiring)
                        .retain(|(of, key), _| of != space || key < start || is_past(key));
                }
                Write::Ingest(space, ingested) => {
                    for (key, value) in &**ingested {
                        self.stay(*space, key);
                        self.pairs_mut(*space).insert(key.clone(), value.clone());
                    }
                }
                Write::FailedIngest(..) => {}
            }
        }
    }

    /// Forgets when the value of a key expires.
    fn stay(&mut self, space: u32, key: &[u8]) {
        let own = (space, key.to_vec());
        if self.expiring.contains_key(&own) {
            Arc::make_mut(&mut self.expiring).remove(&own);
        }
    }

    fn pairs_mut(&mut self, space: u32) -> &mut Pairs {
        Arc::make_mut(self.spaces.entry(space).or_default())
    }
}

/// Whether a keyspace is there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Existence {
    /// It is, with this id.
    Sure(u32),
    /// Its creation failed: after a crash it may be there, empty.
    MaybeCreated,
    /// Its removal failed, and nothing was written to it since: after a crash it may be gone.
    MaybeDropped(u32),
}

/// See the file's head.
#[derive(Clone, Debug, Default)]
pub struct Model {
    base: World,
    base_seqno: u64,
    /// Acknowledged since then, in order.
    history: Vec<Batch>,
    /// A batch after those that failed in a way which leaves its fate open.
    in_doubt: Option<Batch>,
    /// How many of `history` survive power loss for sure.
    durable: usize,
    now: World,
    /// The keyspaces, by name.
    pub names: BTreeMap<String, Existence>,
}

impl Model {
    /// What a new database holds.
    pub fn new() -> Self {
        let names = BTreeMap::from([("default".to_owned(), Existence::Sure(0))]);
        Model { names, ..Model::default() }
    }

    /// What readers see now.
    pub fn now(&self) -> &World {
        &self.now
    }

    /// The last seqno that readers see now.
    pub fn seqno(&self) -> u64 {
        self.base_seqno + self.history.iter().map(|batch| batch.len() as u64).sum::<u64>()
    }

    /// The id of the keyspace called `name`, if it is there.
    pub fn space(&self, name: &str) -> Option<u32> {
        match self.names.get(name) {
            Some(Existence::Sure(id) | Existence::MaybeDropped(id)) => Some(*id),
            Some(Existence::MaybeCreated) | None => None,
        }
    }

    /// Says that `batch` was acknowledged. The keyspaces that it wrote to must stay.
    pub fn acknowledge(&mut self, batch: Batch) {
        for write in &batch {
            let (Write::Put(space, ..)
            | Write::PutUntil(space, ..)
            | Write::Merge(space, ..)
            | Write::Delete(space, _)
            | Write::DeleteRange(space, ..)
            | Write::Ingest(space, _)
            | Write::FailedIngest(space, _)) = write;
            for existence in self.names.values_mut() {
                if *existence == Existence::MaybeDropped(*space) {
                    *existence = Existence::Sure(*space);
                }
            }
        }
        self.now.apply(&batch);
        self.history.push(batch);
    }

    /// Says that `batch` may be written or not. Nothing can be written after it.
    pub fn doubt(&mut self, batch: Batch) {
        self.in_doubt.get_or_insert(batch);
    }

    /// The batch in doubt, or else the last that was acknowledged.
    pub fn last(&self) -> Option<&Batch> {
        self.in_doubt.as_ref().or(self.history.last())
    }

    /// Whether an ingest has failed since the last recovery.
    pub fn has_failed_ingest(&self) -> bool {
        let batches = self.history.iter().chain(&self.in_doubt);
        batches.flatten().any(|write| matches!(write, Write::FailedIngest(..)))
    }

    /// Goes on from `world`, which [`Model::recover`] has returned.
    pub fn go_on_from(&mut self, world: World) {
        (self.base, self.now) = (world.clone(), world);
    }

    /// Says that everything acknowledged survives power loss from now on.
    pub fn all_durable(&mut self) {
        self.durable = self.history.len();
    }

    /// How many batches must survive the end of this process.
    pub fn promised(&self, survives_process: bool) -> usize {
        if survives_process { self.history.len() } else { self.durable }
    }

    /// What readers saw when the last write was `seqno`, if that ends a batch and at least `promised`
    /// batches were there.
    pub fn at(&self, seqno: u64, promised: usize) -> Option<World> {
        let mut past = self.clone();
        past.recover(seqno, promised).is_ok().then_some(past.now)
    }

    /// Says that a database was recovered with all writes up to `seqno`, of which at least
    /// `promised` batches must be there. Goes on as if no failed ingest was, and returns what is there if
    /// they all were.
    pub fn recover(&mut self, seqno: u64, promised: usize) -> Result<World, String> {
        let mut world = std::mem::take(&mut self.base);
        let mut with_failed = world.clone();
        let mut reached = self.base_seqno;
        let mut kept = 0;
        for batch in self.history.iter().chain(&self.in_doubt) {
            if reached >= seqno {
                break;
            }
            world.apply(batch);
            let installed = batch.iter().map(|write| match write.clone() {
                Write::FailedIngest(space, pairs) => Write::Ingest(space, pairs),
                write => write,
            });
            with_failed.apply(&installed.collect());
            reached += batch.len() as u64;
            kept += 1;
        }
        if reached != seqno {
            return Err(format!(
                "recovered through seqno {seqno}, which ends no batch: the nearest ends at {reached}"
            ));
        }
        if kept < promised {
            return Err(format!("{kept} batches were recovered, and {promised} were promised"));
        }
        *self = Model {
            now: world.clone(),
            base: world,
            base_seqno: seqno,
            names: std::mem::take(&mut self.names),
            ..Model::default()
        };
        Ok(with_failed)
    }

    /// Says which keyspaces were recovered, by name and id. `Err` says what can't be.
    pub fn recover_names(&mut self, found: &BTreeMap<String, u32>) -> Result<(), String> {
        for (name, id) in found {
            match self.names.get(name) {
                None => return Err(format!("keyspace {name:?} came from nowhere")),
                Some(Existence::Sure(known) | Existence::MaybeDropped(known)) if known != id => {
                    return Err(format!("keyspace {name:?} had id {known} and now has {id}"));
                }
                Some(_) => {}
            }
        }
        for (name, existence) in &self.names {
            if matches!(existence, Existence::Sure(_)) && !found.contains_key(name) {
                return Err(format!("keyspace {name:?} is gone"));
            }
        }
        self.names = found.iter().map(|(name, &id)| (name.clone(), Existence::Sure(id))).collect();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(key: &[u8]) -> Batch {
        vec![Write::Put(0, key.to_vec(), Arc::from(&b"v"[..]))]
    }

    fn three_batches() -> Model {
        let mut model = Model::new();
        model.acknowledge(put(b"a"));
        model.acknowledge([put(b"b"), put(b"c")].concat());
        model.all_durable();
        model.acknowledge(put(b"d"));
        model
    }

    #[test]
    fn a_lost_promise_is_noticed() {
        let promised = three_batches().promised(false);
        assert_eq!(promised, 2);
        three_batches().recover(1, promised).unwrap_err();
        three_batches().recover(3, promised).unwrap();
        three_batches().recover(4, promised).unwrap();
        three_batches().recover(3, three_batches().promised(true)).unwrap_err();
    }

    #[test]
    fn half_a_batch_is_noticed() {
        three_batches().recover(2, 0).unwrap_err();
        three_batches().recover(5, 0).unwrap_err();
    }

    #[test]
    fn what_was_recovered_is_the_new_base() {
        let mut model = three_batches();
        model.recover(3, 2).unwrap();
        assert_eq!(model.now().pairs(0).len(), 3);
        assert_eq!(model.seqno(), 3);
        model.recover(1, 0).unwrap_err();
    }

    #[test]
    fn a_keyspace_in_doubt_may_be_there_or_not() {
        for there in [true, false] {
            let mut model = Model::new();
            model.names.insert("x".into(), Existence::MaybeCreated);
            let mut found = BTreeMap::from([("default".to_owned(), 0)]);
            if there {
                found.insert("x".into(), 1);
            }
            model.recover_names(&found).unwrap();
            assert_eq!(model.space("x"), there.then_some(1));
        }
        let mut model = Model::new();
        model.recover_names(&BTreeMap::new()).unwrap_err();
    }

    #[test]
    fn a_keyspace_that_was_written_to_may_not_be_gone() {
        let found = BTreeMap::from([("default".to_owned(), 0)]);
        let mut model = Model::new();
        model.names.insert("x".into(), Existence::MaybeDropped(1));
        model.clone().recover_names(&found).unwrap();
        model.acknowledge(vec![Write::Delete(1, b"k".to_vec())]);
        model.recover_names(&found).unwrap_err();
    }
}
