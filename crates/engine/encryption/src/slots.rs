//! Reads a file whose records have places: the one with a given byte is found without reading others.
//!
//! Each record begins at a multiple of the stride behind the header, and all but the last are full, so the
//! place follows from the offset. The exception is a file that was synced while it was written: then a record
//! may have fewer bytes, and the reader goes on from the place to the record with the offset.

use crate::header::{HEADER_BYTES, Header};
use crate::record::{self, OVERHEAD_BYTES};
use esker_base::coding::{u32_at, u64_at};
use esker_base::{Error, Result};
use esker_storage::ReadableFile;
use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The most records that are read at once.
const AT_ONCE: u64 = 64;

thread_local! {
    /// Encrypted bytes that were read.
    static READ: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

pub(crate) struct SlotReader {
    below: Arc<dyn ReadableFile>,
    path: String,
    header: Header,
    /// The length of the decrypted file and of the one below, when they were last asked for.
    bytes: AtomicU64,
    bytes_below: AtomicU64,
}

impl SlotReader {
    pub(crate) fn new(below: Arc<dyn ReadableFile>, path: String, header: Header) -> Result<Self> {
        let (bytes, bytes_below) = (AtomicU64::new(0), AtomicU64::new(0));
        let reader = SlotReader { below, path, header, bytes, bytes_below };
        reader.measure()?;
        Ok(reader)
    }

    fn stride(&self) -> u64 {
        u64::from(self.header.stride)
    }

    fn position(&self, slot: u64) -> u64 {
        HEADER_BYTES as u64 + slot * self.stride()
    }

    /// The decrypted bytes of a full record.
    fn full(&self) -> u64 {
        self.stride() - OVERHEAD_BYTES as u64
    }

    /// Asks for the length again: the file may have grown.
    fn measure(&self) -> Result<u64> {
        let below = self.below.len()?;
        if below == self.bytes_below.load(Ordering::Acquire) {
            return Ok(self.bytes.load(Ordering::Acquire));
        }
        let body = below.saturating_sub(HEADER_BYTES as u64);
        let whole = body / self.stride();
        let rest = body % self.stride();
        // The last record says where it is. What it says is authenticated when it is read.
        let bytes = match rest.checked_sub(OVERHEAD_BYTES as u64) {
            Some(rest) if rest > 0 => self.end_of(whole, rest)?,
            _ if whole > 0 => self.end_of(whole - 1, self.full())?,
            _ => 0,
        };
        self.bytes.store(bytes, Ordering::Release);
        self.bytes_below.store(below, Ordering::Release);
        Ok(bytes)
    }

    /// Where the record in `slot` ends in the decrypted file. It has at most `most` bytes.
    fn end_of(&self, slot: u64, most: u64) -> Result<u64> {
        let mut head = [0; record::HEAD_BYTES];
        self.below.read_exact_at(self.position(slot), &mut head)?;
        let (length, offset) = (u64::from(u32_at(&head, 4)), u64_at(&head, 8));
        let says = record::may_begin(&self.header.key, &head)
            && length <= most
            && offset <= slot * self.full();
        Ok(if says { offset + length } else { slot * self.full() + most })
    }

    /// Reads with `fetch`, which fills its argument from a place in the file below or returns false.
    fn read_with(
        &self,
        offset: u64,
        out: &mut [u8],
        fetch: &dyn Fn(u64, &mut [u8]) -> Result<bool>,
    ) -> Result<bool> {
        let end = offset.checked_add(out.len() as u64);
        let found = self.bytes.load(Ordering::Acquire);
        if end.is_none_or(|end| end > found) {
            let found = self.measure()?;
            if end.is_none_or(|end| end > found) {
                let what = format!("{} bytes are wanted, and the file ends at {found}", out.len());
                return Err(Error::corruption(&self.path, offset, what));
            }
        }
        if out.is_empty() {
            return Ok(true);
        }
        // Taken, as the file below may be read in the same way.
        let mut read = READ.take();
        let filled = self.fill(offset, out, &mut read, fetch);
        READ.set(read);
        filled
    }

    fn fill(
        &self,
        offset: u64,
        out: &mut [u8],
        read: &mut Vec<u8>,
        fetch: &dyn Fn(u64, &mut [u8]) -> Result<bool>,
    ) -> Result<bool> {
        let below = self.bytes_below.load(Ordering::Acquire);
        let (mut slot, mut done) = (offset / self.full(), 0);
        let damaged = |at: u64| {
            let what =
                "an encrypted record fails authentication: it is damaged, or from another place";
            Err(Error::corruption(&self.path, at, what))
        };
        while done < out.len() {
            let wanted = (out.len() - done) as u64;
            let last = (offset + done as u64 + wanted - 1) / self.full();
            let slots = (last.saturating_sub(slot) + 1).min(AT_ONCE);
            let start = self.position(slot);
            let bytes = (slots * self.stride()).min(below.saturating_sub(start)) as usize;
            if bytes == 0 {
                return damaged(offset + done as u64);
            }
            if read.len() < bytes {
                read.resize(bytes, 0);
            }
            if !fetch(start, &mut read[..bytes])? {
                return Ok(false);
            }
            let sealed = read[..bytes].chunks_mut(self.stride() as usize);
            for (number, sealed) in (slot..).zip(sealed) {
                let at = offset + done as u64;
                let Some(record) = record::open(&self.header.key, self.position(number), sealed)
                else {
                    return damaged(at);
                };
                let Some(skipped) = at.checked_sub(record.offset) else { return damaged(at) };
                // Fewer bytes than a full record: what is wanted is in a later one.
                let data = record.data.get(skipped as usize..).unwrap_or_default();
                let taken = data.len().min(out.len() - done);
                out[done..done + taken].copy_from_slice(&data[..taken]);
                done += taken;
            }
            slot += slots;
        }
        Ok(true)
    }
}

impl ReadableFile for SlotReader {
    fn read_exact_at(&self, offset: u64, out: &mut [u8]) -> Result<()> {
        let fetch =
            |position, read: &mut [u8]| self.below.read_exact_at(position, read).map(|()| true);
        self.read_with(offset, out, &fetch).map(|_| ())
    }

    fn len(&self) -> Result<u64> {
        self.measure()
    }

    fn name(&self) -> &str {
        self.below.name()
    }

    fn read_ahead(&self, offset: u64, bytes: u64) {
        let slot = offset / self.full();
        let slots = bytes / self.full() + 2;
        self.below.read_ahead(self.position(slot), slots.saturating_mul(self.stride()));
    }

    fn read_cached_at(&self, offset: u64, out: &mut [u8]) -> bool {
        let fetch = |position, read: &mut [u8]| Ok(self.below.read_cached_at(position, read));
        // What is wrong is reported by the read that follows.
        self.read_with(offset, out, &fetch).unwrap_or(false)
    }
}
