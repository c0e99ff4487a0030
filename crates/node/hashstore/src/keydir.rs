//! Where each key's value is: the index in DRAM, of one partition.
//!
//! An ordered hash table: open addressing with linear probing, whose entries are in order of
//! (hash, key) (Amble and Knuth, "Ordered hash tables", The Computer Journal 17, 1974). An entry's
//! home is its hash, scaled to the table's size, so homes are in order too; an insertion shifts the
//! entries behind it up to the next gap, a removal shifts them back. The table does not wrap around: it has
//! some slots behind the last home. So a walk in order of hash, from any key on, is a walk over the slots.
//!
//! An entry takes 24 bytes. Keys of up to 16 bytes are in it, and need no other place to be verified;
//! longer ones are outside the table, as do the extents of values that are in several. At most seven eighths
//! of the slots are used, and a table that is full grows by a quarter: 27 to 34 bytes a key.
//!
//! **Growth** takes its time, so that no request waits for it: each insertion and removal moves some entries to the larger
//! table, in order. Those below a hash are in that table then, and the others in the old one: no key is looked for in both. The
//! slots are in segments, which are made when the first entry comes and freed when the last has gone, so the two tables together take
//! little more than the larger one.

use crate::extent::Extent;
use esker_base::hash64;
use std::collections::BTreeMap;
use std::ops::Deref;

mod table;

use table::{Entry, IN_PIECES, KEY_SHIFT, SHORT_KEY_BYTES, Table};

pub use table::EXTENT_BLOCKS_MAX;

/// Homes of the first table.
const HOMES_MIN: usize = 64;

/// Slots that an insertion or removal moves during growth. All are moved long before the larger table is full, and the
/// old one gets little fuller meanwhile.
const MOVED_SLOTS: usize = 32;

/// What an entry of `pieces` takes, its place in the tree included.
fn bytes_of_pieces(pieces: &[Extent]) -> usize {
    48 + size_of_val(pieces)
}

/// The keys of a partition and the extents of their values.
pub struct KeyDir {
    table: Table,
    /// During growth, the table that is left: `table` has the lower hashes.
    old: Option<ShrinkingTable>,
    entries: usize,
    /// The bits of a hash that choose the partition, and so are the same for all.
    shared_bits: u32,
    long_keys: Vec<Box<[u8]>>,
    free_long_keys: Vec<u32>,
    long_key_bytes: usize,
    /// All extents of the values that are in several, by the start of the first.
    pieces: BTreeMap<u32, Box<[Extent]>>,
    pieces_bytes: usize,
    hash: fn(&[u8]) -> u64,
}

/// A table whose entries are being moved.
struct ShrinkingTable {
    table: Table,
    /// The first slot that was not moved.
    from: usize,
    /// Hashes from this one on are here.
    hash_from: u64,
}

/// A slot of one of the tables.
#[derive(Clone, Copy)]
struct Place {
    is_old: bool,
    at: usize,
}

/// Extents of a value.
#[derive(Debug)]
pub enum Lookup<'a> {
    /// It is in one piece.
    Whole([Extent; 1]),
    /// It is in several.
    InPieces(&'a [Extent]),
}

impl Deref for Lookup<'_> {
    type Target = [Extent];

    fn deref(&self) -> &[Extent] {
        match self {
            Lookup::Whole(extent) => extent,
            Lookup::InPieces(extents) => extents,
        }
    }
}

impl KeyDir {
    /// An empty directory for keys whose hashes have the first `shared_bits` bits in common.
    pub fn new(shared_bits: u32) -> Self {
        Self::with_hash(shared_bits, hash64)
    }

    fn with_hash(shared_bits: u32, hash: fn(&[u8]) -> u64) -> Self {
        KeyDir {
            table: Table::new(HOMES_MIN),
            old: None,
            entries: 0,
            shared_bits,
            long_keys: Vec::new(),
            free_long_keys: Vec::new(),
            long_key_bytes: 0,
            pieces: BTreeMap::new(),
            pieces_bytes: 0,
            hash,
        }
    }

    /// The number of keys.
    pub fn len(&self) -> usize {
        self.entries
    }

    /// The memory it takes, in bytes, without what the allocator adds. O(1).
    pub fn memory_bytes(&self) -> usize {
        self.table.memory_bytes()
            + self.old.as_ref().map_or(0, |old| old.table.memory_bytes())
            + self.long_keys.capacity() * size_of::<Box<[u8]>>()
            + self.long_key_bytes
            + self.pieces_bytes
    }

    /// What keys are in order of.
    pub fn order<'a>(&self, key: &'a [u8]) -> (u64, &'a [u8]) {
        ((self.hash)(key), key)
    }

    fn remove_pieces(&mut self, start: u32) {
        let pieces = self.pieces.remove(&start);
        self.pieces_bytes -= pieces.map_or(0, |pieces| bytes_of_pieces(&pieces));
    }

    /// The extents of the value of `key`.
    pub fn get(&self, key: &[u8]) -> Option<Vec<Extent>> {
        let (_, entry) = self.find((self.hash)(key), key);
        entry.map(|entry| self.extents_of(entry).to_vec())
    }

    /// Whether there is such a key.
    pub fn contains(&self, key: &[u8]) -> bool {
        self.find((self.hash)(key), key).1.is_some()
    }

    /// Sets where the value of `key` is, and gives the extents of the old one. An extent has at most
    /// [`EXTENT_BLOCKS_MAX`] blocks.
    pub fn insert(&mut self, key: &[u8], extents: &[Extent]) -> Option<Vec<Extent>> {
        assert!(extents[0].blocks <= EXTENT_BLOCKS_MAX, "an extent beyond what an entry can say");
        let hash = (self.hash)(key);
        let (mut place, found) = self.find(hash, key);
        let mut old = None;
        if let Some(&entry) = found {
            old = Some(self.extents_of(&entry).to_vec());
            self.remove_pieces(entry.start);
        } else {
            self.make_room();
            place = self.find(hash, key).0;
            let entry = self.entry_of(hash, key);
            self.table_mut(place).shift_in(place.at, entry);
            self.entries += 1;
        }
        let in_pieces = if extents.len() > 1 { IN_PIECES } else { 0 };
        let entry = self.table_mut(place).slot(place.at);
        let key_kind = entry.what & (31 << KEY_SHIFT);
        entry.start = extents[0].start;
        entry.what = extents[0].blocks | key_kind | in_pieces;
        if extents.len() > 1 {
            self.pieces_bytes += bytes_of_pieces(extents);
            self.pieces.insert(extents[0].start, extents.into());
        }
        old
    }

    /// Takes `key` out, and gives the extents of its value.
    pub fn remove(&mut self, key: &[u8]) -> Option<Vec<Extent>> {
        let (Place { is_old, mut at }, found) = self.find((self.hash)(key), key);
        let entry = *found?;
        let old = self.extents_of(&entry).to_vec();
        self.remove_pieces(entry.start);
        if let Some(number) = entry.long_key() {
            self.long_key_bytes -= self.long_keys[number].len();
            self.long_keys[number] = Box::default();
            self.free_long_keys.push(number as u32);
        }
        while let Some(&next) = self.table(is_old).entry(at + 1)
            && self.home(self.table(is_old), self.hash_of(&next)) <= at
        {
            *self.table_mut(Place { is_old, at }).slot(at) = next;
            at += 1;
        }
        *self.table_mut(Place { is_old, at }).slot(at) = Entry::default();
        self.entries -= 1;
        self.move_some();
        Some(old)
    }

    /// All keys and their extents, in order of (hash, key).
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], Lookup<'_>)> {
        self.iter_from(None)
    }

    /// The same from `key` on, if there is one, whether or not it is in the directory.
    pub fn iter_from(&self, key: Option<&[u8]>) -> impl Iterator<Item = (&[u8], Lookup<'_>)> {
        self.entries_from(key).map(|entry| (self.key_of(entry), self.extents_of(entry)))
    }

    /// The keys alone.
    pub fn keys_from(&self, key: Option<&[u8]>) -> impl Iterator<Item = &[u8]> {
        self.entries_from(key).map(|entry| self.key_of(entry))
    }

    fn entries_from(&self, key: Option<&[u8]>) -> impl Iterator<Item = &Entry> {
        let first = Place { is_old: false, at: 0 };
        let place = key.map_or(first, |key| self.find((self.hash)(key), key).0);
        let lower = (!place.is_old).then(|| self.table.entries_from(place.at));
        let upper = self
            .old
            .as_ref()
            .map(|old| old.table.entries_from(if place.is_old { place.at } else { old.from }));
        lower.into_iter().flatten().chain(upper.into_iter().flatten())
    }

    fn table(&self, is_old: bool) -> &Table {
        match &self.old {
            Some(old) if is_old => &old.table,
            _ => &self.table,
        }
    }

    fn table_mut(&mut self, place: Place) -> &mut Table {
        match &mut self.old {
            Some(old) if place.is_old => &mut old.table,
            _ => &mut self.table,
        }
    }

    fn home(&self, table: &Table, hash: u64) -> usize {
        ((u128::from(hash << self.shared_bits) * table.homes() as u128) >> 64) as usize
    }

    fn hash_of(&self, entry: &Entry) -> u64 {
        entry.long_hash().unwrap_or_else(|| (self.hash)(entry.short_key()))
    }

    fn key_of<'a>(&'a self, entry: &'a Entry) -> &'a [u8] {
        match entry.long_key() {
            Some(number) => &self.long_keys[number],
            None => entry.short_key(),
        }
    }

    fn extents_of(&self, entry: &Entry) -> Lookup<'_> {
        match entry.what & IN_PIECES {
            0 => Lookup::Whole([entry.first()]),
            _ => Lookup::InPieces(&self.pieces[&entry.start]),
        }
    }

    /// The slot where `key` is, with its entry, or where it belongs.
    fn find(&self, hash: u64, key: &[u8]) -> (Place, Option<&Entry>) {
        let (table, mut at, is_old) = match &self.old {
            Some(old) if hash >= old.hash_from => {
                (&old.table, self.home(&old.table, hash).max(old.from), true)
            }
            _ => (&self.table, self.home(&self.table, hash), false),
        };
        while let Some(entry) = table.entry(at) {
            let order = self.hash_of(entry).cmp(&hash);
            let order = order.then_with(|| self.key_of(entry).cmp(key));
            if order.is_ge() {
                return (Place { is_old, at }, order.is_eq().then_some(entry));
            }
            at += 1;
        }
        (Place { is_old, at }, None)
    }

    /// An entry that says nothing yet but its key.
    fn entry_of(&mut self, hash: u64, key: &[u8]) -> Entry {
        if key.len() <= SHORT_KEY_BYTES {
            return Entry::of_short(key);
        }
        let number = self.free_long_keys.pop().unwrap_or_else(|| {
            self.long_keys.push(Box::default());
            self.long_keys.len() as u32 - 1
        });
        self.long_keys[number as usize] = key.into();
        self.long_key_bytes += key.len();
        Entry::of_long(hash, number)
    }

    /// Makes sure that one more entry has space, and goes on with growth.
    fn make_room(&mut self) {
        if (self.entries + 1) * 8 > self.table.homes() * 7 {
            // A small table fills up that fast, and one of which few hashes are the hashes of many keys.
            while self.old.is_some() {
                self.move_some();
            }
            let homes = self.table.homes();
            let table = std::mem::replace(&mut self.table, Table::new(homes + homes / 4));
            self.old = Some(ShrinkingTable { table, from: 0, hash_from: 0 });
        }
        self.move_some();
    }

    /// Moves the lowest entries to the larger table, if there are two.
    fn move_some(&mut self) {
        let Some(mut old) = self.old.take() else { return };
        let end = old.from + MOVED_SLOTS;
        let mut last_hash = None;
        while old.from < old.table.slots() {
            if let Some(&entry) = old.table.entry(old.from) {
                let hash = self.hash_of(&entry);
                // Keys whose hash is the same stay together.
                if old.from >= end && last_hash != Some(hash) {
                    old.hash_from = hash;
                    self.old = Some(old);
                    return;
                }
                let mut at = self.home(&self.table, hash);
                while self.table.entry(at).is_some() {
                    at += 1;
                }
                *self.table.slot(at) = entry;
                last_hash = Some(hash);
            }
            old.from += 1;
            old.table.free_before(old.from);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use esker_base::Rng;

    fn at(start: u32) -> [Extent; 1] {
        [Extent { start, blocks: 1 + start % 7 }]
    }

    /// Random operations on few keys, against an ordered map.
    fn agrees_with_a_map(mut directory: KeyDir, hash: fn(&[u8]) -> u64, seed: u64) {
        let (mut rng, mut map) = (Rng::new(seed), BTreeMap::new());
        for step in 0..6000u32 {
            let number = rng.below(700);
            let mut key = number.to_be_bytes()[6..].to_vec();
            key.resize(2 + (number % 40) as usize, b'.');
            let name = (hash(&key), key.clone());
            if rng.one_in(3) {
                assert_eq!(directory.remove(&key), map.remove(&name));
            } else {
                let mut extents = at(step).to_vec();
                if rng.one_in(5) {
                    extents.push(Extent { start: step + 1_000_000, blocks: 3 });
                }
                assert_eq!(directory.insert(&key, &extents), map.insert(name, extents));
            }
            assert_eq!(directory.len(), map.len());
        }
        let expected: Vec<_> = map.iter().map(|((_, key), at)| (&key[..], at.clone())).collect();
        let found = directory.iter().map(|(key, extents)| (key, extents.to_vec()));
        assert_eq!(found.collect::<Vec<_>>(), expected);
        for ((hash_of_key, key), extents) in &map {
            assert_eq!(directory.get(key).as_ref(), Some(extents));
            let rest = map.range((*hash_of_key, key.clone())..).map(|((_, key), _)| &key[..]);
            assert!(directory.keys_from(Some(key)).eq(rest));
        }
        assert_eq!(directory.get(b"absent"), None);
        for key in map.into_keys().map(|(_, key)| key) {
            directory.remove(&key).unwrap();
        }
        assert_eq!((directory.len(), directory.long_key_bytes, directory.pieces_bytes), (0, 0, 0));
    }

    #[test]
    fn it_is_a_map_in_order_of_hashes() {
        agrees_with_a_map(KeyDir::new(0), hash64, 1);
    }

    #[test]
    fn keys_whose_hashes_are_alike_stay_apart() {
        fn few(key: &[u8]) -> u64 {
            hash64(key) & (3 << 62)
        }
        agrees_with_a_map(KeyDir::with_hash(0, few), few, 2);
        fn last(_: &[u8]) -> u64 {
            u64::MAX
        }
        agrees_with_a_map(KeyDir::with_hash(0, last), last, 3);
    }

    /// Insertions and removals at each stage of growth.
    #[test]
    fn while_it_grows_it_is_a_map_in_order_of_hashes() {
        let (mut directory, mut map, mut stages) = (KeyDir::new(0), BTreeMap::new(), 0);
        for number in 0..3000u32 {
            for number in [number, number / 2 * 7 % 3000] {
                let key = number.to_le_bytes();
                directory.insert(&key, &at(number));
                map.insert(directory.order(&key).0, (key, at(number)));
            }
            if number % 3 == 0 {
                let key = (number / 2).to_le_bytes();
                let removed = map.remove(&hash64(&key)).map(|(_, extents)| extents.to_vec());
                assert_eq!(directory.remove(&key), removed);
            }
            if directory.old.is_some() {
                stages += 1;
                let expected = map.values().map(|(key, extents)| (&key[..], extents.to_vec()));
                assert!(directory.iter().map(|(key, found)| (key, found.to_vec())).eq(expected));
                for (key, extents) in map.values() {
                    assert_eq!(directory.get(key).as_deref(), Some(&extents[..]));
                }
                let (_, (middle, _)) = map.iter().nth(map.len() / 2).unwrap();
                let rest = map.range(hash64(middle)..).map(|(_, (key, _))| &key[..]);
                assert!(directory.keys_from(Some(middle)).eq(rest));
            }
        }
        assert!(stages > 200, "{stages} stages");
    }

    /// Where the table that is left begins, entries are behind their homes, which may be gone.
    #[test]
    fn while_it_grows_the_first_that_was_not_moved_is_found() {
        let (mut directory, mut stages) = (KeyDir::new(0), 0);
        for number in 0..100_000u32 {
            directory.insert(&number.to_le_bytes(), &at(number));
            let Some(old) = &directory.old else { continue };
            stages += 1;
            for entry in old.table.entries_from(old.from).take(8) {
                assert!(directory.contains(entry.short_key()), "at {} of {number}", old.from);
            }
        }
        assert!(stages > 2000, "{stages} stages");
    }

    #[test]
    fn a_short_key_takes_27_to_34_bytes() {
        let mut directory = KeyDir::new(0);
        for number in 0..400_000u32 {
            directory.insert(&number.to_le_bytes(), &at(number));
            if number > 100_000 {
                let bytes = directory.memory_bytes() as f64 / f64::from(number + 1);
                assert!((27.0..35.0).contains(&bytes), "{bytes} bytes a key at {number}");
            }
        }
    }

    #[test]
    fn bits_that_all_hashes_share_do_not_crowd_the_table() {
        let mut directory = KeyDir::new(4);
        for number in 0..1_000_000u32 {
            if hash64(&number.to_le_bytes()) >> 60 == 5 {
                directory.insert(&number.to_le_bytes(), &at(number));
            }
        }
        let distance = |table: &Table, at: usize| {
            let home = |entry| directory.home(table, directory.hash_of(entry));
            table.entry(at).map(|entry| at - home(entry))
        };
        let tables = [Some(&directory.table), directory.old.as_ref().map(|old| &old.table)];
        let distances = tables
            .into_iter()
            .flatten()
            .flat_map(|table| (0..table.slots()).filter_map(move |at| distance(table, at)));
        let longest = distances.max();
        assert!(longest < Some(300), "{longest:?}");
    }
}
