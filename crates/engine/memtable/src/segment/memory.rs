//! What a segment is in.

use super::HeapMemory;
use crate::log_reader::ScanResult;
use esker_pmem::Extent;

/// Memory for a segment: bytes that are initialised, stay where they are, and belong to the segment
/// alone until it is dropped.
pub enum Memory {
    /// DRAM. A log file gets the same bytes, or there is none.
    Heap(HeapMemory),
    /// An extent of a pool of persistent memory, which is the log.
    Pmem(Extent),
}

impl Memory {
    /// The first byte, aligned to 64 at least.
    pub fn pointer(&self) -> *mut u8 {
        match self {
            Memory::Heap(heap) => heap.pointer(),
            Memory::Pmem(extent) => extent.pointer(),
        }
    }

    /// The number of bytes.
    pub fn len(&self) -> usize {
        match self {
            Memory::Heap(heap) => heap.len(),
            Memory::Pmem(extent) => extent.len(),
        }
    }

    /// Whether there are no bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// All bytes, to scan them before they become a segment.
    pub fn contents(&mut self) -> &[u8] {
        self.bytes()
    }

    /// Makes durable what a process that died may have left half-way, before the memory becomes a
    /// segment: of the frames that `scanned` accepted, all that no other shows to be durable. For a
    /// log file's bytes that is the file's matter.
    pub fn make_durable(&mut self, scanned: &ScanResult) {
        if let Memory::Pmem(extent) = self
            && let Some(start) = scanned.first_unverified()
        {
            // SAFETY: an extent's handle is given out once, and this is it.
            unsafe { extent.make_durable(start as usize..scanned.end as usize) };
        }
    }

    /// All bytes. The callers' segments take no frames meanwhile.
    pub(super) fn bytes(&self) -> &[u8] {
        // SAFETY: the memory is initialised. In this process only a segment writes to it: an extent's
        // handle is given out once, and the callers are its segment before and after it takes frames, or
        // have the memory to themselves. That no other process writes to a mapped pool is assumed, as its
        // lock is advisory: invariant 4 of the segment, and the documentation of `Log::Pmem`.
        unsafe { std::slice::from_raw_parts(self.pointer(), self.len()) }
    }
}

impl From<HeapMemory> for Memory {
    fn from(heap: HeapMemory) -> Memory {
        Memory::Heap(heap)
    }
}
