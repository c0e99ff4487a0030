//! Applies changes of settings to an open database.

use super::executor::update_debt;
use crate::engine::Engine;
use crate::limits::within;
use crate::manifest::version_edit::{VersionChange, VersionEdit};
use crate::options::change::{CurrentSetting, KeyspaceChange, SettingChange};
use crate::options::settings::{Log, SyncPolicy};
use crate::options::slow_call::validate_slow_call;
use crate::reserved::is_reserved;
use crate::stats::events::EventKind;
use esker_base::{Error, Result};

/// Applies `change`. If it is persisted, it is durable when this returns.
pub(crate) fn apply(inner: &Engine, change: &SettingChange) -> Result<()> {
    match change {
        SettingChange::BackgroundThreads(threads) => {
            within("background_threads", *threads, 1, 64)?;
            refuse_shared(inner, "background_threads", threads.to_string())?;
            let (resources, background) = (inner.share.resources(), &*inner.indexes.background);
            resources.set_background_threads(*threads, background)?;
        }
        SettingChange::BackgroundWriteRate(rate) => {
            rate.validate()?;
            inner.gate.limiter.set(*rate);
            update_debt(inner);
        }
        SettingChange::MemoryBytes(bytes) => {
            refuse_shared(inner, "memory_bytes", bytes.to_string())?;
            inner.share.resources().set_memory_bytes(*bytes)?;
        }
        SettingChange::SlowCall(limit) => {
            validate_slow_call(*limit)?;
            inner.calls.set_slow(*limit);
        }
        SettingChange::Sync(sync) => set_sync(inner, *sync)?,
        SettingChange::Keyspace { name, change } => change_keyspace(inner, name, *change)?,
    }
    inner.tree.note_event(EventKind::SettingChanged { change: change.to_string() });
    inner.schedule.wake();
    Ok(())
}

/// The settings that [`apply`] can change.
pub(crate) fn settings(inner: &Engine) -> Vec<CurrentSetting> {
    let resources = inner.share.resources();
    let sync = match &inner.tree.settings.log {
        Log::File { sync: SyncPolicy::Always, .. } => Some(SyncPolicy::Always),
        Log::File { .. } => {
            Some(inner.tree.sync_interval().map_or(SyncPolicy::Os, SyncPolicy::Every))
        }
        Log::Pmem { .. } | Log::None => None,
    };
    let of_database = [
        SettingChange::BackgroundThreads(resources.background_threads()),
        SettingChange::BackgroundWriteRate(inner.gate.limiter.setting()),
        SettingChange::MemoryBytes(resources.memory_bytes()),
        SettingChange::SlowCall(inner.calls.slow()),
    ];
    let version = inner.tree.view.load().version.clone();
    let keyspaces = version.keyspaces.values().filter(|it| !is_reserved(&it.name));
    let of_keyspaces = keyspaces.flat_map(|keyspace| {
        let name = &keyspace.name;
        let of = move |change| SettingChange::Keyspace { name: name.clone(), change };
        KeyspaceChange::all_of(&keyspace.settings).map(of)
    });
    let all = of_database.into_iter().chain(sync.map(SettingChange::Sync)).chain(of_keyspaces);
    all.map(|change| change.current()).collect()
}

fn refuse_shared(inner: &Engine, setting: &'static str, value: String) -> Result<()> {
    match inner.share.resources().is_shared() {
        false => Ok(()),
        true => Err(Error::InvalidSetting {
            setting,
            value,
            reason: "the database shares its memory and threads with others".into(),
        }),
    }
}

fn set_sync(inner: &Engine, sync: SyncPolicy) -> Result<()> {
    let refuse = |reason: &str| {
        let (setting, value) = ("sync", sync.to_string());
        Err(Error::InvalidSetting { setting, value, reason: reason.into() })
    };
    match &inner.tree.settings.log {
        Log::File { sync: SyncPolicy::Always, .. } if sync == SyncPolicy::Always => Ok(()),
        Log::File { sync: SyncPolicy::Always, .. } => {
            refuse("the database was opened with always; open it again with another mode")
        }
        Log::File { .. } if sync == SyncPolicy::Always => refuse(
            "it is given when the database is opened; until then WriteBatch::set_sync makes a batch \
             durable",
        ),
        Log::File { .. } => {
            sync.validate()?;
            inner.tree.set_sync_interval(sync);
            Ok(())
        }
        Log::Pmem { .. } | Log::None => refuse("the log is not in files"),
    }
}

fn change_keyspace(inner: &Engine, name: &str, change: KeyspaceChange) -> Result<()> {
    inner.tree.installer.install(
        &inner.tree.view,
        |state| {
            let found = state.version.keyspace_named(name).filter(|_| !is_reserved(name));
            let found = found.ok_or_else(|| Error::UnknownKeyspace { name: name.to_owned() })?;
            let (settings, changed) =
                (change.of(found.settings), found.changed.with(change.changed()));
            settings.validate()?;
            if settings == found.settings && changed == found.changed {
                return Ok(VersionEdit::default());
            }
            let id = found.id;
            let large = state.version.values.of(id).filter(|file| file.meta.in_blocks).count();
            let is_new = settings.has_space_goal() && !found.settings.has_space_goal();
            if is_new && large > 0 {
                let (setting, value) = ("dedup", settings.dedup.to_string());
                let (name, end) = (&found.name, if large == 1 { "" } else { "s" });
                let reason = format!(
                    "the keyspace `{name}` has {large} large value{end}, each in a file of its own, and the \
                     limit counts tables only; delete them and compact the keyspace, or put them in another"
                );
                return Err(Error::InvalidSetting { setting, value, reason });
            }
            let threshold = settings.separation_threshold;
            let has_other = threshold != found.settings.separation_threshold;
            let separation = VersionChange::SeparationThreshold { keyspace: id, bytes: threshold };
            let change = VersionChange::ChangeSettings { id, settings, changed };
            Ok(VersionEdit::of([change].into_iter().chain(has_other.then_some(separation))))
        },
        |_| {},
    )?;
    // What a space-amplification limit allows is known once all tables are open.
    inner.open_new_tables();
    update_debt(inner);
    Ok(())
}
