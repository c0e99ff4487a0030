//! The options of databases and column families.

use crate::border::{Out, Text};
use crate::cache::Cache;
use crate::comparator::Comparator;
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
    /// Why a database cannot be opened with these options.
    pub refused: Option<&'static str>,
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

    /// The start of a text, and its length.
    pub fn text_out(&self, name: &str, length: Out<usize>) -> *const c_char {
        const NONE: &[u8] = b"\0";
        let text = self.texts.get(name).map_or(NONE, Vec::as_slice);
        length.set(text.len() - 1);
        text.as_ptr().cast()
    }
}
