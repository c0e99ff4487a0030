//! Where each key's value lies: the index in DRAM, of one partition.
//!
//! An ordered hash table: open addressing with linear probing, whose entries stand in order of
//! (hash, key) (Amble and Knuth, "Ordered hash tables", The Computer Journal 17, 1974). An entry's
//! home is its hash, scaled to the table's size, so homes are in order too; an insertion shifts the
//! entries behind it up to the next gap, a removal shifts them back. The table does not wrap around: it has
//! some slots behind the last home. So a walk in order of hash, from any key on, is a walk over the slots.
//!
//! An entry takes 24 bytes. Keys of up to 16 bytes lie in it, and need no other place to be verified;
//! longer ones lie beside the table, as do the extents of values that are in several. At most seven eighths
//! of the slots are used, and a table that is full grows by a quarter: 27 to 34 bytes a key.

use crate::extent::Extent;
use esker_base::hash64;
use std::collections::BTreeMap;

/// Keys up to this length lie in their entries.
const SHORT_KEY_BYTES: usize = 16;
/// The mark of a key that does not.
const LONG_KEY: u32 = SHORT_KEY_BYTES as u32 + 1;

/// The most blocks of one extent.
pub const EXTENT_BLOCKS_MAX: u32 = (1 << 24) - 1;

/// Slots of the first table.
const SLOTS_MIN: usize = 64;

/// How an entry's last word is made up: blocks of the first extent, what key it is, whether there
/// are more extents. Zero is an empty slot.
const KEY_SHIFT: u32 = 24;
const IN_PIECES: u32 = 1 << 29;

#[derive(Clone, Copy, Default)]
struct Entry {
    /// A short key and zeros; or a long key's hash and its number in `long_keys`.
    key: [u8; SHORT_KEY_BYTES],
    start: u32,
    what: u32,
}

impl Entry {
    fn is_empty(&self) -> bool {
        self.what == 0
    }

    fn first(&self) -> Extent {
        Extent { start: self.start, blocks: self.what & EXTENT_BLOCKS_MAX }
    }

    fn key_kind(&self) -> u32 {
        self.what >> KEY_SHIFT & 31
    }

    fn long_key(&self) -> Option<usize> {
        let number = u32::from_le_bytes(self.key[8..12].try_into().expect("four bytes"));
        (self.key_kind() == LONG_KEY).then_some(number as usize)
    }
}

/// What an entry of `pieces` takes, its place in the tree included.
fn bytes_of_pieces(pieces: &[Extent]) -> usize {
    48 + size_of_val(pieces)
}

/// The keys of a partition and the extents of their values.
pub struct Directory {
    slots: Vec<Entry>,
    /// The homes, a part of the slots.
    homes: usize,
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

impl Directory {
    /// An empty directory for keys whose hashes have the first `shared_bits` bits in common.
    pub fn new(shared_bits: u32) -> Self {
        Self::with_hash(shared_bits, hash64)
    }

    fn with_hash(shared_bits: u32, hash: fn(&[u8]) -> u64) -> Self {
        let mut directory = Directory {
            slots: Vec::new(),
            homes: 0,
            entries: 0,
            shared_bits,
            long_keys: Vec::new(),
            free_long_keys: Vec::new(),
            long_key_bytes: 0,
            pieces: BTreeMap::new(),
            pieces_bytes: 0,
            hash,
        };
        directory.rebuild(SLOTS_MIN);
        directory
    }

    /// The number of keys.
    pub fn len(&self) -> usize {
        self.entries
    }

    /// The memory it takes, in bytes, without what the allocator adds. O(1).
    pub fn memory_bytes(&self) -> usize {
        self.slots.capacity() * size_of::<Entry>()
            + self.long_keys.capacity() * size_of::<Box<[u8]>>()
            + self.long_key_bytes
            + self.pieces_bytes
    }

    fn remove_pieces(&mut self, start: u32) {
        let pieces = self.pieces.remove(&start);
        self.pieces_bytes -= pieces.map_or(0, |pieces| bytes_of_pieces(&pieces));
    }

    /// The extents of the value of `key`.
    pub fn get(&self, key: &[u8]) -> Option<Vec<Extent>> {
        let (at, found) = self.find((self.hash)(key), key);
        found.then(|| self.extents_of(&self.slots[at]))
    }

    /// Whether there is such a key.
    pub fn contains(&self, key: &[u8]) -> bool {
        self.find((self.hash)(key), key).1
    }

    /// Sets where the value of `key` lies, and gives the extents of the old one. An extent has at most
    /// [`EXTENT_BLOCKS_MAX`] blocks.
    pub fn insert(&mut self, key: &[u8], extents: &[Extent]) -> Option<Vec<Extent>> {
        assert!(extents[0].blocks <= EXTENT_BLOCKS_MAX, "an extent beyond what an entry can say");
        let hash = (self.hash)(key);
        let (mut at, found) = self.find(hash, key);
        let mut old = None;
        if found {
            old = Some(self.extents_of(&self.slots[at]));
            self.remove_pieces(self.slots[at].start);
        } else {
            if (self.entries + 1) * 8 > self.homes * 7 {
                self.rebuild(self.homes + self.homes / 4);
                at = self.find(hash, key).0;
            }
            let entry = self.entry_of(hash, key);
            self.shift_in(at, entry);
        }
        let in_pieces = if extents.len() > 1 { IN_PIECES } else { 0 };
        let entry = &mut self.slots[at];
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
        let (mut at, found) = self.find((self.hash)(key), key);
        if !found {
            return None;
        }
        let entry = self.slots[at];
        let old = self.extents_of(&entry);
        self.remove_pieces(entry.start);
        if let Some(number) = entry.long_key() {
            self.long_key_bytes -= self.long_keys[number].len();
            self.long_keys[number] = Box::default();
            self.free_long_keys.push(number as u32);
        }
        while let Some(&next) = self.slots.get(at + 1)
            && !next.is_empty()
            && self.home(self.hash_of(&next)) <= at
        {
            self.slots[at] = next;
            at += 1;
        }
        self.slots[at] = Entry::default();
        self.entries -= 1;
        Some(old)
    }

    /// All keys and their extents, in order of (hash, key).
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], Vec<Extent>)> {
        let entries = self.slots.iter().filter(|entry| !entry.is_empty());
        entries.map(|entry| (self.key_of(entry), self.extents_of(entry)))
    }

    /// The keys from `key` on in order of (hash, key), whether or not it is there itself.
    pub fn keys_from(&self, key: &[u8]) -> impl Iterator<Item = &[u8]> {
        let (at, _) = self.find((self.hash)(key), key);
        let entries = self.slots[at..].iter().filter(|entry| !entry.is_empty());
        entries.map(|entry| self.key_of(entry))
    }

    /// All keys in order of (hash, key).
    pub fn keys(&self) -> impl Iterator<Item = &[u8]> {
        self.slots.iter().filter(|entry| !entry.is_empty()).map(|entry| self.key_of(entry))
    }

    fn home(&self, hash: u64) -> usize {
        ((u128::from(hash << self.shared_bits) * self.homes as u128) >> 64) as usize
    }

    fn hash_of(&self, entry: &Entry) -> u64 {
        match entry.long_key() {
            Some(_) => u64::from_le_bytes(entry.key[..8].try_into().expect("eight bytes")),
            None => (self.hash)(&entry.key[..entry.key_kind() as usize]),
        }
    }

    fn key_of<'a>(&'a self, entry: &'a Entry) -> &'a [u8] {
        match entry.long_key() {
            Some(number) => &self.long_keys[number],
            None => &entry.key[..entry.key_kind() as usize],
        }
    }

    fn extents_of(&self, entry: &Entry) -> Vec<Extent> {
        match entry.what & IN_PIECES {
            0 => vec![entry.first()],
            _ => self.pieces[&entry.start].to_vec(),
        }
    }

    /// The slot where `key` is, or belongs.
    fn find(&self, hash: u64, key: &[u8]) -> (usize, bool) {
        let mut at = self.home(hash);
        while let Some(entry) = self.slots.get(at)
            && !entry.is_empty()
        {
            let order = self.hash_of(entry).cmp(&hash);
            let order = order.then_with(|| self.key_of(entry).cmp(key));
            if order.is_ge() {
                return (at, order.is_eq());
            }
            at += 1;
        }
        (at, false)
    }

    /// An entry that says nothing yet but its key.
    fn entry_of(&mut self, hash: u64, key: &[u8]) -> Entry {
        let mut entry = Entry::default();
        if key.len() <= SHORT_KEY_BYTES {
            entry.key[..key.len()].copy_from_slice(key);
            entry.what = (key.len() as u32) << KEY_SHIFT;
            return entry;
        }
        let number = self.free_long_keys.pop().unwrap_or_else(|| {
            self.long_keys.push(Box::default());
            self.long_keys.len() as u32 - 1
        });
        self.long_keys[number as usize] = key.into();
        self.long_key_bytes += key.len();
        entry.key[..8].copy_from_slice(&hash.to_le_bytes());
        entry.key[8..12].copy_from_slice(&number.to_le_bytes());
        entry.what = LONG_KEY << KEY_SHIFT;
        entry
    }

    fn shift_in(&mut self, at: usize, entry: Entry) {
        let gap = self.slots[at..].iter().position(Entry::is_empty);
        let gap = gap.map(|behind| at + behind).unwrap_or_else(|| {
            self.slots.push(Entry::default());
            self.slots.len() - 1
        });
        self.slots.copy_within(at..gap, at + 1);
        self.slots[at] = entry;
        self.entries += 1;
    }

    fn rebuild(&mut self, homes: usize) {
        let old = std::mem::take(&mut self.slots);
        self.homes = homes;
        // Few clusters of the last homes are longer than this, and for those a slot is added.
        self.slots = vec![Entry::default(); homes + SLOTS_MIN];
        let mut next = 0;
        for entry in old.into_iter().filter(|entry| !entry.is_empty()) {
            let at = self.home(self.hash_of(&entry)).max(next);
            if at >= self.slots.len() {
                self.slots.resize(at + 1, Entry::default());
            }
            self.slots[at] = entry;
            next = at + 1;
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
    fn agrees_with_a_map(mut directory: Directory, hash: fn(&[u8]) -> u64, seed: u64) {
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
        assert_eq!(directory.iter().collect::<Vec<_>>(), expected);
        for ((hash_of_key, key), extents) in &map {
            assert_eq!(directory.get(key).as_ref(), Some(extents));
            let rest = map.range((*hash_of_key, key.clone())..).map(|((_, key), _)| &key[..]);
            assert!(directory.keys_from(key).eq(rest));
        }
        assert_eq!(directory.get(b"absent"), None);
        for key in map.into_keys().map(|(_, key)| key) {
            directory.remove(&key).unwrap();
        }
        assert_eq!((directory.len(), directory.long_key_bytes, directory.pieces_bytes), (0, 0, 0));
    }

    #[test]
    fn it_is_a_map_in_order_of_hashes() {
        agrees_with_a_map(Directory::new(0), hash64, 1);
    }

    #[test]
    fn keys_whose_hashes_are_alike_stay_apart() {
        fn few(key: &[u8]) -> u64 {
            hash64(key) & (3 << 62)
        }
        agrees_with_a_map(Directory::with_hash(0, few), few, 2);
        fn last(_: &[u8]) -> u64 {
            u64::MAX
        }
        agrees_with_a_map(Directory::with_hash(0, last), last, 3);
    }

    #[test]
    fn a_short_key_takes_27_to_34_bytes() {
        let mut directory = Directory::new(0);
        for number in 0..200_000u32 {
            directory.insert(&number.to_le_bytes(), &at(number));
            if number > 10_000 {
                let bytes = directory.memory_bytes() as f64 / f64::from(number + 1);
                assert!((27.0..35.0).contains(&bytes), "{bytes} bytes a key at {number}");
            }
        }
    }

    #[test]
    fn bits_that_all_hashes_share_do_not_crowd_the_table() {
        let mut directory = Directory::new(4);
        for number in 0..1_000_000u32 {
            if hash64(&number.to_le_bytes()) >> 60 == 5 {
                directory.insert(&number.to_le_bytes(), &at(number));
            }
        }
        let homes = directory.slots.iter().enumerate().filter(|(_, entry)| !entry.is_empty());
        let longest = homes.map(|(at, entry)| at - directory.home(directory.hash_of(entry))).max();
        assert!(longest < Some(300), "{longest:?}");
    }
}
