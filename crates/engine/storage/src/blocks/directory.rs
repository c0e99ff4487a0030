//! The names.
//!
//! Every change writes the whole directory, with the next sequence number, into one of three slots: neither into that
//! of the last directory known durable, which power loss may leave as the only whole one, nor into that of the last
//! one written, which a process that dies in the middle leaves as the newest. The newest whole one counts. So a
//! directory between those two is flushed before the next is written: any sync may have made it durable, and given
//! out the chunks that it frees.
//!
//! After a write that failed it is not known what the device has, so that nothing more is written. A change that makes
//! the directory too large is not written, and undone.

use super::format::{
    self, CHUNK_BYTES, DirEntry, Extent, SLOT_BYTES, SLOTS, decode_directory, directory_head,
    encode_directory, slot_offset,
};
use super::inode::Inode;
use super::shared::BlockFsShared;
use super::{BLOCK_BYTES, BlockDevice};
use esker_base::{Error, Result};
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

pub(super) type Names = BTreeMap<String, Arc<Inode>>;

pub(super) struct Directory {
    core: Arc<BlockFsShared>,
    names: Names,
    sequence: u64,
    /// Where the directory `sequence` is.
    newest: u64,
    /// The last one known durable, and where it is.
    durable: (u64, u64),
    failed: Option<Error>,
}

impl Directory {
    /// The files of a device, which is laid out if it begins with zeros.
    pub(super) fn open(core: &Arc<BlockFsShared>) -> Result<Self> {
        let device = core.device.as_ref();
        let mut block = vec![0; BLOCK_BYTES as usize];
        device.read(0, &mut block)?;
        if block.iter().all(|byte| *byte == 0) {
            lay_out(device)?;
        } else if let Err(what) = format::check_superblock(&block, device.bytes()) {
            return Err(Error::corruption(device.describe(), 0, what));
        }
        // What the process before this one wrote last may be in the device's cache still.
        device.flush()?;
        let (slot, sequence, entries) = newest(device)?;
        core.wrote_directory(sequence);
        let mut names = BTreeMap::new();
        for DirEntry { name, len, runs } in entries {
            let held: u64 = runs.iter().map(|run| u64::from(run.count) * CHUNK_BYTES).sum();
            if held < len || !runs.iter().all(|run| core.take(*run)) {
                let what = format!("the chunks of {name} are not its own, or too few");
                return Err(Error::corruption(device.describe(), slot_offset(slot), what));
            }
            names.insert(name, Inode::new(core.clone(), runs, len));
        }
        let core = core.clone();
        Ok(Directory {
            core,
            names,
            sequence,
            newest: slot,
            durable: (sequence, slot),
            failed: None,
        })
    }

    pub(super) fn names(&self) -> &Names {
        &self.names
    }

    /// Gives `name`, which is free, to `body`, which has none.
    pub(super) fn add(&mut self, name: &str, body: &Arc<Inode>) -> Result<()> {
        let added = self.change(|names| names.insert(name.to_owned(), body.clone()));
        match added {
            Ok(()) => body.remove_by(0),
            // The device may have the name.
            Err(_) if self.failed.is_some() => body.doubt(),
            Err(_) => {}
        }
        added
    }

    /// Makes a change, and writes the directory. After an error the names are as before. The chunks of the file that
    /// `change` says has lost its name become free once it has no reader any more and this directory is durable.
    pub(super) fn change(
        &mut self,
        change: impl FnOnce(&mut Names) -> Option<Arc<Inode>>,
    ) -> Result<()> {
        let before = self.names.clone();
        let removed = change(&mut self.names);
        if let Err(error) = self.write() {
            self.names = before;
            return Err(error);
        }
        if let Some(body) = removed {
            body.remove_by(self.sequence);
        }
        Ok(())
    }

    /// Writes the directory as it is now. It survives the death of the process.
    pub(super) fn write(&mut self) -> Result<()> {
        self.check()?;
        // The slot to be written may have a directory that a log's sync has made durable, and whose free chunks
        // have others' bytes since. It goes only once a newer one is safe.
        if self.sequence > self.durable.0 + 1 {
            self.flush()?;
        }
        let bytes = self.encode()?;
        let written = self.put(&bytes);
        self.keep(written)
    }

    /// Makes the directory last written survive power loss.
    pub(super) fn flush(&mut self) -> Result<()> {
        self.check()?;
        if self.durable.0 == self.sequence {
            return Ok(());
        }
        let flushed = self.core.flush().map(drop);
        self.keep(flushed)?;
        self.durable = (self.sequence, self.newest);
        Ok(())
    }

    /// The directory as bytes. Fails if they are too many for a slot.
    fn encode(&self) -> Result<Vec<u8>> {
        let entry = |(name, body): (&String, &Arc<Inode>)| {
            let (len, runs): (u64, Vec<Extent>) = body.recorded();
            DirEntry { name: name.clone(), len, runs }
        };
        let entries: Vec<DirEntry> = self.names.iter().map(entry).collect();
        let bytes = encode_directory(self.sequence + 1, &entries);
        if bytes.len() as u64 > SLOT_BYTES {
            let (device, kind) = (self.core.device.describe(), io::ErrorKind::StorageFull);
            return Err(Error::io("keep so many names on", device, kind.into()));
        }
        Ok(bytes)
    }

    fn put(&mut self, bytes: &[u8]) -> Result<()> {
        let is_other = |slot: &u64| *slot != self.newest && *slot != self.durable.1;
        let slot = (0..SLOTS).find(is_other).expect("there are three");
        self.core.device.write(slot_offset(slot), bytes)?;
        self.sequence += 1;
        self.newest = slot;
        self.core.wrote_directory(self.sequence);
        Ok(())
    }

    fn check(&self) -> Result<()> {
        self.failed.clone().map_or(Ok(()), Err)
    }

    fn keep(&mut self, outcome: Result<()>) -> Result<()> {
        self.failed = outcome.clone().err();
        outcome
    }
}

/// Lays out an empty device: an empty directory, and then the block that says so. The process that had the device before may have
/// left directories: they are gone first.
fn lay_out(device: &dyn BlockDevice) -> Result<()> {
    for slot in 0..SLOTS {
        device.write_zeroes(slot_offset(slot), BLOCK_BYTES)?;
    }
    device.flush()?;
    device.write(slot_offset(0), &encode_directory(1, &[]))?;
    device.flush()?;
    device.write(0, &format::superblock(device.bytes()))?;
    device.flush()
}

/// The newest whole directory: its slot, its sequence number, its files.
fn newest(device: &dyn BlockDevice) -> Result<(u64, u64, Vec<DirEntry>)> {
    let mut found: Option<(u64, u64, Vec<DirEntry>)> = None;
    for slot in 0..SLOTS {
        let mut bytes = vec![0; BLOCK_BYTES as usize];
        device.read(slot_offset(slot), &mut bytes)?;
        let Some((sequence, length)) = directory_head(&bytes) else { continue };
        bytes.resize(length.next_multiple_of(BLOCK_BYTES as usize), 0);
        device.read(slot_offset(slot), &mut bytes)?;
        let Some(entries) = decode_directory(&bytes) else { continue };
        if found.as_ref().is_none_or(|(_, newest, _)| sequence > *newest) {
            found = Some((slot, sequence, entries));
        }
    }
    let lost = || {
        let what = "none of the three copies of its directory is whole".to_owned();
        Error::corruption(device.describe(), slot_offset(0), what)
    };
    found.ok_or_else(lost)
}
