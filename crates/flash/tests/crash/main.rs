//! Power loss at every write, reset and flush of a history: what was synced is there, and names are those of some
//! point in time since they were last made safe.

mod engine;
mod full;
mod histories;
mod open_channel;
mod removed;
mod worn;
mod zoned;

use esker_flash::chunk_device::MemoryChunkDevice;
use esker_flash::device::fdp::EmulatedDisk;
use esker_flash::{FdpDevice, FlashStorage, Geometry};
use full::{NearlyFull, SeenFull};
use histories::lose_power_everywhere;
use open_channel::{OpenChannel, Seen};
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use zoned::{AllUnits, LossyDisk, SeenZoned};

/// The journal's are the first.
const JOURNAL_CHUNKS: usize = 4;

/// 12 chunks, so small that everything happens soon: turns of the journal, moves, a full device.
fn device() -> MemoryChunkDevice {
    MemoryChunkDevice::new(Geometry::of_blocks(1, 3, 4, 32 << 10))
}

#[test]
fn power_loss_at_every_call_of_small_histories_leaves_what_was_promised() {
    lose_power_everywhere(device, 0..12, 0..0);
}

#[test]
fn power_loss_in_long_histories_leaves_what_was_promised() {
    lose_power_everywhere(device, 0..0, 100..220);
}

/// Twice as many chunks, of which five may be written in part.
fn narrow_device() -> MemoryChunkDevice {
    let device = MemoryChunkDevice::new(Geometry::of_blocks(1, 1, 24, 32 << 10));
    device.limit_active(5);
    device
}

#[test]
fn power_loss_on_a_device_with_few_active_chunks_leaves_what_was_promised() {
    lose_power_everywhere(narrow_device, 300..306, 400..440);
}

/// A disk with placement that is as small, was laid out, and loses any of the blocks that were not flushed.
fn placed_device() -> EmulatedDisk {
    const HEADER_UNITS: usize = 32;
    let disk = EmulatedDisk::new(12 + HEADER_UNITS, 32 << 10, 4);
    let zones = FdpDevice::lay_out(disk.clone()).unwrap();
    drop(FlashStorage::open(Arc::new(zones)).unwrap());
    disk
}

#[test]
fn power_loss_on_a_disk_with_placement_leaves_what_was_promised() {
    lose_power_everywhere(placed_device, 500..506, 600..660);
}

/// Pages are lost two at once, can't be read before more is written, and resets are cut short.
#[test]
fn power_loss_under_the_rules_of_open_channel_flash_leaves_what_was_promised() {
    let devices = RefCell::new(Vec::new());
    let device = || {
        let device = OpenChannel::new();
        devices.borrow_mut().push(device.clone());
        device
    };
    lose_power_everywhere(device, 700..706, 800..860);
    let seen = devices.borrow().iter().map(OpenChannel::seen).fold(Seen::default(), Seen::plus);
    println!("{seen:?}");
    let Seen { lost, lost_and_kept, half_reset, too_early, .. } = seen;
    assert!(lost > lost_and_kept, "{seen:?}");
    assert!([lost_and_kept, half_reset, too_early].iter().all(|count| *count > 5), "{seen:?}");
}

/// Zones of a disk of smaller blocks, of which few may be active: empty at first, and nearly full.
#[test]
fn power_loss_on_a_zoned_disk_leaves_what_was_promised() {
    lose_power_on_zoned_disks(false);
}

#[test]
fn power_loss_on_a_zoned_disk_that_is_appended_to_leaves_what_was_promised() {
    lose_power_on_zoned_disks(true);
}

fn lose_power_on_zoned_disks(appends: bool) {
    let disks = RefCell::new(Vec::new());
    let disk = || {
        let disk = LossyDisk::new(appends);
        disks.borrow_mut().push(disk.clone());
        disk
    };
    lose_power_everywhere(disk, 1_100..1_104, 1_200..1_230);
    let full = Rc::<RefCell<SeenFull>>::default();
    let nearly_full = || NearlyFull { device: disk(), wear: |_| (), seen: full.clone() };
    lose_power_everywhere(nearly_full, 1_300..1_302, 1_400..1_415);
    let seen =
        disks.borrow().iter().map(LossyDisk::seen).fold(SeenZoned::default(), SeenZoned::plus);
    println!("{seen:?}");
    let SeenZoned { torn, unfinished, undone } = seen;
    let counts = [torn, unfinished, undone, full.borrow().moved];
    assert!(counts.iter().all(|count| *count > 20), "{seen:?}, {full:?}");
}

/// Before any of the writes of small histories, and of some of long ones.
#[test]
fn what_somebody_else_writes_into_a_zone_is_told_left_alone_and_costs_nothing_that_was_promised() {
    for appends in [true, false] {
        let shared = || AllUnits(LossyDisk::new(appends));
        lose_power_everywhere(shared, 1_500..1_504, 1_600..1_630);
    }
}
