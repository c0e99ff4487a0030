//! Power loss while data are moved for wear.

use crate::histories::{Device, Known, Names, bytes, lose_power_everywhere};
use crate::narrow_device;
use crate::zoned::LossyDisk;
use esker_base::{Rng, WriteHint};
use esker_flash::chunk_device::MemoryChunkDevice;
use esker_flash::storage::Usage;
use esker_flash::{ChunkDevice, Geometry};
use esker_storage::Storage;
use std::cell::Cell;
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;

/// A device on which files stayed while others were overwritten, until one of those that stayed was moved for wear; and
/// the next will be, soon.
#[derive(Clone)]
struct Worn<D> {
    device: D,
    /// Histories in which something was moved for wear.
    levelled: Rc<Cell<u64>>,
}

impl<D: Device> Device for Worn<D> {
    fn zones(&self) -> Arc<dyn ChunkDevice> {
        self.device.zones()
    }
    fn fail_after(&self, calls: u64) {
        self.device.fail_after(calls);
    }
    fn lose_power(&self, rng: &mut Rng) {
        self.device.lose_power(rng);
    }
    fn was_used(&self, _before: &Usage, after: &Usage) {
        self.levelled.set(self.levelled.get() + u64::from(after.levelled_bytes > 0));
    }

    fn fill(&self) -> Known {
        const KEPT: u64 = 6;
        const FILE_BYTES: u64 = 30_000;
        /// It is looked for something to move when so many chunks more were reset.
        const RESETS_BETWEEN: u64 = 16;
        let storage = self.open().unwrap();
        let name = |id: u64| format!("kept-{id}");
        let write = |name: &str, id: u64| {
            let mut file = storage.create(name, WriteHint::table(6)).unwrap();
            file.append(&bytes(id, 0..FILE_BYTES)).and_then(|()| file.sync()).unwrap();
        };
        (1..=KEPT).for_each(|id| write(&name(id), id));
        let chunks = storage.usage().good_bytes / u64::from(self.zones().geometry().chunk_bytes);
        let is_soon = |usage: Usage| {
            let resets = (usage.erases.mean * chunks as f64).round() as u64;
            usage.levelled_bytes > 0 && resets % RESETS_BETWEEN == RESETS_BETWEEN - 2
        };
        while !is_soon(storage.usage()) {
            write("passing", KEPT + 1);
            storage.remove("passing").unwrap();
        }
        storage.sync_names().unwrap();
        let names: Names = (1..=KEPT).map(|id| (name(id), id)).collect();
        let synced = (1..=KEPT).map(|id| (id, FILE_BYTES)).collect();
        let next = KEPT + 1;
        Known { moments: vec![names.clone()], names, synced, next, ..Known::default() }
    }
}

/// What is moved so that chunks wear alike is where it was, or where it is going, whenever the power is lost.
#[test]
fn power_loss_while_data_are_moved_for_wear_loses_nothing() {
    let device = || MemoryChunkDevice::new(Geometry::of_blocks(1, 2, 8, 32 << 10));
    lose_power_where_chunks_wear(device, 1_700..1_701, 1_800..1_920);
    lose_power_where_chunks_wear(narrow_device, 0..0, 2_000..2_060);
    lose_power_where_chunks_wear(|| LossyDisk::new(true), 0..0, 2_100..2_160);
}

fn lose_power_where_chunks_wear<D: Device>(
    device: impl Fn() -> D,
    small: Range<u64>,
    long: Range<u64>,
) {
    let levelled = Rc::<Cell<u64>>::default();
    let worn = || Worn { device: device(), levelled: levelled.clone() };
    lose_power_everywhere(worn, small, long);
    println!("{levelled:?}");
    assert!(levelled.get() > 10, "{levelled:?}");
}
