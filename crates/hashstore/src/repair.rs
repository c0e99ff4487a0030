//! Mending a damaged store: all that is sound is kept, and what is not is named and dropped.
//!
//! Nothing is written to a partition of which all is sound. Elsewhere a header with one damaged byte is written again; the
//! keys of damaged values are dropped; and what is left is written as a new snapshot, into the half of the journal that
//! holds none of it.

use crate::check::sound_bytes;
use crate::device::{Device, read, sync, write};
use crate::directory::Directory;
use crate::extent::{Extent, Extents};
use crate::format::record::Record;
use crate::format::superblock::{Layout, PAGE_BYTES, REGIONS_AT};
use crate::partition::Partition;
use crate::recover::{Salvaged, recover, salvage};
use crate::volume::{self, checkpoint};
use esker_base::{Error, Result};
use std::sync::Arc;

/// What a repair found and kept.
#[derive(Clone, Default, Debug)]
pub struct Repaired {
    /// Keys that are there now.
    pub keys: u64,
    /// Keys that were dropped, as their values are damaged.
    pub dropped: u64,
    /// Headers that were written again as they had been.
    pub mended: u64,
    /// Partitions, and those of them that were written.
    pub partitions: u32,
    /// Partitions that were written.
    pub written: u32,
    /// What was not as it must be.
    pub problems: Vec<Error>,
}

/// Repairs the store on a device. A device that was shortened has to be [lengthened](crate::device::FileDevice::lengthen)
/// before.
///
/// # Errors
///
/// Fails if there is no store, if neither copy of its superblock is sound, or if the device cannot be written.
pub fn repair(device: &dyn Device) -> Result<Repaired> {
    let layout = Arc::new(volume::layout(device)?);
    let mut repaired = Repaired { partitions: layout.partitions, ..Repaired::default() };
    repair_superblock(device, &layout, &mut repaired)?;
    for number in 0..layout.partitions {
        repair_partition(device, &layout, number, &mut repaired)?;
    }
    Ok(repaired)
}

/// Writes the copies of the superblock again that are damaged.
fn repair_superblock(device: &dyn Device, layout: &Layout, repaired: &mut Repaired) -> Result<()> {
    let sound = layout.encode();
    for offset in (0..REGIONS_AT).step_by(PAGE_BYTES as usize) {
        if read(device, offset, sound.len())?[..] != sound[..] {
            let (store, what) = (device.name().to_owned(), "a copy of the superblock".to_owned());
            repaired.problems.push(Error::HashStoreDamaged { store, offset, what });
            write(device, offset, &sound)?;
            sync(device)?;
        }
    }
    Ok(())
}

fn repair_partition(
    device: &dyn Device,
    layout: &Arc<Layout>,
    number: u32,
    repaired: &mut Repaired,
) -> Result<()> {
    let mut left = match recover(device, layout, number) {
        Ok(recovered) => Salvaged::of(recovered),
        Err(problem) => salvage(device, layout, number, problem)?,
    };
    let mut is_sound = left.problems.is_empty();
    repaired.problems.append(&mut left.problems);
    for (key, problem) in damaged_keys(device, layout, number, &left.directory, repaired)? {
        repaired.problems.push(problem);
        repaired.dropped += 1;
        left.directory.remove(&key);
        is_sound = false;
    }
    repaired.keys += left.directory.len() as u64;
    if is_sound {
        return Ok(());
    }
    repaired.written += 1;
    let start = left.start(layout);
    let mut partition = Partition::new(layout.clone(), number, device.name().into(), start);
    checkpoint(&mut partition, device)
}

/// The keys whose values cannot be read, and why. Headers with one damaged byte are written again.
fn damaged_keys(
    device: &dyn Device,
    layout: &Layout,
    number: u32,
    directory: &Directory,
    repaired: &mut Repaired,
) -> Result<Vec<(Vec<u8>, Error)>> {
    let mut damaged = Vec::new();
    let mut free = Extents::of(Extent { start: 0, blocks: layout.blocks() });
    for (key, extents) in directory.iter() {
        let mut found = sound_bytes(device, layout, number, key, &extents);
        if found.is_err() && mend(device, layout, number, key, &extents)? {
            repaired.mended += 1;
            found = sound_bytes(device, layout, number, key, &extents);
        }
        let taken =
            found.is_ok().then(|| extents.iter().take_while(|it| free.remove(**it)).count());
        let what = match (found, taken) {
            (Err(what), _) => what,
            (Ok(_), Some(taken)) if taken < extents.len() => {
                extents[..taken].iter().for_each(|extent| free.insert(*extent));
                "it shares blocks with another"
            }
            (Ok(_), _) => continue,
        };
        let offset = layout.block(number, extents[0].start);
        let what = format!("key {}: {what}", key.escape_ascii());
        let store = device.name().to_owned();
        damaged.push((key.to_vec(), Error::HashStoreDamaged { store, offset, what }));
    }
    Ok(damaged)
}

/// Writes a record's header again if one byte of it is damaged, and nothing else of the record. Says whether it did.
fn mend(
    device: &dyn Device,
    layout: &Layout,
    number: u32,
    key: &[u8],
    extents: &[Extent],
) -> Result<bool> {
    let offset = layout.block(number, extents[0].start);
    let block = layout.block_bytes as usize;
    let Ok(header) = read(device, offset, block) else { return Ok(false) };
    let place = (number, extents[0].start);
    let decode = |bytes: &[u8]| Record::decode(bytes, place, layout.block_bytes, layout.secret);
    if decode(&header).is_some() {
        return Ok(false);
    }
    let Some(mended) = Record::mended(&header, layout.secret) else { return Ok(false) };
    let record = decode(&mended);
    if !record.is_some_and(|record| record.key == key && record.extents == extents) {
        return Ok(false);
    }
    write(device, offset, &mended)?;
    sync(device)?;
    Ok(true)
}
