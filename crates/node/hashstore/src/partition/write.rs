//! Stores and deletes.

use super::allocator::{AllocError, Need};
use super::in_progress::{PendingWrite, WritePlan};
use super::request::{Item, StoreCondition, check_lengths};
use super::{Answer, CHANGES_MAX, Partition, Purpose};
use crate::extent::Extent;
use crate::format::journal::{entry_bytes, entry_bytes_max, put_change};
use crate::format::record::{Record, RecordKind, value_at};
use esker_base::Error;
use esker_base::checksum::crc32c;
use esker_uring::{Buffer, Slice};
use std::collections::VecDeque;

/// A change that waits for a checkpoint can wait through the one that is in progress and one more; what does
/// not fit then does not fit. Those after which others took the space that there was do not count.
const CHECKPOINTS_WAITED_MAX: u32 = 2;

impl Partition {
    /// Begins a change, or lets it wait for others of its key.
    pub(super) fn plan(&mut self, planned: WritePlan) {
        let WritePlan { token, ref item, .. } = planned;
        if let Err(error) = check_lengths(&item.key, item.value_bytes, self.value_bytes_max()) {
            return self.reply(token, Err(error));
        }
        if let Some(error) = &self.failed {
            let error = error.clone();
            return self.reply(token, Err(error));
        }
        if let Some(waiting) = self.busy.get_mut(&item.key) {
            return waiting.push_back(planned);
        }
        let key = item.key.clone();
        self.busy.insert(key.clone(), VecDeque::new());
        if !self.begin(planned, 0) {
            self.next_of(&key);
        }
    }

    /// Begins a change of a key that is marked busy. False if it is over already.
    fn begin(&mut self, planned: WritePlan, checkpoints_waited: u32) -> bool {
        let key = &planned.item.key;
        let old = self.directory.get(key).map(|extents| entry_bytes(key, &extents));
        let is_present = old.is_some();
        let answer = match (planned.only, is_present) {
            (StoreCondition::IfPresent, false) => Some(Answer::Absent),
            (StoreCondition::IfAbsent, true) => Some(Answer::Present),
            _ => None,
        };
        if let Some(answer) = answer {
            self.reply(planned.token, Ok(answer));
            return false;
        }
        if self.changes.len() >= CHANGES_MAX {
            self.crowded.push_back(planned);
            return true;
        }
        let is_delete = planned.kind == RecordKind::Delete;
        let need = Need {
            key_bytes: key.len(),
            value_bytes: planned.item.value_bytes,
            block_bytes: self.layout.block_bytes,
        };
        let may_wait = checkpoints_waited < CHECKPOINTS_WAITED_MAX;
        match self.space.allocate(&need, is_delete) {
            Ok(extents) if is_delete || self.journal_holds(key, &extents, old) => {
                self.write_record(planned, extents, old.unwrap_or(0));
                true
            }
            // A checkpoint comes after a sync.
            Ok(extents) if may_wait && self.cache.unsafe_entry_bytes() > 0 => {
                self.space.give_back(extents);
                self.stalled.push_back((planned, checkpoints_waited));
                true
            }
            Ok(extents) => {
                self.space.give_back(extents);
                let error = self.journal_is_full();
                self.reply(planned.token, Err(error));
                false
            }
            Err(AllocError::Now) if may_wait => {
                self.stalled.push_back((planned, checkpoints_waited));
                true
            }
            // Deletes under way have what stores left to deletes, and give back more than they took.
            Err(_) if is_delete && !self.changes.is_empty() => {
                self.crowded.push_back(planned);
                true
            }
            Err(_) => {
                let error = self.full(need.blocks(1));
                self.reply(planned.token, Err(error));
                false
            }
        }
    }

    /// Whether the journal has space for a key's entry in place of its `old` bytes, if it has any. New keys leave space
    /// for the entries that are there to become longer.
    fn journal_holds(&self, key: &[u8], extents: &[Extent], old: Option<u64>) -> bool {
        let left = if old.is_some() { 0 } else { entry_bytes_max(0) };
        let more = entry_bytes(key, extents).saturating_sub(old.unwrap_or(0));
        self.entry_bytes + more + left <= self.journal.entry_bytes_max(&self.layout)
    }

    fn journal_is_full(&self) -> Error {
        let what = format!(
            "has as many keys as its journal has space for, {} in this partition: it was made for more bytes a key",
            self.directory.len()
        );
        Error::CapacityExceeded { store: self.name.to_string(), what }
    }

    fn full(&self, blocks: u64) -> Error {
        let block_bytes = u64::from(self.layout.block_bytes);
        let (needed, unused) = (blocks * block_bytes, self.space.unused() * block_bytes);
        let what = format!(
            "has no space for {needed} bytes: {unused} are unused in this key's partition, in pieces or reserved for deletes"
        );
        Error::CapacityExceeded { store: self.name.to_string(), what }
    }

    /// Writes the record of a change of a key whose entry takes `old` bytes now.
    fn write_record(&mut self, planned: WritePlan, extents: Vec<Extent>, old: u64) {
        let WritePlan { token, kind, item: Item { key, value_bytes, buffer, start }, .. } = planned;
        let under_way = self.changes.first_key_value().map(|(&oldest, _)| oldest);
        let oldest = under_way.into_iter().chain(self.cache.oldest()).min();
        let durable_through = oldest.map_or(self.seqno, |oldest| oldest - 1);
        self.seqno += 1;
        let seqno = self.seqno;
        let at = start + value_at(key.len(), 1);
        let value_checksum =
            if value_bytes > 0 { crc32c(&buffer[at..at + value_bytes]) } else { 0 };
        let record = Record {
            kind,
            seqno,
            durable_through,
            key,
            value_bytes: value_bytes as u32,
            value_checksum,
            extents,
        };
        if kind == RecordKind::Store {
            self.entry_bytes += entry_bytes(&record.key, &record.extents).saturating_sub(old);
        }
        let slices = self.lay_out(&record, buffer, start);
        let Record { key, extents, .. } = record;
        let writes_left = slices.len();
        // With others on their way, one sync for all is less.
        let is_alone = writes_left == 1
            && self.changes.is_empty()
            && self.syncing.is_none()
            && !self.cache.is_on();
        let starts: Vec<_> = extents.iter().map(|extent| self.offset(extent.start)).collect();
        self.changes
            .insert(seqno, PendingWrite { token, extents, kind, key, value_bytes, writes_left });
        for (slice, offset) in slices.into_iter().zip(starts) {
            if is_alone {
                self.stats.syncs += 1;
                self.write_durably(Purpose::DurableRecord(seqno), offset, slice);
            } else {
                self.write(Purpose::Record(seqno), offset, slice);
            }
        }
    }

    /// A record, whose value is in `buffer` in a record that begins at `start`, as the slices to write to its extents.
    fn lay_out(&self, record: &Record, mut buffer: Buffer, start: usize) -> Vec<Slice> {
        let (block_bytes, secret) = (self.layout.block_bytes as usize, self.layout.secret);
        let value = record.value();
        let in_place = start + value_at(record.key.len(), 1);
        let bytes = value.end.next_multiple_of(block_bytes);
        if record.extents.len() == 1 && buffer.len() >= start + bytes {
            record.encode(self.number, secret, &mut buffer[start..start + value.start]);
            return vec![buffer.slice(start..start + bytes)];
        }
        let mut whole = vec![0; bytes];
        record.encode(self.number, secret, &mut whole[..value.start]);
        let value_bytes = value.len();
        whole[value].copy_from_slice(buffer.get(in_place..in_place + value_bytes).unwrap_or(&[]));
        let mut rest = &whole[..];
        let part = |extent: &Extent| {
            let size = extent.blocks as usize * block_bytes;
            let part = rest.split_off(..size.min(rest.len())).unwrap_or(&[]);
            let mut buffer = Buffer::zeroed(size);
            buffer[..part.len()].copy_from_slice(part);
            buffer.whole()
        };
        record.extents.iter().map(part).collect()
    }

    pub(super) fn record_written(&mut self, seqno: u64) {
        let Some(change) = self.changes.get_mut(&seqno) else { return };
        change.writes_left -= 1;
        if change.writes_left > 0 {
            return;
        }
        match self.cache.takes(seqno) {
            true => self.change_takes_effect(seqno),
            false => self.written.push(seqno),
        }
    }

    /// A change survives power loss, or there is a volatile cache: it takes effect and is acknowledged.
    pub(super) fn change_takes_effect(&mut self, seqno: u64) {
        let Some(change) = self.changes.remove(&seqno) else { return };
        let PendingWrite { token, extents, kind, key, value_bytes, .. } = change;
        let (now, old) = match kind {
            RecordKind::Store => {
                self.stats.stored_bytes += (key.len() + value_bytes) as u64;
                (&extents[..], self.directory.insert(&key, &extents))
            }
            RecordKind::Delete => {
                self.free(&extents);
                (&[][..], self.directory.remove(&key))
            }
        };
        let known = self.journal.changes.len();
        put_change(&mut self.journal.changes, &key, now);
        self.snapshot_follows(&key, now, self.journal.changes.len() - known);
        let bytes_of = |extents: &[Extent]| match extents {
            [] => 0,
            extents => entry_bytes(&key, extents),
        };
        let less = bytes_of(old.as_deref().unwrap_or(&[])).saturating_sub(bytes_of(now));
        self.entry_bytes -= self.cache.frees(less);
        if let Some(old) = &old {
            self.free(old);
        }
        self.stats.changes += 1;
        self.reply(token, Ok(Answer::Done { was_present: old.is_some() }));
        self.next_of(&key);
        self.resume_crowded();
    }

    /// Begins what waited for others, until one has to wait again. One that fails, for want of space say, makes space for
    /// none: all that have space are tried.
    fn resume_crowded(&mut self) {
        while self.changes.len() < CHANGES_MAX
            && let Some(next) = self.crowded.pop_front()
        {
            let (key, waiting) = (next.item.key.clone(), self.crowded.len());
            if !self.begin(next, 0) {
                self.next_of(&key);
            } else if self.crowded.len() > waiting {
                return;
            }
        }
    }

    /// The next change of a key may begin.
    fn next_of(&mut self, key: &[u8]) {
        while let Some(waiting) = self.busy.get_mut(key) {
            let Some(next) = waiting.pop_front() else {
                self.busy.remove(key);
                return;
            };
            if self.begin(next, 0) {
                return;
            }
        }
    }

    /// Tries again what waited for a checkpoint.
    pub(super) fn retry_stalled(&mut self) {
        let before = self.seqno;
        for (planned, waited) in std::mem::take(&mut self.stalled) {
            let key = planned.item.key.clone();
            let is_first = self.seqno == before;
            if !self.begin(planned, waited + u32::from(is_first)) {
                self.next_of(&key);
            }
        }
    }
}
