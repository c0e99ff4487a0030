//! The database of RocksDB, opened for reading.

use esker_cli::failure::{Failure, Outcome};
use rocksdb::{DB, DBRawIterator, DBRecoveryMode, Options, ReadOptions};
use std::path::Path;

/// Bytes that RocksDB reads ahead in a scan.
const READ_AHEAD_BYTES: usize = 4 << 20;

/// Bytes that a database which was opened with a time to live has behind each value.
const TTL_BYTES: usize = 4;

/// A database of RocksDB, as it was when it was opened.
pub(crate) struct Source {
    db: DB,
    families: Vec<String>,
}

impl Source {
    /// Opens the database in `dir`, with these column families, or all.
    pub(crate) fn open(dir: &Path, wanted: &[String]) -> Outcome<Self> {
        let shown = dir.display();
        if !dir.join("CURRENT").is_file() {
            let what = format!("{shown} is not a database of RocksDB: it has no file CURRENT");
            return Err(Failure::Usage(what));
        }
        let mut options = Options::default();
        options.create_if_missing(false);
        // Nothing is written there, not even RocksDB's own messages.
        options.set_db_log_dir(std::env::temp_dir());
        options.set_keep_log_file_num(1);
        // By default RocksDB ends the recovery at a write of the log that it cannot apply, such as a merge
        // without its operator, and reports nothing.
        options.set_wal_recovery_mode(DBRecoveryMode::TolerateCorruptedTailRecords);
        let failed = |error| Failure::new(format!("could not open {shown}: {}", advice(&error)));
        let all = DB::list_cf(&options, dir).map_err(failed)?;
        if let Some(missing) = wanted.iter().find(|name| !all.contains(name)) {
            let what =
                format!("{shown} has no column family {missing:?}; it has {}", all.join(", "));
            return Err(Failure::Usage(what));
        }
        let is_wanted = |name: &String| wanted.is_empty() || wanted.contains(name);
        let families = all.iter().filter(|name| is_wanted(name)).cloned().collect();
        // A database is opened for reading with any of its families, but always with the default one.
        let db = DB::open_cf_for_read_only(&options, dir, &all, false).map_err(failed)?;
        Ok(Source { db, families })
    }

    /// The names of the column families to copy.
    pub(crate) fn families(&self) -> impl Iterator<Item = &str> {
        self.families.iter().map(|name| &name[..])
    }

    /// The entries of a column family, in order. With `ttl`, the end of each value is removed.
    pub(crate) fn entries(&self, family: &str, ttl: bool) -> Outcome<Entries<'_>> {
        let missing = || Failure::new(format!("the column family {family:?} was not opened"));
        let handle = self.db.cf_handle(family).ok_or_else(missing)?;
        let mut options = ReadOptions::default();
        options.set_verify_checksums(true);
        options.fill_cache(false);
        options.set_total_order_seek(true);
        options.set_readahead_size(READ_AHEAD_BYTES);
        let mut iter = self.db.raw_iterator_cf_opt(&handle, options);
        iter.seek_to_first();
        Ok(Entries { iter, family: family.to_owned(), cut: if ttl { TTL_BYTES } else { 0 } })
    }
}

/// The entries of a column family.
pub(crate) struct Entries<'a> {
    iter: DBRawIterator<'a>,
    family: String,
    /// Bytes to remove at the end of each value.
    cut: usize,
}

impl Entries<'_> {
    /// The entry at hand, `None` at the end.
    pub(crate) fn current(&self) -> Outcome<Option<(&[u8], &[u8])>> {
        let Some((key, value)) = self.iter.item() else {
            let ended = self.iter.status();
            return ended.map(|()| None).map_err(|error| {
                Failure::new(format!("could not read {:?}: {}", self.family, advice(&error)))
            });
        };
        let Some(length) = value.len().checked_sub(self.cut) else {
            let (family, key) = (&self.family, key.escape_ascii());
            return Err(Failure::new(format!(
                "the value of {key} in {family:?} is too short to end with a time; leave --ttl away"
            )));
        };
        Ok(Some((key, &value[..length])))
    }

    /// Steps to the next entry.
    pub(crate) fn advance(&mut self) {
        self.iter.next();
    }
}

/// What RocksDB says, and what may be done about it.
fn advice(error: &rocksdb::Error) -> String {
    let said = error.to_string();
    let lower = said.to_lowercase();
    let more = if lower.contains("merge") {
        "; its values have operands of a merge operator: compact the database in its own program first"
    } else if lower.contains("comparator") {
        "; Esker orders keys by their bytes and cannot keep another order"
    } else {
        ""
    };
    said + more
}
