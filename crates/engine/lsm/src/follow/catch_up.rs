//! Reads what another process has written since, and publishes it.

use super::tail::{Advance, Tail, TailProgress};
use crate::engine::Engine;
use crate::stats::follower::{CaughtUp, FollowerStats};
use crate::version::Version;
use esker_base::{ChangesError, Error, KeyspaceId, Result};
use esker_table::BlockCache;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// The writer may replace, remove or use again what is just read. Then what was read does not fit together, and
/// the next try sees the newer state.
const TRIES: u32 = 20;
/// The pause between two tries.
const PAUSE: Duration = Duration::from_millis(5);

/// What a follower has read, and how it fares.
pub(crate) struct Follower {
    /// Locked while files are read. `None` once the database is closed.
    reading: Mutex<Option<Reading>>,
    /// Locked for a look.
    stats: Mutex<Observed>,
    is_stopped: AtomicBool,
}

struct Reading {
    tail: Tail,
    /// What is shown does not count any more.
    begins_anew: bool,
    /// The part of the cache for blocks of the files that are read. `None`: that of the open.
    cache: Option<Arc<BlockCache>>,
    /// The names of the keyspaces that were shown. Handles of them are in use.
    names: BTreeMap<KeyspaceId, String>,
}

/// For statistics.
struct Observed {
    progress: TailProgress,
    /// When the last call began that has read all there was, on the database's clock.
    as_of: Duration,
    catch_ups: u64,
    error: Option<Error>,
}

impl Follower {
    /// A follower that has read `tail`, all of which is published, in the call that began at `as_of`.
    pub(crate) fn new(tail: Tail, as_of: Duration) -> Self {
        let observed = Observed { progress: tail.progress(), as_of, catch_ups: 0, error: None };
        Follower {
            reading: Mutex::new(Some(Reading::of(tail))),
            stats: Mutex::new(observed),
            is_stopped: AtomicBool::new(false),
        }
    }

    /// Ends [`Follower::run`].
    pub(crate) fn stop(&self, engine: &Engine) {
        self.is_stopped.store(true, Ordering::SeqCst);
        engine.commit.signal.announce();
    }

    /// Lets go of what was read. Nothing is published from then on.
    pub(crate) fn release(&self) {
        let reading = self.reading.lock().take();
        drop(reading);
    }

    /// Catches up at an interval until it is stopped.
    pub(crate) fn run(&self, engine: &Engine, interval: Duration) {
        let is_over =
            || self.is_stopped.load(Ordering::SeqCst) || engine.tree.check_usable().is_err();
        while !is_over() {
            // What fails is in the statistics, and tried again.
            let _ = self.catch_up(engine);
            let until = engine.tree.clock.now().saturating_add(interval);
            loop {
                let left = until.saturating_sub(engine.tree.clock.now());
                if left.is_zero() || is_over() {
                    break;
                }
                engine.commit.signal.wait(left, is_over);
            }
        }
    }

    /// Reads what was written since, and publishes it.
    pub(crate) fn catch_up(&self, engine: &Engine) -> Result<CaughtUp> {
        engine.tree.check_usable()?;
        let mut guard = self.reading.lock();
        let reading = guard.as_mut().ok_or(Error::Closed)?;
        let as_of = engine.tree.clock.now();
        let mut tries = 0;
        let outcome = loop {
            tries += 1;
            match reading.advance(engine) {
                Err(error) if tries < TRIES && may_pass(&error) => engine.tree.clock.sleep(PAUSE),
                outcome => break outcome,
            }
        };
        let progress = reading.tail.progress();
        let mut stats = self.stats.lock();
        stats.catch_ups += 1;
        stats.error = outcome.as_ref().err().cloned();
        stats.progress = progress;
        let through = engine.visible();
        if outcome.is_ok() && through == progress.read {
            stats.as_of = as_of;
        }
        outcome.map(|began_anew| CaughtUp { through, began_anew })
    }

    /// Why the last call failed, if it did.
    pub(crate) fn error(&self) -> Option<Error> {
        self.stats.lock().error.clone()
    }

    pub(crate) fn stats(&self, engine: &Engine) -> FollowerStats {
        let stats = self.stats.lock();
        let TailProgress { read, durable, ingest, bytes, .. } = stats.progress;
        let shown = engine.visible();
        FollowerStats {
            shown_through: shown,
            read_through: read,
            durable_through: durable.min(shown),
            behind: engine.tree.clock.now().saturating_sub(stats.as_of),
            log_bytes_read: bytes,
            catch_ups: stats.catch_ups,
            new_beginnings: engine.tree.follows.as_ref().map_or(0, |it| it.load(Ordering::Acquire)),
            awaited_ingest: ingest,
        }
    }
}

impl Reading {
    fn of(tail: Tail) -> Reading {
        let names = names_in(&tail.state().version).collect();
        Reading { tail, begins_anew: false, cache: None, names }
    }

    /// Reads on, and publishes what may be shown. Returns whether it does not go on from what was shown before.
    fn advance(&mut self, engine: &Engine) -> Result<bool> {
        let tree = &engine.tree;
        let advance = self.tail.advance()?;
        self.begins_anew |= advance != Advance::On;
        if advance == Advance::OtherFiles {
            self.cache = Some(engine.share.cache_of_other_files());
        }
        let Some(view) = self.tail.view() else { return Ok(false) };
        let before = tree.view.load();
        let has_same_tables = Arc::ptr_eq(&before.version, &view.version);
        if has_same_tables && before.last_seqno() == view.last_seqno() {
            return Ok(false);
        }
        if !has_same_tables {
            self.expect_same_keyspaces(engine, &view.version)?;
            // Opened files can still be read after the writer has removed them.
            view.version.open_tables(self.cache.as_ref().unwrap_or(&tree.cache))?;
            view.version.values.open()?;
            view.version.gather_bounds();
            tree.installer.follow(self.tail.identity(), self.tail.state());
        }
        let has_same_memtables = before.memtables.len() == view.memtables.len();
        tree.view.change(|present| *present = view);
        let begins_anew = std::mem::take(&mut self.begins_anew);
        if let Some(count) = tree.follows.as_ref().filter(|_| begins_anew) {
            tree.snapshots.begin_anew();
            count.fetch_add(1, Ordering::AcqRel);
        }
        engine.commit.signal.announce();
        if !(has_same_tables && has_same_memtables) {
            tree.leases.recall();
            engine.share_memory();
        }
        Ok(begins_anew)
    }

    /// Fails if a handle of a keyspace would read another one in `version`: a copy from before the keyspace was created
    /// gives its id to the next one.
    fn expect_same_keyspaces(&mut self, engine: &Engine, version: &Version) -> Result<()> {
        let other = |reason: String| {
            Err(ChangesError::Replaced { dir: engine.tree.storage.describe(), reason }.into())
        };
        if self.tail.state().keys != engine.tree.keys {
            return other("it stores keys in another way".to_owned());
        }
        for (id, name) in names_in(version) {
            match self.names.get(&id) {
                Some(known) if *known != name => {
                    return other(format!("its keyspace {id} is {name:?}, and was {known:?}"));
                }
                Some(_) => {}
                None => _ = self.names.insert(id, name),
            }
        }
        Ok(())
    }
}

fn names_in(version: &Version) -> impl Iterator<Item = (KeyspaceId, String)> {
    version.keyspaces.values().map(|keyspace| (keyspace.id, keyspace.name.clone()))
}

/// Whether the same call may succeed a little later.
pub(crate) fn may_pass(error: &Error) -> bool {
    let is_replaced = |error: &ChangesError| matches!(error, ChangesError::Replaced { .. });
    match error {
        // A list of keys does not change.
        Error::NewerVersion { .. } | Error::Closed | Error::Encryption(_) => false,
        Error::Changes(error) => !is_replaced(error),
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use esker_base::EncryptionError;

    /// A rotation of keys would otherwise make each call wait for all of its tries.
    #[test]
    fn a_key_that_is_not_given_is_not_tried_again() {
        let (file, key, given) = ("MANIFEST-7".into(), "1f".into(), "2e".into());
        assert!(!may_pass(&EncryptionError::UnknownKey { file, key, given }.into()));
        assert!(may_pass(&Error::corruption("MANIFEST-7", 0, "it is being replaced")));
    }
}
