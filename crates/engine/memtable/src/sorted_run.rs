//! The sorted versions of one keyspace, for a range of entry numbers.
//!
//! An item is a version: eight bytes of its key, its number, its place. The eight bytes are those
//! after the prefix that all keys of the part have in common, so that most comparisons read no key
//! even if keys differ late. They are a big-endian word, padded with zeros: where words differ, they
//! order as the keys do; where they are equal, the keys decide, and then the newer version is first.

use crate::segment::{Place, Segment};
use esker_base::KeyspaceId;
use std::cmp::Ordering;
use std::sync::Arc;

/// One version.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SortedEntry {
    word: u64,
    /// The entry's number, all bits flipped: newer versions are smaller.
    flipped: u32,
    place: Place,
}

impl SortedEntry {
    /// The entry's number.
    #[inline]
    pub fn number(&self) -> u32 {
        !self.flipped
    }

    /// Where the entry is.
    #[inline]
    pub fn place(&self) -> Place {
        self.place
    }

    /// The eight bytes of its key, after the prefix that `rebase` goes to.
    #[inline]
    pub fn word(&self, rebase: PrefixRebase) -> u64 {
        rebase.apply(self.word)
    }

    /// What items are sorted by, as long as no two keys have the same word.
    #[inline]
    fn rank(&self) -> u128 {
        u128::from(self.word) << 32 | u128::from(self.flipped)
    }
}

/// See the module's text. Immutable.
pub(crate) struct KeyspaceRun {
    keyspace: KeyspaceId,
    /// What all keys start with.
    common: Box<[u8]>,
    items: Vec<SortedEntry>,
}

/// The first eight bytes of `key`, padded with zeros, as a big-endian number.
#[inline]
fn word_of(key: &[u8]) -> u64 {
    if let Some(bytes) = key.first_chunk() {
        return u64::from_be_bytes(*bytes);
    }
    let mut bytes = [0; 8];
    bytes[..key.len()].copy_from_slice(key);
    u64::from_be_bytes(bytes)
}

/// The length of the longest common prefix.
#[inline]
fn common_bytes(a: &[u8], b: &[u8]) -> usize {
    let len = a.len().min(b.len());
    if a[..len] == b[..len] {
        return len;
    }
    a.iter().zip(b).position(|(a, b)| a != b).unwrap_or(len)
}

/// What turns the words of a part into words after a shorter common prefix: the bytes in between
/// come in from the left.
#[derive(Clone, Copy)]
pub(crate) struct PrefixRebase {
    shift: u32,
    high: u64,
}

impl PrefixRebase {
    /// From the whole of `common` to its first `bytes` bytes.
    fn new(common: &[u8], bytes: usize) -> PrefixRebase {
        let shift = ((common.len() - bytes) * 8).min(64) as u32;
        PrefixRebase { shift, high: word_of(&common[bytes..]) }
    }

    #[inline]
    fn apply(self, word: u64) -> u64 {
        self.high | word.checked_shr(self.shift).unwrap_or(0)
    }
}

/// A part that is being collected.
pub(crate) struct RunBuilder {
    keyspace: KeyspaceId,
    common: Vec<u8>,
    items: Vec<SortedEntry>,
}

impl RunBuilder {
    /// Starts with space for `items` items.
    pub fn new(keyspace: KeyspaceId, items: usize) -> RunBuilder {
        RunBuilder { keyspace, common: Vec::new(), items: Vec::with_capacity(items) }
    }

    /// The keyspace of all that is collected.
    pub fn keyspace(&self) -> KeyspaceId {
        self.keyspace
    }

    /// Adds a version.
    #[inline]
    pub fn push(&mut self, key: &[u8], number: u32, place: Place) {
        if self.items.is_empty() {
            self.common = key.to_vec();
        } else if !key.starts_with(&self.common) {
            self.shorten_common(key);
        }
        let word = word_of(&key[self.common.len()..]);
        self.items.push(SortedEntry { word, flipped: !number, place });
    }

    #[cold]
    fn shorten_common(&mut self, key: &[u8]) {
        let bytes = common_bytes(&self.common, key);
        let rebase = PrefixRebase::new(&self.common, bytes);
        self.items.iter_mut().for_each(|item| item.word = rebase.apply(item.word));
        self.common.truncate(bytes);
    }

    /// Sorts what was collected.
    pub fn sort(mut self, segment: &Segment) -> KeyspaceRun {
        self.items.sort_unstable_by_key(SortedEntry::rank);
        let depth = self.common.len();
        for group in self.items.chunk_by_mut(|a, b| a.word == b.word) {
            if group.len() > 1 {
                sort_equal_words(segment, group, depth);
            }
        }
        KeyspaceRun { keyspace: self.keyspace, common: self.common.into(), items: self.items }
    }
}

/// Groups up to this size are sorted by comparing keys: cheaper than a round of new words.
const SMALL_GROUP: usize = 16;

/// Sorts items whose keys agree in their first `depth` bytes and, padded, in the eight bytes
/// after; they are sorted newest first already.
fn sort_equal_words(segment: &Segment, group: &mut [SortedEntry], depth: usize) {
    if group.len() <= SMALL_GROUP {
        return group.sort_unstable_by(|a, b| compare(segment, a, b));
    }
    let first = segment.entry(group[0].place).key;
    let mut common = first.len();
    let mut longest = first.len();
    for item in &group[1..] {
        let key = segment.entry(item.place).key;
        longest = longest.max(key.len());
        // Damage may have made a key shorter meanwhile.
        let (Some(first), Some(key)) = (first.get(depth..common), key.get(depth..)) else { return };
        common = depth + common_bytes(first, key);
    }
    if longest == common {
        return; // All are versions of one key.
    }
    let mut again: Vec<SortedEntry> = group
        .iter()
        .map(|item| SortedEntry { word: word_after(segment, item, common), ..*item })
        .collect();
    again.sort_unstable_by_key(SortedEntry::rank);
    let size = again.len();
    for equal in again.chunk_by_mut(|a, b| a.word == b.word) {
        if equal.len() == size {
            // New words told nothing apart: the keys differ in how many zeros they end with.
            equal.sort_unstable_by(|a, b| compare(segment, a, b));
        } else if equal.len() > 1 {
            sort_equal_words(segment, equal, common);
        }
    }
    for (item, sorted) in group.iter_mut().zip(again) {
        *item = SortedEntry { word: item.word, ..sorted };
    }
}

/// The word of a version's key after so many bytes.
fn word_after(segment: &Segment, item: &SortedEntry, bytes: usize) -> u64 {
    word_of(segment.entry(item.place).key.get(bytes..).unwrap_or_default())
}

/// Compares two versions by whole keys, then newest first.
fn compare(segment: &Segment, a: &SortedEntry, b: &SortedEntry) -> Ordering {
    let key = |item: &SortedEntry| segment.entry(item.place).key;
    key(a).cmp(key(b)).then(a.flipped.cmp(&b.flipped))
}

/// The items with the word `word`, with which `items` begins if it has any.
fn equal_words(items: &[SortedEntry], word: u64) -> &[SortedEntry] {
    if items.last().is_some_and(|item| item.word == word) {
        return items;
    }
    let mut bound = 1;
    while items.get(bound - 1).is_some_and(|item| item.word == word) {
        bound *= 2;
    }
    let items = &items[..bound.min(items.len())];
    &items[..items.partition_point(|item| item.word == word)]
}

/// Like [`KeyspaceRun::seek`], in items with the word of `key`.
fn seek_equal_words(segment: &Segment, items: &[SortedEntry], key: &[u8], numbers: u32) -> usize {
    let key_of = |item: &SortedEntry| segment.entry(item.place).key;
    if let [first, .., last] = items
        && key_of(first) == key
        && key_of(last) == key
    {
        // All are versions of the key. The oldest tells whether any of them is seen.
        let is_unseen = |item: &SortedEntry| item.number() >= numbers;
        return if is_unseen(last) { items.len() } else { items.partition_point(is_unseen) };
    }
    items.partition_point(|item| match key_of(item).cmp(key) {
        Ordering::Less => true,
        Ordering::Equal => item.number() >= numbers,
        Ordering::Greater => false,
    })
}

impl KeyspaceRun {
    /// The keyspace of all items.
    pub fn keyspace(&self) -> KeyspaceId {
        self.keyspace
    }

    /// The length of the prefix that all keys of all `parts` have in common.
    pub fn common_bytes(parts: &[Arc<KeyspaceRun>]) -> usize {
        let Some((first, others)) = parts.split_first() else { return 0 };
        let shortest =
            |bytes, part: &Arc<KeyspaceRun>| common_bytes(&first.common[..bytes], &part.common);
        others.iter().fold(first.common.len(), shortest)
    }

    /// What turns words here into words after the first `bytes` bytes of the common prefix. Words of
    /// several parts, after one prefix, order as the keys do where they differ.
    pub fn rebase(&self, bytes: usize) -> PrefixRebase {
        PrefixRebase::new(&self.common, bytes)
    }

    /// The versions, in order.
    #[inline]
    pub fn items(&self) -> &[SortedEntry] {
        &self.items
    }

    /// The bytes of memory taken.
    pub fn memory_bytes(&self) -> usize {
        size_of::<KeyspaceRun>()
            + self.common.len()
            + self.items.capacity() * size_of::<SortedEntry>()
    }

    /// Merges two parts of one keyspace; all of `newer`'s entries are newer than `older`'s.
    pub fn merge(segment: &Segment, older: &KeyspaceRun, newer: &KeyspaceRun) -> KeyspaceRun {
        debug_assert_eq!(older.keyspace, newer.keyspace);
        let bytes = common_bytes(&older.common, &newer.common);
        let rebase_older = PrefixRebase::new(&older.common, bytes);
        let rebase_newer = PrefixRebase::new(&newer.common, bytes);
        let mut items = Vec::with_capacity(older.items.len() + newer.items.len());
        let mut left = older
            .items
            .iter()
            .map(|item| SortedEntry { word: rebase_older.apply(item.word), ..*item });
        let mut right = newer
            .items
            .iter()
            .map(|item| SortedEntry { word: rebase_newer.apply(item.word), ..*item });
        let (mut a, mut b) = (left.next(), right.next());
        while let (Some(old), Some(new)) = (a, b) {
            let old_first = old.word < new.word
                || old.word == new.word && compare(segment, &old, &new) == Ordering::Less;
            if old_first {
                items.push(old);
                a = left.next();
            } else {
                items.push(new);
                b = right.next();
            }
        }
        items.extend(a.into_iter().chain(left));
        items.extend(b.into_iter().chain(right));
        KeyspaceRun { keyspace: older.keyspace, common: older.common[..bytes].into(), items }
    }

    /// The index of the first item at or after the newest version of `key` among the first
    /// `numbers` entries: the versions with a number below that, and all greater keys.
    pub fn seek(&self, segment: &Segment, key: &[u8], numbers: u32) -> usize {
        let common = &self.common[..];
        match key[..key.len().min(common.len())].cmp(common) {
            Ordering::Less => return 0,
            Ordering::Greater => return self.items.len(),
            Ordering::Equal => {}
        }
        let word = word_of(&key[common.len()..]);
        let first = self.items.partition_point(|item| item.word < word);
        first + seek_equal_words(segment, equal_words(&self.items[first..], word), key, numbers)
    }

    /// The index of the item after `at`, which is not among the first `numbers` entries, in the
    /// direction of `step`. Passes the other versions of its key that are not among them either, if
    /// there may be several.
    pub fn pass_unseen(&self, segment: &Segment, at: usize, numbers: u32, step: usize) -> usize {
        let next = at.wrapping_add(step);
        let (item, Some(following)) = (self.items[at], self.items.get(next)) else { return next };
        if following.word != item.word || following.number() < numbers {
            return next;
        }
        let key = segment.entry(item.place).key;
        if segment.entry(following.place).key != key {
            return next;
        }
        match step {
            1 => self.seek(segment, key, numbers).max(next),
            _ => self.seek(segment, key, u32::MAX).min(at).wrapping_sub(1),
        }
    }
}
