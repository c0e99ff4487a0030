//! Makes a database of the tables of one time and the log of a later one.

use super::replay;
use crate::manifest::feed_changes::{FeedChange, KeyspaceEvent};
use crate::manifest::manifest_file::{Author, Manifest, parse_manifest_file_name, read_manifest};
use crate::manifest::manifest_state::ManifestState;
use crate::manifest::version_edit::{LogEnd, VersionChange, VersionEdit};
use crate::options::settings::KeyspaceSettings;
use esker_base::{Error, KeyspaceId, Result, Seqno};
use esker_storage::Storage;
use std::collections::BTreeMap;
use std::sync::Arc;

/// What a copy's manifest says of the log that continues it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct CopyEnd {
    /// The identity that the copy has.
    pub identity: u64,
    /// All writes up to this one are in tables; the next is the first of a log segment.
    pub flushed_through: Seqno,
}

/// A log that continues the tables of a copy.
#[derive(Default, Debug)]
pub struct LogSegments {
    logs: Vec<(u32, LogEnd)>,
    events: Vec<KeyspaceEvent>,
}

impl LogSegments {
    /// Returns no log.
    pub fn new() -> Self {
        LogSegments::default()
    }

    /// Adds the log of `epoch`: a file called [`log_file_name`](crate::log_file_name) with the header and frames of a
    /// segment, which end after so many `bytes` with `last_seqno`. The file is durable.
    pub fn add(&mut self, epoch: u32, bytes: u64, last_seqno: Seqno) {
        self.logs.push((epoch, LogEnd { offset: bytes, last_seqno }));
    }

    /// Adds keyspaces that were created and dropped meanwhile: those of an encoded edit from before the write
    /// `through`. What comes right after it is left out.
    ///
    /// # Errors
    /// [`Error::Corruption`] of `file` if `edit` is malformed.
    pub fn add_events(&mut self, edit: &[u8], through: Seqno, file: &str) -> Result<()> {
        for event in events_in(edit, file)? {
            let is_new = |known: &KeyspaceEvent| *known != event;
            if event.at < through && self.events.iter().all(is_new) {
                self.events.push(event);
            }
        }
        Ok(())
    }

    /// Returns what the manifest `name` of a copy in `storage` says.
    ///
    /// # Errors
    /// [`Error::Corruption`] if the manifest is damaged.
    pub fn copy_end(storage: &Arc<dyn Storage>, name: &str) -> Result<CopyEnd> {
        let (identity, state) = replay::load_state(storage, name)?;
        Ok(CopyEnd { identity, flushed_through: state.version.flushed_through })
    }

    /// Returns the settings of the keyspaces of a copy with the manifest `name` in `storage`.
    ///
    /// # Errors
    /// [`Error::Corruption`] if the manifest is damaged.
    pub fn settings(
        storage: &Arc<dyn Storage>,
        name: &str,
    ) -> Result<BTreeMap<KeyspaceId, KeyspaceSettings>> {
        let (_, state) = replay::load_state(storage, name)?;
        Ok(state.version.keyspaces.values().map(|it| (it.id, it.settings)).collect())
    }

    /// Whether a copy with the manifest `name` in `storage` lacks a keyspace that was dropped after the write
    /// `at`, so that it is no copy of that time.
    ///
    /// # Errors
    /// The errors of [`LogSegments::copy_end`] and [`LogSegments::add_events`].
    pub fn lacks_keyspace(
        storage: &Arc<dyn Storage>,
        name: &str,
        edit: &[u8],
        at: Seqno,
        file: &str,
    ) -> Result<bool> {
        let (_, state) = replay::load_state(storage, name)?;
        let events = events_in(edit, file)?;
        let later = |event: &KeyspaceEvent| event.at >= at && event.created.is_none();
        let is_created = |event: &KeyspaceEvent| {
            let is_new = event.keyspace.0 >= state.next_keyspace;
            is_new && events.iter().any(|it| it.keyspace == event.keyspace && it.created.is_some())
        };
        let is_missing =
            |event: &&KeyspaceEvent| !state.version.keyspaces.contains_key(&event.keyspace);
        Ok(events
            .iter()
            .filter(|event| later(event))
            .filter(is_missing)
            .any(|event| !is_created(event)))
    }

    /// Writes a manifest and `CURRENT` to `target`, which make it a database: it has the tables of a copy, its manifest
    /// `name`, and the files of the logs.
    ///
    /// # Errors
    /// [`Error::Corruption`] if the manifest is damaged or what was added does not fit it; [`Error::Io`] if a
    /// file cannot be written.
    pub fn make_database(self, target: &Arc<dyn Storage>, name: &str) -> Result<()> {
        let (identity, _) = read_manifest(&**target, name)?;
        let (_, mut state) = replay::load_state(target, name)?;
        // The names of the logs.
        target.sync_names()?;
        let edit = self.edit(&state);
        let misfit = |what| Error::corruption(name, 0, what);
        state.apply(&edit, target).map_err(misfit)?;
        let after = parse_manifest_file_name(name).map_or(0, |id| id + 1);
        let id = state.next_file.max(after);
        state.next_file = id + 1;
        state.first_file = Some(id);
        Manifest::create(&**target, id, Author::of(identity), &state.snapshot())?;
        target.remove(name)?;
        target.sync_names()
    }

    fn edit(&self, state: &ManifestState) -> VersionEdit {
        let mut changes = Vec::new();
        let mut there: std::collections::BTreeSet<_> =
            state.version.keyspaces.keys().copied().collect();
        for KeyspaceEvent { keyspace, name, created, .. } in &self.events {
            match created {
                Some(settings) if keyspace.0 >= state.next_keyspace && there.insert(*keyspace) => {
                    changes.push(VersionChange::CreateKeyspace {
                        id: *keyspace,
                        name: name.clone(),
                        settings: *settings,
                        retention_seqno: None,
                    });
                }
                None if there.remove(keyspace) => {
                    changes.push(VersionChange::DropKeyspace(*keyspace));
                }
                _ => {}
            }
        }
        let logs = self.logs.iter();
        changes.extend(logs.map(|&(epoch, end)| VersionChange::AddLog { epoch, end: Some(end) }));
        VersionEdit::of(changes)
    }
}

fn events_in(edit: &[u8], file: &str) -> Result<Vec<KeyspaceEvent>> {
    let edit = VersionEdit::decode(edit).map_err(|what| Error::corruption(file, 0, what))?;
    let events = edit.changes.into_iter().filter_map(|change| match change {
        VersionChange::Feed(FeedChange::Keyspace(event)) => Some(event),
        _ => None,
    });
    Ok(events.collect())
}
