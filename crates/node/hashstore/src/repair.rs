//! Mending a damaged store: all that is sound is kept, and what is not is named and dropped.
//!
//! Nothing is written to a partition of which all is sound. Elsewhere a header with one damaged byte is written again; the
//! keys of damaged values are dropped; and what is left is written as a new snapshot, into the half of the journal that
//! holds none of it.
//!
//! A failed read is not damage: what it did not return may be sound. The repair fails then, unless the caller drops the blocks
//! that cannot be read ([`Unreadable::GiveUp`]).

use crate::check::{damaged_key, sound_bytes};
use crate::device::{Device, read, sync, write};
use crate::extent::{Extent, Extents};
use crate::format::record::Record;
use crate::format::superblock::{Layout, SUPERBLOCKS};
use crate::keydir::KeyDir;
use crate::partition::Partition;
use crate::recover::{Salvaged, recover, salvage};
use crate::store_file::{self, checkpoint};
use crate::unreadable::{GivenUp, Unreadable};
use esker_base::{Error, Result};
use std::sync::Arc;

/// What a repair found and kept.
#[derive(Clone, Default, Debug)]
pub struct RepairReport {
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
/// Fails if there is no store, if neither copy of its superblock is sound, if the device cannot be written, or if it cannot be read
/// and `unreadable` gives nothing up. Each partition that was repaired before the error stays repaired.
pub fn repair(device: &dyn Device, unreadable: Unreadable) -> Result<RepairReport> {
    let layout = Arc::new(store_file::layout(device)?);
    let mut repaired = RepairReport { partitions: layout.partitions, ..RepairReport::default() };
    repair_superblock(device, &layout, unreadable, &mut repaired)?;
    for number in 0..layout.partitions {
        repair_partition(device, &layout, number, unreadable, &mut repaired)?;
    }
    Ok(repaired)
}

/// Writes the copies of the superblock again that are damaged. Nothing is dropped by that.
fn repair_superblock(
    device: &dyn Device,
    layout: &Layout,
    unreadable: Unreadable,
    repaired: &mut RepairReport,
) -> Result<()> {
    let sound = layout.encode();
    for offset in SUPERBLOCKS {
        let problem = match read(device, offset, sound.len()) {
            Ok(bytes) if bytes[..] == sound[..] => continue,
            Ok(_) => {
                let what = "a copy of the superblock".to_owned();
                Error::HashStoreDamaged { store: device.name().to_owned(), offset, what }
            }
            Err(failure) if unreadable == Unreadable::Fail => return Err(failure),
            Err(failure) => failure,
        };
        repaired.problems.push(problem);
        write(device, offset, &sound)?;
        sync(device)?;
    }
    Ok(())
}

fn repair_partition(
    device: &dyn Device,
    layout: &Arc<Layout>,
    number: u32,
    unreadable: Unreadable,
    repaired: &mut RepairReport,
) -> Result<()> {
    let given_up = GivenUp::none(device);
    let reads: &dyn Device = match unreadable {
        Unreadable::Fail => device,
        Unreadable::GiveUp => &given_up,
    };
    let mut left = match recover(reads, layout, number) {
        Ok(recovered) if given_up.is_empty() => Salvaged::of(recovered),
        // Zeros in place of what was not read may look like the end of the journal.
        Ok(_) => salvage(reads, layout, number, None)?,
        Err(problem) if problem.is_corruption() => salvage(reads, layout, number, Some(problem))?,
        Err(failure) => return Err(failure),
    };
    let mut is_sound = left.problems.is_empty();
    repaired.problems.append(&mut left.problems);
    for (key, problem) in damaged_keys(reads, layout, number, &left.directory, repaired)? {
        repaired.problems.push(problem);
        repaired.dropped += 1;
        left.directory.remove(&key);
        is_sound = false;
    }
    repaired.keys += left.directory.len() as u64;
    if is_sound && given_up.is_empty() {
        return Ok(());
    }
    repaired.written += 1;
    repaired.problems.extend(given_up.problems());
    let start = left.start(layout);
    let mut partition = Partition::new(layout.clone(), number, device.name().into(), start);
    checkpoint(&mut partition, device)?;
    // Only now does nothing refer to them.
    given_up.zero()
}

/// The keys whose values are damaged, and how. Headers with one damaged byte are written again.
fn damaged_keys(
    device: &dyn Device,
    layout: &Layout,
    number: u32,
    directory: &KeyDir,
    repaired: &mut RepairReport,
) -> Result<Vec<(Vec<u8>, Error)>> {
    let mut damaged = Vec::new();
    let mut free = Extents::of(Extent { start: 0, blocks: layout.blocks() });
    for (key, extents) in directory.iter() {
        let mut found = sound_bytes(device, layout, number, key, &extents);
        let is_damaged = found.as_ref().is_err_and(Error::is_corruption);
        if is_damaged && mend(device, layout, number, key, &extents)? {
            repaired.mended += 1;
            found = sound_bytes(device, layout, number, key, &extents);
        }
        let taken =
            found.is_ok().then(|| extents.iter().take_while(|it| free.remove(**it)).count());
        let problem = match (found, taken) {
            (Err(problem), _) if problem.is_corruption() => problem,
            (Err(failure), _) => return Err(failure),
            (Ok(_), Some(taken)) if taken < extents.len() => {
                extents[..taken].iter().for_each(|extent| free.insert(*extent));
                let offset = layout.block(number, extents[0].start);
                damaged_key(device, offset, key, "it shares blocks with another")
            }
            (Ok(_), _) => continue,
        };
        damaged.push((key.to_vec(), problem));
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
    let header = read(device, offset, block)?;
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
