//! Named consumers: registered in the manifest, so that the logs they need are kept across restarts.

use super::changes::Changes;
use super::frames;
use crate::engine::Engine;
use crate::history::retention;
use crate::manifest::feed_changes::{ConsumerRecord, FeedChange};
use crate::manifest::feed_state::FeedState;
use crate::manifest::manifest_state::ManifestState;
use crate::manifest::version_edit::{VersionChange, VersionEdit};
use crate::options::settings::Log;
use crate::stats::cumulative::CumulativeStats;
use esker_base::{ChangesError, Error, Result, Seqno};
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

/// The longest name, in bytes.
const NAME_BYTES_MAX: usize = 255;

/// A named consumer of the changes of a database, which continues where it acknowledged.
///
/// [`Db::change_consumer`](crate::Db::change_consumer) registers one. It is a [`Changes`] as well: call
/// [`Changes::next`] on it, and then [`ChangeConsumer::acknowledge`].
///
/// After a restart, or in a second handle of the same consumer, the changes since the last acknowledged one
/// come again, and keyspaces that were created or dropped right at it. So a consumer sees each change at least
/// once.
pub struct ChangeConsumer {
    changes: Changes,
    engine: Arc<Engine>,
    name: Arc<str>,
}

/// What is known of a named consumer.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct ChangeConsumerInfo {
    /// The name.
    pub name: String,
    /// It has processed all changes up to this sequence number.
    pub acknowledged: Seqno,
    /// The most bytes of flushed logs that are kept for it.
    pub bound_bytes: u64,
    /// The bytes of flushed logs that it still needs and that are there.
    pub kept_bytes: u64,
    /// Whether changes that it has not acknowledged are gone.
    pub fell_behind: bool,
}

impl ChangeConsumer {
    /// Returns the name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Notes that the consumer has processed all changes up to `seqno`, and lets go of logs that nothing
    /// needs any more.
    ///
    /// It is durable when this returns, and so are the changes themselves. That takes a sync of the
    /// manifest and perhaps one of the log: acknowledge every second or every few thousand batches, not
    /// each one. A lower `seqno` than before changes nothing.
    ///
    /// # Errors
    /// * [`ChangesError::NotYet`] if there is no such write yet.
    /// * [`ChangesError::UnknownConsumer`] if the consumer was dropped.
    /// * [`Error::ReadOnly`], [`Error::Closed`], [`Error::Forked`] if the handle cannot write;
    ///   [`Error::LogFailed`] if the log cannot be synced; [`Error::Io`] if the manifest cannot be written.
    pub fn acknowledge(&self, seqno: Seqno) -> Result<()> {
        acknowledge(&self.engine, &self.name, seqno)
    }
}

impl std::fmt::Debug for ChangeConsumer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("ChangeConsumer").field(&self.changes).finish()
    }
}

impl Deref for ChangeConsumer {
    type Target = Changes;

    fn deref(&self) -> &Changes {
        &self.changes
    }
}

impl DerefMut for ChangeConsumer {
    fn deref_mut(&mut self) -> &mut Changes {
        &mut self.changes
    }
}

/// Starts a feed from the seqno `from` on.
pub(crate) fn changes(engine: &Arc<Engine>, from: Seqno) -> Result<Changes> {
    expect_log(engine, || format!("changes from seqno {from} on"))?;
    Changes::new(engine.clone(), from, None)
}

/// Registers the consumer `name`, or opens it.
pub(crate) fn register(
    engine: &Arc<Engine>,
    name: &str,
    bound_bytes: u64,
) -> Result<ChangeConsumer> {
    ensure(engine, name, bound_bytes)?;
    open(engine, name)
}

/// Registers the consumer `name`, or opens it. Registers it anew if the database lost writes that it has acknowledged.
pub(crate) fn register_or_anew(
    engine: &Arc<Engine>,
    name: &str,
    bound_bytes: u64,
) -> Result<ChangeConsumer> {
    match register(engine, name, bound_bytes) {
        Err(Error::Changes(error)) if matches!(*error, ChangesError::NotYet { .. }) => {}
        registered => return registered,
    }
    let upkeep = engine.begin_upkeep()?;
    make_durable(engine, engine.commit.visible())?;
    change(engine, |state| {
        let now = durable_through(engine, state);
        let record = ConsumerRecord { registered: now, acknowledged: now, bound_bytes };
        Ok(Some(FeedChange::Consumer { name: name.to_owned(), record }))
    })?;
    drop(upkeep);
    open(engine, name)
}

/// Notes that the consumer `name` has processed all changes up to `seqno`.
pub(crate) fn acknowledge(engine: &Engine, name: &str, seqno: Seqno) -> Result<()> {
    let last = engine.commit.visible();
    if seqno > last {
        return Err(ChangesError::NotYet { wanted: seqno, last }.into());
    }
    let _upkeep = engine.begin_upkeep()?;
    let known = engine.tree.installer.feed(|feed| feed.consumers.get(name).copied());
    if known.is_some_and(|record| record.acknowledged >= seqno) {
        return Ok(());
    }
    make_durable(engine, seqno)?;
    change(engine, |state| {
        let known = known_consumer(&state.feed, name)?;
        let acknowledged = known.acknowledged.max(seqno);
        let record = ConsumerRecord { acknowledged, ..known };
        Ok(Some(FeedChange::Consumer { name: name.to_owned(), record }))
    })
}

/// Registers the consumer `name` with this bound, if it is not.
pub(crate) fn ensure(engine: &Engine, name: &str, bound_bytes: u64) -> Result<()> {
    check_name(name)?;
    expect_log(engine, || format!("the change consumer {name:?}"))?;
    expect_files(engine, name)?;
    let known = || engine.tree.installer.feed(|feed| feed.consumers.get(name).copied());
    if known().is_none_or(|record| record.bound_bytes != bound_bytes && !engine.tree.read_only) {
        let least = engine.tree.settings.segment_bytes as u64;
        if bound_bytes < least {
            return Err(Error::InvalidSetting {
                setting: "bound of a change consumer",
                value: format!("{bound_bytes} bytes"),
                reason: format!("a segment of the log has {least} bytes, and logs are kept whole"),
            });
        }
        let _upkeep = engine.begin_upkeep()?;
        make_durable(engine, engine.commit.visible())?;
        change(engine, |state| {
            let now = durable_through(engine, state);
            let new = ConsumerRecord { registered: now, acknowledged: now, bound_bytes };
            let record = state.feed.consumers.get(name).copied().unwrap_or(new);
            let record = ConsumerRecord { bound_bytes, ..record };
            Ok(Some(FeedChange::Consumer { name: name.to_owned(), record }))
        })?;
    }
    Ok(())
}

/// Makes the writes up to `seqno` survive a power loss.
///
/// The manifest must not say that a consumer has processed writes that a power loss can take back: other
/// writes would get their sequence numbers, and the consumer would never get those.
fn make_durable(engine: &Engine, seqno: Seqno) -> Result<()> {
    match engine.tree.settings.log {
        Log::None => engine.flush_all(),
        Log::File { .. } | Log::Pmem { .. } => engine.commit.sync_through(seqno),
    }
}

/// The last write that survives a power loss. The log of all later ones is still there: they are in no table.
fn durable_through(engine: &Engine, state: &ManifestState) -> Seqno {
    engine.commit.synced().max(state.version.flushed_through).min(engine.commit.visible())
}

/// Opens the consumer `name`, which is registered.
pub(crate) fn open(engine: &Arc<Engine>, name: &str) -> Result<ChangeConsumer> {
    engine.tree.check_usable()?;
    let record = engine.tree.installer.feed(|feed| known_consumer(feed, name))?;
    let name: Arc<str> = name.into();
    let changes = Changes::new(engine.clone(), record.acknowledged + 1, Some(name.clone()))?;
    Ok(ChangeConsumer { changes, engine: engine.clone(), name })
}

/// Drops the consumer `name`, and lets go of logs that only it needed.
pub(crate) fn unregister(engine: &Engine, name: &str) -> Result<()> {
    let _upkeep = engine.begin_upkeep()?;
    change(engine, |state| {
        known_consumer(&state.feed, name)?;
        Ok(Some(FeedChange::DropConsumer(name.to_owned())))
    })
}

/// All consumers, by name.
pub(crate) fn list(engine: &Engine) -> Vec<ChangeConsumerInfo> {
    let oldest = frames::oldest(engine);
    engine.tree.installer.feed(|feed| {
        let info = |(name, record): (&String, &ConsumerRecord)| {
            let ConsumerRecord { acknowledged, bound_bytes, .. } = *record;
            let needed = feed.kept.values().filter(|log| log.end.last_seqno > acknowledged);
            ChangeConsumerInfo {
                name: name.clone(),
                acknowledged,
                bound_bytes,
                kept_bytes: needed.map(|log| log.end.offset).sum(),
                fell_behind: acknowledged + 1 < oldest,
            }
        };
        feed.consumers.iter().map(info).collect()
    })
}

/// Installs the change that `plan` makes, and lets go of the logs that nothing needs after it.
fn change(
    engine: &Engine,
    plan: impl FnOnce(&ManifestState) -> Result<Option<FeedChange>>,
) -> Result<()> {
    let mut released = Vec::new();
    engine.tree.install(
        CumulativeStats::default(),
        |state| {
            let Some(change) = plan(state)? else { return Ok(VersionEdit::default()) };
            let mut after = state.feed.clone();
            after.set_consumer(&change);
            released = retention::released(&after);
            let removed = released.iter().map(|&epoch| VersionChange::RemoveLog(epoch));
            Ok(VersionEdit::of([VersionChange::Feed(change)].into_iter().chain(removed)))
        },
        |_| {},
    )?;
    released.into_iter().for_each(|epoch| engine.tree.logs.retire(epoch));
    Ok(())
}

fn known_consumer(feed: &FeedState, name: &str) -> Result<ConsumerRecord> {
    let found = feed.consumers.get(name).copied();
    found.ok_or_else(|| ChangesError::UnknownConsumer { name: name.to_owned() }.into())
}

fn check_name(name: &str) -> Result<()> {
    let reason = match name {
        "" => "it is empty",
        _ if name.len() > NAME_BYTES_MAX => "it is longer than 255 bytes",
        _ if name.chars().any(char::is_control) => "it has a control character",
        _ => return Ok(()),
    };
    Err(ChangesError::BadName { name: name.to_owned(), reason }.into())
}

/// Fails if the database has no log: after a crash, seqnos that were yielded would be given out again.
fn expect_log(engine: &Engine, what: impl Fn() -> String) -> Result<()> {
    match engine.tree.settings.log {
        Log::None => {
            let reason = "the database was opened without a log; open it with one";
            Err(ChangesError::NotKept { what: what(), reason }.into())
        }
        _ => Ok(()),
    }
}

/// Fails if the log is in a pool, which has no space for logs that are kept.
fn expect_files(engine: &Engine, name: &str) -> Result<()> {
    if engine.tree.log_files.is_some() {
        return Ok(());
    }
    let what = format!("the change consumer {name:?}");
    let reason = "the log is in a pool, whose space is for writes that are not in tables yet; read changes \
                  without a name, or open the database with its log in files";
    Err(ChangesError::NotKept { what, reason }.into())
}
