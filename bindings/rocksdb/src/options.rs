//! The options of databases and column families.

use crate::border::{Out, Result, Status, Text};
use crate::cache::Cache;
use crate::comparator::{Comparator, KeyOrder};
use crate::direction::Direction;
use crate::environment::Environment;
use crate::filter::Filter;
use crate::knobs::{HasKnobs, Knobs};
use crate::listener::Listener;
use crate::logger::Logger;
use crate::merge::Operator;
use crate::prefix::Prefix;
use crate::statistics::Statistics;
use std::collections::BTreeMap;
use std::ffi::c_char;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// RocksDB's `rocksdb_options_t`.
#[derive(Clone, Default)]
pub struct Options {
    /// The numbers.
    pub knobs: Knobs,
    /// Paths and other texts, by name, each with a zero at its end.
    pub texts: BTreeMap<&'static str, Vec<u8>>,
    /// The order of keys. `None` is that of bytes.
    pub comparator: Option<Arc<Comparator>>,
    /// How merges are folded.
    pub merge: Option<Arc<Operator>>,
    /// What compaction drops.
    pub filter: Option<Arc<Filter>>,
    /// Which prefixes iterators keep to.
    pub prefix: Option<Arc<Prefix>>,
    /// The options of tables.
    pub table: Option<TableOptions>,
    /// The options of universal compaction.
    pub universal: Option<Knobs>,
    /// The options of FIFO compaction.
    pub fifo: Option<Knobs>,
    /// Where files are.
    pub environment: Option<Arc<Environment>>,
    /// What is counted.
    pub statistics: Option<Arc<Statistics>>,
    /// Where messages go.
    pub logger: Option<Arc<Logger>>,
    /// Callbacks for flushes and compactions.
    pub listeners: Vec<Arc<Listener>>,
    /// The most bytes per second that background work writes.
    pub write_rate: Option<u64>,
    /// What else was set, for the log of messages.
    pub notes: Vec<String>,
    /// Whether a filter of the log was set, with which no database is opened.
    pub has_wal_filter: bool,
    /// Whether a compaction service was set, with which no database is opened.
    pub has_compaction_service: bool,
}

impl HasKnobs for Options {
    fn knobs(&self) -> &Knobs {
        &self.knobs
    }

    fn knobs_mut(&mut self) -> &mut Knobs {
        &mut self.knobs
    }
}

/// RocksDB's `rocksdb_block_based_table_options_t`.
#[derive(Clone, Default)]
pub struct TableOptions {
    /// The numbers.
    pub knobs: Knobs,
    /// The block cache.
    pub cache: Option<Arc<Cache>>,
    /// The bits of a filter for each key. `None` is Esker's default.
    pub filter_bits: Option<f64>,
}

impl HasKnobs for TableOptions {
    fn knobs(&self) -> &Knobs {
        &self.knobs
    }

    fn knobs_mut(&mut self) -> &mut Knobs {
        &mut self.knobs
    }
}

/// The error of the first option that is set.
fn first_refused(refused: &[(bool, &str)]) -> Result<()> {
    let first = refused.iter().find(|(is_set, _)| *is_set);
    first.map_or(Ok(()), |(_, why)| Err(Status::unsupported(*why)))
}

impl Options {
    /// Sets a text. What is not UTF-8 counts as none.
    pub fn set_text(&mut self, name: &'static str, text: Text) {
        let text = text.optional().ok().flatten().unwrap_or_default();
        self.texts.insert(name, text.bytes().chain([0]).collect());
    }

    /// A text that was set, without its zero.
    pub fn text(&self, name: &str) -> Option<&str> {
        let text = self.texts.get(name)?;
        std::str::from_utf8(text.strip_suffix(b"\0")?).ok()
    }

    /// Fails if no database can be opened with these options, because their meaning cannot be kept. Those
    /// of column families are another check.
    ///
    /// # Errors
    /// Says which option, and what to do.
    pub fn check(&self) -> Result<()> {
        first_refused(&[
            (
                self.has_wal_filter,
                "a filter of the log: Esker recovers all of it; clear the filter",
            ),
            (
                self.has_compaction_service,
                "a compaction service: Esker compacts in this process; do not set one",
            ),
        ])
    }

    /// Fails if no column family can be opened with these options, because their meaning cannot be kept.
    ///
    /// # Errors
    /// Says which option, and what to do.
    pub fn check_family(&self) -> Result<()> {
        let is_plain = self.key_order()? == KeyOrder::Plain(Direction::default());
        let has_callback = self.merge.is_some() || self.filter.is_some();
        first_refused(&[
            (
                self.is_fifo() && (has_callback || !is_plain),
                "compaction_style 2 (FIFO) with a merge operator, a compaction filter, timestamps or a reverse \
                 comparator: Esker does not rewrite such tables; use level style",
            ),
            (
                self.knobs.is_on("disallow_memtable_writes"),
                "disallow_memtable_writes: Esker does not refuse writes; turn it off",
            ),
        ])
    }

    /// How a column family sorts its keys.
    ///
    /// # Errors
    /// If it is in an order that Esker does not have.
    pub fn key_order(&self) -> Result<KeyOrder> {
        let bytewise = KeyOrder::Plain(Direction::default());
        self.comparator.as_ref().map_or(Ok(bytewise), |comparator| comparator.order())
    }

    /// Whether whole tables are dropped, the oldest first.
    pub fn is_fifo(&self) -> bool {
        const FIFO: i32 = 2;
        self.knobs.number("compaction_style", 0) == FIFO
    }

    /// Where the logs of the database at `path` are, if not in its directory.
    pub fn log_dir(&self, path: &str) -> Option<PathBuf> {
        let dir = Path::new(self.text("wal_dir").filter(|dir| !dir.is_empty())?);
        let place = |dir: &Path| {
            // The directory of a new database is not there yet.
            dir.canonicalize().ok().or_else(|| std::path::absolute(dir).ok())
        };
        (place(dir) != place(Path::new(path))).then(|| dir.to_owned())
    }

    /// The start of a text, and its length.
    pub fn text_out(&self, name: &str, length: Out<usize>) -> *const c_char {
        const NONE: &[u8] = b"\0";
        let text = self.texts.get(name).map_or(NONE, Vec::as_slice);
        length.set(text.len() - 1);
        text.as_ptr().cast()
    }
}
