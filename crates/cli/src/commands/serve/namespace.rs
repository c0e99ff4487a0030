//! What is served: namespaces, opened as the configuration says.

use super::config::Kind;
use crate::failure::{Failure, Outcome};
use crate::keys::KeyPlace;
use crate::units;
use esker::{Db, KeyspaceSettings, Log, Settings, SyncPolicy};
use esker_base::{Clock, Rng, SystemClock, Threads, hash64, seed_from_os};
use esker_hashstore::device::{Device, FileDevice};
use esker_hashstore::{CreateSettings, store_file};
use esker_node::HashKeys;
use esker_nvme::Nqn;
use esker_nvme::command::CommandSet;
use esker_replication::Primary;
use esker_target::{DeviceBlocks, FailedNamespace, LongKeys, MemoryKeys, Namespace, OrderedKeys};
use std::fs::File;
use std::io::{Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// The keyspace of a database that its namespace is.
const KEYSPACE: &str = "default";

/// What is said of a namespace that could not be opened begins with this.
pub const FAILED: &str = "failed: ";

/// Files that are made have a multiple of it.
const PAGE_BYTES: u64 = 4096;

/// A namespace, and what it needs to stay open.
pub struct Served {
    pub namespace: Arc<dyn Namespace>,
    /// Which kind: a word for metrics.
    pub kind: &'static str,
    /// What it is and what it promises, in a line.
    pub what: String,
    /// The hash store that it is, and how long it took to open.
    pub hash: Option<(Arc<HashKeys>, Duration)>,
    /// Closed at the end.
    pub db: Option<Db>,
    /// Serves the followers of the database.
    pub primary: Option<Primary>,
    /// Holds the device's lock.
    _device: Option<FileDevice>,
}

/// Opens namespace `number` of the node `nqn`. One that cannot be opened, for damage say, is served
/// as failed. A configuration that makes no sense is an error.
pub fn open_or_fail(kind: &Kind, nqn: &Nqn, number: usize) -> Outcome<Served> {
    match open(kind, nqn, number) {
        Err(Failure::Failed(why)) => Ok(failed(kind, nqn, number, why)),
        outcome => outcome,
    }
}

/// The namespace that stands for one that could not be opened.
fn failed(kind: &Kind, nqn: &Nqn, number: usize, why: String) -> Served {
    let (word, set) = match kind {
        Kind::Lsm { .. } => ("lsm", CommandSet::KeyValue),
        Kind::Hash { .. } => ("hash", CommandSet::KeyValue),
        Kind::Ram { .. } => ("ram", CommandSet::KeyValue),
        Kind::Block { .. } => ("block", CommandSet::Nvm),
    };
    let guid = match kind.path() {
        Some(path) => guid(nqn, identity(path).as_os_str().as_encoded_bytes()),
        None => guid_in_memory(nqn, number),
    };
    Served {
        what: format!("{FAILED}{why}"),
        namespace: Arc::new(FailedNamespace::new(guid, set, why)),
        kind: word,
        hash: None,
        db: None,
        primary: None,
        _device: None,
    }
}

/// Opens namespace `number` of the node `nqn`.
pub fn open(kind: &Kind, nqn: &Nqn, number: usize) -> Outcome<Served> {
    match kind {
        Kind::Lsm { path, create, capacity, .. } => in_database(path, *create, nqn, *capacity),
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
            let guid = guid_in_memory(nqn, number);
            let namespace = Arc::new(MemoryKeys::new(guid, *bytes));
            Ok(Served {
                namespace,
                kind: "ram",
                what,
                hash: None,
                db: None,
                primary: None,
                _device: None,
            })
        }
    }
}

/// Over a database whose log is synced at every write: acknowledged means safe.
fn in_database(path: &Path, create: bool, nqn: &Nqn, capacity: u64) -> Outcome<Served> {
    let log = Log::File { dir: None, sync: SyncPolicy::Always };
    let settings =
        KeyPlace::default().apply(Settings::default().log(log).answers_requests(true))?;
    let db = match create {
        true => Db::open(path, settings)?,
        false => Db::open_existing(path, settings)?,
    };
    let keyspace = match db.open_keyspace(KEYSPACE) {
        Err(esker::Error::UnknownKeyspace { .. }) => {
            db.keyspace(KEYSPACE, KeyspaceSettings::default())?
        }
        existing => existing?,
    };
    let store = Arc::new(db.store(&keyspace));
    let keys = OrderedKeys::new(guid_of(nqn, path)?, capacity, store, &Threads)?;
    let asked = db.clone();
    let namespace = Arc::new(keys.with_usage(Arc::new(move || asked.used_bytes())));
    let what = format!("keys; {}", promise(false));
    Ok(Served {
        namespace,
        kind: "lsm",
        what,
        hash: None,
        db: Some(db),
        primary: None,
        _device: None,
    })
}

fn in_hash_store(path: &Path, nqn: &Nqn, bytes: Option<u64>, has_cache: bool) -> Outcome<Served> {
    if !path.exists() {
        check_is_to_be_made(path, bytes)?;
        FileDevice::create_with(path, bytes, |device| {
            store_file::create(device, &CreateSettings::default(), &mut Rng::new(seed_from_os()))
        })?;
    }
    check_size(path, bytes)?;
    let clock = SystemClock::new();
    let began = clock.now();
    let keys = Arc::new(HashKeys::open(guid_of(nqn, path)?, path, has_cache)?);
    let took = clock.now() - began;
    let found = units::counted(keys.opened().keys, "key");
    let what = format!("a hash store with {found}, opened in {took:.1?}; {}", promise(has_cache));
    let (namespace, hash) = (keys.clone(), Some((keys, took)));
    Ok(Served { namespace, kind: "hash", what, hash, db: None, primary: None, _device: None })
}

fn on_device(
    path: &Path,
    nqn: &Nqn,
    bytes: Option<u64>,
    block_bytes: u32,
    has_cache: bool,
) -> Outcome<Served> {
    let device = match path.exists() {
        true => {
            check_size(path, bytes)?;
            existing_blocks(path)?
        }
        false => {
            check_is_to_be_made(path, bytes)?;
            FileDevice::create(path, bytes)?
        }
    };
    let block_bytes = block_bytes.max(device.block_bytes());
    let (file, size) = (device.descriptor()?, device.bytes());
    let guid = guid_of(nqn, path)?;
    let namespace = Arc::new(DeviceBlocks::new(guid, file, size, block_bytes, has_cache)?);
    let size = units::bytes(size);
    let what = format!("{size} in blocks of {block_bytes} bytes; {}", promise(has_cache));
    Ok(Served {
        namespace,
        kind: "block",
        what,
        hash: None,
        db: None,
        primary: None,
        _device: Some(device),
    })
}

/// What is there, to be served as blocks, unless it is a hash store: the first write would end that.
fn existing_blocks(path: &Path) -> Outcome<FileDevice> {
    let device = FileDevice::open(path)?;
    // One that is newer or damaged is one, too.
    let is_none = matches!(
        store_file::layout(&device),
        Err(esker::Error::NotADatabase { .. } | esker::Error::Io { .. })
    );
    if !is_none {
        let path = path.display();
        let message = format!(
            "{path} holds a hash store, which writes of blocks would destroy: serve it with kind = \"hash\", or name another file"
        );
        return Err(Failure::Usage(message));
    }
    Ok(device)
}

/// Fails if `path`, which is not there, is not to be made: a device that is gone looks like that.
fn check_is_to_be_made(path: &Path, bytes: Option<u64>) -> Outcome {
    match bytes {
        Some(_) => Ok(()),
        None => Err(Failure::Failed(format!(
            "{} does not exist: a new file needs a size (`bytes`), a device must be attached",
            path.display()
        ))),
    }
}

/// Fails if what is at `path` has another size than it is said to have: nothing makes it grow or shrink.
fn check_size(path: &Path, bytes: Option<u64>) -> Outcome {
    let Some(bytes) = bytes else { return Ok(()) };
    let size = File::open(path).and_then(|mut file| file.seek(SeekFrom::End(0)));
    let size = size.map_err(|error| Failure::io("open", path.display().to_string(), error))?;
    // A file is made of whole pages.
    if size != bytes && size != bytes / PAGE_BYTES * PAGE_BYTES {
        let (path, size, bytes) = (path.display(), units::bytes(size), units::bytes(bytes));
        let message = format!(
            "{path} is there and has {size}, and `bytes` says {bytes}: it keeps its size, so leave `bytes` out, or name another file"
        );
        return Err(Failure::Failed(message));
    }
    Ok(())
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

/// The path that the identity of what is, or is to be, stored at `path` follows from. What cannot
/// be found, because it is missing or unreadable, has the identity that it has when it is there
/// again.
fn identity(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| {
        let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        match (absolute.parent().map(Path::canonicalize), absolute.file_name()) {
            (Some(Ok(parent)), Some(name)) => parent.join(name),
            _ => absolute,
        }
    })
}

fn guid_in_memory(nqn: &Nqn, number: usize) -> [u8; 16] {
    guid(nqn, format!("ram {number}").as_bytes())
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
    fn a_hash_store_is_not_served_as_blocks() {
        let dir = tempfile::tempdir().unwrap();
        let nqn = Nqn::new("nqn.a").unwrap();
        let path = dir.path().join("store");
        let (bytes, volatile_cache) = (Some(1 << 20), false);
        let hash = Kind::Hash { path: path.clone(), bytes, volatile_cache, long_keys: false };
        drop(open(&hash, &nqn, 1).unwrap());
        let blocks = Kind::Block { path, bytes: None, block_bytes: 4096, volatile_cache };
        assert!(matches!(open(&blocks, &nqn, 1), Err(Failure::Usage(why)) if why.contains("hash")));
        assert!(open(&hash, &nqn, 1).is_ok(), "it is as it was");
    }

    #[test]
    fn a_size_that_is_not_that_of_what_is_there_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let nqn = Nqn::new("nqn.a").unwrap();
        for is_hash in [true, false] {
            let path = dir.path().join(is_hash.to_string());
            let of = |bytes: Option<u64>| match is_hash {
                true => Kind::Hash {
                    path: path.clone(),
                    bytes,
                    volatile_cache: false,
                    long_keys: false,
                },
                false => Kind::Block {
                    path: path.clone(),
                    bytes,
                    block_bytes: 4096,
                    volatile_cache: false,
                },
            };
            drop(open(&of(Some((1 << 20) + 5)), &nqn, 1).unwrap());
            for same in [None, Some(1 << 20), Some((1 << 20) + 5)] {
                assert!(open(&of(same), &nqn, 1).is_ok(), "{same:?}");
            }
            for other in [2 << 20, 1 << 19] {
                assert!(matches!(open(&of(Some(other)), &nqn, 1), Err(Failure::Failed(_))));
            }
        }
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
