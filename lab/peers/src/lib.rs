//! Other engines behind the traits of `esker_api`, so that one workload drives them and Esker alike.
//!
//! | name | engine |
//! |---|---|
//! | `rocksdb-wal` | RocksDB, leveled, its log written and not synced |
//! | `rocksdb-wal-sync` | the same, its log synced before a write is acknowledged |
//! | `rocksdb-nolog` | the same, without a log |
//! | `rocksdb-universal` | RocksDB, universal compaction, its log written and not synced |
//! | `rocksdb-leveled-R` | as `rocksdb-wal`, each level R times as large as the one above: 4, 10, 20 |
//! | `rocksdb-universal-P` | as `rocksdb-universal`, P percent of space over the live data at most: 25, 50, 100, 200 |
//! | `leveldb` | LevelDB, its log written and not synced |
//! | `fjall` | fjall, its journal written and not synced |
//! | `lmdb` | LMDB, over `heed`, its commits not synced |
//! | `redb` | redb, its commits not synced |
//! | `bf-tree` | bf-tree, without a log |
//! | `tidesdb` | TidesDB, its log synced every second |
//!
//! [`after_a_crash`] says what of their writes each keeps.
//!
//! RocksDB's transactions, with its log on any device or without one, are opened apart, by
//! [`open_transactional`].
//!
//! Each is configured as its own documentation advises for such loads on a small machine; every
//! option set is listed with its reason by [`Peer::configuration`]. What all engines of a run share,
//! memory above all, comes in by [`PeerSettings`].
//!
//! The engines are compiled only when asked for, each by the feature of its name, because they want
//! packages of the system and minutes of compiling. `cargo-only` is those that need nothing but cargo
//! and a C compiler: `fjall`, `lmdb`, `redb` and `bf-tree`. TidesDB wants cmake.
//!
//! ```sh
//! cargo build --release -p esker-lab --features cargo-only-peers
//! scripts/install-peers
//! cargo build --release -p esker-lab --features peers
//! ```

#![deny(unsafe_code)]

#[cfg(any(feature = "lmdb", feature = "redb", feature = "bf-tree", feature = "tidesdb"))]
mod adapter;
#[cfg(feature = "bf-tree")]
mod bf_tree;
#[cfg(any_peer)]
mod check;
#[cfg(any_peer)]
mod configuration;
mod crash;
#[cfg(feature = "fjall")]
mod fjall;
#[cfg(feature = "leveldb")]
mod leveldb;
#[cfg(feature = "lmdb")]
mod lmdb;
#[cfg(any(feature = "rocksdb", feature = "leveldb"))]
mod log_bytes;
#[cfg(any_peer)]
mod moments;
mod peer;
#[cfg(range_peer)]
mod range_cursor;
#[cfg(any(feature = "leveldb", feature = "fjall", feature = "tidesdb"))]
mod ranges;
#[cfg(feature = "redb")]
mod redb;
#[cfg(feature = "rocksdb")]
mod rocksdb;
mod settings;
#[cfg(any(feature = "rocksdb", feature = "leveldb", feature = "fjall"))]
mod single;
#[cfg(any_peer)]
mod tally;
#[cfg(feature = "tidesdb")]
mod tidesdb;
mod transactional;

pub use crash::after_a_crash;
pub use peer::{Peer, Written};
pub use settings::{Compression, PeerSettings};
pub use transactional::{PeerLog, TransactionalPeer, check_transactional, open_transactional};

use esker_base::{Error, Result};
use esker_storage::Storage;
use std::path::Path;
use std::sync::Arc;

/// The peers there are, built in or not.
pub const NAMES: [&str; 17] = [
    "rocksdb-wal",
    "rocksdb-wal-sync",
    "rocksdb-nolog",
    "rocksdb-universal",
    "rocksdb-leveled-4",
    "rocksdb-leveled-10",
    "rocksdb-leveled-20",
    "rocksdb-universal-25",
    "rocksdb-universal-50",
    "rocksdb-universal-100",
    "rocksdb-universal-200",
    "leveldb",
    "fjall",
    "lmdb",
    "redb",
    "bf-tree",
    "tidesdb",
];

/// Whether [`open`] can open the peer of this name. If not, the error says why and what to do. Does
/// nothing else, so that a caller can refuse a name before it makes a file.
pub fn check(name: &str) -> Result<()> {
    if !NAMES.contains(&name) {
        return Err(refused(
            name,
            format!("there is no such peer; there are {}", NAMES.join(", ")),
        ));
    }
    if is_built_in(name) {
        return Ok(());
    }
    let reason = match name {
        "fjall" | "lmdb" | "redb" | "bf-tree" => {
            "it is not built in: run cargo build --release -p esker-lab --features \
             cargo-only-peers; or, for all peers, scripts/install-peers, then the same with \
             --features peers"
        }
        _ => {
            "it is not built in: run scripts/install-peers, then \
             cargo build --release -p esker-lab --features peers"
        }
    };
    Err(refused(name, reason.to_owned()))
}

/// Whether [`open`] can open the peer of this name with `settings`. Does nothing else either.
pub fn check_settings(name: &str, settings: &PeerSettings) -> Result<()> {
    check(name)?;
    settings.validate()?;
    match name {
        #[cfg(feature = "leveldb")]
        "leveldb" => leveldb::check(settings),
        #[cfg(feature = "fjall")]
        "fjall" => fjall::check(settings),
        #[cfg(feature = "lmdb")]
        "lmdb" => lmdb::check(settings),
        #[cfg(feature = "redb")]
        "redb" => redb::check(settings),
        #[cfg(feature = "bf-tree")]
        "bf-tree" => bf_tree::check(settings),
        #[cfg(feature = "tidesdb")]
        "tidesdb" => tidesdb::check(settings),
        _ => Ok(()),
    }
}

fn is_built_in(name: &str) -> bool {
    (cfg!(feature = "rocksdb") && name.starts_with("rocksdb"))
        || (cfg!(feature = "leveldb") && name == "leveldb")
        || (cfg!(feature = "fjall") && name == "fjall")
        || (cfg!(feature = "lmdb") && name == "lmdb")
        || (cfg!(feature = "redb") && name == "redb")
        || (cfg!(feature = "bf-tree") && name == "bf-tree")
        || (cfg!(feature = "tidesdb") && name == "tidesdb")
}

/// Opens the peer `name` in the directory `dir`, or creates a store there.
pub fn open(name: &str, dir: &Path, settings: &PeerSettings) -> Result<Box<dyn Peer>> {
    check_settings(name, settings)?;
    open_built_in(name, dir, settings)
}

/// The log of a RocksDB whose files are in a storage.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StorageLog {
    /// Written and not synced: `rocksdb-wal`.
    Written,
    /// Synced before a write is acknowledged: `rocksdb-wal-sync`.
    Synced,
    /// None: `rocksdb-nolog`.
    None,
}

/// Opens RocksDB with all its files in `storage`, or creates a store there.
pub fn open_in_storage(
    storage: Arc<dyn Storage>,
    log: StorageLog,
    settings: &PeerSettings,
) -> Result<Box<dyn Peer>> {
    check_settings("rocksdb-wal", settings)?;
    #[cfg(feature = "rocksdb")]
    return rocksdb::open_in(storage, log, settings);
    #[cfg(not(feature = "rocksdb"))]
    unreachable!("{} {log:?}: it was checked", storage.describe())
}

#[cfg_attr(not(any_peer), expect(unused_variables, reason = "there is nothing to open"))]
fn open_built_in(name: &str, dir: &Path, settings: &PeerSettings) -> Result<Box<dyn Peer>> {
    match name {
        #[cfg(feature = "rocksdb")]
        _ if name.starts_with("rocksdb") => rocksdb::open(name, dir, settings),
        #[cfg(feature = "leveldb")]
        "leveldb" => leveldb::open(dir, settings),
        #[cfg(feature = "fjall")]
        "fjall" => fjall::open(dir, settings),
        #[cfg(feature = "lmdb")]
        "lmdb" => lmdb::open(dir, settings),
        #[cfg(feature = "redb")]
        "redb" => redb::open(dir, settings),
        #[cfg(feature = "bf-tree")]
        "bf-tree" => bf_tree::open(dir, settings),
        #[cfg(feature = "tidesdb")]
        "tidesdb" => tidesdb::open(dir, settings),
        _ => unreachable!("the name was checked"),
    }
}

fn refused(name: &str, reason: String) -> Error {
    settings::invalid("engine", name, reason)
}
