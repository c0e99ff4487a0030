//! A partition on a disk that loses power, with input and output that is done in any order; and what may be
//! found afterwards.

use crate::disk::{Disk, SimDevice};
use esker_base::Rng;
use esker_hashstore::partition::{Answer, Io, IoKind, Item, Partition, Request, StoreCondition};
use esker_hashstore::store_file;
use esker_uring::Buffer;
use std::collections::{BTreeMap, BTreeSet};

pub type Key = Vec<u8>;
/// A value, or none.
pub type State = Option<Vec<u8>>;

/// What is known of each key: what was acknowledged, and what may have been done since.
#[derive(Clone, Default, Debug)]
pub struct Ledger {
    acknowledged: BTreeMap<Key, State>,
    /// Acknowledged, in their order, and not synced since: with a volatile cache only.
    cached: Vec<(Key, State)>,
    begun: BTreeMap<u64, (Key, State)>,
}

impl Ledger {
    /// What may be found of `key`.
    fn may_be(&self, key: &Key) -> Vec<State> {
        let begun = self.begun.values().filter(|(begun, _)| begun == key);
        let acknowledged = self.acknowledged.get(key).cloned().unwrap_or(None);
        let cached = self.cached.iter().filter(|(cached, _)| cached == key);
        let later = cached.chain(begun).map(|(_, state)| state.clone());
        std::iter::once(acknowledged).chain(later).collect()
    }

    fn keys(&self) -> impl Iterator<Item = &Key> {
        let begun = self.begun.values().chain(&self.cached).map(|(key, _)| key);
        self.acknowledged.keys().chain(begun)
    }

    /// The first `count` cached changes are safe now.
    fn synced(&mut self, count: usize) {
        self.acknowledged.extend(self.cached.drain(..count));
    }
}

struct UnderWay {
    io: Io,
    /// A write's number on the disk.
    write: u64,
    /// The writes that a sync covers: those that were reported before it was asked for.
    covers: BTreeSet<u64>,
    /// And the cached changes: those that were acknowledged before it was asked for.
    cached: usize,
}

/// A store of one partition at work.
pub struct Machine {
    pub disk: Disk,
    pub partition: Partition,
    has_cache: bool,
    pub ledger: Ledger,
    /// Asked for and not reported.
    under_way: Vec<UnderWay>,
    /// The writes that were reported.
    reported: BTreeSet<u64>,
    next_token: u64,
    /// Values differ in this.
    pub next_value: u64,
    pub refused: u64,
    /// Fronts of snapshots in pieces that were written.
    pub fronts: u64,
}

pub fn create(bytes: usize, seed: u64) -> Disk {
    create_for(bytes, 4096, seed)
}

/// A store with space in its journal for keys of so many bytes of the disk.
pub fn create_for(bytes: usize, bytes_a_key: u64, seed: u64) -> Disk {
    let device = SimDevice::new(Disk::new(bytes));
    let settings = store_file::CreateSettings::default().bytes_a_key(bytes_a_key).partitions(1);
    store_file::create(&device, &settings, &mut Rng::new(seed)).unwrap();
    device.0.into_inner()
}

/// Whether a write is a checkpoint whose epoch is its generation, and which lists nothing.
fn is_front(bytes: &[u8]) -> bool {
    &bytes[8..12] == b"EHJ1" && bytes[16..24] == bytes[24..32] && bytes[48..60] == [0; 12]
}

impl Machine {
    /// Opens what is on a disk.
    pub fn open(disk: Disk, ledger: Ledger) -> esker_base::Result<Self> {
        Self::open_with(disk, ledger, false)
    }

    /// The same with a volatile cache, or without.
    pub fn open_with(disk: Disk, ledger: Ledger, has_cache: bool) -> esker_base::Result<Self> {
        let device = SimDevice::new(disk);
        let (_, mut partitions, _) = store_file::open(&device)?;
        let (disk, mut partition) = (device.0.into_inner(), partitions.remove(0));
        if has_cache {
            partition = partition.with_volatile_cache();
        }
        Ok(Machine {
            disk,
            partition,
            has_cache,
            ledger,
            under_way: Vec::new(),
            reported: BTreeSet::new(),
            next_token: 0,
            next_value: 0,
            refused: 0,
            fronts: 0,
        })
    }

    pub fn store(&mut self, key: &[u8], value_bytes: usize) {
        self.next_value += 1;
        let mut value = vec![0; value_bytes];
        Rng::new(self.next_value).fill(&mut value);
        let mut item = Item::new(key, value_bytes, 512);
        item.value_mut().copy_from_slice(&value);
        self.begin(key, Some(value), Request::Store(item, StoreCondition::Always));
    }

    /// A store that must be refused.
    pub fn try_store(&mut self, key: &[u8]) {
        self.partition
            .request(u64::MAX, Request::Store(Item::new(key, 0, 512), StoreCondition::Always));
        let reply = self.partition.take_reply().expect("it is refused at once");
        assert!(reply.result.is_err());
        self.refused += 1;
    }

    pub fn delete(&mut self, key: &[u8]) {
        self.begin(key, None, Request::Delete(key.to_vec()));
    }

    fn begin(&mut self, key: &[u8], state: State, request: Request) {
        self.next_token += 1;
        self.ledger.begun.insert(self.next_token, (key.to_vec(), state));
        self.partition.request(self.next_token, request);
        self.collect();
    }

    /// Takes what the partition wants and says.
    fn collect(&mut self) {
        while let Some(io) = self.partition.take_io() {
            let (mut write, mut covers) = (0, BTreeSet::new());
            let cached = self.ledger.cached.len();
            match &io.what {
                // It may reach the disk at any time from now on.
                IoKind::Write { offset, from } | IoKind::WriteDurably { offset, from } => {
                    self.disk.write(*offset, from);
                    write = self.disk.last_write();
                    self.fronts += u64::from(is_front(from));
                }
                IoKind::Sync => covers = std::mem::take(&mut self.reported),
                IoKind::Read { .. } => {}
            }
            self.under_way.push(UnderWay { io, write, covers, cached });
        }
        while let Some(reply) = self.partition.take_reply() {
            let Some((key, state)) = self.ledger.begun.remove(&reply.token) else { continue };
            match reply.result {
                Ok(Answer::Done { .. }) => self.ledger.cached.push((key, state)),
                Ok(Answer::Absent) if state.is_none() => {
                    let latest = self.ledger.cached.iter().rev().find(|(cached, _)| *cached == key);
                    let latest = latest.map(|(_, state)| state);
                    let latest = latest.or_else(|| self.ledger.acknowledged.get(&key));
                    assert!(latest.is_none_or(Option::is_none));
                }
                Err(esker_base::Error::CapacityExceeded { .. }) => self.refused += 1,
                other => panic!("{other:?}"),
            }
        }
        if !self.has_cache {
            self.ledger.synced(self.ledger.cached.len());
        }
    }

    /// A flush, as the owner of the partition does it: a sync of the device.
    pub fn flush(&mut self) {
        let mut covers = std::mem::take(&mut self.reported);
        covers.extend(self.under_way.iter().flat_map(|under_way| &under_way.covers));
        self.disk.sync(|write| covers.contains(&write));
        let acknowledged = self.ledger.cached.len();
        self.ledger.synced(acknowledged);
        for under_way in &mut self.under_way {
            under_way.cached = under_way.cached.saturating_sub(acknowledged);
        }
    }

    pub fn under_way(&self) -> usize {
        self.under_way.len()
    }

    /// Changes that are not answered.
    pub fn unanswered(&self) -> usize {
        self.ledger.begun.len()
    }

    /// Reports one of what is in progress as failed.
    pub fn fail(&mut self, which: usize) {
        let UnderWay { io, .. } = self.under_way.swap_remove(which);
        self.partition.report(io.tag, Err(std::io::ErrorKind::Other.into()), None);
        while let Some(reply) = self.partition.take_reply() {
            assert!(matches!(reply.result, Err(esker_base::Error::LogFailed { .. })));
            self.refused += 1;
        }
    }

    /// Reports one of what is in progress as done.
    pub fn finish(&mut self, which: usize) {
        self.report(which);
        self.collect();
    }

    /// The same; what the partition wants then is not taken before something else comes.
    pub fn report(&mut self, which: usize) {
        let UnderWay { io, write, covers, cached } = self.under_way.swap_remove(which);
        match io.what {
            IoKind::Write { from, .. } => {
                self.reported.insert(write);
                self.partition.report(io.tag, Ok(from.len()), Some(from));
            }
            IoKind::WriteDurably { from, .. } => {
                self.disk.sync(|other| other == write);
                self.partition.report(io.tag, Ok(from.len()), Some(from));
            }
            IoKind::Sync => {
                self.disk.sync(|write| covers.contains(&write));
                self.ledger.synced(cached);
                for under_way in &mut self.under_way {
                    under_way.cached = under_way.cached.saturating_sub(cached);
                }
                self.partition.report(io.tag, Ok(0), None);
            }
            IoKind::Read { offset, bytes } => {
                let mut into = Buffer::stale(bytes).whole();
                self.disk.read(offset, &mut into);
                self.partition.report(io.tag, Ok(into.len()), Some(into));
            }
        }
    }

    /// Begins a checkpoint, if none is in progress.
    pub fn checkpoint(&mut self) {
        self.partition.checkpoint();
        self.collect();
    }

    /// Reports everything that is in progress, and what follows from it.
    pub fn settle(&mut self) {
        while !self.under_way.is_empty() {
            self.finish(0);
        }
    }

    /// What is found of a key.
    pub fn find(&mut self, key: &[u8]) -> esker_base::Result<State> {
        let device = SimDevice::new(self.disk.clone());
        self.partition.request(u64::MAX, Request::Retrieve(key.to_vec()));
        store_file::drive(&mut self.partition, &device);
        match self.partition.take_reply().unwrap().result? {
            Answer::Absent => Ok(None),
            Answer::Value(value) => Ok(Some(value.to_vec())),
            other => panic!("{other:?}"),
        }
    }
}

/// Opens what a crash has left, and says what is wrong with it. Otherwise gives the store, and what is known
/// of it now.
pub fn recovered(disk: Disk, ledger: &Ledger) -> Result<Machine, String> {
    recovered_with(disk, ledger, false)
}

/// The same; from then on with a volatile cache, or without.
pub fn recovered_with(disk: Disk, ledger: &Ledger, has_cache: bool) -> Result<Machine, String> {
    let opened = Machine::open_with(disk, Ledger::default(), has_cache);
    let mut machine = opened.map_err(|error| format!("it does not open: {error}"))?;
    for key in ledger.keys().cloned().collect::<BTreeSet<_>>() {
        let found = machine.find(&key).map_err(|error| error.to_string())?;
        if !ledger.may_be(&key).contains(&found) {
            let name = key[..key.len().min(20)].escape_ascii();
            return Err(match found {
                None => format!("{name} is lost"),
                Some(_) => format!("{name} has a value that is not its last"),
            });
        }
        machine.ledger.acknowledged.insert(key, found);
    }
    Ok(machine)
}
