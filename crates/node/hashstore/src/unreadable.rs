//! A device whose unreadable blocks are dropped: they count as zeros, and are written as zeros in the end.

use crate::device::{Device, sync, write};
use esker_base::{Error, Result};
use esker_uring::Buffer;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io;

/// What a repair does about blocks that cannot be read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unreadable {
    /// It fails, and nothing that they hold is dropped: a later read may succeed.
    Fail,
    /// It drops what they hold. They are overwritten with zeros.
    GiveUp,
}

/// Reads the blocks of a device, and zeros for those that cannot be read. Writes nothing before [`zero`](GivenUp::zero).
pub(crate) struct GivenUp<'a> {
    device: &'a dyn Device,
    /// The blocks dropped, by offset, and why each could not be read.
    blocks: RefCell<BTreeMap<u64, String>>,
}

impl<'a> GivenUp<'a> {
    pub fn none(device: &'a dyn Device) -> Self {
        GivenUp { device, blocks: RefCell::default() }
    }

    pub fn is_empty(&self) -> bool {
        self.blocks.borrow().is_empty()
    }

    /// An error for each run of blocks that failed for one reason.
    pub fn problems(&self) -> Vec<Error> {
        let block_bytes = u64::from(self.device.block_bytes());
        let mut runs: Vec<(u64, u64, String)> = Vec::new();
        for (&offset, why) in &*self.blocks.borrow() {
            match runs.last_mut() {
                Some((start, bytes, before)) if *start + *bytes == offset && before == why => {
                    *bytes += block_bytes;
                }
                _ => runs.push((offset, block_bytes, why.clone())),
            }
        }
        let error = |(offset, bytes, why): (u64, u64, String)| {
            let what = format!("{bytes} bytes cannot be read and are dropped: {why}");
            Error::HashStoreDamaged { store: self.device.name().to_owned(), offset, what }
        };
        runs.into_iter().map(error).collect()
    }

    /// Overwrites the blocks with zeros: an open reads them again otherwise, and fails.
    pub fn zero(&self) -> Result<()> {
        let zeros = vec![0; self.device.block_bytes() as usize];
        let blocks = self.blocks.borrow();
        blocks.keys().try_for_each(|offset| write(self.device, *offset, &zeros))?;
        sync(self.device)
    }
}

impl Device for GivenUp<'_> {
    fn name(&self) -> &str {
        self.device.name()
    }

    fn bytes(&self) -> u64 {
        self.device.bytes()
    }

    fn block_bytes(&self) -> u32 {
        self.device.block_bytes()
    }

    fn read_at(&self, offset: u64, out: &mut Buffer) -> io::Result<()> {
        if self.device.read_at(offset, out).is_ok() {
            return Ok(());
        }
        let block_bytes = self.block_bytes() as usize;
        let mut block = Buffer::zeroed(block_bytes);
        for (at, part) in (offset..).step_by(block_bytes).zip(out.chunks_mut(block_bytes)) {
            match self.device.read_at(at, &mut block) {
                Ok(()) => part.copy_from_slice(&block),
                Err(error) => {
                    part.fill(0);
                    self.blocks.borrow_mut().insert(at, error.to_string());
                }
            }
        }
        Ok(())
    }

    fn write_at(&self, offset: u64, bytes: &Buffer) -> io::Result<()> {
        self.device.write_at(offset, bytes)
    }

    fn sync(&self) -> io::Result<()> {
        self.device.sync()
    }
}
