//! Reads an object.

use crate::calls::{Calls, failed};
use esker::env::ReadableFile;
use esker::{Error, Result};
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt};
use std::sync::{Arc, Mutex, PoisonError};

/// What one request asks for where a file is read from front to back. A request takes tens of milliseconds
/// whatever its size is, and a store sends about 100 MB a second.
const SEQUENTIAL_BYTES: u64 = 8 << 20;

/// An object whose length is known: no object is changed while it is read.
pub(crate) struct ObjectReader {
    pub store: Arc<dyn ObjectStore>,
    pub calls: Arc<Calls>,
    pub location: Path,
    pub name: String,
    pub bytes: u64,
    pub sequential: Mutex<Sequential>,
}

/// The bytes that were read last, and their offset.
#[derive(Default)]
pub(crate) struct Sequential {
    offset: u64,
    bytes: Vec<u8>,
}

impl Sequential {
    fn end(&self) -> u64 {
        self.offset + self.bytes.len() as u64
    }

    /// Copies the beginning of `out` from what is here. Returns the number of bytes.
    fn copy(&self, offset: u64, out: &mut [u8]) -> usize {
        if offset < self.offset || offset >= self.end() {
            return 0;
        }
        let from = &self.bytes[(offset - self.offset) as usize..];
        let bytes = from.len().min(out.len());
        out[..bytes].copy_from_slice(&from[..bytes]);
        bytes
    }
}

impl ReadableFile for ObjectReader {
    fn read_exact_at(&self, offset: u64, out: &mut [u8]) -> Result<()> {
        let end = offset.saturating_add(out.len() as u64);
        if end > self.bytes {
            let what = format!("the object ends at {}, {end} was to be read", self.bytes);
            return Err(Error::corruption(&self.name, offset, what));
        }
        let mut sequential = self.sequential.lock().unwrap_or_else(PoisonError::into_inner);
        let copied = sequential.copy(offset, out);
        let (offset, out) = (offset + copied as u64, &mut out[copied..]);
        if out.is_empty() {
            return Ok(());
        }
        let goes_on = offset == sequential.end();
        let more = if goes_on { SEQUENTIAL_BYTES } else { 0 };
        let until = self.bytes.min(offset.saturating_add(more)).max(end);
        let (store, location) = (self.store.clone(), self.location.clone());
        let read = self.calls.wait(async move { store.get_range(&location, offset..until).await });
        let read = read.map_err(|error| failed("read", self.location.to_string(), error))?;
        if (read.len() as u64) < until - offset {
            let what = format!("the store returned {} of {} bytes", read.len(), until - offset);
            return Err(Error::corruption(&self.name, offset, what));
        }
        out.copy_from_slice(&read[..out.len()]);
        *sequential = Sequential { offset, bytes: Vec::from(read) };
        Ok(())
    }

    fn len(&self) -> Result<u64> {
        Ok(self.bytes)
    }

    fn name(&self) -> &str {
        &self.name
    }
}
