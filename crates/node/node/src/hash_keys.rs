//! A hash store as a namespace of keys. Its partitions are dealt out to the reactors; each key's requests go to the
//! reactor that owns its partition.

use crate::reactor_partitions::{ReactorPartitions, Store};
use esker_base::{Error, Result, hash64};
use esker_hashstore::device::FileDevice;
use esker_hashstore::partition::{Item, Partition};
use esker_hashstore::{Layout, Opened, store_file};
use esker_nvme::command::kv::Key;
use esker_nvme::limits::VALUE_BYTES;
use esker_target::{Description, Namespace, NamespaceHealth, PerCoreNamespace, Request};
use esker_uring::Slice;
use parking_lot::Mutex;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

/// A namespace of keys on a file or device that holds a hash store. A store or delete that was answered survives power
/// loss, unless the namespace has a volatile cache.
pub struct HashKeys {
    guid: [u8; 16],
    /// Holds the store's lock.
    device: FileDevice,
    layout: Arc<Layout>,
    opened: Opened,
    value_bytes_max: u32,
    has_volatile_cache: bool,
    /// Until the reactors have them. Taken when a target starts.
    partitions: Mutex<Vec<Partition>>,
    shared: Arc<Shared>,
}

/// What the parts of a namespace report to each other and to all: nothing that a request waits for.
#[derive(Default)]
pub(crate) struct Shared {
    /// Each partition's own.
    pub(crate) figures: Vec<Figures>,
    /// A sync or a durable write failed, in whichever part. The system may report an error to only one.
    pub(crate) failed: AtomicBool,
    /// For those who look after the node.
    pub(crate) failures: NamespaceHealth,
}

/// What a partition last reported of itself.
#[derive(Default)]
pub(crate) struct Figures {
    used_bytes: AtomicU64,
    keys: AtomicU64,
    index_bytes: AtomicU64,
    stored_bytes: AtomicU64,
    written_bytes: AtomicU64,
}

impl Figures {
    pub(crate) fn tell(&self, partition: &Partition) {
        let (stored_bytes, written_bytes) = partition.stored_and_written_bytes();
        self.used_bytes.store(partition.used_bytes(), Relaxed);
        self.keys.store(partition.keys(), Relaxed);
        self.index_bytes.store(partition.index_bytes(), Relaxed);
        self.stored_bytes.store(stored_bytes, Relaxed);
        self.written_bytes.store(written_bytes, Relaxed);
    }
}

/// What a store has, and what it has done since it was opened. Its partitions say that after each request, not all at one point in time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HashFigures {
    /// Keys.
    pub keys: u64,
    /// Memory that the indexes take, in bytes.
    pub index_bytes: u64,
    /// Bytes of keys and values that were stored.
    pub stored_bytes: u64,
    /// Bytes written to the device, for whatever purpose.
    pub written_bytes: u64,
}

impl HashKeys {
    /// Opens the store at `path`, which [`store_file::create`] has made. With `has_volatile_cache`, only a
    /// flush makes safe what was acknowledged.
    pub fn open(guid: [u8; 16], path: &Path, has_volatile_cache: bool) -> Result<Self> {
        let device = FileDevice::open(path)?;
        let (layout, mut partitions, opened) = store_file::open(&device)?;
        if has_volatile_cache {
            partitions = partitions.into_iter().map(Partition::with_volatile_cache).collect();
        }
        let value_bytes_max = partitions.iter().map(Partition::value_bytes_max).min().unwrap_or(0);
        let value_bytes_max = value_bytes_max.min(VALUE_BYTES as usize) as u32;
        let figures = |partition: &Partition| {
            let figures = Figures::default();
            figures.tell(partition);
            figures
        };
        let figures = partitions.iter().map(figures).collect();
        let shared = Arc::new(Shared { figures, ..Shared::default() });
        for write in &opened.damaged {
            let key = write.key.escape_ascii();
            shared
                .failures
                .fault(|| format!("key {key} is damaged, at byte {} of the store", write.offset));
        }
        let partitions = Mutex::new(partitions);
        Ok(HashKeys {
            guid,
            device,
            layout,
            opened,
            value_bytes_max,
            has_volatile_cache,
            partitions,
            shared,
        })
    }

    /// What opening it took.
    pub fn opened(&self) -> Opened {
        self.opened.clone()
    }

    /// What it has and has done.
    pub fn figures(&self) -> HashFigures {
        HashFigures {
            keys: self.sum(|figures| &figures.keys),
            index_bytes: self.sum(|figures| &figures.index_bytes),
            stored_bytes: self.sum(|figures| &figures.stored_bytes),
            written_bytes: self.sum(|figures| &figures.written_bytes),
        }
    }

    fn sum(&self, of: fn(&Figures) -> &AtomicU64) -> u64 {
        self.shared.figures.iter().map(|figures| of(figures).load(Relaxed)).sum()
    }

    /// Whether it is read and written past the page cache.
    pub fn is_direct(&self) -> bool {
        self.device.is_direct()
    }
}

impl Namespace for HashKeys {
    fn guid(&self) -> [u8; 16] {
        self.guid
    }

    fn description(&self) -> Description {
        let blocks = u64::from(self.layout.partitions) * u64::from(self.layout.blocks());
        Description::Keys {
            capacity_bytes: blocks * u64::from(self.layout.block_bytes),
            value_bytes_max: self.value_bytes_max,
        }
    }

    fn used_bytes(&self) -> u64 {
        self.sum(|figures| &figures.used_bytes)
    }

    fn has_volatile_cache(&self) -> bool {
        self.has_volatile_cache
    }

    fn failures(&self) -> Option<&NamespaceHealth> {
        Some(&self.shared.failures)
    }

    fn room(&self, key: &Key, bytes: usize) -> Slice {
        Item::room(key.as_bytes().len(), bytes, self.layout.block_bytes)
    }

    fn place(&self, key: &Key) -> usize {
        Item::place(key.as_bytes().len())
    }

    fn parts(&self, reactors: usize) -> Result<Vec<Box<dyn PerCoreNamespace>>> {
        let partitions = std::mem::take(&mut *self.partitions.lock());
        if partitions.is_empty() {
            return Err(Error::Closed);
        }
        let mut shares: Vec<Vec<_>> = (0..reactors).map(|_| Vec::new()).collect();
        for (number, partition) in partitions.into_iter().enumerate() {
            shares[number % reactors].push(partition);
        }
        let part = |share| -> Result<Box<dyn PerCoreNamespace>> {
            let (file, durable) = (self.device.descriptor()?, self.device.descriptor()?);
            let store = Store {
                reactors,
                layout: self.layout.clone(),
                file,
                durable,
                has_volatile_cache: self.has_volatile_cache,
                shared: self.shared.clone(),
            };
            Ok(Box::new(ReactorPartitions::new(share, store)))
        };
        shares.into_iter().map(part).collect()
    }

    fn owner(&self, request: &Request, reactors: usize) -> Option<usize> {
        let of_key = |key: &Key| self.layout.partition_of(hash64(key.as_bytes()));
        let partition = match request {
            Request::Store { key, .. }
            | Request::Retrieve { key }
            | Request::Delete { key }
            | Request::Exist { key } => of_key(key),
            Request::List { from, .. } => from.as_ref().map_or(0, of_key),
            Request::ListOn { place, .. } => *place,
            _ => return None,
        };
        Some(partition as usize % reactors)
    }
}
