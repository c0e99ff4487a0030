//! What is served: namespaces, opened as the configuration says.

use super::config::Kind;
use crate::failure::{Failure, Outcome};
use crate::units;
use esker::{Db, KeyspaceSettings, Log, Settings, Sync};
use esker_base::{Rng, Threads, ambient_seed, hash64};
use esker_hashstore::device::{Device, FileDevice};
use esker_hashstore::{CreateSettings, volume};
use esker_node::HashKeys;
use esker_nvme::Nqn;
use esker_target::{DeviceBlocks, LongKeys, MemoryKeys, Namespace, OrderedKeys};
use std::path::Path;
use std::sync::Arc;

/// The keyspace of a database that its namespace is.
const KEYSPACE: &str = "default";

/// A namespace, and what it needs to stay open.
pub struct Served {
    pub namespace: Arc<dyn Namespace>,
    /// Which kind: a word for metrics.
    pub kind: &'static str,
    /// What it is and what it promises, in a line.
    pub what: String,
    /// Closed at the end.
    pub db: Option<Db>,
    /// Holds the device's lock.
    _device: Option<FileDevice>,
}

/// Opens namespace `number` of the node `nqn`.
pub fn open(kind: &Kind, nqn: &Nqn, number: usize) -> Outcome<Served> {
    match kind {
        Kind::Lsm { path, capacity } => in_database(path, nqn, *capacity),
        Kind::Hash { path, bytes, volatile_cache, long_keys } => {
            let mut served = in_hash_store(path, nqn, *bytes, *volatile_cache)?;
            if *long_keys {
                served.namespace = Arc::new(LongKeys::new(served.namespace));
                served.what.insert_str(0, "long keys in ");
            }
            Ok(served)
        }
        Kind::Block { path, bytes, block_bytes, volatile_cache } => {
            on_device(path, nqn, *bytes, *block_bytes, *volatile_cache)
        }
        Kind::Ram { bytes } => {
            let what = "keys in memory; nothing survives this process".to_owned();
            let guid = guid(nqn, format!("ram {number}").as_bytes());
            let namespace = Arc::new(MemoryKeys::new(guid, *bytes));
            Ok(Served { namespace, kind: "ram", what, db: None, _device: None })
        }
    }
}

/// Over a database whose log is synced at every write: acknowledged means safe.
fn in_database(path: &Path, nqn: &Nqn, capacity: u64) -> Outcome<Served> {
    let log = Log::File { dir: None, sync: Sync::Always };
    let db = Db::open(path, Settings { log, ..Settings::default() })?;
    let keyspace = db.keyspace(KEYSPACE, KeyspaceSettings::default())?;
    let store = Arc::new(db.store(&keyspace));
    let namespace = Arc::new(OrderedKeys::new(guid_of(nqn, path)?, capacity, store, &Threads)?);
    let what = format!("keys; {}", promise(false));
    Ok(Served { namespace, kind: "lsm", what, db: Some(db), _device: None })
}

fn in_hash_store(path: &Path, nqn: &Nqn, bytes: Option<u64>, has_cache: bool) -> Outcome<Served> {
    if !path.exists() {
        FileDevice::create_with(path, bytes, |device| {
            volume::create(device, &CreateSettings::default(), &mut Rng::new(ambient_seed()))
        })?;
    }
    let namespace = HashKeys::open(guid_of(nqn, path)?, path, has_cache)?;
    let keys = units::counted(namespace.opened().keys, "key");
    let what = format!("a hash store with {keys}; {}", promise(has_cache));
    Ok(Served { namespace: Arc::new(namespace), kind: "hash", what, db: None, _device: None })
}

fn on_device(
    path: &Path,
    nqn: &Nqn,
    bytes: Option<u64>,
    block_bytes: u32,
    has_cache: bool,
) -> Outcome<Served> {
    let device = match path.exists() {
        true => FileDevice::open(path)?,
        false => FileDevice::create(path, bytes)?,
    };
    let block_bytes = block_bytes.max(device.block_bytes());
    let (file, size) = (device.descriptor()?, device.bytes());
    let guid = guid_of(nqn, path)?;
    let namespace = Arc::new(DeviceBlocks::new(guid, file, size, block_bytes, has_cache)?);
    let size = units::bytes(size);
    let what = format!("{size} in blocks of {block_bytes} bytes; {}", promise(has_cache));
    Ok(Served { namespace, kind: "block", what, db: None, _device: Some(device) })
}

fn promise(has_cache: bool) -> &'static str {
    match has_cache {
        false => "what is acknowledged survives power loss",
        true => "what is acknowledged survives power loss after a flush only",
    }
}

/// The identity of the namespace that is stored at `path`, where it must be by now: the same at every start, in whatever
/// order the namespaces are listed. A host that finds another store under a number that it knows notices.
fn guid_of(nqn: &Nqn, path: &Path) -> Outcome<[u8; 16]> {
    let whole = path.canonicalize();
    let whole = whole.map_err(|error| Failure::io("find", path.display().to_string(), error))?;
    Ok(guid(nqn, whole.as_os_str().as_encoded_bytes()))
}

/// An identity that follows from the subsystem's name and what is served.
fn guid(nqn: &Nqn, what: &[u8]) -> [u8; 16] {
    let half = |half: &[u8]| {
        hash64(&[nqn.as_str().as_bytes(), b" ", what, b", ", half].concat()).to_be_bytes()
    };
    let mut guid = [0; 16];
    guid[..8].copy_from_slice(&half(b"first"));
    guid[8..].copy_from_slice(&half(b"second"));
    guid
}

/// A serial number that follows from the subsystem's name.
pub fn serial(nqn: &Nqn) -> String {
    format!("{:016x}", hash64(nqn.as_str().as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identities_follow_from_the_name() {
        let (a, b) = (Nqn::new("nqn.a").unwrap(), Nqn::new("nqn.b").unwrap());
        assert_eq!((guid(&a, b"1"), serial(&a)), (guid(&a, b"1"), serial(&a)));
        assert!(guid(&a, b"1") != guid(&b, b"1") && guid(&a, b"1") != guid(&a, b"2"));
        assert!(serial(&a) != serial(&b) && serial(&a).len() == 16);
    }

    #[test]
    fn a_store_keeps_its_identity_under_another_number_and_another_store_has_another() {
        let dir = tempfile::tempdir().unwrap();
        let nqn = Nqn::new("nqn.a").unwrap();
        let store = |name: &str| Kind::Hash {
            path: dir.path().join(name),
            bytes: Some(1 << 20),
            volatile_cache: false,
            long_keys: false,
        };
        let guid = |kind: &Kind, number| open(kind, &nqn, number).unwrap().namespace.guid();
        let (a, b) = (guid(&store("a"), 1), guid(&store("b"), 2));
        assert!(a != b);
        assert_eq!([guid(&store("b"), 1), guid(&store("a"), 2)], [b, a]);
        let by_another_way = Kind::Hash {
            path: dir.path().join("./a"),
            bytes: None,
            volatile_cache: false,
            long_keys: true,
        };
        assert_eq!(guid(&by_another_way, 1), a);
    }
}
