//! Writes an object.

use crate::calls::{Calls, failed};
use crate::lease::Term;
use esker::env::WritableFile;
use esker::{Error, Result};
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt, PutMode, PutOptions, WriteMultipart};
use std::io;
use std::sync::Arc;

/// A larger object is written in parts of this size, of which a store allows 10,000: 160 GiB.
const PART_BYTES: usize = 16 << 20;

/// Parts that are sent at once.
const PARTS_AT_ONCE: usize = 4;

/// An object that is not there until it is synced.
pub(crate) struct ObjectWriter {
    pub store: Arc<dyn ObjectStore>,
    pub calls: Arc<Calls>,
    pub lease: Term,
    pub location: Path,
    pub bytes: u64,
    pub content: Content,
    /// Whether this writer has written the object, which may then grow.
    pub is_there: bool,
}

pub(crate) enum Content {
    /// All bytes: the object is small.
    Whole(Vec<u8>),
    /// Parts are sent as they are full. `None` after a part failed.
    Parts(Option<WriteMultipart>),
    /// The object is there, and was written in parts: nothing can be appended.
    Ended,
}

impl ObjectWriter {
    /// Begins to send parts: the object is larger than one.
    fn in_parts(&mut self) -> Result<()> {
        let Content::Whole(bytes) = &mut self.content else { return Ok(()) };
        let (store, location, first) =
            (self.store.clone(), self.location.clone(), std::mem::take(bytes));
        let begun = self.calls.wait(async move {
            let upload = store.put_multipart(&location).await?;
            let mut writer = WriteMultipart::new_with_chunk_size(upload, PART_BYTES);
            writer.write(&first);
            Ok(writer)
        });
        match begun {
            Ok(writer) => self.content = Content::Parts(Some(writer)),
            Err(error) => {
                self.content = Content::Parts(None);
                return Err(self.failed(error));
            }
        }
        Ok(())
    }

    fn failed(&self, error: object_store::Error) -> Error {
        failed("write", self.location.to_string(), error)
    }

    fn unusable(&self, why: &'static str) -> Error {
        let why = io::Error::new(io::ErrorKind::Unsupported, why);
        Error::io("append to", self.location.to_string(), why)
    }
}

/// Writes an object. One that is there is not replaced unless the mode is so, and is no error if it is the
/// same: the answer to a first try may have been lost.
async fn put(
    store: Arc<dyn ObjectStore>,
    location: Path,
    content: Vec<u8>,
    mode: PutMode,
) -> object_store::Result<()> {
    match store.put_opts(&location, content.clone().into(), PutOptions::from(mode)).await {
        Err(refused @ object_store::Error::AlreadyExists { .. }) => {
            match store.get(&location).await?.bytes().await? == content {
                true => Ok(()),
                false => Err(refused),
            }
        }
        put => put.map(|_| ()),
    }
}

impl WritableFile for ObjectWriter {
    fn append(&mut self, bytes: &[u8]) -> Result<()> {
        self.lease.expect_held()?;
        match &mut self.content {
            Content::Whole(content) if content.len() + bytes.len() <= PART_BYTES => {
                content.extend_from_slice(bytes);
            }
            Content::Whole(_) => {
                self.in_parts()?;
                return self.append(bytes);
            }
            Content::Parts(writer) => {
                let Some(mut writer) = writer.take() else {
                    return Err(self.unusable("an earlier write of it failed"));
                };
                let bytes = bytes.to_vec();
                let written = self.calls.wait(async move {
                    writer.write(&bytes);
                    match writer.wait_for_capacity(PARTS_AT_ONCE).await {
                        Ok(()) => Ok(writer),
                        Err(error) => {
                            // What was sent is of no use, and a store may ask money for it.
                            let _ = writer.abort().await;
                            Err(error)
                        }
                    }
                });
                let written = written.map_err(|error| self.failed(error))?;
                self.content = Content::Parts(Some(written));
            }
            Content::Ended => {
                return Err(self.unusable("an object cannot grow after it was written in parts"));
            }
        }
        self.bytes += bytes.len() as u64;
        Ok(())
    }

    fn len(&self) -> u64 {
        self.bytes
    }

    fn sync(&mut self) -> Result<()> {
        self.lease.expect_held()?;
        match &mut self.content {
            Content::Whole(content) => {
                let (store, location, content) =
                    (self.store.clone(), self.location.clone(), content.clone());
                let mode = if self.is_there { PutMode::Overwrite } else { PutMode::Create };
                let written = self.calls.wait(put(store, location, content, mode));
                written.map_err(|error| self.failed(error))?;
                self.is_there = true;
                Ok(())
            }
            Content::Parts(writer) => {
                let Some(writer) = writer.take() else {
                    return Err(self.unusable("an earlier write of it failed"));
                };
                let written = self.calls.wait(writer.finish());
                written.map_err(|error| self.failed(error))?;
                self.content = Content::Ended;
                Ok(())
            }
            Content::Ended => Ok(()),
        }
    }
}

impl Drop for ObjectWriter {
    /// Has the store drop the parts that were sent.
    fn drop(&mut self) {
        if let Content::Parts(Some(writer)) = std::mem::replace(&mut self.content, Content::Ended) {
            let _ = self.calls.wait(writer.abort());
        }
    }
}
