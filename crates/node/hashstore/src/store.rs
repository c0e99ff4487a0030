//! A hash store for threads that block: the partitions run in reactors of their own, one for each
//! processor at most, and every call is a message to the one that owns its key's partition.

use crate::device::FileDevice;
use crate::format::superblock::Layout;
use crate::partition::{Answer, Item, Reply, Request, StoreCondition};
use crate::stats::PartitionStats;
use crate::store_file::{self, CreateSettings, Opened};
use crate::worker::{Call, FileHandles, Message, Worker};
use esker_api::{Kv, Value, WriteBatch};
use esker_base::background::Running;
use esker_base::{Background, Entry, Error, Kind, Result, Rng, hash64};
use esker_uring::Sender;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError, mpsc};

/// A hash store in a file or on a block device. Every write survives power loss when it is acknowledged.
///
/// A forked child must not use its parent's: every call fails there with [`Error::Forked`], and dropping it
/// does nothing.
pub struct HashStore {
    layout: Arc<Layout>,
    opened: Opened,
    workers: Vec<Sender<Message>>,
    /// Behind a lock only because a thread's handle is not shared between threads.
    threads: Mutex<Vec<Box<dyn Running>>>,
    /// Holds the lock.
    device: FileDevice,
}

impl HashStore {
    /// Makes an empty store. A file is made with `bytes`, all of them written; a block device is used whole if
    /// nothing is said, and what was on it is lost. `rng` draws its identity.
    pub fn create(
        path: &Path,
        bytes: Option<u64>,
        settings: &CreateSettings,
        rng: &mut Rng,
    ) -> Result<()> {
        FileDevice::create_with(path, bytes, |device| store_file::create(device, settings, rng))
            .map(drop)
    }

    /// Opens a store, with threads from `background`.
    pub fn open(path: &Path, background: &dyn Background) -> Result<Self> {
        let device = FileDevice::open(path)?;
        let (layout, partitions, opened) = store_file::open(&device)?;
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let number = processors.min(partitions.len());
        let mut shares: Vec<Vec<_>> = (0..number).map(|_| Vec::new()).collect();
        for (at, partition) in partitions.into_iter().enumerate() {
            shares[at % number].push((partition, FileHandles::of(&device, layout.device_bytes)?));
        }
        let mut store =
            HashStore { layout, opened, workers: Vec::new(), threads: Mutex::default(), device };
        for share in shares {
            let (sender, thread) = Worker::start(share, background)?;
            store.workers.push(sender);
            store.threads.get_mut().unwrap_or_else(PoisonError::into_inner).push(thread);
        }
        Ok(store)
    }

    /// What opening it took.
    pub fn opened(&self) -> &Opened {
        &self.opened
    }

    /// Whether it is read and written past the page cache.
    pub fn is_direct(&self) -> bool {
        self.device.is_direct()
    }

    /// Stores a value on a condition. Says whether it was done.
    pub fn store(&self, key: &[u8], value: &[u8], only: StoreCondition) -> Result<bool> {
        let mut item = Item::new(key, value.len(), self.layout.block_bytes);
        item.value_mut().copy_from_slice(value);
        let answer = self.call(key, Request::Store(item, only))?;
        Ok(matches!(answer, Answer::Done { .. }))
    }

    /// Removes a key. Says whether it was there.
    pub fn remove(&self, key: &[u8]) -> Result<bool> {
        let answer = self.call(key, Request::Delete(key.to_vec()))?;
        Ok(matches!(answer, Answer::Done { .. }))
    }

    /// Whether a key is there.
    pub fn exists(&self, key: &[u8]) -> Result<bool> {
        let answer = self.call(key, Request::Exist(key.to_vec()))?;
        Ok(matches!(answer, Answer::Present))
    }

    /// The next keys in order of (hash, key), at most `limit`, after `after` or from the front. The last one is
    /// where to go on; keys that are there all the while are listed once.
    pub fn list(&self, after: Option<&[u8]>, limit: usize) -> Result<Vec<Vec<u8>>> {
        let first = after.map_or(0, |key| self.layout.partition_of(hash64(key)));
        let mut keys: Vec<Vec<u8>> = Vec::new();
        for partition in first..self.layout.partitions {
            let from = after.filter(|_| partition == first).map(<[u8]>::to_vec);
            // One more, in case the first is the one that was listed already.
            let request = Request::List { from, limit: (limit - keys.len()).saturating_add(1) };
            if let Answer::Keys(found) = self.ask(partition, request)? {
                keys.extend(found.into_iter().filter(|key| Some(&key[..]) != after));
            }
            keys.truncate(limit);
            if keys.len() == limit {
                break;
            }
        }
        Ok(keys)
    }

    /// Counters and sizes.
    pub fn stats(&self) -> Result<PartitionStats> {
        self.device.check_process()?;
        let mut all = PartitionStats::default();
        for worker in &self.workers {
            let (sender, receiver) = mpsc::channel();
            worker.send(Message::Stats(sender)).map_err(|_| Error::Closed)?;
            all.add(&receiver.recv().map_err(|_| Error::Closed)?);
        }
        Ok(all)
    }

    /// Ends the store, after a checkpoint of what has changed: opening it again then has nothing to replay.
    pub fn close(mut self) -> Result<()> {
        self.end()
    }

    fn end(&mut self) -> Result<()> {
        let threads = self.threads.get_mut().unwrap_or_else(PoisonError::into_inner);
        if let Err(error) = self.device.check_process() {
            // They would wake the parent's threads, or wait for them.
            std::mem::forget((std::mem::take(&mut self.workers), std::mem::take(threads)));
            return Err(error);
        }
        let mut outcome = Ok(());
        for worker in self.workers.drain(..) {
            let (sender, receiver) = mpsc::channel();
            if worker.send(Message::Close(sender)).is_ok() {
                outcome = outcome.and(receiver.recv().unwrap_or(Err(Error::Closed)));
            }
        }
        for thread in threads.drain(..) {
            thread.join();
        }
        outcome
    }

    fn call(&self, key: &[u8], request: Request) -> Result<Answer> {
        self.ask(self.layout.partition_of(hash64(key)), request)
    }

    fn ask(&self, partition: u32, request: Request) -> Result<Answer> {
        let (sender, receiver) = mpsc::channel();
        self.send(partition, request, 0, sender)?;
        receiver.recv().map_err(|_| Error::Closed)?.result
    }

    fn send(
        &self,
        partition: u32,
        request: Request,
        token: u64,
        reply: mpsc::Sender<Reply>,
    ) -> Result<()> {
        self.device.check_process()?;
        let workers = self.workers.len();
        let (worker, slot) = (partition as usize % workers, partition as usize / workers);
        let call = Call { slot, request, token, reply };
        self.workers[worker].send(Message::Call(call)).map_err(|_| Error::Closed)
    }
}

fn value_of(answer: Answer) -> Option<Value> {
    match answer {
        Answer::Value(value) => Some(Value::from(&value[..])),
        _ => None,
    }
}

impl Kv for HashStore {
    fn get(&self, key: &[u8]) -> Result<Option<Value>> {
        Ok(value_of(self.call(key, Request::Retrieve(key.to_vec()))?))
    }

    /// All reads are in progress at once. They are of no one snapshot.
    fn multi_get(&self, keys: &[&[u8]]) -> Result<Vec<Option<Value>>> {
        let (sender, receiver) = mpsc::channel();
        for (token, key) in (0..).zip(keys) {
            let partition = self.layout.partition_of(hash64(key));
            self.send(partition, Request::Retrieve(key.to_vec()), token, sender.clone())?;
        }
        drop(sender);
        let mut values = vec![None; keys.len()];
        for _ in keys {
            let reply = receiver.recv().map_err(|_| Error::Closed)?;
            values[reply.token as usize] = value_of(reply.result?);
        }
        Ok(values)
    }

    /// Applies a batch of one write. More would not be atomic, and are refused.
    fn write(&self, batch: &WriteBatch) -> Result<()> {
        if batch.has_empty_key() {
            return Err(Error::EmptyKey);
        }
        if batch.len() > 1 || batch.has_range_delete() || batch.has_merges() || batch.has_ttl() {
            return Err(Error::NotOffered {
                store: "a hash store",
                what: "write several entries at once, delete ranges, merge, or put values that expire",
                instead: "write them one by one, or use a store that is ordered",
            });
        }
        match batch.iter().next() {
            Some(Entry { kind: Kind::Delete, key, .. }) => self.remove(key).map(drop),
            Some(Entry { key, value, .. }) => {
                self.store(key, value, StoreCondition::Always).map(drop)
            }
            None => Ok(()),
        }
    }

    fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        self.store(key, value, StoreCondition::Always).map(drop)
    }

    fn delete(&self, key: &[u8]) -> Result<()> {
        self.remove(key).map(drop)
    }
}

impl Drop for HashStore {
    fn drop(&mut self) {
        // What was acknowledged is safe whether or not this succeeds.
        let _ = self.end();
    }
}
