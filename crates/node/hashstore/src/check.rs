//! Checks a store that no process has open.

use crate::device::{Device, read};
use crate::extent::Extent;
use crate::format::record::{Record, RecordKind};
use crate::format::superblock::Layout;
use crate::recover::DamagedWrite;
use crate::recover::recover;
use crate::store_file;
use esker_base::{Error, Result};

/// What was inspected and what was found.
#[derive(Clone, Default, Debug)]
pub struct Report {
    /// Partitions.
    pub partitions: u32,
    /// Keys in those that could be read.
    pub keys: u64,
    /// Records found behind the last checkpoints.
    pub replayed: u64,
    /// Memory that the indexes take when it is open, in bytes.
    pub index_bytes: u64,
    /// Bytes read to find the keys: what an opening reads.
    pub recovery_bytes: u64,
    /// Bytes of blocks in use.
    pub used_bytes: u64,
    /// Bytes of blocks there are.
    pub data_bytes: u64,
    /// Values that were read and are what was written.
    pub sound_values: u64,
    /// Bytes of their keys and of them.
    pub sound_bytes: u64,
    /// Writes that a power loss truncated, or that are damaged: nothing says that they were durable, and they do not count.
    pub torn: Vec<DamagedWrite>,
    /// What is not as it must be.
    pub problems: Vec<Error>,
}

/// Reads the superblock and each partition's journal and window, as an opening does, and sees that no two values
/// are in the same place. Changes nothing. Fails only if there is no store; what is damaged or can't be read is in the
/// report.
pub fn check(device: &dyn Device) -> Result<Report> {
    look_over(device, false)
}

/// The same, and reads every value there is.
pub fn scrub(device: &dyn Device) -> Result<Report> {
    look_over(device, true)
}

fn look_over(device: &dyn Device, read_values: bool) -> Result<Report> {
    let layout = store_file::layout_of_any_size(device)?;
    let mut report = Report { partitions: layout.partitions, ..Report::default() };
    report.problems.extend(store_file::shortened(device, &layout));
    report.problems.extend(store_file::superblock_problems(device, &layout));
    let block_bytes = u64::from(layout.block_bytes);
    for number in 0..layout.partitions {
        let recovered = match recover(device, &layout, number) {
            Ok(recovered) => recovered,
            Err(problem) => {
                report.problems.push(problem);
                continue;
            }
        };
        let blocks = u64::from(layout.blocks());
        report.keys += recovered.start.directory.len() as u64;
        report.replayed += recovered.replayed;
        report.index_bytes += recovered.start.directory.memory_bytes() as u64;
        report.recovery_bytes += recovered.read_bytes;
        report.data_bytes += blocks * block_bytes;
        report.used_bytes += (blocks - recovered.start.free.blocks()) * block_bytes;
        report.torn.extend(recovered.torn);
        // A scrub finds the same when it reads the values.
        let damaged = recovered.damaged.iter().filter(|_| !read_values);
        report.problems.extend(damaged.map(|write| write.error(device.name())));
        if read_values {
            for (key, extents) in recovered.start.directory.iter() {
                match sound_bytes(device, &layout, number, key, &extents) {
                    Ok(bytes) => {
                        report.sound_values += 1;
                        report.sound_bytes += bytes;
                    }
                    Err(problem) => report.problems.push(problem),
                }
            }
        }
    }
    Ok(report)
}

/// The bytes of a key and its value.
///
/// # Errors
///
/// [`Error::HashStoreDamaged`] if the record is not what was written, and [`Error::Io`] if a read fails: it may be sound then.
pub(crate) fn sound_bytes(
    device: &dyn Device,
    layout: &Layout,
    number: u32,
    key: &[u8],
    extents: &[Extent],
) -> Result<u64> {
    let mut bytes = Vec::new();
    for extent in extents {
        let size = extent.blocks as usize * layout.block_bytes as usize;
        let part = read(device, layout.block(number, extent.start), size);
        bytes.extend_from_slice(&part.map_err(|error| naming(key, error))?);
    }
    let place = (number, extents[0].start);
    let record = Record::decode(&bytes, place, layout.block_bytes, layout.secret);
    let what = match record {
        None => "the header is not what was written",
        Some(record) if record.key != key || record.kind != RecordKind::Store => {
            "another record is stored there"
        }
        Some(record) if !record.has_value(&bytes) => "the value is not what was written",
        Some(record) => return Ok(key.len() as u64 + u64::from(record.value_bytes)),
    };
    Err(damaged_key(device, layout.block(number, extents[0].start), key, what))
}

/// That the record of a key is damaged.
pub(crate) fn damaged_key(device: &dyn Device, offset: u64, key: &[u8], what: &str) -> Error {
    let what = format!("key {}: {what}", key.escape_ascii());
    Error::HashStoreDamaged { store: device.name().to_owned(), offset, what }
}

/// A failed read of a record, with its key.
fn naming(key: &[u8], error: Error) -> Error {
    match error {
        Error::Io { action, path, source } => {
            Error::Io { action, path: format!("{path}, key {}", key.escape_ascii()), source }
        }
        other => other,
    }
}
