//! Who has opened a database that is copied elsewhere, and what a copy was made of.
//!
//! Two files next to the manifest, of text, which are there in such databases only:
//!
//! * `HISTORY` in the original: the openings for writing since the first copy was asked for, each with the last
//!   write that it found. A copy has a prefix of the history if it knows an opening, and has no write that a
//!   later one did not find.
//! * `FOLLOWS` in the copy: the identity of the original, and the newest opening whose history the copy has. As long
//!   as it is there, only the writes of the original are applied.
//!
//! Both begin with a line `NAME 1 CHECKSUM`. The checksum is of the lines that follow.

use super::staged_copy;
use crate::manifest::manifest_file::CURRENT;
use esker_base::checksum::crc32c;
use esker_base::{ChangesError, Error, FileKind, Result, Rng, Seqno, WriteHint};
use esker_storage::Storage;

/// The file of [`Lineage`].
pub(crate) const HISTORY: &str = "HISTORY";
/// The file of [`Origin`].
pub const FOLLOWS: &str = "FOLLOWS";
/// What follows the name of a file that is not whole yet.
const PARTIAL: &str = ".new";

const HISTORY_MAGIC: &str = "esker-history 1 ";
const FOLLOWS_MAGIC: &str = "esker-follows 1 ";

/// The most openings that are known. A copy from before the oldest begins anew.
const OPENINGS_MAX: usize = 64;

/// Neither file is longer than this.
const BYTES_MAX: u64 = 64 << 10;

/// What a copy was made of, and goes on from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Origin {
    /// The identity of the original.
    pub database: u64,
    /// The opening of the original whose history the copy has. 0: none, and the copy has to begin anew.
    pub opening: u64,
}

/// An opening of a database for writing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Opening {
    /// A random number.
    pub id: u64,
    /// The last write that it found.
    pub after: Seqno,
}

/// The openings of a database for writing.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Lineage {
    /// The identity of the database.
    pub database: u64,
    /// The openings, the oldest first. The last one is that of now.
    pub openings: Vec<Opening>,
}

impl Opening {
    /// Returns an opening that was noted.
    pub fn new(id: u64, after: Seqno) -> Opening {
        Opening { id, after }
    }
}

impl Lineage {
    /// Returns the openings that are noted in the files of a database. There are none if nothing is copied from it.
    ///
    /// While another process has it open, read them before the files that are to be copied: what is copied then has
    /// no part of a history that is older than they say.
    ///
    /// # Errors
    /// [`Error::Io`] if the file cannot be read.
    pub fn noted(storage: &dyn Storage, database: u64) -> Result<Lineage> {
        Ok(Lineage { database, openings: openings(storage)? })
    }

    /// Whether a copy of `origin` that has all writes up to `through`, and no others, has a prefix of this history.
    pub fn continues(&self, origin: &Origin, through: Seqno) -> bool {
        let known = self.openings.iter().position(|opening| opening.id == origin.opening);
        let found = |later: &Opening| through <= later.after;
        self.database == origin.database
            && known.is_some_and(|at| self.openings[at + 1..].iter().all(found))
    }

    /// Returns what a copy of the database goes on from, as it is now.
    pub fn origin(&self) -> Origin {
        let opening = self.openings.last().map_or(0, |opening| opening.id);
        Origin { database: self.database, opening }
    }
}

impl Origin {
    /// Returns what a copy was made of.
    pub fn new(database: u64, opening: u64) -> Origin {
        Origin { database, opening }
    }

    /// Reads what the database in `storage` is a copy of. `None`: it is a database of its own.
    ///
    /// # Errors
    /// [`Error::Corruption`] if the file is damaged, [`Error::Io`] if it cannot be read.
    pub fn read(storage: &dyn Storage) -> Result<Option<Origin>> {
        let Some(text) = read(storage, FOLLOWS)? else { return Ok(None) };
        let origin = body(&text, FOLLOWS_MAGIC).and_then(|body| {
            let (database, opening) = body.strip_suffix('\n')?.split_once(' ')?;
            Some(Origin { database: number(database)?, opening: number(opening)? })
        });
        let path = || storage.path_of(FOLLOWS);
        origin.map(Some).ok_or_else(|| Error::corruption(path(), 0, "its checksum does not match"))
    }

    /// Makes the database in `storage` a copy of this one, durably.
    ///
    /// # Errors
    /// [`Error::Io`] if the file cannot be written.
    pub fn write(&self, storage: &dyn Storage) -> Result<()> {
        self.write_as(storage, FOLLOWS)
    }

    /// Writes the file under another name, from which it is renamed.
    pub(crate) fn write_as(&self, storage: &dyn Storage, name: &str) -> Result<()> {
        let Origin { database, opening } = self;
        write(storage, name, FOLLOWS_MAGIC, &format!("{database:016x} {opening:016x}\n"))
    }
}

/// Makes the copy in `storage` a database of its own, which can be written to. It follows nothing from then on.
///
/// # Errors
/// * [`ChangesError::NoCopy`] if it is one already, [`Error::NotADatabase`] if no whole copy is there.
/// * [`Error::Locked`] if it is open for writing, such as by what follows the original.
/// * [`Error::Io`] if the file cannot be removed.
pub fn promote(storage: &dyn Storage) -> Result<Origin> {
    let dir = storage.describe();
    let _lock = storage.lock()?;
    if !storage.exists(FOLLOWS)? {
        return Err(ChangesError::NoCopy { dir }.into());
    }
    // A newer copy may have arrived.
    staged_copy::settle(storage)?;
    let origin = Origin::read(storage)?.ok_or(ChangesError::NoCopy { dir: dir.clone() })?;
    if !storage.exists(CURRENT)? {
        let reason = "the copy in it is not complete; let it follow the original again".into();
        return Err(Error::NotADatabase { dir, reason });
    }
    storage.remove(FOLLOWS)?;
    storage.sync_names()?;
    Ok(origin)
}

/// Notes that the database was opened for writing, if copies of it are made, and found all writes up to `after`. Comes before
/// the first write.
pub(crate) fn note_opening(storage: &dyn Storage, chance: u64, after: Seqno) -> Result<()> {
    match storage.exists(HISTORY)? {
        true => add_opening(storage, chance, after).map(|_| ()),
        false => Ok(()),
    }
}

/// The openings of the database with this identity, which has all writes up to `visible`. From now on they are noted.
pub(crate) fn lineage(
    storage: &dyn Storage,
    database: u64,
    chance: u64,
    visible: Seqno,
) -> Result<Lineage> {
    let openings = match openings(storage)? {
        known if known.is_empty() => add_opening(storage, chance, visible)?,
        known => known,
    };
    Ok(Lineage { database, openings })
}

/// Has every copy of the database in `storage` begin anew, and this one if it is a copy: its history is not what it was.
pub(crate) fn forget(storage: &dyn Storage) -> Result<()> {
    if storage.exists(HISTORY)? {
        storage.remove(HISTORY)?;
        storage.sync_names()?;
        // From its next opening on, it is known again.
        write(storage, HISTORY, HISTORY_MAGIC, "")?;
    }
    match Origin::read(storage) {
        Ok(Some(origin)) => Origin { opening: 0, ..origin }.write(storage),
        Ok(None) => Ok(()),
        Err(error) if error.is_corruption() => Origin { database: 0, opening: 0 }.write(storage),
        Err(error) => Err(error),
    }
}

/// Writes what says that the database in `storage` is a copy again, if it is encrypted with an old key. The other file is
/// written by each open.
pub(crate) fn renew(storage: &dyn Storage) -> Result<()> {
    match storage.exists(FOLLOWS)? && storage.has_old_key(FOLLOWS)? {
        true => Origin::read(storage)?.map_or(Ok(()), |origin| origin.write(storage)),
        false => Ok(()),
    }
}

fn openings(storage: &dyn Storage) -> Result<Vec<Opening>> {
    let Some(text) = read(storage, HISTORY)? else { return Ok(Vec::new()) };
    let line = |line: &str| {
        let (id, after) = line.split_once(' ')?;
        Some(Opening { id: number(id)?, after: number(after)? })
    };
    let known = body(&text, HISTORY_MAGIC).and_then(|body| body.lines().map(line).collect());
    // Without it, copies begin anew.
    Ok(known.unwrap_or_default())
}

fn add_opening(storage: &dyn Storage, chance: u64, after: Seqno) -> Result<Vec<Opening>> {
    let mut openings = openings(storage)?;
    // A seed that is given may be the same each time.
    let last = openings.last().map_or(0, |last| last.id ^ last.after);
    let id = Rng::new(chance ^ last.rotate_left(17) ^ after).next_u64().max(1);
    openings.push(Opening { id, after });
    openings.drain(..openings.len().saturating_sub(OPENINGS_MAX));
    let line = |it: &Opening| format!("{:016x} {:016x}\n", it.id, it.after);
    let lines: String = openings.iter().map(line).collect();
    write(storage, HISTORY, HISTORY_MAGIC, &lines)?;
    Ok(openings)
}

fn number(digits: &str) -> Option<u64> {
    (digits.len() == 16).then(|| u64::from_str_radix(digits, 16).ok()).flatten()
}

/// What follows the first line, if that is right.
fn body<'a>(text: &'a str, magic: &str) -> Option<&'a str> {
    let (checksum, body) = text.strip_prefix(magic)?.split_once('\n')?;
    (checksum == format!("{:08x}", crc32c(body.as_bytes()))).then_some(body)
}

fn read(storage: &dyn Storage, name: &str) -> Result<Option<String>> {
    if !storage.exists(name)? {
        return Ok(None);
    }
    let file = storage.open(name)?;
    let mut bytes = vec![0; file.len()?.min(BYTES_MAX) as usize];
    file.read_exact_at(0, &mut bytes)?;
    // What is no text has no right checksum.
    Ok(Some(String::from_utf8_lossy(&bytes).into_owned()))
}

/// Writes a file that is there as a whole, or as it was.
fn write(storage: &dyn Storage, name: &str, magic: &str, body: &str) -> Result<()> {
    let text = format!("{magic}{:08x}\n{body}", crc32c(body.as_bytes()));
    let partial = format!("{name}{PARTIAL}");
    if storage.exists(&partial)? {
        storage.remove(&partial)?;
    }
    let mut file = storage.create(&partial, WriteHint::of(FileKind::Meta))?;
    file.append(text.as_bytes())?;
    file.sync()?;
    drop(file);
    storage.rename(&partial, name)?;
    storage.sync_names()
}

#[cfg(test)]
mod tests {
    use super::*;
    use esker_storage::MemoryStorage;

    fn opening(id: u64, after: Seqno) -> Opening {
        Opening { id, after }
    }

    #[test]
    fn a_copy_goes_on_unless_an_opening_lost_what_it_has() {
        let openings = vec![opening(7, 10), opening(8, 100), opening(9, 90)];
        let lineage = Lineage { database: 1, openings };
        let continues = |id, through| lineage.continues(&Origin::new(1, id), through);
        // The last opening found fewer writes than the one before.
        assert!(continues(7, 90) && !continues(7, 91) && !continues(7, 101));
        assert!(continues(8, 90) && !continues(8, 95));
        assert!(continues(9, 5_000), "the caller knows the last write");
        assert!(!continues(6, 1) && !continues(0, 0), "no such opening");
        assert!(!lineage.continues(&Origin::new(2, 9), 1), "another database");
    }

    #[test]
    fn openings_are_noted_once_they_were_asked_for() {
        let storage = MemoryStorage::new();
        note_opening(&storage, 5, 3).unwrap();
        assert!(!storage.exists(HISTORY).unwrap());
        let first = lineage(&storage, 1, 5, 30).unwrap();
        assert_eq!(first.openings.len(), 1);
        assert_eq!(lineage(&storage, 1, 6, 40).unwrap(), first, "it is the same opening");
        for after in 30..30 + OPENINGS_MAX as u64 {
            note_opening(&storage, 5, after).unwrap();
        }
        let now = lineage(&storage, 1, 5, 200).unwrap();
        assert_eq!(now.openings.len(), OPENINGS_MAX);
        assert!(!now.openings.contains(&first.openings[0]), "the oldest is forgotten");
        let mut ids: Vec<_> = now.openings.iter().map(|it| it.id).collect();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), OPENINGS_MAX, "ids differ although the seed is the same");
    }

    #[test]
    fn a_damaged_history_makes_copies_begin_anew() {
        let storage = MemoryStorage::new();
        let origin = lineage(&storage, 1, 5, 30).unwrap().origin();
        let text = read(&storage, HISTORY).unwrap().unwrap();
        for at in 0..text.len() {
            let mut bytes = text.clone().into_bytes();
            bytes[at] ^= 1;
            let damaged = MemoryStorage::new();
            damaged.create(HISTORY, WriteHint::of(FileKind::Meta)).unwrap().append(&bytes).unwrap();
            note_opening(&damaged, 9, 40).unwrap();
            assert!(!lineage(&damaged, 1, 5, 40).unwrap().continues(&origin, 1), "byte {at}");
        }
        forget(&storage).unwrap();
        note_opening(&storage, 9, 30).unwrap();
        assert!(!lineage(&storage, 1, 5, 30).unwrap().continues(&origin, 1));
    }

    #[test]
    fn what_a_copy_follows_reads_back_and_no_changed_byte_passes() {
        let storage = MemoryStorage::new();
        assert_eq!(Origin::read(&storage).unwrap(), None);
        Origin::new(3, 4).write(&storage).unwrap();
        Origin::new(0x12, u64::MAX).write(&storage).unwrap();
        assert_eq!(Origin::read(&storage).unwrap(), Some(Origin::new(0x12, u64::MAX)));
        let text = read(&storage, FOLLOWS).unwrap().unwrap();
        for at in 0..text.len() {
            let mut bytes = text.clone().into_bytes();
            bytes[at] ^= 1;
            let damaged = MemoryStorage::new();
            damaged.create(FOLLOWS, WriteHint::of(FileKind::Meta)).unwrap().append(&bytes).unwrap();
            assert!(Origin::read(&damaged).unwrap_err().is_corruption(), "byte {at}");
        }
        forget(&storage).unwrap();
        assert_eq!(Origin::read(&storage).unwrap(), Some(Origin::new(0x12, 0)));
    }

    #[test]
    fn only_a_whole_copy_is_promoted_and_only_once() {
        let storage = MemoryStorage::new();
        let refused = |storage: &MemoryStorage| promote(storage).unwrap_err().to_string();
        assert!(refused(&storage).contains("follows no other database"));
        Origin::new(3, 4).write(&storage).unwrap();
        assert!(refused(&storage).contains("is not complete"));
        drop(storage.create(CURRENT, WriteHint::of(FileKind::Meta)).unwrap());
        assert_eq!(promote(&storage).unwrap(), Origin::new(3, 4));
        assert!(refused(&storage).contains("follows no other database"));
    }
}
