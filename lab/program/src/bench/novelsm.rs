//! NoveLSM's write path as the benchmark sees it, with a pool of its own.

use super::engine::named;
use super::pool::PoolSettings;
use crate::failure::Outcome;
use esker::{KeyspaceSettings, Log, Settings};
use esker_bench::Engine;
use esker_novelsm::NoveLsm;
use std::collections::BTreeMap;
use std::path::Path;

/// An open store under measurement.
pub struct NoveLsmEngine {
    store: NoveLsm,
    settings: BTreeMap<String, String>,
}

impl NoveLsmEngine {
    /// Fails if a store can't be opened with these settings, without making any file.
    pub fn check(settings: &Settings) -> Outcome {
        Ok(NoveLsm::check(settings)?)
    }

    /// Opens the store in `dir`, or creates one there, with a new, emulated pool.
    pub fn open(
        dir: &Path,
        settings: &Settings,
        pool: &PoolSettings,
        keyspace: KeyspaceSettings,
    ) -> Outcome<Self> {
        let mut named = named(&settings.clone().log(Log::None), &keyspace);
        let made = pool.make()?;
        named.extend(pool.named(&made));
        named.insert("log".to_owned(), LOG.to_owned());
        named.retain(|name, _| !NOT_USED.contains(&&name[..]));
        let store = NoveLsm::open(dir, settings, keyspace, made)?;
        Ok(NoveLsmEngine { store, settings: named })
    }

    /// As the benchmark sees it.
    pub fn engine(&self) -> &dyn Engine {
        &self.store
    }

    /// What was set, by name.
    pub fn settings(&self) -> BTreeMap<String, String> {
        self.settings.clone()
    }

    /// Puts everything in tables and closes them.
    pub fn close(self) -> Outcome {
        Ok(self.store.close()?)
    }
}

/// Where its log is.
const LOG: &str = "file, not synced, of MemTables in DRAM; none of those in persistent memory";

/// Settings of ours that it has no use for.
const NOT_USED: [&str; 3] = ["dram_table_bytes", "forwarding", "sealed_segments"];
