//! Manifest files and `CURRENT`: reading, appending, and the switch from one file to the next.
//!
//! ```text
//! file   := header record*
//! header := magic 8 | version u32 | key_id u32 | identity u64 | process u32 | crc32c u32
//! record := length u32 | crc32c u32 | edit          crc over: offset u64, length, edit
//! ```
//!
//! The record's own offset is in its checksum, so that bytes from another place never pass.
//! A record that ends the file and fails its checksum is a truncated write, and was never
//! relied on; one with a valid record after it is corruption. The first record is the snapshot: it
//! was durable before `CURRENT` named the file, so it has no excuse. A clean close notes the file's length in
//! `CURRENT`: from then on a file of another length is corruption, wherever it was cut.
//!
//! Names of manifests are given again if files are put back from a copy. So `process` is a random number: that of the
//! process that has the database open for writing, or of a copy or a repair. What pre-release builds wrote has 0.

use super::manifest_record::{RECORD_HEADER_BYTES, record_at, record_crc};
use super::version_edit::{VersionChange, VersionEdit};
use esker_base::checksum::crc32c;
use esker_base::coding::{u32_at, u64_at};
use esker_base::{Error, FileKind, Result, WriteHint, seed_from_os};
use esker_storage::{ReadableFile, Storage, WritableFile};

/// The file that names the current manifest.
pub const CURRENT: &str = "CURRENT";
/// What becomes it.
const TEMPORARY: &str = "CURRENT.new";

const MAGIC: [u8; 8] = *b"ESKRMAN\n";
const VERSION: u32 = 1;
pub(super) const HEADER_BYTES: usize = 32;
/// What a length can say. A table takes about 100 bytes in a snapshot with keys of 16, so that tens of
/// millions fit; with the longest keys, 64 KiB at each end, 32,700.
const RECORD_BYTES_MAX: usize = u32::MAX as usize;

/// The name of the manifest file with this id.
pub fn manifest_file_name(id: u64) -> String {
    format!("{id:08}.manifest")
}

/// The id in a name that [`manifest_file_name`] made.
pub fn parse_manifest_file_name(name: &str) -> Option<u64> {
    let digits = name.strip_suffix(".manifest")?;
    (digits.len() >= 8).then(|| digits.parse().ok()).flatten()
}

/// Who writes a manifest.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Author {
    /// The identity of the database.
    pub database: u64,
    /// See the file's head.
    pub process: u32,
}

impl Author {
    /// Draws the number of a process.
    pub fn of(database: u64) -> Author {
        Author { database, process: seed_from_os() as u32 }
    }
}

/// A manifest open for appending.
pub struct Manifest {
    file: Box<dyn WritableFile>,
    name: String,
    author: Author,
    /// After a failed append or sync the file's tail is unknown: nothing more is appended.
    failed: Option<Error>,
}

impl Manifest {
    /// Writes a fresh manifest file `id` that starts with `snapshot`, makes it durable and points
    /// `CURRENT` at it. After an error either nothing is left of it, or `CURRENT` may name it.
    pub fn create(
        storage: &dyn Storage,
        id: u64,
        author: Author,
        snapshot: &VersionEdit,
    ) -> Result<Manifest> {
        PreparedManifest::write(storage, id, author, snapshot)?.install(storage)
    }

    /// Appends `edit` and makes it durable. After a failure every later call fails: what is on the
    /// device is unknown then.
    pub fn append(&mut self, edit: &VersionEdit) -> Result<()> {
        if let Some(cause) = &self.failed {
            return Err(cause.clone());
        }
        let appended = append_record(&mut *self.file, edit).and_then(|()| self.file.sync());
        if let Err(error) = &appended {
            self.failed = Some(error.clone());
        }
        appended
    }

    /// Notes in `CURRENT` that the manifest ends here, which is true until another manifest is the current one. After an
    /// error `CURRENT` may say so or not.
    pub fn seal(&self, storage: &dyn Storage) -> Result<()> {
        write_pointer(storage, &self.name, Some(self.bytes()))?;
        storage.rename(TEMPORARY, CURRENT)?;
        storage.sync_names()
    }

    /// Whether an earlier append failed.
    pub fn failed(&self) -> bool {
        self.failed.is_some()
    }

    /// The file's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Who writes it.
    pub fn author(&self) -> Author {
        self.author
    }

    /// The file's length in bytes.
    pub fn bytes(&self) -> u64 {
        self.file.len()
    }
}

/// A manifest that is durable, and that `CURRENT` does not name yet.
pub(crate) struct PreparedManifest(Manifest);

impl PreparedManifest {
    /// Writes a fresh manifest file `id` that starts with `snapshot`, and what is to become `CURRENT`,
    /// durably. After an error nothing is left of either.
    pub(crate) fn write(
        storage: &dyn Storage,
        id: u64,
        author: Author,
        snapshot: &VersionEdit,
    ) -> Result<PreparedManifest> {
        let name = manifest_file_name(id);
        let mut file = storage.create(&name, WriteHint::of(FileKind::Manifest))?;
        let written = file
            .append(&encode_header(author))
            .and_then(|()| append_record(&mut *file, snapshot))
            .and_then(|()| file.sync())
            .and_then(|()| storage.sync_names())
            .and_then(|()| write_pointer(storage, &name, None));
        if let Err(error) = written {
            // `CURRENT` does not name it. On a full disk every further try would take more.
            drop(file);
            let _ = storage.remove(&name);
            let _ = storage.remove(TEMPORARY);
            return Err(error);
        }
        Ok(PreparedManifest(Manifest { file, name, author, failed: None }))
    }

    /// Points `CURRENT` at it. After an error `CURRENT` may name it.
    pub(crate) fn install(self, storage: &dyn Storage) -> Result<Manifest> {
        // From here on `CURRENT` may name the file, even if this fails: it stays.
        storage.rename(TEMPORARY, CURRENT)?;
        storage.sync_names()?;
        Ok(self.0)
    }
}

fn encode_header(author: Author) -> [u8; HEADER_BYTES] {
    let mut header = [0; HEADER_BYTES];
    header[..8].copy_from_slice(&MAGIC);
    header[8..12].copy_from_slice(&VERSION.to_le_bytes());
    header[16..24].copy_from_slice(&author.database.to_le_bytes());
    header[24..28].copy_from_slice(&author.process.to_le_bytes());
    let crc = crc32c(&header[..28]);
    header[28..].copy_from_slice(&crc.to_le_bytes());
    header
}

fn append_record(file: &mut dyn WritableFile, edit: &VersionEdit) -> Result<()> {
    let edit = edit.encode();
    if edit.len() > RECORD_BYTES_MAX {
        // It would not be read back. Whoever asks keeps the manifest that there is.
        let source = std::io::ErrorKind::FileTooLarge.into();
        return Err(Error::io("append an edit of more than 4 GiB to", "the manifest", source));
    }
    let length = edit.len() as u32;
    let mut record = Vec::with_capacity(RECORD_HEADER_BYTES + edit.len());
    record.extend_from_slice(&length.to_le_bytes());
    record.extend_from_slice(&record_crc(file.len(), &edit).to_le_bytes());
    record.extend_from_slice(&edit);
    file.append(&record)
}

/// Writes what is to become `CURRENT`.
fn write_pointer(storage: &dyn Storage, manifest: &str, closed: Option<u64>) -> Result<()> {
    if storage.exists(TEMPORARY)? {
        storage.remove(TEMPORARY)?;
    }
    let mut file = storage.create(TEMPORARY, WriteHint::of(FileKind::Meta))?;
    let mut text = sealed_line(manifest);
    if let Some(bytes) = closed {
        text += &sealed_line(&format!("closed {manifest} {bytes}"));
    }
    file.append(text.as_bytes())?;
    file.sync()
}

/// A line of `CURRENT`: a text, and its checksum.
fn sealed_line(text: &str) -> String {
    format!("{text} {:08x}\n", crc32c(text.as_bytes()))
}

/// What `CURRENT` says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Current {
    /// The current manifest.
    pub manifest: String,
    /// The manifest's length in bytes, if the database was closed.
    pub closed_bytes: Option<u64>,
}

/// The name of the current manifest.
pub fn read_current(storage: &dyn Storage) -> Result<String> {
    read_pointer(storage).map(|current| current.manifest)
}

/// The current manifest, and whether it is complete.
pub fn read_pointer(storage: &dyn Storage) -> Result<Current> {
    let bytes = super::encrypted_current::read(storage, CURRENT)?;
    let told = std::str::from_utf8(&bytes).ok().and_then(|text| {
        let mut lines = text.split_inclusive('\n').map(|line| {
            let text = line.strip_suffix('\n')?.rsplit_once(' ')?.0;
            (sealed_line(text) == line).then_some(text)
        });
        let manifest = lines.next()??;
        parse_manifest_file_name(manifest)?;
        let closed_bytes = match lines.next() {
            None => None,
            Some(line) => {
                let (name, bytes) = line?.strip_prefix("closed ")?.split_once(' ')?;
                Some(bytes.parse().ok().filter(|_| name == manifest)?)
            }
        };
        lines.next().is_none().then(|| Current { manifest: manifest.to_owned(), closed_bytes })
    });
    told.ok_or_else(|| match is_of_rocksdb(&bytes) {
        true => Error::NotADatabase {
            dir: storage.describe(),
            reason: "it holds a database of RocksDB or LevelDB".into(),
        },
        false => Error::corruption(
            file_path(storage, CURRENT),
            0,
            "it should hold a manifest's name and its checksum",
        ),
    })
}

/// Whether `current` is what RocksDB and LevelDB write into their `CURRENT`.
fn is_of_rocksdb(current: &[u8]) -> bool {
    let number = current.strip_prefix(b"MANIFEST-").and_then(|rest| rest.strip_suffix(b"\n"));
    number.is_some_and(|number| !number.is_empty() && number.iter().all(u8::is_ascii_digit))
}

/// One edit in a manifest file.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub struct Record {
    /// The offset of the record in the file, in bytes.
    pub offset: u64,
    /// The edit.
    pub edit: VersionEdit,
}

/// Where the manifest `name`, which holds `records`, goes on with bytes that are no record, if it
/// does: a truncated write, or a last record that was damaged.
pub(crate) fn torn_tail_offset(
    storage: &dyn Storage,
    name: &str,
    records: &[Record],
) -> Result<Option<u64>> {
    let file = storage.open(name)?;
    let end = match records.last() {
        // By the record's own length: encoded here, the edit of another version may take another.
        Some(last) => {
            let mut length = [0; 4];
            file.read_exact_at(last.offset, &mut length)?;
            last.offset + RECORD_HEADER_BYTES as u64 + u64::from(u32::from_le_bytes(length))
        }
        None => HEADER_BYTES as u64,
    };
    Ok((end < file.len()?).then_some(end))
}

/// A manifest file's identity and records, the snapshot first. A cut-off last record is left out.
pub fn read_manifest(storage: &dyn Storage, name: &str) -> Result<(u64, Vec<Record>)> {
    if !storage.exists(name)? {
        let what = format!("it names {name}, which is missing");
        return Err(Error::corruption(file_path(storage, CURRENT), 0, what));
    }
    let bytes = read_file(storage, name)?;
    let path = file_path(storage, name);
    let found = parse_manifest(&bytes, &path)?;
    let length = bytes.len() as u64;
    match closed_bytes(storage, name) {
        Some(closed) if closed != length => {
            let what = format!(
                "the manifest is {length} bytes long, and was {closed} when the database was closed"
            );
            Err(Error::corruption(path, length.min(closed), what))
        }
        // What follows is no cut-off write: all records were durable.
        Some(_) if !found.1.last().is_some_and(is_closing) => {
            let end = parse_records(&bytes).1 as u64;
            Err(Error::corruption(path, end, "the last records of a closed manifest are damaged"))
        }
        _ => Ok(found),
    }
}

/// Who wrote the manifest in `file`.
pub(crate) fn author(file: &dyn ReadableFile, path: &str) -> Result<Author> {
    let mut header = [0; HEADER_BYTES];
    file.read_exact_at(0, &mut header)?;
    parse_header(&header, path)
}

/// Whether a record is the last one of a manifest that was closed.
fn is_closing(record: &Record) -> bool {
    record.edit.changes.contains(&VersionChange::Closed)
}

/// The identity in a manifest's header, and its edits up to the first that is corrupt. `None` if the header is corrupt.
pub(crate) fn read_prefix(storage: &dyn Storage, name: &str) -> Result<Option<(u64, Vec<Record>)>> {
    let bytes = read_file(storage, name)?;
    match parse_header(&bytes, &file_path(storage, name)) {
        Ok(author) => Ok(Some((author.database, parse_records(&bytes).0))),
        Err(error) if error.is_corruption() => Ok(None),
        Err(error) => Err(error),
    }
}

/// The records from the first on that hold, where they end, and what is wrong with the edit there.
fn parse_records(bytes: &[u8]) -> (Vec<Record>, usize, Option<String>) {
    let mut records = Vec::new();
    let mut offset = HEADER_BYTES;
    while let Some(edit) = record_at(&bytes[offset..], offset as u64) {
        let length = RECORD_HEADER_BYTES + edit.len();
        match VersionEdit::decode(edit) {
            Ok(edit) => records.push(Record { offset: offset as u64, edit }),
            Err(what) => return (records, offset, Some(what)),
        }
        offset += length;
    }
    (records, offset, None)
}

/// The length at which the manifest `name` was closed, if `CURRENT` says so.
fn closed_bytes(storage: &dyn Storage, name: &str) -> Option<u64> {
    // A caller that needs `CURRENT` reports what is wrong with it.
    let current = read_pointer(storage).ok()?;
    current.closed_bytes.filter(|_| current.manifest == name)
}

/// Checks a manifest's header.
fn parse_header(bytes: &[u8], path: &str) -> Result<Author> {
    let corruption = |offset: usize, what: &str| Error::corruption(path, offset as u64, what);
    if bytes.len() < HEADER_BYTES {
        return Err(corruption(0, "the manifest's header is truncated"));
    }
    if bytes[..8] != MAGIC {
        return Err(corruption(0, "the manifest's magic number is wrong"));
    }
    if crc32c(&bytes[..28]) != u32_at(bytes, 28) {
        return Err(corruption(0, "the manifest header's checksum does not match"));
    }
    let version = u32_at(bytes, 8);
    if version > VERSION {
        return Err(Error::NewerVersion {
            file: path.to_owned(),
            found: version,
            supported: VERSION,
        });
    }
    if u32_at(bytes, 12) != 0 {
        return Err(corruption(12, "the manifest is encrypted, which this program can't read"));
    }
    Ok(Author { database: u64_at(bytes, 16), process: u32_at(bytes, 24) })
}

pub(super) fn parse_manifest(bytes: &[u8], path: &str) -> Result<(u64, Vec<Record>)> {
    let corruption = |offset: usize, what: &str| Error::corruption(path, offset as u64, what);
    let identity = parse_header(bytes, path)?.database;
    let (records, offset, wrong) = parse_records(bytes);
    if let Some(what) = wrong {
        return Err(corruption(offset, &what));
    }
    if offset < bytes.len() && (records.is_empty() || has_valid_record_after(bytes, offset)) {
        return Err(corruption(offset, "a manifest record's checksum does not match"));
    }
    if records.is_empty() {
        return Err(corruption(HEADER_BYTES, "the manifest's snapshot is missing"));
    }
    if records.last().is_some_and(is_closing) && offset < bytes.len() {
        return Err(corruption(offset, "bytes follow the manifest's closing record"));
    }
    Ok((identity, records))
}

/// Whether any valid record starts after `offset`. Then the bad bytes there were durable once.
fn has_valid_record_after(bytes: &[u8], offset: usize) -> bool {
    (offset + 1..bytes.len()).any(|at| record_at(&bytes[at..], at as u64).is_some())
}

fn read_file(storage: &dyn Storage, name: &str) -> Result<Vec<u8>> {
    let file = storage.open(name)?;
    let mut bytes = vec![0; file.len()? as usize];
    file.read_exact_at(0, &mut bytes)?;
    Ok(bytes)
}

pub(super) fn file_path(storage: &dyn Storage, name: &str) -> String {
    format!("{}/{name}", storage.describe())
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::manifest::version_edit::tests::sample_edit;

    /// Everything but the closing change, which only ends a file.
    pub(in crate::manifest) fn open_edit() -> VersionEdit {
        let mut edit = sample_edit();
        edit.changes.retain(|change| *change != VersionChange::Closed);
        edit
    }

    fn sample_file() -> Vec<u8> {
        file_of(&open_edit())
    }
    /// A manifest of three such edits.
    pub(in crate::manifest) fn file_of(edit: &VersionEdit) -> Vec<u8> {
        let mut bytes = encode_header(Author { database: 42, process: 0 }).to_vec();
        for _ in 0..3 {
            let edit = edit.encode();
            let crc = record_crc(bytes.len() as u64, &edit);
            bytes.extend_from_slice(&(edit.len() as u32).to_le_bytes());
            bytes.extend_from_slice(&crc.to_le_bytes());
            bytes.extend_from_slice(&edit);
        }
        bytes
    }

    #[test]
    fn records_come_back_in_order() {
        let (identity, records) = parse_manifest(&sample_file(), "m").unwrap();
        assert_eq!((identity, records.len()), (42, 3));
        assert!(records.iter().all(|record| record.edit == open_edit()));
    }

    #[test]
    fn a_cut_off_last_record_is_left_out() {
        let bytes = sample_file();
        let (_, all) = parse_manifest(&bytes, "m").unwrap();
        for len in all[2].offset as usize + 1..bytes.len() {
            assert_eq!(parse_manifest(&bytes[..len], "m").unwrap().1.len(), 2, "{len}");
        }
        for len in 0..all[1].offset as usize {
            assert!(parse_manifest(&bytes[..len], "m").is_err(), "{len}: half a snapshot");
        }
    }

    #[test]
    fn a_flipped_bit_before_the_last_record_is_corruption() {
        let bytes = sample_file();
        let (_, all) = parse_manifest(&bytes, "m").unwrap();
        for at in 0..all[2].offset as usize {
            for bit in 0..8 {
                let mut bad = bytes.clone();
                bad[at] ^= 1 << bit;
                assert!(parse_manifest(&bad, "m").is_err(), "bit {bit} of byte {at}");
            }
        }
    }

    #[test]
    fn a_manifest_ends_where_the_record_says_whatever_its_account_holds() {
        // The tag of an account, the number of its bytes, and figures: fewer than now, or more.
        let accounts: [&[u8]; 2] = [&[13, 1, 5], &[&[13, 40][..], &[1; 40]].concat()];
        for edit in accounts {
            let mut bytes = encode_header(Author { database: 42, process: 0 }).to_vec();
            bytes.extend_from_slice(&(edit.len() as u32).to_le_bytes());
            bytes.extend_from_slice(&record_crc(HEADER_BYTES as u64, edit).to_le_bytes());
            bytes.extend_from_slice(edit);
            let end = bytes.len() as u64;
            for (tail, expected) in [(&[][..], None), (&[7; 4][..], Some(end))] {
                let storage = esker_storage::MemoryStorage::new();
                let mut file = storage.create("m", WriteHint::of(FileKind::Manifest)).unwrap();
                file.append(&[&bytes[..], tail].concat()).unwrap();
                let (_, records) = read_manifest(&storage, "m").unwrap();
                let torn = torn_tail_offset(&storage, "m", &records).unwrap();
                assert_eq!(torn, expected, "{edit:?}");
            }
        }
    }
}
