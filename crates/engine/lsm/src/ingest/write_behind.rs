//! Hands the bytes of files to another thread, which writes them, so that the caller builds blocks
//! meanwhile.
//!
//! An error of a write is that of the next call. A file is synced by the caller, after all of its bytes
//! were written. Nothing is written once the database has released its lock.

use crate::engine::Engine;
use esker_base::background::{Background, Running};
use esker_base::{Error, Priority, Result};
use esker_pmem::OwnerProcess;
use esker_storage::WritableFile;
use parking_lot::{Condvar, Mutex};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Weak};

/// Bytes that are handed over at once.
const PIECE_BYTES: usize = 256 << 10;

/// Pieces that may wait, of all files of a writer.
const PIECES: usize = 4;

/// A thread that writes files. It ends when this is dropped, and its files take nothing more then.
pub(super) struct WriteBehind {
    engine: Arc<Engine>,
    pieces: Option<Arc<SyncSender<Piece>>>,
    thread: Option<Box<dyn Running>>,
    /// A forked child has no such thread to wait for.
    owner: OwnerProcess,
}

/// A file that the caller appends to, and the thread writes.
struct BehindFile {
    shared: Arc<Shared>,
    pieces: Weak<SyncSender<Piece>>,
    owner: OwnerProcess,
    /// Appended and not handed over. Without memory after the last piece.
    buffer: Vec<u8>,
    /// Appended in all.
    len: u64,
}

struct Shared {
    engine: Arc<Engine>,
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    /// `None` while the thread writes to it.
    file: Option<Box<dyn WritableFile>>,
    /// Pieces handed over and not written.
    pending: usize,
    failed: Option<Error>,
    /// Memory for the next piece.
    spare: Option<Vec<u8>>,
    /// Whether more pieces are expected.
    goes_on: bool,
}

/// Bytes on their way to a file.
struct Piece {
    shared: Arc<Shared>,
    bytes: Vec<u8>,
    written: Option<Result<()>>,
}

impl WriteBehind {
    /// `None` if `background` has no threads, or none can be started: the caller writes by itself then.
    pub(super) fn start(background: &dyn Background, engine: &Arc<Engine>) -> Option<Self> {
        let (pieces, received): (_, Receiver<Piece>) = sync_channel(PIECES);
        let body = Box::new(move || received.into_iter().for_each(Piece::write));
        let thread = background.spawn("esker-ingest", Priority::Normal, body).ok().flatten()?;
        let (engine, owner) = (engine.clone(), OwnerProcess::current());
        let pieces = Some(Arc::new(pieces));
        Some(WriteBehind { engine, pieces, thread: Some(thread), owner })
    }

    /// `file`, to be written by the thread.
    pub(super) fn file(&self, file: Box<dyn WritableFile>) -> Box<dyn WritableFile> {
        Box::new(self.behind_file(file))
    }

    fn behind_file(&self, file: Box<dyn WritableFile>) -> BehindFile {
        let len = file.len();
        let (file, spare) = (Some(file), None);
        let state = State { file, pending: 0, failed: None, spare, goes_on: true };
        let (engine, state, changed) = (self.engine.clone(), Mutex::new(state), Condvar::new());
        let shared = Arc::new(Shared { engine, state, changed });
        let pieces = self.pieces.as_ref().map(Arc::downgrade).unwrap_or_default();
        let buffer = Vec::with_capacity(PIECE_BYTES);
        BehindFile { shared, pieces, owner: OwnerProcess::current(), buffer, len }
    }
}

impl Drop for WriteBehind {
    fn drop(&mut self) {
        if !self.owner.is_current() {
            // A fork has no such thread. To disconnect from it takes a lock that it may have held.
            std::mem::forget((self.pieces.take(), self.thread.take()));
            return;
        }
        self.pieces = None;
        if let Some(thread) = self.thread.take() {
            _ = thread.join();
        }
    }
}

/// What was handed over is written before the file is closed.
impl Drop for BehindFile {
    fn drop(&mut self) {
        if self.owner.is_current() {
            let mut state = self.shared.state.lock();
            while state.pending > 0 {
                self.shared.changed.wait(&mut state);
            }
            state.file = None;
        }
    }
}

impl Piece {
    fn write(mut self) {
        let shared = self.shared.clone();
        // A close waits for it before it releases the lock.
        let _upkeep = match shared.engine.begin_upkeep() {
            Ok(upkeep) => upkeep,
            Err(closed) => {
                self.written = Some(Err(closed));
                return;
            }
        };
        let file = {
            let mut state = shared.state.lock();
            if state.failed.is_none() { state.file.take() } else { None }
        };
        let Some(mut file) = file else { return };
        let written = file.append(&self.bytes);
        shared.state.lock().file = Some(file);
        self.written = Some(written);
    }
}

/// Whatever became of the piece, no caller waits for it any longer.
impl Drop for Piece {
    fn drop(&mut self) {
        let mut state = self.shared.state.lock();
        match self.written.take() {
            Some(Ok(())) if state.goes_on => {
                self.bytes.clear();
                state.spare = Some(std::mem::take(&mut self.bytes));
            }
            Some(Ok(())) => {}
            Some(Err(error)) => _ = state.failed.get_or_insert(error),
            // After a failure, or the thread has panicked.
            None => _ = state.failed.get_or_insert_with(thread_ended),
        }
        state.pending -= 1;
        self.shared.changed.notify_all();
    }
}

#[cold]
fn thread_ended() -> Error {
    let source = Arc::new(std::io::Error::other("the thread that writes it has ended"));
    Error::Io { action: "write to", path: "a file of an ingest".to_owned(), source }
}

impl BehindFile {
    /// Hands over what was appended. `goes_on`: more is appended, and needs memory.
    fn hand_over(&mut self, goes_on: bool) -> Result<()> {
        let spare = {
            let mut state = self.shared.state.lock();
            if let Some(failed) = &state.failed {
                return Err(failed.clone());
            }
            state.goes_on = goes_on;
            state.pending += usize::from(!self.buffer.is_empty());
            state.spare.take()
        };
        let next = match goes_on {
            true => spare.unwrap_or_else(|| Vec::with_capacity(PIECE_BYTES)),
            false => Vec::new(),
        };
        let bytes = std::mem::replace(&mut self.buffer, next);
        if bytes.is_empty() {
            return Ok(());
        }
        let piece = Piece { shared: self.shared.clone(), bytes, written: None };
        // A piece that is not taken is dropped, which the next call reports.
        if let Some(pieces) = self.pieces.upgrade() {
            let _ = pieces.send(piece);
        }
        Ok(())
    }

    /// Calls `work` with the file once all is written.
    fn when_written(
        &mut self,
        work: impl FnOnce(&mut dyn WritableFile) -> Result<()>,
    ) -> Result<()> {
        self.hand_over(false)?;
        let mut state = self.shared.state.lock();
        while state.pending > 0 {
            self.shared.changed.wait(&mut state);
        }
        if let Some(failed) = &state.failed {
            return Err(failed.clone());
        }
        match &mut state.file {
            Some(file) => work(&mut **file),
            None => Err(thread_ended()),
        }
    }
}

impl WritableFile for BehindFile {
    fn append(&mut self, mut bytes: &[u8]) -> Result<()> {
        self.len += bytes.len() as u64;
        while self.buffer.len() + bytes.len() > PIECE_BYTES {
            let (head, rest) = bytes.split_at(PIECE_BYTES - self.buffer.len());
            self.buffer.extend_from_slice(head);
            self.hand_over(true)?;
            bytes = rest;
        }
        self.buffer.extend_from_slice(bytes);
        Ok(())
    }

    fn len(&self) -> u64 {
        self.len
    }

    fn sync(&mut self) -> Result<()> {
        self.when_written(|file| file.sync())
    }

    /// The file asks for most of it by itself, as it is written.
    fn start_writeback(&mut self) -> Result<()> {
        self.hand_over(false)
    }

    fn publish(&mut self) -> Result<()> {
        self.when_written(|file| file.publish())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Db, Env, Settings};
    use esker_base::background::{Stepped, Threads};
    use esker_base::{FileKind, Rng, WriteHint};
    use esker_storage::fault::FaultKind;
    use esker_storage::{FaultStorage, MemoryStorage, Storage};

    fn create(storage: &FaultStorage, name: &str) -> Box<dyn WritableFile> {
        storage.create(name, WriteHint::of(FileKind::Table)).unwrap()
    }

    fn database() -> Db {
        let env = Env::over(Arc::new(MemoryStorage::new())).background(Arc::new(Stepped));
        let (segment_bytes, memory_bytes) = (64 << 10, 4 << 20);
        let settings = Settings { segment_bytes, memory_bytes, ..Settings::default() };
        Db::open_with(env, settings).unwrap()
    }

    /// The thread, and the database that is open meanwhile.
    fn started() -> (WriteBehind, Db) {
        let db = database();
        (WriteBehind::start(&Threads, &db.handle.inner).unwrap(), db)
    }

    #[test]
    fn files_have_what_was_appended_to_each_in_order() {
        let storage = FaultStorage::new(Rng::new(1));
        let (behind, _db) = started();
        let mut rng = Rng::new(2);
        let mut files: Vec<_> =
            ["a", "b"].map(|name| (behind.file(create(&storage, name)), Vec::new())).into();
        for _ in 0..300 {
            let (file, all) = &mut files[rng.below(2) as usize];
            let mut bytes = vec![0; rng.below(PIECE_BYTES as u64 * 5 / 2) as usize >> rng.below(8)];
            rng.fill(&mut bytes);
            file.append(&bytes).unwrap();
            all.extend_from_slice(&bytes);
            assert_eq!(file.len(), all.len() as u64);
        }
        files.iter_mut().for_each(|(file, _)| file.sync().unwrap());
        storage.sync_names().unwrap();
        let left = storage.crash();
        for ((_, all), name) in files.into_iter().zip(["a", "b"]) {
            let read = left.open(name).unwrap();
            let mut bytes = vec![0; read.len().unwrap() as usize];
            read.read_exact_at(0, &mut bytes).unwrap();
            assert!(bytes == all, "{name}");
        }
    }

    #[test]
    fn an_error_is_that_of_the_next_call_and_of_all_that_follow() {
        let storage = FaultStorage::new(Rng::new(1));
        let (behind, _db) = started();
        let mut file = behind.file(create(&storage, "a"));
        storage.fail_after(0, FaultKind::NoSpace);
        file.append(&[1; PIECE_BYTES + 1]).unwrap();
        let error = file.sync().unwrap_err();
        assert!(error.is_out_of_space(), "{error}");
        assert_eq!(file.sync().unwrap_err().to_string(), error.to_string());
        let error = file.append(&[1; PIECE_BYTES + 1]).unwrap_err();
        assert!(error.is_out_of_space(), "{error}");
    }

    /// A file whose first write panics.
    struct Panics;

    impl WritableFile for Panics {
        fn append(&mut self, _: &[u8]) -> Result<()> {
            std::panic::resume_unwind(Box::new("a bug"))
        }

        fn len(&self) -> u64 {
            0
        }

        fn sync(&mut self) -> Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_thread_that_panics_fails_its_files_and_nobody_waits_for_it() {
        let (behind, _db) = started();
        let storage = FaultStorage::new(Rng::new(1));
        let mut other = behind.file(create(&storage, "a"));
        let mut file = behind.file(Box::new(Panics));
        file.append(&[1; PIECE_BYTES + 1]).unwrap();
        let error = file.sync().unwrap_err();
        assert!(error.to_string().contains("has ended"), "{error}");
        other.append(&[1; 10]).unwrap();
        let error = other.sync().unwrap_err();
        assert!(error.to_string().contains("has ended"), "{error}");
    }

    #[test]
    fn a_file_that_outlives_the_thread_takes_nothing_more() {
        let storage = FaultStorage::new(Rng::new(1));
        let (behind, _db) = started();
        let mut file = behind.file(create(&storage, "a"));
        drop(behind);
        file.append(&[1; 10]).unwrap();
        let error = file.sync().unwrap_err();
        assert!(error.to_string().contains("has ended"), "{error}");
    }

    #[test]
    fn a_background_without_threads_writes_nothing_behind() {
        assert!(WriteBehind::start(&Stepped, &database().handle.inner).is_none());
    }

    #[test]
    fn a_file_that_has_ended_keeps_no_memory() {
        let storage = FaultStorage::new(Rng::new(1));
        let (behind, _db) = started();
        let mut file = behind.behind_file(create(&storage, "a"));
        for round in 1..=2 {
            file.append(&[1; 2 * PIECE_BYTES + 1]).unwrap();
            assert!(file.buffer.capacity() >= PIECE_BYTES);
            file.start_writeback().unwrap();
            assert_eq!(file.buffer.capacity(), 0);
            file.sync().unwrap();
            assert!(file.shared.state.lock().spare.is_none());
            assert_eq!(storage.read_all("a").unwrap().len(), round * (2 * PIECE_BYTES + 1));
        }
    }

    #[test]
    fn a_closed_database_has_nothing_written_behind() {
        let storage = FaultStorage::new(Rng::new(1));
        let (behind, db) = started();
        let mut file = behind.file(create(&storage, "a"));
        db.close().unwrap();
        let before = storage.operations();
        file.append(&[1; PIECE_BYTES + 1]).unwrap();
        assert!(matches!(file.sync(), Err(Error::Closed)));
        assert_eq!(storage.operations(), before);
    }
}
