//! The index and the filter of a table that is being written: whole while it is small, then in
//! [parts](crate::parts).

use crate::filter;
use crate::format::{BlockKind, TRAILER_BYTES};
use crate::index_builder::IndexBuilder;
use crate::parts::{PartLimits, stored_bytes};
use esker_base::Seqno;
use esker_base::coding::put_varint64;

/// A part whose blocks are complete.
struct ClosedPart {
    index: Vec<u8>,
    blocks: u64,
    data_bytes: u64,
    separator: (Vec<u8>, Seqno),
    keys: Keys,
}

enum Keys {
    /// Hashes of keys up to this place among those noted, while the table may still be whole.
    Noted(usize),
    Filter(Option<Vec<u8>>),
}

/// Index and filter, encoded.
pub(crate) enum Encoded {
    Whole { filter: Option<Vec<u8>>, index: Vec<u8> },
    Parts(Vec<EncodedPart>),
}

pub(crate) struct EncodedPart {
    pub(crate) filter: Option<Vec<u8>>,
    pub(crate) index: Vec<u8>,
    blocks: u64,
    data_bytes: u64,
    separator: (Vec<u8>, Seqno),
}

/// See the file's head.
pub(crate) struct PartsBuilder {
    limits: PartLimits,
    fingerprint_bits: u8,
    /// The index of all blocks, until the table is too large to have it whole.
    whole: Option<IndexBuilder>,
    closed: Vec<ClosedPart>,
    /// What closed parts take in the file.
    closed_bytes: usize,
    closed_separator_bytes: u64,
    closed_blocks: u64,
    /// The index of the blocks behind the closed parts.
    open: IndexBuilder,
    /// Hashes of the keys that are in no filter yet.
    hashes: Vec<u64>,
    /// How many of these are of closed parts.
    closed_hashes: usize,
}

impl PartsBuilder {
    pub(crate) fn new(limits: PartLimits, fingerprint_bits: u8) -> Self {
        PartsBuilder {
            limits,
            fingerprint_bits,
            whole: Some(IndexBuilder::default()),
            closed: Vec::new(),
            closed_bytes: 0,
            closed_separator_bytes: 0,
            closed_blocks: 0,
            open: IndexBuilder::default(),
            hashes: Vec::new(),
            closed_hashes: 0,
        }
    }

    /// Notes a key of the blocks that are added next.
    #[inline]
    pub(crate) fn note_key(&mut self, hash: u64) {
        if self.fingerprint_bits > 0 {
            self.hashes.push(hash);
        }
    }

    /// Adds a block, as [`IndexBuilder::add`] does. `last_hash` is the hash of the key of `last`.
    pub(crate) fn add(
        &mut self,
        last: (&[u8], Seqno),
        next: Option<&[u8]>,
        block_bytes: u64,
        last_hash: impl FnOnce() -> u64,
    ) {
        if let Some(whole) = &mut self.whole {
            whole.add(last, next, block_bytes);
        }
        self.open.add(last, next, block_bytes);
        if self.open_bytes() >= self.limits.bytes && self.open.blocks() >= self.limits.blocks_min {
            self.close_part();
            if next == Some(last.0) {
                // Its older versions are in the next part.
                self.note_key(last_hash());
            }
        }
    }

    fn open_bytes(&self) -> usize {
        let keys = self.hashes.len() - self.closed_hashes;
        self.open.bytes() + filter::estimated_bytes(self.fingerprint_bits, keys)
    }

    fn close_part(&mut self) {
        self.closed_bytes += self.open_bytes() + 2 * TRAILER_BYTES;
        self.closed_separator_bytes += self.open.separator_bytes();
        self.closed_blocks += self.open.blocks();
        self.closed_hashes = self.hashes.len();
        let open = std::mem::take(&mut self.open);
        self.closed.push(ClosedPart {
            blocks: open.blocks(),
            data_bytes: open.data_bytes(),
            separator: open.last_separator(),
            index: open.finish(),
            keys: Keys::Noted(self.hashes.len()),
        });
        if self.closed_bytes > self.limits.whole_bytes_max {
            self.whole = None;
        }
        if self.whole.is_none() {
            self.encode_filters();
        }
    }

    /// Encodes the filters of closed parts, and forgets their keys.
    fn encode_filters(&mut self) {
        let mut start = 0;
        for part in &mut self.closed {
            if let Keys::Noted(end) = part.keys {
                let mut hashes = self.hashes[start..end].to_vec();
                part.keys = Keys::Filter(filter::encode(self.fingerprint_bits, &mut hashes));
                start = end;
            }
        }
        self.hashes.drain(..start);
        self.closed_hashes = 0;
    }

    /// About what index and filter take in the file so far.
    pub(crate) fn bytes(&self) -> usize {
        self.closed_bytes + self.open_bytes()
    }

    /// The number of blocks so far.
    pub(crate) fn blocks(&self) -> u64 {
        self.closed_blocks + self.open.blocks()
    }

    /// Bytes of all separators so far, each whole.
    pub(crate) fn separator_bytes(&self) -> u64 {
        self.closed_separator_bytes + self.open.separator_bytes()
    }

    /// The index and the filter of all blocks.
    pub(crate) fn finish(&mut self) -> Encoded {
        let is_small = self.bytes() <= self.limits.whole_bytes_max || self.closed.is_empty();
        if is_small && let Some(whole) = self.whole.take() {
            let filter = filter::encode(self.fingerprint_bits, &mut self.hashes);
            return Encoded::Whole { filter, index: whole.finish() };
        }
        self.whole = None;
        if self.open.blocks() > 0 {
            self.close_part();
        }
        self.encode_filters();
        let parts = std::mem::take(&mut self.closed);
        Encoded::Parts(parts.into_iter().map(ClosedPart::encoded).collect())
    }
}

impl ClosedPart {
    fn encoded(self) -> EncodedPart {
        let ClosedPart { index, blocks, data_bytes, separator, keys } = self;
        let filter = if let Keys::Filter(filter) = keys { filter } else { None };
        EncodedPart { filter, index, blocks, data_bytes, separator }
    }
}

impl EncodedPart {
    /// The blocks of the part, in the order in which they are in the file.
    pub(crate) fn stored(&self) -> impl Iterator<Item = (BlockKind, &[u8])> {
        let filter = self.filter.iter().map(|filter| (BlockKind::FilterPart, &filter[..]));
        filter.chain([(BlockKind::IndexPart, &self.index[..])])
    }
}

/// The top of the index of these parts.
pub(crate) fn encode_top(parts: &[EncodedPart]) -> Vec<u8> {
    let mut top = IndexBuilder::default();
    for part in parts {
        let bytes = part.stored().map(|(_, body)| stored_bytes(body)).sum();
        top.add_separator(part.separator.clone(), bytes);
    }
    let mut out = top.finish();
    for part in parts {
        put_varint64(&mut out, part.blocks);
        put_varint64(&mut out, part.data_bytes);
        put_varint64(&mut out, part.filter.as_deref().map_or(0, stored_bytes));
    }
    out
}
