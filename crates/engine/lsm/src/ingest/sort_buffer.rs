//! A bulk loader's buffer, which sorts entries.

use super::sorted_writer::SortedWriter;
use esker_base::Result;
use std::ops::Range;

/// Entries in the order in which they came.
#[derive(Default)]
pub(super) struct SortBuffer {
    bytes: Vec<u8>,
    entries: Vec<Buffered>,
}

#[derive(Clone, Copy)]
pub(super) struct Buffered {
    /// The first bytes of the key, which decide most comparisons without a cache miss.
    prefix: u64,
    start: usize,
    key_bytes: u32,
    value_bytes: u32,
}

impl SortBuffer {
    /// The bytes in it.
    pub(super) fn used(&self) -> usize {
        self.bytes.len() + size_of_val(&self.entries[..])
    }

    pub(super) fn push(&mut self, key: &[u8], value: &[u8]) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(key);
        self.bytes.extend_from_slice(value);
        // A put would refuse longer ones.
        let (key_bytes, value_bytes) = (key.len() as u32, value.len() as u32);
        self.entries.push(Buffered { prefix: prefix(key), start, key_bytes, value_bytes });
    }

    fn key(&self, entry: &Buffered) -> &[u8] {
        &self.bytes[entry.start..][..entry.key_bytes as usize]
    }

    fn value(&self, entry: &Buffered) -> &[u8] {
        let start = entry.start + entry.key_bytes as usize;
        &self.bytes[start..][..entry.value_bytes as usize]
    }

    /// Writes the last entry of each key, in order of keys.
    pub(super) fn write(&mut self, writer: &mut SortedWriter) -> Result<()> {
        let mut entries = std::mem::take(&mut self.entries);
        let key = |entry: &Buffered| -> Range<usize> {
            entry.start..entry.start + entry.key_bytes as usize
        };
        let bytes = &self.bytes;
        // By key, and the last that came first.
        entries.sort_unstable_by(|a, b| {
            let by_prefix = a.prefix.cmp(&b.prefix);
            let by_key = by_prefix.then_with(|| bytes[key(a)].cmp(&bytes[key(b)]));
            by_key.then(b.start.cmp(&a.start))
        });
        let mut last: Option<Buffered> = None;
        for entry in &entries {
            if last.is_none_or(|last| self.key(&last) != self.key(entry)) {
                writer.add_stored(self.key(entry), self.value(entry))?;
                last = Some(*entry);
            }
        }
        entries.clear();
        self.entries = entries;
        self.bytes.clear();
        Ok(())
    }
}

/// The first eight bytes of `key`, with zeros behind a shorter one, as a number that is in order of keys.
fn prefix(key: &[u8]) -> u64 {
    let mut bytes = [0; 8];
    let len = key.len().min(8);
    bytes[..len].copy_from_slice(&key[..len]);
    u64::from_be_bytes(bytes)
}

/// What an entry takes besides its key and value, in bytes.
pub(super) const ENTRY_BYTES: usize = size_of::<Buffered>();
