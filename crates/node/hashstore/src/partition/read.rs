//! Reads of values.

use super::in_progress::Read;
use super::{Answer, IoKind, Partition, Purpose};
use crate::format::record::{Record, RecordKind};
use esker_base::{Error, Result};
use esker_uring::{Buffer, Slice};
use std::io;

impl Partition {
    pub(super) fn retrieve(&mut self, token: u64, key: Vec<u8>) {
        let Some(extents) = self.directory.get(&key) else {
            return self.reply(token, Ok(Answer::Absent));
        };
        let number = self.next_read;
        self.next_read += 1;
        for (part, extent) in extents.iter().enumerate() {
            let bytes = extent.blocks as usize * self.layout.block_bytes as usize;
            let offset = self.offset(extent.start);
            self.do_io(Purpose::Read(number, part), IoKind::Read { offset, bytes });
        }
        let parts = extents.iter().map(|_| None).collect();
        let parts_left = extents.len();
        self.reads.insert(number, Read { token, key, extents, parts, parts_left, failed: None });
    }

    pub(super) fn read_done(
        &mut self,
        number: u64,
        part: usize,
        result: io::Result<usize>,
        slice: Option<Slice>,
    ) {
        let Some(read) = self.reads.get_mut(&number) else { return };
        read.parts_left -= 1;
        match result {
            Ok(bytes) if slice.as_ref().is_some_and(|slice| slice.len() == bytes) => {
                read.parts[part] = slice;
                self.held_bytes += bytes;
            }
            Ok(_) => {
                read.failed =
                    Some(Error::io("read", &*self.name, io::ErrorKind::UnexpectedEof.into()))
            }
            Err(error) => read.failed = Some(Error::io("read", &*self.name, error)),
        }
        if read.parts_left == 0
            && let Some(read) = self.reads.remove(&number)
        {
            let token = read.token;
            self.held_bytes -= read.parts.iter().flatten().map(|part| part.len()).sum::<usize>();
            let result = self.value_of(read);
            self.stats.reads += 1;
            self.reply(token, result.map(Answer::Value));
        }
    }

    /// The value in what was read, if it is the one that was written.
    fn value_of(&self, read: Read) -> Result<Slice> {
        let Read { key, extents, mut parts, failed, .. } = read;
        if let Some(error) = failed {
            return Err(error);
        }
        let whole = match &mut parts[..] {
            [only] => only.take().expect("it did not fail").into_buffer(),
            parts => {
                let parts: Vec<_> =
                    parts.iter().flatten().flat_map(|part| part.iter()).copied().collect();
                Buffer::from_slice(&parts)
            }
        };
        let place = (self.number, extents[0].start);
        let (block_bytes, secret) = (self.layout.block_bytes, self.layout.secret);
        let Some(record) = Record::decode(&whole, place, block_bytes, secret) else {
            return Err(self.damaged(&extents, "the header of a value is not what was written"));
        };
        if record.key != key || record.kind != RecordKind::Store || record.extents != extents {
            return Err(self.damaged(&extents, "another record is where a value should be"));
        }
        if !record.has_value(&whole) {
            return Err(self.damaged(&extents, "a value is not what was written"));
        }
        Ok(whole.slice(record.value()))
    }
}
