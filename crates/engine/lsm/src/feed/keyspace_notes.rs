//! Notes keyspaces that are created and dropped, for readers of changes.

use crate::engine::Engine;
use crate::manifest::feed_changes::{FeedChange, KeyspaceEvent};
use crate::manifest::feed_state::names_engine_entries;
use crate::manifest::manifest_state::ManifestState;
use crate::manifest::version_edit::{VersionChange, VersionEdit};
use std::cell::{Cell, RefCell};

/// The events of an edit that creates or drops keyspaces.
pub(crate) struct KeyspaceNotes<'a> {
    engine: &'a Engine,
    events: RefCell<Vec<KeyspaceEvent>>,
    /// By which the history knows them until they are noted.
    announced: Cell<Option<u64>>,
}

impl<'a> KeyspaceNotes<'a> {
    pub(crate) fn of(engine: &'a Engine) -> Self {
        KeyspaceNotes { engine, events: RefCell::default(), announced: Cell::default() }
    }

    /// Adds its events to `edit`, which is planned on `state`: all if there are consumers.
    pub(crate) fn add_to(&self, state: &ManifestState, mut edit: VersionEdit) -> VersionEdit {
        // No write to a keyspace that is created now is visible, and all that were acknowledged before a drop are.
        let (at, announced) = self.engine.history.announce(|| self.engine.commit.visible());
        self.announced.set(Some(announced));
        let at = state.feed.events.back().map_or(at, |last| last.at.max(at));
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
        let has_consumers = !state.feed.consumers.is_empty();
        let durable = events.iter().filter(|event| has_consumers || names_engine_entries(event));
        let changes = durable.cloned().map(FeedChange::Keyspace).map(VersionChange::Feed);
        edit.changes.extend(changes);
        edit
    }

    /// Makes the events known to readers. Called when the edit is durable, and before a writer can see it.
    pub(crate) fn publish(&self) {
        let events = self.events.take();
        events.into_iter().for_each(|event| self.engine.history.note(event));
        self.decide();
    }

    fn decide(&self) {
        if let Some(announced) = self.announced.take() {
            self.engine.history.decide(announced);
            self.engine.commit.signal.announce();
        }
    }
}

impl Drop for KeyspaceNotes<'_> {
    /// The edit was not installed.
    fn drop(&mut self) {
        self.decide();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Db, Env, Settings};
    use esker_storage::MemoryStorage;
    use std::sync::Arc;

    /// A consumer could acknowledge the write, and after a restart would never get the event before it.
    #[test]
    fn a_write_after_an_event_is_not_yielded_before_the_event_is_decided() {
        let env = Env::over(Arc::new(MemoryStorage::new()));
        let db = Db::open_with(env, Settings::default()).unwrap();
        let mut changes = db.changes(1).unwrap();
        let notes = KeyspaceNotes::of(&db.handle.inner);
        notes.add_to(&db.handle.inner.tree.installer.state(), VersionEdit::default());
        db.default_keyspace().put("later", "value").unwrap();
        assert!(changes.try_next().unwrap().is_none());
        drop(notes);
        assert!(changes.try_next().unwrap().is_some());
    }
}
