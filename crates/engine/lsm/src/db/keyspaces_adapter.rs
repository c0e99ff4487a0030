//! The whole database behind the trait that transactions are built on.

use super::Db;
use super::cursor::DbCursor;
use crate::options::settings::KeyspaceSettings;
use crate::read::conflict_check::{key_written_since, range_written_since};
use crate::read::get;
use crate::read::get::ReadTier;
use crate::version::readers::snapshot_tracker::Snapshot;
use esker_api::{BatchLimits, Cursor, KeyRange, KeyspaceRef, Keyspaces, Value, WriteBatch};
use esker_base::{Error, KeyspaceId, Result};

impl Keyspaces for Db {
    type Snapshot = Snapshot;

    fn keyspace(&self, name: &str) -> Result<KeyspaceRef> {
        let opened = match Db::keyspace(self, name, KeyspaceSettings::default()) {
            Err(Error::KeyspaceSettingsDiffer { .. }) => self.open_keyspace(name),
            opened => opened,
        };
        Ok((&opened?).into())
    }

    #[inline]
    fn resolve(&self, keyspace: KeyspaceRef) -> Result<KeyspaceId> {
        self.inner().tree.resolve(keyspace)
    }

    #[inline]
    fn check_keyspace(&self, keyspace: KeyspaceId) -> Result<()> {
        let inner = self.usable()?;
        match inner.tree.view.pin().version.keyspaces.contains_key(&keyspace) {
            true => Ok(()),
            false => Err(inner.tree.unknown(keyspace)),
        }
    }

    fn batch_limits(&self) -> BatchLimits {
        let settings = &self.inner().tree.settings;
        BatchLimits {
            bytes: settings.max_batch_bytes(),
            entries: settings.max_batch_entries(),
            entry_bytes: settings.max_entry_bytes(),
            empty_key: self.inner().tree.keys.takes_empty_key(),
        }
    }

    fn snapshot(&self) -> Snapshot {
        Db::snapshot(self)
    }

    #[inline]
    fn get(&self, keyspace: KeyspaceId, key: &[u8]) -> Result<Option<Value>> {
        let inner = self.usable()?;
        let (view, visible) = inner.pin_present();
        get::get(&inner.tree, &view, keyspace, key, visible, ReadTier::MayBlock)
    }

    fn get_at(
        &self,
        keyspace: KeyspaceId,
        key: &[u8],
        snapshot: &Snapshot,
    ) -> Result<Option<Value>> {
        self.usable()?.get_at(keyspace, key, snapshot)
    }

    fn cursor_at(
        &self,
        keyspace: KeyspaceId,
        range: KeyRange,
        snapshot: &Snapshot,
    ) -> Result<Box<dyn Cursor + Send + '_>> {
        let cursor = DbCursor::new(&self.handle.inner, keyspace, range, snapshot.clone())?;
        Ok(Box::new(cursor))
    }

    #[inline]
    fn write(&self, batch: &WriteBatch) -> Result<()> {
        Db::write(self, batch)
    }

    fn check_write(&self, batch: &WriteBatch) -> Result<()> {
        self.inner().check_write(batch)
    }

    fn merged(
        &self,
        keyspace: KeyspaceId,
        key: &[u8],
        base: Option<&[u8]>,
        operands: &[&[u8]],
    ) -> Result<Vec<u8>> {
        self.usable()?.merged(keyspace, key, base, operands)
    }

    fn changed_since(&self, keyspace: KeyspaceId, key: &[u8], snapshot: &Snapshot) -> Result<bool> {
        let inner = self.usable()?;
        let since = inner.tree.resolve_snapshot(snapshot)?;
        key_written_since(&inner.tree, || inner.commit.visible(), keyspace, key, since)
    }

    fn range_changed_since(
        &self,
        keyspace: KeyspaceId,
        range: &KeyRange,
        snapshot: &Snapshot,
    ) -> Result<bool> {
        let inner = self.usable()?;
        let since = inner.tree.resolve_snapshot(snapshot)?;
        range_written_since(&inner.tree, || inner.commit.visible(), keyspace, range, since)
    }
}
