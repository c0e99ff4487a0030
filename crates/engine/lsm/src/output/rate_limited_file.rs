//! A file that is written as fast as the engine allows, piece by piece.

use esker_base::Result;
use esker_storage::WritableFile;

/// See the file's head. `grant` waits, and returns how many of so many bytes may be written now: at
/// least one. Its error ends the write.
pub(crate) struct RateLimitedFile<G> {
    pub(super) file: Box<dyn WritableFile>,
    pub(super) grant: G,
}

impl<G: FnMut(u64) -> Result<u64> + Send> WritableFile for RateLimitedFile<G> {
    fn append(&mut self, mut bytes: &[u8]) -> Result<()> {
        while !bytes.is_empty() {
            let granted = (self.grant)(bytes.len() as u64)?;
            let (now, later) = bytes.split_at(granted as usize);
            self.file.append(now)?;
            bytes = later;
        }
        Ok(())
    }

    fn len(&self) -> u64 {
        self.file.len()
    }

    fn sync(&mut self) -> Result<()> {
        self.file.sync()
    }

    fn start_writeback(&mut self) -> Result<()> {
        self.file.start_writeback()
    }
}
