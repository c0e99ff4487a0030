//! Finds the tables of a run that may hold a key, with two arrays of numbers.
//!
//! The bounds of tables are scattered in memory, so a binary search over them misses the cache
//! twice per step. The arrays hold eight bytes of each bound, after the prefix that all bounds
//! share. Different numbers decide the order of keys. Only for equal numbers the keys themselves
//! are compared.

use super::TableHandle;
use esker_table::head;
use std::sync::{Arc, OnceLock};

/// The bounds of a run's tables, gathered when they are first asked for.
#[derive(Debug, Default)]
pub(crate) struct FencePointers(OnceLock<KeyPrefixes>);

impl Clone for FencePointers {
    /// A run is copied to be changed, so its bounds do not go with it.
    fn clone(&self) -> Self {
        FencePointers::default()
    }
}

#[derive(Debug)]
struct KeyPrefixes {
    /// What every bound starts with, and so every key between two of them.
    common: Vec<u8>,
    smallest: Vec<u64>,
    largest: Vec<u64>,
}

impl KeyPrefixes {
    fn of(tables: &[Arc<TableHandle>]) -> Self {
        let common: Vec<u8> = match tables {
            [] => Vec::new(),
            [first, .., last] => common_prefix(&first.meta.smallest, &last.meta.largest),
            [only] => common_prefix(&only.meta.smallest, &only.meta.largest),
        };
        let heads = |bound: fn(&TableHandle) -> &[u8]| {
            let behind = |table| bound(table).get(common.len()..).unwrap_or_default();
            tables.iter().map(|table| head(behind(table))).collect()
        };
        let smallest = heads(|table| &table.meta.smallest);
        let largest = heads(|table| &table.meta.largest);
        KeyPrefixes { common, smallest, largest }
    }
}

/// Of so few tables the bounds are inspected themselves: the numbers would be more to wait for.
const FEW: usize = 2;

/// Whether `key` is between the bounds of `table`.
#[inline]
fn holds(table: &TableHandle, key: &[u8]) -> bool {
    &table.meta.smallest[..] <= key && !table.meta.ends_before(key)
}

impl FencePointers {
    /// Gathers them now, so that no reader has to.
    pub(crate) fn gather(&self, tables: &[Arc<TableHandle>]) {
        if tables.len() <= FEW {
            return;
        }
        self.0.get_or_init(|| KeyPrefixes::of(tables));
    }

    /// The place in `tables`, whose bounds these are, of the only one that may hold or delete `key`.
    #[inline]
    pub(crate) fn find(&self, tables: &[Arc<TableHandle>], key: &[u8]) -> Option<usize> {
        if tables.len() <= FEW {
            return tables.iter().position(|table| holds(table, key));
        }
        let heads = self.0.get_or_init(|| KeyPrefixes::of(tables));
        debug_assert_eq!(heads.largest.len(), tables.len(), "a run that changed has new bounds");
        let sought = head(key.strip_prefix(&heads.common[..])?);
        let mut at = heads.largest.partition_point(|&largest| largest < sought);
        if heads.largest.get(at) == Some(&sought) {
            let equal = heads.largest[at..].partition_point(|&largest| largest == sought);
            at += tables[at..at + equal].partition_point(|table| table.meta.ends_before(key));
        }
        let smallest = *heads.smallest.get(at)?;
        let has_begun =
            smallest < sought || smallest == sought && &tables[at].meta.smallest[..] <= key;
        has_begun.then_some(at)
    }
}

fn common_prefix(a: &[u8], b: &[u8]) -> Vec<u8> {
    let common = a.iter().zip(b).take_while(|(a, b)| a == b);
    common.map(|(byte, _)| *byte).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manifest::version_edit::tests::sample_table;
    use crate::version::TableMeta;
    use esker_base::Rng;

    /// A short key of few letters, so that many are equal, and prefixes of each other; some end in zeros.
    fn key(rng: &mut Rng, common: &[u8]) -> Vec<u8> {
        let more = (0..rng.below(12)).map(|_| [0, b'a', b'a', 0xff][rng.below(4) as usize]);
        let mut key = [common, b"k"].concat();
        key.extend(more);
        key
    }

    /// Tables of disjoint ranges, in order. Some hold one key; some begin with the key that the one before ends at, which
    /// is then not that one's.
    fn tables(rng: &mut Rng, common: &[u8]) -> Vec<Arc<TableHandle>> {
        let mut keys: Vec<_> = (0..2 * rng.below(20)).map(|_| key(rng, common)).collect();
        keys.sort();
        keys.dedup();
        let (mut tables, mut at) = (Vec::new(), 0);
        while at < keys.len() {
            let is_of_one_key = rng.one_in(4) || at + 1 == keys.len();
            let last = if is_of_one_key { at } else { at + 1 };
            let (smallest, largest) = (keys[at].clone(), keys[last].clone());
            let largest_is_exclusive = !is_of_one_key && rng.one_in(3);
            let meta = TableMeta { smallest, largest, largest_is_exclusive, ..sample_table(1) };
            tables.push(TableHandle::detached(meta));
            let next_begins_there = largest_is_exclusive && rng.one_in(2);
            at = if next_begins_there { last } else { last + 1 };
        }
        tables
    }

    #[test]
    fn the_table_is_that_whose_bounds_the_key_lies_between() {
        let (mut rng, mut found, mut missed) = (Rng::new(1), 0, 0);
        for round in 0..2_000u32 {
            let common = vec![b'c'; round as usize % 10];
            let tables = tables(&mut rng, &common);
            let bounds = FencePointers::default();
            for _ in 0..50 {
                let shorter = rng.below(common.len() as u64 + 1) as usize;
                let of_others = rng.one_in(4);
                let key = key(&mut rng, if of_others { &common[shorter..] } else { &common });
                let expected = tables.iter().position(|table| holds(table, &key));
                assert_eq!(bounds.find(&tables, &key), expected, "{key:?} in {tables:?}");
                found += u32::from(expected.is_some());
                missed += u32::from(expected.is_none());
            }
        }
        assert!(found > 10_000 && missed > 10_000, "{found} found, {missed} missed");
    }
}
