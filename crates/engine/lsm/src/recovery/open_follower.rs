//! Opens a database that another process writes, to follow it.

use super::close::EngineHandle;
use super::env::Env;
use super::open::{OpenResult, assemble, nothing_there};
use super::replay::{self, DirectoryState, RecoveredState};
use crate::follow::catch_up::{Follower, may_pass};
use crate::follow::tail::Tail;
use crate::manifest::version_set::VersionSet;
use crate::options::settings::{Log, Settings};
use crate::version::Version;
use esker_base::{Error, Priority, Result};
use std::sync::Arc;
use std::time::Duration;

/// As often as an open for reading: see there.
const TRIES: u32 = 20;
const PAUSE: Duration = Duration::from_millis(5);

/// Fails if a follower cannot read the log.
pub(crate) fn check_log(settings: &Settings) -> Result<()> {
    let Log::Pmem { pool, .. } = &settings.log else { return Ok(()) };
    let reason = "a follower reads log files, and cannot follow a log in persistent memory; open the \
                  database for reading instead";
    Err(Error::PoolRefused { pool: pool.display().to_string(), reason: reason.into() })
}

/// Opens the database of `env` as a follower. With an `interval`, a thread catches up.
pub(crate) fn open(
    env: Env,
    settings: Settings,
    interval: Option<Duration>,
) -> Result<Arc<EngineHandle>> {
    check_log(&settings)?;
    let (env, settings) = env.fit(settings)?;
    // It would have to know what the writer passes to its own.
    let settings = settings.dram_table_bytes(0);
    if matches!(replay::look(&*env.storage)?, DirectoryState::Nothing) {
        return Err(nothing_there(&env.storage.describe()));
    }
    let mut tries = 0;
    let handle = loop {
        tries += 1;
        match open_once(&env, &settings) {
            Err(error) if tries < TRIES && may_pass(&error) => env.clock.sleep(PAUSE),
            opened => break opened?,
        }
    };
    if let Some(interval) = interval {
        let (engine, follower) = (handle.inner.clone(), handle.follower.get().cloned());
        let follower = follower.expect("it was just set");
        let body = Box::new(move || follower.run(&engine, interval));
        let thread = env.background.spawn("esker-follower", Priority::Normal, body)?;
        handle.threads.lock().extend(thread);
    }
    Ok(handle)
}

fn open_once(env: &Env, settings: &Settings) -> Result<Arc<EngineHandle>> {
    let as_of = env.clock.now();
    let tail = Tail::open(&env.storage, env.logs())?;
    let state = tail.state().clone();
    env.check_logs_place(&**env.logs(), &state)?;
    let Some(view) = tail.view() else {
        let what = "the logs end before the tables do, or keyspaces change all the time";
        return Err(Error::corruption(env.storage.describe(), 0, what));
    };
    let share = settings.resources_or_own().share(env.wide_reader(settings))?;
    // Opened files can still be read after the writer has removed them.
    view.version.open_tables(&share.cache)?;
    view.version.values.open()?;
    view.version.gather_bounds();
    let version = Version::clone(&view.version);
    let recovered = RecoveredState::nothing_after(view.last_seqno());
    let installer = VersionSet::new(env.storage.clone(), tail.identity(), None, state);
    let (table_memory, set_aside) = (0, Vec::new());
    let (follows, is_replica) = (true, false);
    let opened =
        OpenResult { installer, version, recovered, table_memory, set_aside, follows, is_replica };
    let handle = assemble(env.clone(), settings.clone(), opened, share, Vec::new(), None);
    handle.inner.tree.view.change(|present| *present = view);
    handle.inner.share_memory();
    let is_first = handle.follower.set(Arc::new(Follower::new(tail, as_of))).is_ok();
    assert!(is_first, "it is the first follower of the handle");
    Ok(handle)
}
