//! The key bounds of a set of tables.

use super::{Run, TableHandle, TableMeta};
use std::sync::Arc;

/// From `smallest` up to `largest`, itself included unless it is the end of a range tombstone.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KeyBounds {
    /// The first key.
    pub smallest: Vec<u8>,
    /// The last key, or the first key after it.
    pub largest: Vec<u8>,
    /// Whether `largest` is not of the span.
    pub largest_is_exclusive: bool,
}

impl KeyBounds {
    /// The span of one table.
    pub fn of_table(meta: &TableMeta) -> Self {
        KeyBounds {
            smallest: meta.smallest.clone(),
            largest: meta.largest.clone(),
            largest_is_exclusive: meta.largest_is_exclusive,
        }
    }

    /// The span of several tables, gaps included. `None` if there is no table.
    pub fn of<'a>(tables: impl IntoIterator<Item = &'a Arc<TableHandle>>) -> Option<Self> {
        let mut tables = tables.into_iter();
        let mut span = KeyBounds::of_table(&tables.next()?.meta);
        tables.for_each(|table| span.widen(&table.meta));
        Some(span)
    }

    /// Makes the span hold `meta`'s range too.
    pub fn widen(&mut self, meta: &TableMeta) {
        if meta.smallest < self.smallest {
            self.smallest.clone_from(&meta.smallest);
        }
        // At the same key, the end that includes it is the later one.
        if (&self.largest, !self.largest_is_exclusive) < (&meta.largest, !meta.largest_is_exclusive)
        {
            self.largest.clone_from(&meta.largest);
            self.largest_is_exclusive = meta.largest_is_exclusive;
        }
    }

    /// How many bytes all keys of the span have in common at their start.
    pub fn shared_bytes(&self) -> usize {
        self.smallest.iter().zip(&self.largest).take_while(|(a, b)| a == b).count()
    }

    /// Whether the span ends before `key`.
    pub fn ends_before(&self, key: &[u8]) -> bool {
        if self.largest_is_exclusive { &self.largest[..] <= key } else { &self.largest[..] < key }
    }

    /// Whether a table may hold or delete a key of the span.
    pub fn overlaps_table(&self, meta: &TableMeta) -> bool {
        !meta.ends_before(&self.smallest) && !self.ends_before(&meta.smallest)
    }

    /// Whether the spans share a key.
    pub fn overlaps(&self, other: &KeyBounds) -> bool {
        !other.ends_before(&self.smallest) && !self.ends_before(&other.smallest)
    }

    /// The tables of `run` that overlap the span. O(log tables).
    pub fn tables_of<'a>(&self, run: &'a Run) -> &'a [Arc<TableHandle>] {
        let tables = run.tables();
        let from = tables.partition_point(|table| table.meta.ends_before(&self.smallest));
        let to = tables.partition_point(|table| !self.ends_before(&table.meta.smallest));
        &tables[from..to.max(from)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(smallest: &str, largest: &str, largest_is_exclusive: bool) -> KeyBounds {
        KeyBounds { smallest: smallest.into(), largest: largest.into(), largest_is_exclusive }
    }

    #[test]
    fn spans_that_meet_at_an_exclusive_end_share_nothing() {
        assert!(!span("a", "d", true).overlaps(&span("d", "f", false)));
        assert!(!span("d", "f", false).overlaps(&span("a", "d", true)));
        assert!(span("a", "d", false).overlaps(&span("d", "f", false)));
        assert!(span("a", "e", true).overlaps(&span("d", "f", false)));
    }
}
