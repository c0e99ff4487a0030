//! The storage: names and what is done with them.

use super::log_file::{self, FlashLog};
use super::usage::Usage;
use super::writer::FlashWriter;
use crate::chunk_device::ChunkDevice;
use crate::exclusive::ExclusiveUse;
use crate::placement::{Lifetime, PlacementPolicy};
use crate::storage::allocation::shared_device::{SharedDevice, State};
use crate::storage::chunks::chunk_table::default_policy;
use crate::storage::files::file_meta::{FileMeta, Reader, Source};
use crate::storage::format::{CreateRecord, JournalRecord};
use crate::storage::lifetimes::lifetime::LifetimeClass;
use esker_base::{Error, Result, WriteHint};
use esker_storage::{LogFile, ReadableFile, Storage, WritableFile, check_name, copy_durably};
use parking_lot::MutexGuard;
use std::io::{self, ErrorKind};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Files on a flash device.
///
/// The device stays locked as long as the storage or an open writer exists. When the storage's own
/// lock ([`Storage::lock`]) is released, the directory is written a second time: from then on,
/// damage to one journal chunk does not lose it.
pub struct FlashStorage {
    pub(crate) core: Arc<SharedDevice>,
    locked: ExclusiveUse,
}

impl FlashStorage {
    /// Opens the files on a device. One that was never written is laid out first; one that holds something else is
    /// refused, and left as it is.
    pub fn open(zones: Arc<dyn ChunkDevice>) -> Result<Self> {
        let policy = default_policy(&zones.geometry());
        FlashStorage::placed_by(zones, policy)
    }

    /// Opens the files on a device for reading. The device is never changed and may be read-only:
    /// every change is rejected. No other process may use it meanwhile, as a writer would reset
    /// chunks that are being read.
    pub fn open_to_read(zones: Arc<dyn ChunkDevice>) -> Result<Self> {
        let policy = default_policy(&zones.geometry());
        let core = Arc::new(SharedDevice::open(zones, policy, true)?);
        Ok(FlashStorage { core, locked: ExclusiveUse::default() })
    }

    /// As [`open`](FlashStorage::open), and data is placed by a policy, which knows [`LIFETIMES`](crate::placement::LIFETIMES) lifetimes. One
    /// policy may go on where another did.
    pub fn placed_by(
        zones: Arc<dyn ChunkDevice>,
        policy: Box<dyn PlacementPolicy + Send>,
    ) -> Result<Self> {
        let core = Arc::new(SharedDevice::open(zones, policy, false)?);
        Ok(FlashStorage { core, locked: ExclusiveUse::default() })
    }

    /// Why what is read may not be the newest state, if that is so. A device like that can only be read.
    pub fn doubt(&self) -> Option<&str> {
        self.core.doubt.as_deref()
    }

    /// How full the device is, and what was written.
    pub fn usage(&self) -> Usage {
        let state = self.core.state.lock();
        let (good_bytes, live_bytes) = state.space.usage();
        Usage {
            good_bytes,
            live_bytes,
            free_chunks: state.space.free_chunks(),
            host_bytes: self.core.host_bytes.load(Ordering::Relaxed),
            padding_bytes: self.core.padding_bytes.load(Ordering::Relaxed),
            moved_bytes: self.core.moved_bytes.load(Ordering::Relaxed),
            levelled_bytes: self.core.levelled_bytes.load(Ordering::Relaxed),
            levelling_failures: state.levelling.failures,
            journal_bytes: state.journal.written_bytes,
            erases: state.space.erases(),
        }
    }

    /// Why something could not be moved for wear, the last time that it failed.
    pub fn levelling_failure(&self) -> Option<Error> {
        self.core.state.lock().levelling.last_failure.clone()
    }

    /// The state, if it can be changed.
    fn changeable(&self) -> Result<MutexGuard<'_, State>> {
        let state = self.core.state.lock();
        state.journal.check()?;
        Ok(state)
    }

    /// The state, in which `name` is free.
    fn free(&self, action: &'static str, name: &str) -> Result<MutexGuard<'_, State>> {
        check_name(name)?;
        let state = self.changeable()?;
        match state.names.contains_key(name) {
            true => Err(self.failure(action, name, ErrorKind::AlreadyExists)),
            false => Ok(state),
        }
    }

    fn find(&self, action: &'static str, name: &str) -> Result<Arc<FileMeta>> {
        check_name(name)?;
        let found = self.core.state.lock().names.get(name).cloned();
        found.ok_or_else(|| self.failure(action, name, ErrorKind::NotFound))
    }

    fn log(&self, body: Arc<FileMeta>, name: &str) -> Arc<dyn LogFile> {
        Arc::new(FlashLog { core: self.core.clone(), body, name: name.to_owned() })
    }

    fn failure(&self, action: &'static str, name: &str, kind: ErrorKind) -> Error {
        Error::io(action, format!("{}/{name}", self.describe()), io::Error::from(kind))
    }
}

/// The number of chunks that a file is written to in rotation. Many if callers wait for its reads
/// and writes; one if reads of several files use different units anyway.
fn width_of(lifetime: Lifetime) -> usize {
    match lifetime {
        1 => 4,
        2 => 2,
        _ => 1,
    }
}

impl Storage for FlashStorage {
    fn describe(&self) -> String {
        self.core.zones.describe()
    }

    fn create(&self, name: &str, hint: WriteHint) -> Result<Box<dyn WritableFile>> {
        let mut state = self.free("create", name)?;
        self.core.settling.forget(name);
        let (id, stay) = (state.next_id, state.usual.stay(hint, &self.core.zones.geometry()));
        state.next_id += 1;
        let made = CreateRecord { id, stay, log_bytes: None, name: name.to_owned() };
        let body = FileMeta::new(&made);
        state.names.insert(name.to_owned(), body.clone());
        state.write_made(name, &[JournalRecord::Create(made)])?;
        drop(state);
        let width = width_of(stay.level);
        Ok(Box::new(FlashWriter::new(self.core.clone(), body, name, width)))
    }

    fn open(&self, name: &str) -> Result<Arc<dyn ReadableFile>> {
        let body = self.find("open", name)?;
        let source = Source { zones: self.core.zones.clone(), reads: self.core.reads.clone() };
        Ok(Arc::new(Reader { source, body, name: name.to_owned() }))
    }

    fn create_log(&self, name: &str, bytes: u64) -> Result<Arc<dyn LogFile>> {
        drop(self.free("create", name)?);
        let geometry = self.core.zones.geometry();
        let count = bytes.div_ceil(geometry.chunk_bytes.into()).max(1);
        if count > geometry.chunks() as u64 {
            return Err(self.failure("create", name, ErrorKind::StorageFull));
        }
        let kept = self.core.reserve_log_space(bytes, count as u32)?;
        let mut extents = Vec::with_capacity(count as usize);
        for _ in 0..count {
            match log_file::take_chunk(&self.core, kept) {
                Ok(extent) => extents.push(extent),
                Err(error) => {
                    self.core.discard_extents(&extents);
                    return Err(error);
                }
            }
        }
        let free = self.free("create", name);
        let mut state = free.inspect_err(|_| self.core.discard_extents(&extents))?;
        let id = state.next_id;
        state.next_id += 1;
        let made = CreateRecord {
            id,
            stay: LifetimeClass::SHORTEST,
            log_bytes: Some(bytes),
            name: name.to_owned(),
        };
        let body = FileMeta::new(&made);
        extents.iter().for_each(|extent| body.push(*extent));
        body.record();
        state.names.insert(name.to_owned(), body.clone());
        state
            .write_made(name, &[JournalRecord::Create(made), JournalRecord::Extend(id, extents)])?;
        drop(state);
        Ok(self.log(body, name))
    }

    fn recycles_logs(&self) -> bool {
        // Chunks are not written in place: there is nothing to win.
        false
    }

    fn recycle_log(&self, old: &str, new: &str, _bytes: u64) -> Result<Option<Arc<dyn LogFile>>> {
        drop(self.free("recycle a log as", new)?);
        self.find("open", old).map(|_| None)
    }

    fn open_log(&self, name: &str) -> Result<Arc<dyn LogFile>> {
        let body = self.find("open", name)?;
        drop(self.changeable()?);
        Ok(self.log(body, name))
    }

    fn list(&self) -> Result<Vec<String>> {
        Ok(self.core.state.lock().names.keys().cloned().collect())
    }

    fn exists(&self, name: &str) -> Result<bool> {
        check_name(name)?;
        Ok(self.core.state.lock().names.contains_key(name))
    }

    fn remove(&self, name: &str) -> Result<()> {
        check_name(name)?;
        let mut state = self.changeable()?;
        self.core.settling.forget(name);
        match state.take_out(name) {
            true => state.write(&[JournalRecord::Remove(name.to_owned())]),
            false => Err(self.failure("remove", name, ErrorKind::NotFound)),
        }
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        check_name(to)?;
        let mut state = self.changeable()?;
        let Some(body) = state.names.remove(from) else {
            return Err(self.failure("rename", from, ErrorKind::NotFound));
        };
        self.core.settling.forget(from);
        self.core.settling.forget(to);
        if from != to {
            state.take_out(to);
        }
        state.names.insert(to.to_owned(), body);
        state.write(&[JournalRecord::Rename(from.to_owned(), to.to_owned())])
    }

    fn sync_names(&self) -> Result<()> {
        self.core.state.lock().journal.flush()
    }

    fn link_to(&self, name: &str, target: &dyn Storage) -> Result<()> {
        copy_durably(self, name, target)
    }

    fn is_busy(&self) -> bool {
        self.core.zones.is_busy()
    }

    fn is_settled(&self, name: &str) -> bool {
        self.core.settling.is_settled(name)
    }

    fn lock(&self) -> Result<Box<dyn Send + Sync>> {
        let taken = self.locked.take(|| self.describe())?;
        Ok(Box::new(User { core: self.core.clone(), process: std::process::id(), _taken: taken }))
    }
}

/// The user of a storage. When it goes, the journal is closed.
struct User {
    core: Arc<SharedDevice>,
    /// A forked child has a copy, and writes nothing.
    process: u32,
    _taken: Box<dyn Send + Sync>,
}

impl Drop for User {
    fn drop(&mut self) {
        if self.process == std::process::id() {
            self.core.close_journal();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Geometry;
    use crate::chunk_device::MemoryChunkDevice;
    use esker_base::FileKind;
    use std::collections::BTreeSet;

    const PIECE_BYTES: usize = 256 << 10;

    /// The number of chunks on which a file of this size is stored, if each could contain it whole.
    fn chunks_of(hint: WriteHint, bytes: usize) -> usize {
        let zones = MemoryChunkDevice::new(Geometry::of_blocks(2, 4, 4, 2 << 20));
        let storage = FlashStorage::open(Arc::new(zones)).unwrap();
        let mut file = storage.create("a", hint).unwrap();
        file.append(&vec![1; bytes]).and_then(|()| file.sync()).unwrap();
        let extents = storage.core.state.lock().names["a"].recorded();
        extents.iter().map(|extent| extent.chunk).collect::<BTreeSet<_>>().len()
    }

    #[test]
    fn tables_lie_on_four_chunks_at_level_0_on_two_at_level_1_and_on_one_below() {
        let chunks = |level| chunks_of(WriteHint::table(level), 6 * PIECE_BYTES);
        assert_eq!([0, 1, 2, 3, 4, 5, 6, 7].map(chunks), [4, 2, 1, 1, 1, 1, 1, 1]);
        assert_eq!(chunks_of(WriteHint::of(FileKind::Meta), 6 * PIECE_BYTES), 1);
    }

    /// The chunks of small tables, made in this order.
    fn chunks_of_all<const N: usize>(hints: [WriteHint; N]) -> [u32; N] {
        let zones = MemoryChunkDevice::new(Geometry::of_blocks(2, 4, 4, 2 << 20));
        let storage = FlashStorage::open(Arc::new(zones)).unwrap();
        let mut names = 0..;
        hints.map(|hint| {
            let name = names.next().unwrap().to_string();
            let mut file = storage.create(&name, hint).unwrap();
            file.append(&[1]).and_then(|()| file.sync()).unwrap();
            storage.core.state.lock().names[&name].recorded()[0].chunk
        })
    }

    #[test]
    fn tables_of_one_level_share_chunks_if_they_are_expected_to_live_about_as_long() {
        // Equal at first, and separated from the third on.
        let hints = [1 << 20, 3 << 19, 1 << 30, 1 << 30, 1 << 20, 3 << 19];
        let chunks = chunks_of_all(hints.map(|bytes| WriteHint::table(3).living(Some(bytes))));
        assert_eq!(chunks, [0, 0, 2, 2, 4, 4].map(|like| chunks[like]));
        assert_eq!(chunks.into_iter().collect::<BTreeSet<_>>().len(), 3);
    }

    #[test]
    fn tables_of_several_levels_do_not_share_chunks_whatever_they_are_expected_to_live() {
        let hint = |level, bytes| WriteHint::table(level).living(Some(bytes));
        let chunks = chunks_of_all([hint(3, 1), hint(4, 1), hint(3, 1 << 30), hint(4, 1 << 30)]);
        assert_eq!(chunks.into_iter().collect::<BTreeSet<_>>().len(), 4);
    }

    #[test]
    fn a_file_of_fewer_pieces_than_its_level_has_chunks_lies_on_as_many_chunks() {
        let chunks = |bytes| chunks_of(WriteHint::table(0), bytes);
        let sizes = [1, PIECE_BYTES, PIECE_BYTES + 1, 2 * PIECE_BYTES + 1, 4 * PIECE_BYTES];
        assert_eq!(sizes.map(chunks), [1, 1, 2, 3, 4]);
    }
}
