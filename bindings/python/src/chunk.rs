//! Entries that were read ahead.

/// Bytes of several items, one after the other. This is the layout of a binary array in Apache Arrow.
#[derive(Default)]
pub(crate) struct Column {
    /// Where each item ends.
    ends: Vec<i32>,
    data: Vec<u8>,
}

impl Column {
    #[inline]
    fn push(&mut self, item: &[u8]) {
        self.data.extend_from_slice(item);
        self.ends.push(self.data.len() as i32);
    }

    #[inline]
    fn get(&self, at: usize) -> &[u8] {
        let start = if at == 0 { 0 } else { self.ends[at - 1] };
        &self.data[start as usize..self.ends[at] as usize]
    }

    /// Where each item begins, and the last ends; and the bytes.
    pub(crate) fn into_parts(mut self) -> (Vec<i32>, Vec<u8>) {
        self.ends.insert(0, 0);
        (self.ends, self.data)
    }
}

/// Keys and, unless only keys are wanted, their values.
#[derive(Default)]
pub(crate) struct Chunk {
    pub(crate) keys: Column,
    pub(crate) values: Column,
}

/// The most bytes of a chunk before its last entry. With that entry, of a quarter of a segment at most,
/// it stays below the 2 GiB that the ends can count.
pub(crate) const BYTES_MAX: usize = 64 << 20;

impl Chunk {
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.keys.ends.len()
    }

    #[inline]
    pub(crate) fn bytes(&self) -> usize {
        self.keys.data.len() + self.values.data.len()
    }

    #[inline]
    pub(crate) fn push(&mut self, key: &[u8], value: Option<&[u8]>) {
        self.keys.push(key);
        if let Some(value) = value {
            self.values.push(value);
        }
    }

    #[inline]
    pub(crate) fn key(&self, at: usize) -> &[u8] {
        self.keys.get(at)
    }

    #[inline]
    pub(crate) fn value(&self, at: usize) -> &[u8] {
        self.values.get(at)
    }

    /// Removes all entries, and keeps the memory.
    pub(crate) fn clear(&mut self) {
        for column in [&mut self.keys, &mut self.values] {
            column.ends.clear();
            column.data.clear();
        }
    }
}
