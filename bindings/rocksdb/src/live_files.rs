//! Lists of the tables of a database: live files, and the metadata of column families.

use crate::border::{Handle, Out, c_api, memory};
use crate::database::{Database, Family, Open};
use crate::properties::tables_of;
use esker::stats::TableMeta;
use std::ffi::{CString, c_char, c_int};
use std::sync::Arc;

/// A table as RocksDB's programs see it.
pub struct LiveFile {
    family: CString,
    name: CString,
    directory: CString,
    level: usize,
    table: TableMeta,
}

/// RocksDB's `rocksdb_column_family_metadata_t`.
pub struct Metadata {
    family: String,
    levels: Vec<Level>,
}

/// RocksDB's `rocksdb_level_metadata_t`.
#[derive(Clone)]
pub struct Level {
    level: usize,
    directory: String,
    tables: Vec<TableMeta>,
}

/// RocksDB's `rocksdb_sst_file_metadata_t`.
pub struct SstFile {
    directory: String,
    table: TableMeta,
}

fn file_name(table: &TableMeta) -> String {
    format!("{:08}.tables", table.id.file)
}

/// A table with the bounds that a program sees, in the order of the column family.
fn seen(family: &Family, mut table: TableMeta) -> TableMeta {
    if family.direction.is_reverse {
        std::mem::swap(&mut table.smallest, &mut table.largest);
    }
    table
}

fn files_of(open: &Open) -> Vec<LiveFile> {
    let text = |text: &str| CString::new(text.replace('\0', "")).unwrap_or_default();
    let of = |family: &Arc<Family>| {
        let tables = tables_of(open, family).into_iter();
        let file = tables.map(|(level, table)| (level, seen(family, table)));
        let file = file.map(|(level, table)| LiveFile {
            family: text(family.name()),
            name: text(&format!("/{}", file_name(&table))),
            directory: text(&open.path),
            level,
            table,
        });
        file.collect::<Vec<_>>()
    };
    open.families().iter().flat_map(of).collect()
}

fn metadata_of(open: &Open, family: &Family) -> Metadata {
    let tables = tables_of(open, family);
    let level = |level| Level {
        level,
        directory: open.path.clone(),
        tables: tables
            .iter()
            .filter(|(of, _)| *of == level)
            .map(|(_, it)| seen(family, it.clone()))
            .collect(),
    };
    Metadata { family: family.name().to_owned(), levels: (0..7).map(level).collect() }
}

/// One file of a list.
fn file(files: &Handle<Vec<LiveFile>>, at: c_int) -> Option<&LiveFile> {
    files.get().get(usize::try_from(at).ok()?)
}

fn lend(bytes: Option<&[u8]>, length: Out<usize>) -> *const c_char {
    length.set(bytes.map_or(0, <[u8]>::len));
    bytes.map_or(std::ptr::null(), |bytes| bytes.as_ptr().cast())
}

fn give(bytes: &[u8], length: Out<usize>) -> *mut c_char {
    length.set(bytes.len());
    memory::copy_bytes(bytes)
}

c_api! {
    fn rocksdb_livefiles(db: Handle<Database>) -> Handle<Vec<LiveFile>> {
        Handle::new(files_of(&db.get().open))
    }

    fn rocksdb_livefiles_create() -> Handle<Vec<LiveFile>> {
        Handle::new(Vec::new())
    }

    fn rocksdb_livefiles_destroy(files: Handle<Vec<LiveFile>>) {
        drop(files.take());
    }

    fn rocksdb_livefiles_count(files: Handle<Vec<LiveFile>>) -> c_int {
        c_int::try_from(files.get().len()).unwrap_or(c_int::MAX)
    }

    fn rocksdb_livefiles_column_family_name(files: Handle<Vec<LiveFile>>, at: c_int) -> *const c_char {
        file(&files, at).map_or(std::ptr::null(), |file| file.family.as_ptr())
    }

    fn rocksdb_livefiles_name(files: Handle<Vec<LiveFile>>, at: c_int) -> *const c_char {
        file(&files, at).map_or(std::ptr::null(), |file| file.name.as_ptr())
    }

    fn rocksdb_livefiles_directory(files: Handle<Vec<LiveFile>>, at: c_int) -> *const c_char {
        file(&files, at).map_or(std::ptr::null(), |file| file.directory.as_ptr())
    }

    fn rocksdb_livefiles_level(files: Handle<Vec<LiveFile>>, at: c_int) -> c_int {
        file(&files, at).map_or(0, |file| file.level as c_int)
    }

    fn rocksdb_livefiles_size(files: Handle<Vec<LiveFile>>, at: c_int) -> usize {
        file(&files, at).map_or(0, |file| file.table.bytes as usize)
    }

    fn rocksdb_livefiles_smallestkey(
        files: Handle<Vec<LiveFile>>,
        at: c_int,
        length: Out<usize>,
    ) -> *const c_char {
        lend(file(&files, at).map(|file| &file.table.smallest[..]), length)
    }

    fn rocksdb_livefiles_largestkey(
        files: Handle<Vec<LiveFile>>,
        at: c_int,
        length: Out<usize>,
    ) -> *const c_char {
        lend(file(&files, at).map(|file| &file.table.largest[..]), length)
    }

    fn rocksdb_livefiles_smallest_seqno(files: Handle<Vec<LiveFile>>, at: c_int) -> u64 {
        file(&files, at).map_or(0, |file| file.table.min_seqno)
    }

    fn rocksdb_livefiles_largest_seqno(files: Handle<Vec<LiveFile>>, at: c_int) -> u64 {
        file(&files, at).map_or(0, |file| file.table.max_seqno)
    }

    fn rocksdb_livefiles_entries(files: Handle<Vec<LiveFile>>, at: c_int) -> u64 {
        file(&files, at).map_or(0, |file| file.table.entries)
    }

    fn rocksdb_livefiles_deletions(files: Handle<Vec<LiveFile>>, at: c_int) -> u64 {
        file(&files, at).map_or(0, |file| file.table.deletes)
    }

    fn rocksdb_get_column_family_metadata(db: Handle<Database>) -> Handle<Metadata> {
        let open = &db.get().open;
        Handle::new(metadata_of(open, &open.default))
    }

    fn rocksdb_get_column_family_metadata_cf(
        db: Handle<Database>,
        family: Handle<Arc<Family>>,
    ) -> Handle<Metadata> {
        let (open, family) = (&db.get().open, family.get());
        match open.check_own(family) {
            Ok(()) => Handle::new(metadata_of(open, family)),
            Err(_) => Handle::null(),
        }
    }

    fn rocksdb_column_family_metadata_destroy(metadata: Handle<Metadata>) {
        drop(metadata.take());
    }

    fn rocksdb_column_family_metadata_get_size(metadata: Handle<Metadata>) -> u64 {
        let tables = metadata.get().levels.iter().flat_map(|level| &level.tables);
        tables.map(|table| table.bytes).sum()
    }

    fn rocksdb_column_family_metadata_get_file_count(metadata: Handle<Metadata>) -> usize {
        metadata.get().levels.iter().map(|level| level.tables.len()).sum()
    }

    fn rocksdb_column_family_metadata_get_name(metadata: Handle<Metadata>) -> *mut c_char {
        memory::copy_text(&metadata.get().family)
    }

    fn rocksdb_column_family_metadata_get_level_count(metadata: Handle<Metadata>) -> usize {
        metadata.get().levels.len()
    }

    fn rocksdb_column_family_metadata_get_level_metadata(
        metadata: Handle<Metadata>,
        at: usize,
    ) -> Handle<Level> {
        metadata.get().levels.get(at).cloned().map_or_else(Handle::null, Handle::new)
    }

    fn rocksdb_level_metadata_destroy(level: Handle<Level>) {
        drop(level.take());
    }

    fn rocksdb_level_metadata_get_level(level: Handle<Level>) -> c_int {
        level.get().level as c_int
    }

    fn rocksdb_level_metadata_get_size(level: Handle<Level>) -> u64 {
        level.get().tables.iter().map(|table| table.bytes).sum()
    }

    fn rocksdb_level_metadata_get_file_count(level: Handle<Level>) -> usize {
        level.get().tables.len()
    }

    fn rocksdb_level_metadata_get_sst_file_metadata(
        level: Handle<Level>,
        at: usize,
    ) -> Handle<SstFile> {
        let level = level.get();
        let file = level.tables.get(at).cloned();
        let file = file.map(|table| SstFile { directory: level.directory.clone(), table });
        file.map_or_else(Handle::null, Handle::new)
    }

    fn rocksdb_sst_file_metadata_destroy(file: Handle<SstFile>) {
        drop(file.take());
    }

    fn rocksdb_sst_file_metadata_get_relative_filename(file: Handle<SstFile>) -> *mut c_char {
        memory::copy_text(&file_name(&file.get().table))
    }

    fn rocksdb_sst_file_metadata_get_directory(file: Handle<SstFile>) -> *mut c_char {
        memory::copy_text(&file.get().directory)
    }

    fn rocksdb_sst_file_metadata_get_size(file: Handle<SstFile>) -> u64 {
        file.get().table.bytes
    }

    fn rocksdb_sst_file_metadata_get_smallestkey(
        file: Handle<SstFile>,
        length: Out<usize>,
    ) -> *mut c_char {
        give(&file.get().table.smallest, length)
    }

    fn rocksdb_sst_file_metadata_get_largestkey(
        file: Handle<SstFile>,
        length: Out<usize>,
    ) -> *mut c_char {
        give(&file.get().table.largest, length)
    }
}
