//! Write batches, and batches that are read before they are written.

mod functions;
pub mod indexed;
pub mod indexed_functions;
pub mod indexed_reads;
mod iterate;
pub mod wire;

use crate::border::{Handle, Result, Status};
use crate::database::{Family, Open};
use crate::knobs::Knobs;
use crate::stamps::STAMP_BYTES;
use crate::writes::Write;
use esker::WriteBatch;
use wire::{Record, Wire};

pub(crate) use {
    functions::FUNCTIONS, indexed_functions::FUNCTIONS as INDEXED,
    indexed_reads::FUNCTIONS as INDEXED_READS, iterate::FUNCTIONS as ITERATE,
};

/// The records of a batch as Esker's batch. Those of column families that are missing are passed over if
/// the options of the write say so.
///
/// # Errors
/// If the bytes are damaged, or name an unknown column family.
pub fn to_esker(open: &Open, batch: &Wire, options: Handle<Knobs>) -> Result<WriteBatch> {
    let ignores = options.optional().is_some_and(|it| it.is_on("ignore_missing_column_families"));
    let mut all = WriteBatch::new();
    if batch.lacks_stamps {
        return Err(Status::invalid("write batch must have timestamp(s) set"));
    }
    if batch.has_plain_default {
        open.default.plain()?;
    }
    let mut last = open.default.clone();
    for record in batch.records() {
        let (id, record) = record?;
        if last.id() != id {
            last = match open.family(id) {
                Ok(family) => family,
                Err(_) if ignores => continue,
                Err(status) => return Err(status),
            };
        }
        if ignores && last.keyspace.settings().is_err() {
            // It was dropped.
            continue;
        }
        if let Some(write) = write_of(&last, record)? {
            write.add_to(&mut all, &last)?;
        }
    }
    Ok(all)
}

/// A record of a batch for `family` as a write. `None` if it writes nothing.
///
/// # Errors
/// If the family has timestamps, and the key ends with none.
pub fn write_of<'a>(family: &Family, record: Record<'a>) -> Result<Option<Write<'a>>> {
    let parts = |key: &'a [u8]| {
        let short = || Status::invalid("the key of a record ends with no timestamp");
        key.split_last_chunk::<STAMP_BYTES>().ok_or_else(short)
    };
    Ok(Some(match record {
        Record::LogData(_) => return Ok(None),
        Record::Put(key, value) if family.stamps.is_some() => {
            let (key, stamp) = parts(key)?;
            Write::PutAt(key, stamp, value)
        }
        Record::Delete(key) | Record::SingleDelete(key) if family.stamps.is_some() => {
            let (key, stamp) = parts(key)?;
            Write::DeleteAt(key, stamp)
        }
        Record::Put(key, value) => Write::Put(key, value),
        Record::Delete(key) | Record::SingleDelete(key) => Write::Delete(key),
        Record::Merge(key, operand) => Write::Merge(key, operand),
        Record::DeleteRange(start, end) => Write::DeleteRange(start, end),
    }))
}
