//! Power loss on devices that are nearly full.

use crate::JOURNAL_CHUNKS;
use crate::histories::{Device, Known, Names, bytes, lose_power_everywhere};
use crate::open_channel::{OpenChannel, Seen};
use esker_base::{Rng, WriteHint};
use esker_flash::chunk_device::MemoryChunkDevice;
use esker_flash::storage::Usage;
use esker_flash::{ChunkDevice, Geometry};
use esker_storage::Storage;
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

/// A device on which files were written until there was no space, and every second one removed: half of each chunk is
/// dead, so that space has to be made by moving what is alive.
#[derive(Clone)]
pub(crate) struct NearlyFull<D> {
    pub(crate) device: D,
    /// What is done to it when it is filled.
    pub(crate) wear: fn(&D),
    pub(crate) seen: Rc<RefCell<SeenFull>>,
}

/// What histories on devices that are nearly full did.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct SeenFull {
    /// Histories in which something was moved to make space, and those in which chunks went bad.
    pub(crate) moved: u64,
    gone_bad: u64,
}

impl<D: Device> Device for NearlyFull<D> {
    fn zones(&self) -> Arc<dyn ChunkDevice> {
        self.device.zones()
    }
    fn fail_after(&self, calls: u64) {
        self.device.fail_after(calls);
    }
    fn lose_power(&self, rng: &mut Rng) {
        self.device.lose_power(rng);
    }
    fn was_used(&self, before: &Usage, after: &Usage) {
        let seen = &mut *self.seen.borrow_mut();
        seen.moved += u64::from(after.moved_bytes > 0);
        seen.gone_bad += u64::from(after.good_bytes < before.good_bytes);
    }

    fn fill(&self) -> Known {
        const FILE_BYTES: u64 = 15_000;
        let storage = self.open().unwrap();
        let name = |id: u64| format!("kept-{id}");
        let write = |id: u64| {
            let mut file = storage.create(&name(id), WriteHint::table(6))?;
            file.append(&bytes(id, 0..FILE_BYTES)).and_then(|()| file.sync())
        };
        let mut next = 1;
        let full = loop {
            match write(next) {
                Ok(()) => next += 1,
                Err(error) => break error,
            }
        };
        assert!(full.is_out_of_space(), "{full}");
        let goes = |id: &u64| *id == next || id.is_multiple_of(2);
        (1..=next).filter(goes).for_each(|id| storage.remove(&name(id)).unwrap());
        storage.sync_names().unwrap();
        let kept = || (1..next).filter(|id| !goes(id));
        let names: Names = kept().map(|id| (name(id), id)).collect();
        let synced = kept().map(|id| (id, FILE_BYTES)).collect();
        (self.wear)(&self.device);
        Known { moments: vec![names.clone()], names, synced, next, ..Known::default() }
    }
}

/// Resets are cut short, and chunks go bad in them, while what is alive is moved to make space.
#[test]
fn reclaim_on_a_full_device_with_bad_chunks_and_interrupted_erases_loses_nothing() {
    let (devices, full) = (RefCell::new(Vec::new()), Rc::<RefCell<SeenFull>>::default());
    let device = || {
        // The chunks that are bad from the beginning are others every time.
        let device = OpenChannel::worn(devices.borrow().len() as u64);
        devices.borrow_mut().push(device.clone());
        NearlyFull { device, wear: |_| (), seen: full.clone() }
    };
    lose_power_everywhere(device, 900..904, 1_000..1_040);
    let seen = devices.borrow().iter().map(OpenChannel::seen).fold(Seen::default(), Seen::plus);
    let SeenFull { moved, gone_bad } = *full.borrow();
    println!("{full:?}, {seen:?}");
    assert!(
        [moved, gone_bad, seen.half_reset].iter().all(|count| *count > 50),
        "{full:?}, {seen:?}"
    );
    assert!(seen.half_reset_and_bad > 3, "{seen:?}");
}

/// Here what was written last may be left, and what was written before it in other chunks lost.
#[test]
fn reclaim_on_a_full_device_whose_chunks_lose_what_was_not_flushed_one_by_one_loses_nothing() {
    let full = Rc::<RefCell<SeenFull>>::default();
    let wear = |device: &MemoryChunkDevice| {
        let worn = (JOURNAL_CHUNKS..16).step_by(4);
        worn.for_each(|index| device.break_chunk(device.geometry().chunk(index)));
    };
    let device = || {
        let device = MemoryChunkDevice::new(Geometry::of_blocks(1, 2, 8, 64 << 10));
        NearlyFull { device, wear, seen: full.clone() }
    };
    lose_power_everywhere(device, 900..904, 1_000..1_040);
    let SeenFull { moved, gone_bad } = *full.borrow();
    assert!(moved > 50 && gone_bad > 50, "{full:?}");
}
