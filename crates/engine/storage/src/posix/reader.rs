//! A file that is read at any place, each read one `pread`.

use super::directory::Directory;
use super::{fadvise, failure};
use crate::ReadableFile;
use esker_base::{Error, Result};
use rustix::fs::OFlags;
use std::fs::File;
use std::io::ErrorKind;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

#[derive(Debug)]
pub(super) struct PosixReader {
    file: File,
    path: PathBuf,
    name: String,
}

impl PosixReader {
    pub(super) fn open(directory: &Directory, name: &str) -> Result<Self> {
        let path = directory.path_of(name);
        match directory.open_file(name, OFlags::RDONLY) {
            Ok(file) => Ok(PosixReader { file, path, name: name.to_owned() }),
            Err(source) => Err(failure("open", &path, source)),
        }
    }

    #[cold]
    fn too_short(&self, offset: u64, wanted: usize) -> Error {
        let found = self.file.metadata().map_or(0, |metadata| metadata.len());
        let what = format!("{wanted} bytes are wanted, and the file ends at {found}");
        Error::corruption(self.path.display().to_string(), offset, what)
    }
}

impl ReadableFile for PosixReader {
    fn read_exact_at(&self, offset: u64, out: &mut [u8]) -> Result<()> {
        match self.file.read_exact_at(out, offset) {
            Ok(()) => Ok(()),
            // The second is for offsets that no file can have, as a damaged pointer may.
            Err(source)
                if matches!(source.kind(), ErrorKind::UnexpectedEof | ErrorKind::InvalidInput) =>
            {
                Err(self.too_short(offset, out.len()))
            }
            Err(source) => Err(failure("read", &self.path, source)),
        }
    }

    fn len(&self) -> Result<u64> {
        match self.file.metadata() {
            Ok(metadata) => Ok(metadata.len()),
            Err(source) => Err(failure("measure", &self.path, source)),
        }
    }

    fn name(&self) -> &str {
        &self.name
    }

    fn read_ahead(&self, offset: u64, bytes: u64) {
        fadvise::read_ahead(&self.file, offset, bytes);
    }
}
