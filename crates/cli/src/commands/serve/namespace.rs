//! What is served.

use crate::failure::Outcome;
use esker::{Db, KeyspaceSettings, Log, Settings, Sync};
use esker_base::{Threads, hash64};
use esker_nvme::Nqn;
use esker_target::{MemoryKeys, Namespace, OrderedKeys};
use std::path::Path;
use std::sync::Arc;

/// The keyspace of `dir` that the namespace is.
const KEYSPACE: &str = "default";

/// A namespace over the database in `dir`, whose log is synced at every write: acknowledged means safe.
pub fn in_database(dir: &Path, nqn: &Nqn, capacity: u64) -> Outcome<(Arc<dyn Namespace>, Db)> {
    let log = Log::File { dir: None, sync: Sync::Always };
    let db = Db::open(dir, Settings { log, ..Settings::default() })?;
    let keyspace = db.keyspace(KEYSPACE, KeyspaceSettings::default())?;
    let store = Arc::new(db.store(&keyspace));
    let namespace = OrderedKeys::new(guid(nqn), capacity, store, &Threads)?;
    Ok((Arc::new(namespace), db))
}

/// A namespace that is gone with the process.
pub fn in_memory(nqn: &Nqn, bytes: u64) -> Arc<dyn Namespace> {
    Arc::new(MemoryKeys::new(guid(nqn), bytes))
}

/// The namespace's identity, which follows from the subsystem's name: the same at every start.
fn guid(nqn: &Nqn) -> [u8; 16] {
    let half = |salt: &str| hash64(format!("{nqn} {salt}").as_bytes()).to_be_bytes();
    let mut guid = [0; 16];
    guid[..8].copy_from_slice(&half("namespace 1, first"));
    guid[8..].copy_from_slice(&half("namespace 1, second"));
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
        assert_eq!((guid(&a), serial(&a)), (guid(&a), serial(&a)));
        assert!(guid(&a) != guid(&b) && serial(&a) != serial(&b));
        assert_eq!(serial(&a).len(), 16);
    }
}
