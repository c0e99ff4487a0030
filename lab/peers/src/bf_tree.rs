//! bf-tree: a B-tree whose hot records are in small pages in a buffer, by Microsoft Research.
//!
//! What to know when its figures are read:
//!
//! * it has no log that it can recover from: only a snapshot in a file survives the process. A flush
//!   and the close of the store each write one;
//! * it has no atomic batches, no snapshots to read at, and no way backwards: those are refused. A
//!   range delete reads the range and deletes each key;
//! * keys have at most 48 bytes, values at least one, and both together at most 1,920;
//! * a cursor locks the leaf that it is in: its thread must drop it before it writes.

use crate::adapter;
use crate::check::{self, foreign};
use crate::configuration::Configuration;
use crate::settings::{PeerSettings, uncompressed};
use crate::tally::Tally;
use crate::{Peer, Written};
use ::bf_tree::{BfTree, Config, LeafInsertResult, LeafReadResult, ScanIter, ScanReturnField};
use esker_api::{Cursor, KeyRange, Kv, Ordered, Snapshot, Value, WriteBatch};
use esker_base::{Entry, Error, Kind, Result};
use std::ops::Bound;
use std::path::{Path, PathBuf};

/// As large as the default page allows with the default record.
const LONGEST_KEY: usize = 48;
/// The most that a page of the default size allows with such keys: key and value.
const LARGEST_RECORD: usize = 1_920;
/// The file of the leaf pages.
const DATA: &str = "data.bftree";
/// What survives the process.
const SNAPSHOT: &str = "snapshot.bftree";

struct Tree {
    dir: PathBuf,
    tree: BfTree,
    user_bytes: Tally,
    configuration: Configuration,
}

/// Refuses what bf-tree can't be set to.
pub(crate) fn check(settings: &PeerSettings) -> Result<()> {
    uncompressed("bf-tree", settings)
}

pub(crate) fn open(dir: &Path, settings: &PeerSettings) -> Result<Box<dyn Peer>> {
    let mut configuration = Configuration::default();
    let memory = settings.cache_bytes.unwrap_or(settings.memory_bytes);
    let buffer_bytes = configuration.note(
        "cb_size_byte",
        1 << memory.ilog2(),
        "the run's memory; config.rs: a power of two",
    );
    let key_bytes = configuration.note(
        "cb_max_key_len",
        LONGEST_KEY,
        "the default of 16 is shorter than the loads' keys",
    );
    let record_bytes = configuration.note(
        "cb_max_record_size",
        LARGEST_RECORD,
        "config.rs: the most that the default page allows with such keys",
    );
    let least_bytes =
        configuration.note("cb_min_record_size", 2, "key and value: the least it takes");
    configuration.note("leaf_page_size", "default, 4 KiB", "config.rs: defaults suit most loads");
    configuration.note("use_snapshot", "on", "README, Snapshots and Recovery: all that survives");
    let why = "its recovery from a log is documented as incomplete, for internal use";
    configuration.note("write_ahead_log", "default, off", why);
    let (data, snapshot) = (dir.join(DATA), dir.join(SNAPSHOT));
    let failed = |error: std::io::Error| foreign("open", dir, error);
    adapter::create(dir)?;
    // A tree goes on in the file of the snapshot that it was read from.
    let tree = match snapshot.exists() {
        true => {
            std::fs::rename(&snapshot, &data).map_err(failed)?;
            BfTree::new_from_cpr_snapshot(&data, true, None, Some(buffer_bytes), None)
        }
        false => {
            let mut config = Config::new(&data, buffer_bytes);
            config.cb_max_key_len(key_bytes).cb_max_record_size(record_bytes);
            config.cb_min_record_size(least_bytes).use_snapshot(true);
            BfTree::with_config(config, None)
        }
    };
    let tree = tree.map_err(|error| foreign("open", dir, format!("{error:?}")))?;
    let user_bytes = Tally::default();
    Ok(Box::new(Tree { dir: dir.to_owned(), tree, user_bytes, configuration }))
}

fn not_offered(what: &'static str, instead: &'static str) -> Error {
    Error::NotOffered { store: "bf-tree", what, instead }
}

fn check_key(key: &[u8]) -> Result<()> {
    check::key(key)?;
    match key.len() {
        ..=LONGEST_KEY => Ok(()),
        bytes => Err(Error::KeyTooLong { bytes }),
    }
}

impl Tree {
    fn apply(&self, entry: Entry<'_>) -> Result<()> {
        check_key(entry.key)?;
        match entry.kind {
            Kind::Put => match self.tree.insert(entry.key, entry.value) {
                LeafInsertResult::Success => {}
                LeafInsertResult::InvalidKV(why) => {
                    return Err(foreign("write to", &self.dir, why));
                }
            },
            Kind::Delete => self.tree.delete(entry.key),
            Kind::Merge | Kind::Combined | Kind::Separated | Kind::ExpiringPut => {
                unreachable!("`check::entries` refuses them")
            }
            Kind::RangeDelete => {
                // Collected, because a cursor locks what it is in.
                let mut keys = Vec::new();
                let mut cursor = self.cursor(KeyRange::deleted(entry.key, entry.value))?;
                cursor.seek_first()?;
                while let Some((key, _)) = cursor.current() {
                    keys.push(key.to_vec());
                    cursor.next()?;
                }
                drop(cursor);
                keys.iter().for_each(|key| self.tree.delete(key));
            }
        }
        Ok(())
    }

    fn write_one(&self, kind: Kind, key: &[u8], value: &[u8]) -> Result<()> {
        let entry = adapter::entry(kind, key, value);
        self.apply(entry)?;
        self.user_bytes.add(entry.encoded_bytes());
        Ok(())
    }

    fn save(&self) {
        self.tree.cpr_snapshot(self.dir.join(SNAPSHOT));
    }
}

impl Drop for Tree {
    fn drop(&mut self) {
        self.save();
    }
}

impl Kv for Tree {
    fn get(&self, key: &[u8]) -> Result<Option<Value>> {
        check_key(key)?;
        let mut buffer = [0; LARGEST_RECORD];
        match self.tree.read(key, &mut buffer) {
            LeafReadResult::Found(bytes) => Ok(Some(Value::from(&buffer[..bytes as usize]))),
            LeafReadResult::Deleted | LeafReadResult::NotFound => Ok(None),
            LeafReadResult::InvalidKey => Err(Error::KeyTooLong { bytes: key.len() }),
        }
    }

    fn write(&self, batch: &WriteBatch) -> Result<()> {
        check::batch(self, batch)?;
        if batch.len() > 1 {
            return Err(not_offered("apply a batch atomically", "write its entries one by one"));
        }
        if batch.wants_sync() {
            return Err(not_offered("sync a write", "flush, which writes a snapshot of it all"));
        }
        batch.iter().try_for_each(|entry| self.apply(entry))?;
        self.user_bytes.add(batch.encoded().len());
        Ok(())
    }

    fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        self.write_one(Kind::Put, key, value)
    }

    fn delete(&self, key: &[u8]) -> Result<()> {
        self.write_one(Kind::Delete, key, b"")
    }
}

/// A scan in progress. It locks a leaf.
struct TreeCursor<'a> {
    tree: &'a BfTree,
    range: KeyRange,
    scan: Option<ScanIter<'a, 'a>>,
    /// Key and value of the current entry, one after the other, and their lengths.
    buffer: Box<[u8; LARGEST_RECORD]>,
    current: Option<(usize, usize)>,
}

impl TreeCursor<'_> {
    fn begin(&mut self, start: &[u8]) -> Result<()> {
        self.scan = None;
        self.current = None;
        // No key of the tree is longer, so no entry at or after `start` is before this.
        let start = &start[..start.len().min(LONGEST_KEY)];
        let scan = self.tree.scan_with_count(start, usize::MAX, ScanReturnField::KeyAndValue);
        let refused = |_| not_offered("scan from such a key", "scan from one of 1 to 48 bytes");
        self.scan = Some(scan.map_err(refused)?);
        self.step();
        Ok(())
    }

    fn step(&mut self) {
        self.current = self.scan.as_mut().and_then(|scan| scan.next(&mut self.buffer[..]));
        let is_over = self.current().is_none_or(|(key, _)| self.range.ends_before(key));
        if is_over {
            self.current = None;
            self.scan = None;
        }
    }

    /// Skips what is before the range's start, if that is excluded.
    fn skip(&mut self) {
        while self.current().is_some_and(|(key, _)| self.range.starts_after(key)) {
            self.step();
        }
    }
}

impl Cursor for TreeCursor<'_> {
    fn seek_first(&mut self) -> Result<()> {
        let start = match &self.range.start {
            Bound::Included(start) | Bound::Excluded(start) if !start.is_empty() => start.clone(),
            // The first key there can be.
            _ => vec![0],
        };
        self.begin(&start)?;
        self.skip();
        Ok(())
    }

    fn seek_last(&mut self) -> Result<()> {
        Err(not_offered("scan backwards", "scan forwards"))
    }

    fn seek(&mut self, key: &[u8]) -> Result<()> {
        if key.is_empty() || self.range.starts_after(key) {
            return self.seek_first();
        }
        self.begin(key)?;
        while self.current().is_some_and(|(found, _)| found < key) {
            self.step();
        }
        Ok(())
    }

    fn seek_back(&mut self, _: &[u8]) -> Result<()> {
        self.seek_last()
    }

    fn next(&mut self) -> Result<()> {
        self.step();
        Ok(())
    }

    fn prev(&mut self) -> Result<()> {
        self.seek_last()
    }

    fn current(&self) -> Option<(&[u8], &[u8])> {
        let (key, value) = self.current?;
        Some((&self.buffer[..key], &self.buffer[key..key + value]))
    }
}

impl Ordered for Tree {
    fn cursor(&self, range: KeyRange) -> Result<Box<dyn Cursor + '_>> {
        let (tree, buffer) = (&self.tree, Box::new([0; LARGEST_RECORD]));
        Ok(Box::new(TreeCursor { tree, range, scan: None, buffer, current: None }))
    }

    fn cursor_at<'a>(&'a self, _: KeyRange, _: &'a dyn Snapshot) -> Result<Box<dyn Cursor + 'a>> {
        self.snapshot().map(|_| unreachable!("there is no snapshot"))
    }

    fn get_at(&self, _: &[u8], _: &dyn Snapshot) -> Result<Option<Value>> {
        self.snapshot().map(|_| None)
    }

    fn snapshot(&self) -> Result<Box<dyn Snapshot + '_>> {
        Err(not_offered("take a snapshot to read at", "read the newest values"))
    }
}

impl Peer for Tree {
    fn name(&self) -> &str {
        "bf-tree"
    }

    /// Writes a snapshot: nothing else of it is ever whole on the device.
    fn flush(&self) -> Result<()> {
        self.save();
        Ok(())
    }

    fn written(&self) -> Written {
        adapter::written_by_users(&self.user_bytes)
    }

    fn configuration(&self) -> Vec<(String, String)> {
        self.configuration.options()
    }
}
