//! The base of a follower: the files of the primary's database, sent one after another.
//!
//! The directory of a follower has `FOLLOWS` from its first file on. The files arrive under names of their own, next to
//! the copy that is there, which stays open. A base that is whole replaces it; one that was interrupted is removed.

use crate::error::Result;
use crate::message::{DATA_BYTES, Message};
use crate::wire::Wire;
use esker_base::checksum::crc32c_append;
use esker_base::{Error, FileKind, WriteHint};
use esker_lsm::{FOLLOWS, LiveFiles, Origin, StagedCopy, settle_staged_copy};
use esker_storage::Storage;
use std::collections::BTreeSet;
use std::time::Duration;

const CURRENT: &str = "CURRENT";

/// How long the primary may be silent within a base.
const PATIENCE: Duration = Duration::from_secs(60);

/// What a base is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Begun {
    pub(crate) origin: Origin,
    pub(crate) files: u32,
}

/// Sends `files`, which are a copy of `origin`. Nothing is sent of files with damage: the follower keeps what it has.
pub(crate) fn send(wire: &mut Wire, files: &LiveFiles, origin: Origin) -> Result<()> {
    let tables = files.tables();
    for name in &tables {
        files.verify(name)?;
        // A large database takes long, and the follower waits.
        wire.send(&Message::Alive { last: files.flushed_through() })?;
    }
    let names: Vec<&str> = tables.iter().map(String::as_str).chain(files.manifest()).collect();
    let lengths = names.iter().map(|name| files.open(name)?.len());
    let lengths = lengths.collect::<Result<Vec<u64>, Error>>()?;
    let (count, bytes) = (names.len() as u32, lengths.iter().sum());
    wire.send(&Message::Base { origin, files: count, bytes })?;
    for (name, bytes) in names.into_iter().zip(lengths) {
        // One at a time: there may be more of them than a process may have open.
        let file = files.open(name)?;
        wire.send(&Message::File { name: name.to_owned(), bytes })?;
        let (mut at, mut crc32c) = (0, 0);
        while at < bytes {
            let mut data = vec![0; (DATA_BYTES as u64).min(bytes - at) as usize];
            file.read_exact_at(at, &mut data)?;
            crc32c = crc32c_append(crc32c, &data);
            at += data.len() as u64;
            wire.send(&Message::Data(data))?;
        }
        wire.send(&Message::FileEnd { crc32c })?;
    }
    wire.send(&Message::BaseEnd)
}

/// Fails unless `storage` is empty, or holds a follower or what an interrupted base has left.
pub(crate) fn expect_follower_or_nothing(storage: &dyn Storage) -> Result<()> {
    let dir = storage.describe();
    if storage.exists(FOLLOWS)? {
        return Ok(());
    }
    if storage.exists(CURRENT)? {
        return Err(Error::Changes(Box::new(esker_base::ChangesError::NoCopy { dir })).into());
    }
    match storage.list()?.first() {
        None => Ok(()),
        Some(name) => {
            let reason =
                format!("it holds other files ({name:?}); give an empty or a new directory");
            Err(Error::NotADatabase { dir, reason }.into())
        }
    }
}

/// Receives the files of a base into `storage`, which holds a follower, or nothing. What was there stays as it is until
/// [`install`] is called. The caller has the lock of the storage.
pub(crate) fn receive(wire: &mut Wire, storage: &dyn Storage, begun: Begun) -> Result<()> {
    expect_follower_or_nothing(storage)?;
    let Begun { origin, files } = begun;
    let staged = StagedCopy::begin(storage, origin.database)?;
    let mut names = BTreeSet::new();
    loop {
        match wire.receive(PATIENCE)? {
            Message::File { name, bytes } => {
                if !is_of_database(&name) || !names.insert(name.clone()) {
                    return Err(wire.broken(format!("a base has a file {name:?}")));
                }
                receive_file(wire, storage, &staged.name_of(&name), bytes)?;
            }
            Message::BaseEnd if names.len() == files as usize && names.contains(CURRENT) => break,
            Message::BaseEnd => return Err(wire.broken("a base lacks files")),
            other => return Err(wire.unexpected(&other, "a file")),
        }
    }
    Ok(staged.commit(origin)?)
}

/// Puts a base that was received as a whole in the place of what was there, or removes one that was received in part.
pub(crate) fn install(storage: &dyn Storage) -> Result<()> {
    if storage.exists(FOLLOWS)? {
        let _lock = storage.lock()?;
        expect_follower_or_nothing(storage)?;
        settle_staged_copy(storage)?;
    }
    Ok(())
}

fn receive_file(wire: &mut Wire, storage: &dyn Storage, name: &str, bytes: u64) -> Result<()> {
    let mut file = storage.create(name, WriteHint::of(FileKind::Table))?;
    let (mut received, mut found) = (0, 0);
    loop {
        match wire.receive(PATIENCE)? {
            Message::Data(data) => {
                received += data.len() as u64;
                if received > bytes {
                    return Err(wire.broken(format!("the file {name} is longer than it said")));
                }
                found = crc32c_append(found, &data);
                file.append(&data)?;
            }
            Message::FileEnd { crc32c } if received == bytes && crc32c == found => break,
            Message::FileEnd { .. } => {
                return Err(wire.broken(format!("the checksum of the file {name} does not match")));
            }
            other => return Err(wire.unexpected(&other, "the rest of a file")),
        }
    }
    Ok(file.sync()?)
}

/// Whether a copy of a database may have a file of this name.
fn is_of_database(name: &str) -> bool {
    let digits = [".tables", ".values", ".manifest"].iter().find_map(|end| name.strip_suffix(end));
    let is_numbered =
        |digits: &str| digits.len() >= 8 && digits.bytes().all(|byte| byte.is_ascii_digit());
    name == CURRENT || digits.is_some_and(is_numbered)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::Stop;
    use esker_base::background::Stepped;
    use esker_base::{Background, Priority, Rng, SystemClock, Threads};
    use esker_lsm::{Db, Env, Replica, Settings};
    use esker_storage::{FaultStorage, FileSystemWrapper, MemoryStorage, ReadableFile};
    use std::io::Write;
    use std::net::{Shutdown, TcpListener, TcpStream};
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    /// What `send` sends after `Base`, and what it is a copy of.
    fn base_of(db: &Db) -> (Begun, Vec<Message>) {
        let files = db.live_files().unwrap();
        let (tables, mut messages) = (files.tables(), Vec::new());
        let names: Vec<&str> = tables.iter().map(String::as_str).chain(files.manifest()).collect();
        for name in &names {
            let file = files.open(name).unwrap();
            let mut data = vec![0; file.len().unwrap() as usize];
            file.read_exact_at(0, &mut data).unwrap();
            let crc32c = crc32c_append(0, &data);
            messages.push(Message::File { name: (*name).to_owned(), bytes: data.len() as u64 });
            messages.push(Message::Data(data));
            messages.push(Message::FileEnd { crc32c });
        }
        messages.push(Message::BaseEnd);
        let origin = db.lineage().unwrap().origin();
        (Begun { origin, files: names.len() as u32 }, messages)
    }

    /// Receives a base as a follower does that has no copy open.
    fn take(storage: &FaultStorage, (begun, messages): &(Begun, Vec<Message>)) -> Result<()> {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut primary = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (socket, peer) = listener.accept().unwrap();
        let mut wire =
            Wire::new(socket, peer, Arc::new(SystemClock::new()), Stop::default()).unwrap();
        wire.trust();
        // All of it fits what the system keeps of a connection.
        let bytes: Vec<u8> = messages.iter().flat_map(Message::encode).collect();
        assert!(bytes.len() < 32 << 10, "{}", bytes.len());
        primary.write_all(&bytes).unwrap();
        primary.shutdown(Shutdown::Write).unwrap();
        receive(&mut wire, storage, *begun)?;
        install(storage)
    }

    /// The value of the only key.
    fn value(storage: &FaultStorage) -> Vec<u8> {
        let env = Env::over(Arc::new(storage.clone()));
        let replica = Replica::open_with(env, small()).unwrap();
        let value = replica.db().default_keyspace().get("key").unwrap().unwrap().to_vec();
        replica.close().unwrap();
        value
    }

    fn small() -> Settings {
        Settings::default().segment_bytes(64 << 10).memory_bytes(16 << 20)
    }

    /// Two bases of one primary, which has changed between them.
    fn bases() -> [(Begun, Vec<Message>); 2] {
        let db = Db::open_with(Env::over(Arc::new(MemoryStorage::new())), small()).unwrap();
        ["old", "new"].map(|value| {
            db.default_keyspace().put("key", value).unwrap();
            base_of(&db)
        })
    }

    /// The power fails at each call that changes a file while a base replaces a copy.
    #[test]
    fn a_base_that_a_power_loss_cuts_leaves_the_copy_or_replaces_it() {
        let [old, new] = bases();
        let (mut kept, mut replaced) = (0, 0);
        for cut in 0.. {
            let storage = FaultStorage::new(Rng::new(cut));
            take(&storage, &old).unwrap();
            storage.crash_after(cut);
            if take(&storage, &new).is_ok() {
                let storage = storage.crash();
                assert_eq!(value(&storage), b"new");
                assert!(kept > 0 && replaced > 0, "{kept} and {replaced}");
                return;
            }
            let storage = storage.crash();
            install(&storage).unwrap();
            match &value(&storage)[..] {
                b"old" => kept += 1,
                b"new" => replaced += 1,
                other => panic!("{other:?} after a cut at {cut}"),
            }
        }
    }

    #[test]
    fn a_base_that_a_full_disk_cuts_leaves_the_copy() {
        let [old, new] = bases();
        for free in [0, 1, 100, 300] {
            let storage = FaultStorage::new(Rng::new(free));
            take(&storage, &old).unwrap();
            storage.set_space_limit(Some(storage.used_bytes() + free));
            assert!(take(&storage, &new).is_err(), "{free}");
            storage.set_space_limit(None);
            assert_eq!(value(&storage), b"old");
            take(&storage, &new).unwrap();
            assert_eq!(value(&storage), b"new");
        }
    }

    /// Counts the files that are open.
    struct Counting {
        below: MemoryStorage,
        open: Arc<()>,
        /// The most that were open since it was set to none.
        most: Arc<AtomicUsize>,
    }

    struct Counted {
        file: Arc<dyn ReadableFile>,
        _open: Arc<()>,
    }

    impl FileSystemWrapper for Counting {
        fn below(&self) -> &dyn Storage {
            &self.below
        }

        fn open(&self, name: &str) -> Result<Arc<dyn ReadableFile>, Error> {
            let file = Counted { file: self.below.open(name)?, _open: self.open.clone() };
            self.most.fetch_max(Arc::strong_count(&self.open) - 1, Ordering::SeqCst);
            Ok(Arc::new(file))
        }
    }

    impl ReadableFile for Counted {
        fn read_exact_at(&self, offset: u64, out: &mut [u8]) -> Result<(), Error> {
            self.file.read_exact_at(offset, out)
        }

        fn len(&self) -> Result<u64, Error> {
            self.file.len()
        }

        fn name(&self) -> &str {
            self.file.name()
        }
    }

    #[test]
    fn a_base_of_many_files_opens_one_after_another() {
        let (open, most) = (Arc::new(()), Arc::new(AtomicUsize::new(0)));
        let below = MemoryStorage::new();
        let storage = Counting { below, open: open.clone(), most: most.clone() };
        let env = Env::over(Arc::new(storage)).background(Arc::new(Stepped));
        let db = Db::open_with(env, small()).unwrap();
        for key in 0..12_u8 {
            db.default_keyspace().put([key], [key]).unwrap();
            db.flush().unwrap();
        }
        let files = db.live_files().unwrap();
        assert!(files.tables().len() >= 12, "{:?}", files.tables());
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let socket = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut follower, peer) = listener.accept().unwrap();
        let take = move || drop(std::io::copy(&mut follower, &mut std::io::sink()));
        let taking = Threads.spawn("taking", Priority::Normal, Box::new(take)).unwrap();
        let clock = Arc::new(SystemClock::new());
        let mut wire = Wire::new(socket, peer, clock, Stop::default()).unwrap();
        let before = Arc::strong_count(&open) - 1;
        most.store(0, Ordering::SeqCst);
        send(&mut wire, &files, db.lineage().unwrap().origin()).unwrap();
        drop(wire);
        taking.into_iter().for_each(|thread| _ = thread.join());
        let most = most.load(Ordering::SeqCst);
        assert!(most > 0 && most <= before + 2, "{most} files were open, and {before} before");
    }

    #[test]
    fn a_base_has_files_of_a_database_only() {
        for name in ["CURRENT", "00000012.tables", "00000014.values", "00000013.manifest"] {
            assert!(is_of_database(name), "{name}");
        }
        for name in ["FOLLOWS", "../CURRENT", "00000012.log", "0000001x.tables", ".tables", "LOCK"]
        {
            assert!(!is_of_database(name), "{name}");
        }
    }
}
