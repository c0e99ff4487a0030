//! Everything but reads, writes and crashes: syncs, flushes, compactions, keyspaces, copies.

use super::check::{Mismatch, check_pairs};
use super::{Check, Halt, Harness};
use crate::model::{Existence, World};
use crate::operations::SPACES;
use crate::settings::{WINDOW, draw_keyspace, like};
use esker_base::{Error, Result, Rng};
use esker_lsm::{Db, Dedup, Shape};

impl Harness {
    pub(super) fn upkeep(
        &mut self,
        what: &str,
        work: impl FnOnce(&Db) -> Result<()>,
        makes_durable: bool,
    ) -> Check {
        let calls = self.machine.calls();
        match work(&self.db()) {
            Ok(()) => {
                if makes_durable {
                    self.model.all_durable();
                }
                Ok(())
            }
            Err(error) => self.excuse(what, &error, calls),
        }
    }

    pub(super) fn sync(&mut self) -> Check {
        self.upkeep("sync", |db| db.sync(), true)
    }

    pub(super) fn create_space(&mut self, space: u8, seed: u64) -> Check {
        let name = SPACES[usize::from(space)];
        let merges = self.default_keyspace.merge.is_some();
        let has_windows = matches!(self.default_keyspace.shape, Shape::Windowed { .. });
        let settings = draw_keyspace(&mut Rng::new(seed));
        let settings = like(settings, merges, has_windows.then_some(WINDOW));
        let calls = self.machine.calls();
        let known = self.model.space(name);
        let opened = match self.db().keyspace(name, settings) {
            // It was created with what another draw gave.
            Err(Error::KeyspaceSettingsDiffer { .. }) => self.db().open_keyspace(name),
            opened => opened,
        };
        match (opened, known) {
            (Ok(keyspace), Some(id)) if keyspace.id().0 != id => {
                Err(Halt::Wrong(format!("keyspace {name} has id {}, not {id}", keyspace.id())))
            }
            (Ok(_), Some(_)) => Ok(()),
            (Ok(keyspace), None) => {
                self.model.names.insert(name.to_owned(), Existence::Sure(keyspace.id().0));
                Ok(())
            }
            (Err(error), Some(_)) => {
                Err(Halt::Wrong(format!("keyspace {name} exists and is not found: {error}")))
            }
            (Err(error), None) => {
                self.model.names.insert(name.to_owned(), Existence::MaybeCreated);
                self.excuse("creating a keyspace", &error, calls)
            }
        }
    }

    pub(super) fn drop_space(&mut self, space: u8) -> Check {
        let name = SPACES[usize::from(space)];
        let calls = self.machine.calls();
        let known = self.model.space(name);
        let opened = self.db().open_keyspace(name);
        let dropped = opened.and_then(|keyspace| self.db().drop_keyspace(&keyspace));
        match (dropped, known) {
            (Err(Error::BadKeyspaceName { .. }), Some(0)) => Ok(()),
            (Err(Error::UnknownKeyspace { .. }), None) => Ok(()),
            (Ok(()), Some(id)) if id != 0 => {
                self.model.names.remove(name);
                Ok(())
            }
            (Err(error), Some(id)) if id != 0 => {
                self.model.names.insert(name.to_owned(), Existence::MaybeDropped(id));
                self.excuse("dropping a keyspace", &error, calls)
            }
            (outcome, known) => Err(Halt::Wrong(format!(
                "dropping keyspace {name}, whose id is {known:?}, gives {outcome:?}"
            ))),
        }
    }

    pub(super) fn set_threshold(&mut self, space: u8, bytes: Option<u32>) -> Check {
        let Some((keyspace, _)) = self.keyspace(space)? else { return Ok(()) };
        let text = bytes.map_or("none".to_owned(), |bytes| bytes.to_string());
        let change = format!("{}.separation_threshold={text}", keyspace.name());
        let change = change.parse().map_err(|error| format!("{change} is no change: {error}"))?;
        let calls = self.machine.calls();
        let settings = match keyspace.settings() {
            Ok(settings) => settings,
            Err(error) => return self.excuse("reading settings", &error, calls),
        };
        // One with a space goal keeps its values in tables.
        let is_refused = bytes.is_some() && matches!(settings.dedup, Dedup::SpaceGoal { .. });
        match self.db().set(&change) {
            Ok(_) if is_refused => {
                Err(format!("{change} was not refused, despite a space goal").into())
            }
            Ok(_) => Ok(()),
            Err(Error::InvalidSetting { setting: "separation_threshold", .. }) if is_refused => {
                Ok(())
            }
            Err(error) => self.excuse("changing a setting", &error, calls),
        }
    }

    pub(super) fn checkpoint(&mut self) -> Check {
        let target = self.machine.another_disk();
        let calls = self.machine.calls();
        if let Err(error) = self.db().checkpoint_to(&*self.machine.storage(&target)) {
            return self.excuse("a checkpoint", &error, calls);
        }
        self.model.all_durable();
        // A checkpoint that was made survives power loss.
        let pool = self.machine.another_pool();
        let env = self.machine.env_on(target.crash(), None).pool(pool);
        let copy = Db::open_with(env, self.opening())
            .map_err(|error| format!("a checkpoint does not open: {error}"))?;
        self.compare_copy("the checkpoint", &copy, self.model.now())
            .map_err(|mismatch| Halt::Wrong(mismatch.describe()))?;
        copy.close().map_err(|error| format!("a checkpoint does not close: {error}").into())
    }

    pub(super) fn read_only(&mut self) -> Check {
        // What the files say of an ingest that failed, nobody knows yet.
        if self.log_failed || self.model.has_failed_ingest() {
            return Ok(());
        }
        let calls = self.machine.calls();
        let env = self.machine.env();
        let reader = match Db::open_read_only_with(env, self.opening()) {
            Ok(reader) => reader,
            Err(error) => return self.excuse("opening for reading", &error, calls),
        };
        let seqno = reader.stats().visible_seqno;
        let Some(world) = self.model.at(seqno, self.model.promised(self.survives_process())) else {
            let what = format!("a reader sees writes up to seqno {seqno}, which can't be");
            return Err(Halt::Wrong(what));
        };
        match reader.flush() {
            Err(Error::ReadOnly) => {}
            other => return Err(Halt::Wrong(format!("a reader's flush gives {other:?}"))),
        }
        match self.compare_copy("the reader", &reader, &world) {
            Err(Mismatch::Error(error)) => self.excuse("reading read-only", &error, calls),
            checked => checked.map_err(|mismatch| Halt::Wrong(mismatch.describe())),
        }
    }

    /// Compares another database with `world`.
    fn compare_copy(
        &self,
        what: &str,
        copy: &Db,
        world: &World,
    ) -> std::result::Result<(), Mismatch> {
        self.reach_mark();
        let now = self.machine.millis();
        for name in SPACES {
            match (self.model.space(name), copy.open_keyspace(name)) {
                (Some(id), Ok(keyspace)) if keyspace.id().0 == id => {
                    check_pairs(copy, &keyspace, &world.pairs_at(id, now), None).map_err(
                        |mismatch| match mismatch {
                            Mismatch::Wrong(wrong) => Mismatch::Wrong(format!("{what}: {wrong}")),
                            error => error,
                        },
                    )?;
                }
                (None, Err(Error::UnknownKeyspace { .. })) => {}
                // What its fate is in the manifest, nobody knows yet.
                _ if self.is_in_doubt(name) => {}
                (known, found) => {
                    return Err(Mismatch::Wrong(format!(
                        "{what}: keyspace {name} should have id {known:?} and is {found:?}"
                    )));
                }
            }
        }
        Ok(())
    }

    fn is_in_doubt(&self, name: &str) -> bool {
        matches!(
            self.model.names.get(name),
            Some(Existence::MaybeCreated | Existence::MaybeDropped(_))
        )
    }
}
