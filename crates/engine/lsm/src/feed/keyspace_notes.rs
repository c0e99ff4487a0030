//! Notes keyspaces that are created and dropped, for readers of changes.

use crate::engine::Engine;
use crate::manifest::feed_changes::{FeedChange, KeyspaceEvent};
use crate::manifest::manifest_state::ManifestState;
use crate::manifest::version_edit::{VersionChange, VersionEdit};
use std::cell::RefCell;

/// The events of an edit that creates or drops keyspaces.
pub(crate) struct KeyspaceNotes<'a> {
    engine: &'a Engine,
    events: RefCell<Vec<KeyspaceEvent>>,
}

impl<'a> KeyspaceNotes<'a> {
    pub(crate) fn of(engine: &'a Engine) -> Self {
        KeyspaceNotes { engine, events: RefCell::default() }
    }

    /// Adds its events to `edit`, which is planned on `state`, if there are consumers.
    pub(crate) fn add_to(&self, state: &ManifestState, mut edit: VersionEdit) -> VersionEdit {
        // No write to a keyspace that is created now is visible, and all that were acknowledged before a drop are.
        let at = self.engine.commit.visible();
        let at = state.feed.events.last().map_or(at, |last| last.at.max(at));
        let mut events = self.events.borrow_mut();
        for change in &edit.changes {
            let (keyspace, name, created) = match change {
                VersionChange::CreateKeyspace { id, name, settings, .. } => {
                    (*id, name.clone(), Some(*settings))
                }
                VersionChange::DropKeyspace(id) => {
                    let dropped = state.version.keyspaces.get(id);
                    (*id, dropped.map_or_else(String::new, |it| it.name.clone()), None)
                }
                _ => continue,
            };
            events.push(KeyspaceEvent { at, keyspace, name, created });
        }
        if !state.feed.consumers.is_empty() {
            let changes = events.iter().cloned().map(FeedChange::Keyspace);
            edit.changes.extend(changes.map(VersionChange::Feed));
        }
        edit
    }

    /// Makes the events known to readers. Called when the edit is durable, and before a writer can see it.
    pub(crate) fn publish(&self) {
        let events = self.events.take();
        events.into_iter().for_each(|event| self.engine.history.note(event));
    }
}
