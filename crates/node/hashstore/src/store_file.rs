//! A store on its device: made, opened, closed, with one call at a time.

use crate::device::{Device, read, sync, write};
use crate::extent::{Extent, Extents};
use crate::format::superblock::{
    DEVICE_BYTES_MIN, Layout, PAGE_BYTES, PARTITIONS_MAX, REGIONS_AT, SUPERBLOCKS,
};
use crate::keydir::KeyDir;
use crate::partition::{IoKind, JournalState, Partition, Start};
use crate::recover::{DamagedWrite, recover};
use esker_base::{Error, Result, Rng};
use esker_uring::Buffer;
use std::sync::Arc;

/// The settings of a new store. Start from the default; a method per field changes it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct CreateSettings {
    /// The smallest expected mean size of a key with its value, in bytes of the device. The journal
    /// has space for that number of keys: 1.2% of the device for 8192, a fifth for 512. Default:
    /// 8192.
    pub bytes_a_key: u64,
    /// The number of partitions, a power of two. Default: one per GiB, at most 64.
    pub partitions: Option<u32>,
}

impl Default for CreateSettings {
    fn default() -> Self {
        CreateSettings { bytes_a_key: 8192, partitions: None }
    }
}

impl CreateSettings {
    /// Sets the smallest expected mean size of a key with its value.
    #[must_use]
    pub fn bytes_a_key(mut self, bytes_a_key: u64) -> Self {
        self.bytes_a_key = bytes_a_key;
        self
    }

    /// Sets the number of partitions, a power of two.
    #[must_use]
    pub fn partitions(mut self, partitions: impl Into<Option<u32>>) -> Self {
        self.partitions = partitions.into();
        self
    }
}

/// What opening a store took.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Opened {
    /// Keys found.
    pub keys: u64,
    /// Records found behind the last checkpoints.
    pub replayed: u64,
    /// Bytes read for that.
    pub read_bytes: u64,
    /// Keys whose last write, behind the last checkpoint, is damaged. They cannot be read until they are stored or deleted again.
    pub damaged: Vec<DamagedWrite>,
    /// Writes that a power loss truncated, or that are damaged: nothing says that they were durable, and they do not count.
    pub torn: Vec<DamagedWrite>,
}

/// So much at the head of a device is inspected before a store is made there: file systems, encrypted volumes and tables of
/// partitions say there what they are, the farthest of them (Btrfs) 64 KiB behind the beginning.
const HEAD_BYTES: u64 = 1 << 20;

/// What is at the head of a device and would be lost, in words; nothing if that is all zeros.
pub fn found(device: &dyn Device) -> Result<Option<String>> {
    let bytes = HEAD_BYTES.min(device.bytes()) / PAGE_BYTES * PAGE_BYTES;
    let head = read(device, 0, bytes as usize)?;
    let Some(first) = head.iter().position(|&byte| byte != 0) else { return Ok(None) };
    Ok(Some(match layout(device) {
        Err(Error::NotADatabase { .. }) => format!("data, from byte {first} on"),
        _ => "a hash store".to_owned(),
    }))
}

/// Makes an empty store, whatever was there: [`found`] says what.
pub fn create(
    device: &dyn Device,
    settings: &CreateSettings,
    rng: &mut Rng,
) -> Result<Arc<Layout>> {
    let bytes = device.bytes();
    if let Some(number) = settings.partitions.filter(|number| !is_allowed(*number)) {
        let reason = "it is a power of two, at most 64".to_owned();
        let value = number.to_string();
        return Err(Error::InvalidSetting { setting: "partitions", value, reason });
    }
    let mut layout = Layout::of(
        bytes.max(DEVICE_BYTES_MIN),
        device.block_bytes(),
        settings.bytes_a_key,
        settings.partitions,
    );
    let wanted = u64::from(layout.partitions) * DEVICE_BYTES_MIN;
    let has_room = 2 * layout.half_bytes + 2 * PAGE_BYTES < layout.region_bytes / 2;
    if bytes < wanted || !has_room || !is_allowed(layout.partitions) {
        let reason = format!(
            "a store of this many partitions ({}) has at least {wanted} bytes, more with fewer bytes a key",
            layout.partitions
        );
        return Err(Error::InvalidSetting { setting: "size", value: bytes.to_string(), reason });
    }
    (layout.identity, layout.secret) = (rng.next_u64(), rng.next_u64());
    // Until the superblock is there, this is no store.
    write(device, 0, &vec![0; REGIONS_AT as usize])?;
    sync(device)?;
    let layout = Arc::new(layout);
    for number in 0..layout.partitions {
        let directory = KeyDir::new(layout.partition_bits());
        let free = Extents::of(Extent { start: 0, blocks: layout.blocks() });
        let journal = JournalState { half: 1, ..JournalState::default() };
        let start = Start { directory, entry_bytes: 0, free, seqno: 0, journal };
        checkpoint(
            &mut Partition::new(layout.clone(), number, device.name().into(), start),
            device,
        )?;
    }
    write(device, 0, &layout.encode())?;
    write(device, PAGE_BYTES, &layout.encode())?;
    sync(device)?;
    Ok(layout)
}

fn is_allowed(partitions: u32) -> bool {
    partitions.is_power_of_two() && partitions <= PARTITIONS_MAX
}

/// Reads the layout.
pub fn layout(device: &dyn Device) -> Result<Layout> {
    let layout = layout_of_any_size(device)?;
    shortened(device, &layout).map_or(Ok(layout), Err)
}

/// Reads the layout of a store that may have been shortened.
pub fn layout_of_any_size(device: &dyn Device) -> Result<Layout> {
    let too_small = || {
        let reason = format!("it has {} bytes", device.bytes());
        Error::NotADatabase { dir: device.name().to_owned(), reason }
    };
    if device.bytes() < PAGE_BYTES {
        return Err(too_small());
    }
    let (mut copies, mut failed) = (vec![0; REGIONS_AT as usize], None);
    for (at, copy) in SUPERBLOCKS.into_iter().zip(copies.chunks_mut(PAGE_BYTES as usize)) {
        if at + PAGE_BYTES <= device.bytes() {
            match read(device, at, copy.len()) {
                Ok(bytes) => copy.copy_from_slice(&bytes),
                // The other copy is enough.
                Err(error) => failed = Some(error),
            }
        }
    }
    match (Layout::decode(&copies, device.name()), failed) {
        (Err(Error::NotADatabase { .. } | Error::Corruption { .. }), Some(failed)) => Err(failed),
        (Err(Error::NotADatabase { .. }), _) if device.bytes() < DEVICE_BYTES_MIN => {
            Err(too_small())
        }
        (decoded, _) => decoded,
    }
}

/// That a device is shorter than the store on it, if it is.
pub fn shortened(device: &dyn Device, layout: &Layout) -> Option<Error> {
    let (made, found) = (layout.device_bytes, device.bytes());
    let what = format!(
        "it was made with {made} bytes and has {found}: what was behind is lost, unless the file is restored"
    );
    let (store, offset) = (device.name().to_owned(), found);
    (made > found).then_some(Error::HashStoreDamaged { store, offset, what })
}

/// What is wrong with the copies of the superblock.
pub(crate) fn superblock_problems(device: &dyn Device, layout: &Layout) -> Vec<Error> {
    let sound = layout.encode();
    let problem = |offset: u64| {
        if offset + PAGE_BYTES <= device.bytes() {
            match read(device, offset, sound.len()) {
                Ok(bytes) if bytes[..] == sound[..] => return None,
                Ok(_) => {}
                Err(error) => return Some(error),
            }
        }
        let what = "a copy of the superblock is not what was written".to_owned();
        Some(Error::HashStoreDamaged { store: device.name().to_owned(), offset, what })
    };
    SUPERBLOCKS.into_iter().filter_map(problem).collect()
}

/// Opens all partitions for reading and writing: recovers each, and makes what was found a checkpoint.
pub fn open(device: &dyn Device) -> Result<(Arc<Layout>, Vec<Partition>, Opened)> {
    let layout = Arc::new(layout(device)?);
    let (mut partitions, mut opened) = (Vec::new(), Opened::default());
    for number in 0..layout.partitions {
        let recovered = recover(device, &layout, number)?;
        opened.keys += recovered.start.directory.len() as u64;
        opened.replayed += recovered.replayed;
        opened.read_bytes += recovered.read_bytes;
        opened.damaged.extend(recovered.damaged);
        opened.torn.extend(recovered.torn);
        let name = device.name().into();
        let mut partition = Partition::new(layout.clone(), number, name, recovered.start);
        checkpoint(&mut partition, device)?;
        partitions.push(partition);
    }
    Ok((layout, partitions, opened))
}

/// Makes a checkpoint and waits for it.
pub(crate) fn checkpoint(partition: &mut Partition, device: &dyn Device) -> Result<()> {
    partition.begin_first_checkpoint();
    drive(partition, device);
    partition.outcome()
}

/// Does all the input and output that a partition asks for, one after the other.
pub fn drive(partition: &mut Partition, device: &dyn Device) {
    while let Some(io) = partition.take_io() {
        match io.what {
            IoKind::Read { offset, bytes } => {
                let mut buffer = Buffer::stale(bytes);
                let result = device.read_at(offset, &mut buffer).map(|()| buffer.len());
                partition.report(io.tag, result, Some(buffer.whole()));
            }
            IoKind::Write { offset, from } => {
                let result = device.write_at(offset, &Buffer::from_slice(&from));
                partition.report(io.tag, result.map(|()| from.len()), Some(from));
            }
            IoKind::WriteDurably { offset, from } => {
                let written = device.write_at(offset, &Buffer::from_slice(&from));
                let result = written.and_then(|()| device.sync());
                partition.report(io.tag, result.map(|()| from.len()), Some(from));
            }
            IoKind::Sync => {
                let result = device.sync().map(|()| 0);
                partition.report(io.tag, result, None);
            }
        }
    }
}
