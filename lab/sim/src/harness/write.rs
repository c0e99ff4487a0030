//! Writes: batches that count, and batches that must be refused.

use super::{Check, Halt, Harness};
use crate::content;
use crate::model::{Batch, Pairs, Write};
use crate::operations::{Change, SPACES};
use crate::settings::LogMode;
use esker_api::{KeyRange, WriteBatch};
use esker_base::{EXPIRY_BYTES, Error, KeyspaceId, MAX_KEY_BYTES};
use esker_lsm::{Dedup, KeyspaceSettings};
use std::sync::Arc;
use std::time::Duration;

/// A batch ends before it gets larger: it must fit a quarter of the smallest segment, or of a pool
/// with many extents. Then it takes several segments, in files too.
pub(super) fn batch_bytes_max(extents: u8) -> usize {
    if extents >= 16 { 200 << 10 } else { 15 << 10 }
}

impl Harness {
    pub(super) fn write(&mut self, changes: &[Change], sync: bool) -> Check {
        let (mut batch, expected) = self.resolve(changes);
        if batch.is_empty() {
            return Ok(());
        }
        if sync {
            batch.set_sync(true);
        }
        let calls = self.machine.calls();
        match self.db().write(&batch) {
            Ok(()) if self.log_failed => {
                Err(Halt::Wrong("a write succeeds although the log has failed".into()))
            }
            Ok(()) if self.machine.is_over() => {
                // The end came before the acknowledgement, or after the write.
                self.model.doubt(expected);
                Ok(())
            }
            Ok(()) => {
                self.outcome.batches += 1;
                self.model.acknowledge(expected);
                if sync || matches!(self.settings.log, LogMode::Always | LogMode::Pmem) {
                    self.model.all_durable();
                }
                Ok(())
            }
            Err(error) => {
                if matches!(error, Error::LogFailed { .. }) {
                    self.model.doubt(expected);
                } else if sync && self.was_written(&expected) {
                    // Without a log a synced batch is written first and flushed then.
                    self.model.acknowledge(expected);
                }
                // Otherwise nothing was written.
                self.excuse("a write", &error, calls)
            }
        }
    }

    /// Ingests entries: keys, stamps and lengths of values.
    pub(super) fn ingest(
        &mut self,
        space: u8,
        entries: &[(u16, u32, u16)],
        is_large: bool,
    ) -> Check {
        let Some((keyspace, id)) = self.keyspace(space)? else { return Ok(()) };
        // The model does not tell apart two that failed.
        if self.model.has_failed_ingest() || self.log_failed {
            return Ok(());
        }
        let pair = |&(key, stamp, bytes): &_| (content::key(key), content::value(stamp, bytes));
        let mut pairs: Pairs = entries.iter().map(pair).collect();
        // A batch with a value that is larger than a log entry may be is an ingest, too.
        let is_large =
            is_large && keyspace.settings().is_ok_and(|settings| takes_large_values(&settings));
        if let Some(value) = pairs.values_mut().next().filter(|_| is_large) {
            let bytes = self.segment_bytes() / 4 + value.len();
            *value = value.iter().chain(b"large").copied().cycle().take(bytes).collect();
        }
        let pairs = Arc::new(pairs);
        let calls = self.machine.calls();
        let before = self.model.seqno();
        let ingested = match is_large {
            true => {
                let mut batch = WriteBatch::new();
                pairs.iter().for_each(|(key, value)| batch.put(&keyspace, key, value));
                self.db().write(&batch)
            }
            false => self.db().ingest(&keyspace, pairs.iter()).map(|_| ()),
        };
        let failed = vec![Write::FailedIngest(id, pairs.clone())];
        match ingested {
            _ if self.machine.is_over() => self.model.doubt(failed),
            Ok(_) => {
                self.outcome.ingests += 1;
                self.outcome.large_values += u64::from(is_large);
                self.model.acknowledge(vec![Write::Ingest(id, pairs)]);
                self.model.all_durable();
            }
            // It is known to have changed nothing only if it took no seqno.
            Err(_) if self.db().stats().visible_seqno > before => self.model.acknowledge(failed),
            Err(Error::LogFailed { .. }) => self.model.doubt(failed),
            Err(_) => {}
        }
        match ingested {
            Err(error) => self.excuse("an ingest", &error, calls),
            Ok(_) => Ok(()),
        }
    }

    fn segment_bytes(&self) -> usize {
        match self.settings.log {
            LogMode::Pmem => crate::machine::EXTENT_BYTES as usize,
            _ => self.settings.segment_kib << 10,
        }
    }

    /// Whether a batch that was to be synced in place of a log is there, although it failed.
    fn was_written(&self, batch: &Batch) -> bool {
        self.settings.log == LogMode::None
            && self.db().stats().visible_seqno == self.model.seqno() + batch.len() as u64
    }

    /// `changes` as the engine and as the model take them, without those to keyspaces that are not
    /// there.
    fn resolve(&self, changes: &[Change]) -> (WriteBatch, Batch) {
        let mut batch = WriteBatch::new();
        let mut expected = Vec::new();
        for change in changes {
            let (Change::Put(space, ..)
            | Change::PutTtl(space, ..)
            | Change::Merge(space, ..)
            | Change::Delete(space, _)
            | Change::DeleteRange(space, ..)) = *change;
            let Some(id) = self.model.space(SPACES[usize::from(space)]) else { continue };
            let write = match *change {
                Change::Put(_, key, stamp, bytes) => {
                    Write::Put(id, content::key(key), content::value(stamp, bytes))
                }
                Change::PutTtl(_, key, stamp, bytes, ttl) => {
                    let until = self.machine.millis() + u64::from(ttl);
                    Write::PutUntil(id, content::key(key), content::value(stamp, bytes), until)
                }
                Change::Merge(_, key, stamp, bytes) => {
                    Write::Merge(id, content::key(key), content::value(stamp, bytes))
                }
                Change::Delete(_, key) => Write::Delete(id, content::key(key)),
                Change::DeleteRange(_, a, b) => {
                    let (a, b) = (content::key(a), content::key(b));
                    match a.cmp(&b) {
                        std::cmp::Ordering::Less => Write::DeleteRange(id, a, b),
                        std::cmp::Ordering::Greater => Write::DeleteRange(id, b, a),
                        // To the last key.
                        std::cmp::Ordering::Equal => Write::DeleteRange(id, a, Vec::new()),
                    }
                }
            };
            if batch.encoded().len() + largest_encoding(&write) > self.batch_bytes_max {
                break;
            }
            match &write {
                Write::Put(id, key, value) => batch.put(KeyspaceId(*id), key, value),
                Write::PutUntil(id, key, value, until) => {
                    let ttl = Duration::from_millis(until - self.machine.millis());
                    batch.put_with_ttl(KeyspaceId(*id), key, value, ttl);
                }
                Write::Merge(id, key, operand) => batch.merge(KeyspaceId(*id), key, operand),
                Write::Delete(id, key) => batch.delete(KeyspaceId(*id), key),
                Write::DeleteRange(id, start, end) => {
                    batch.delete_range(KeyspaceId(*id), KeyRange::deleted(start, end));
                }
                Write::Ingest(..) | Write::FailedIngest(..) => unreachable!("no change is one"),
            }
            expected.push(write);
        }
        (batch, expected)
    }

    /// A batch with something wrong in it is refused, and nothing of it is written.
    pub(super) fn write_flawed(&mut self, flaw: u8) -> Check {
        let mut batch = WriteBatch::new();
        batch.put(KeyspaceId::DEFAULT, content::key(0), b"of a refused batch");
        let segment_bytes = self.segment_bytes();
        match flaw {
            0 => batch.delete_range(KeyspaceId::DEFAULT, ..b""),
            1 => batch.put(KeyspaceId::DEFAULT, vec![b'k'; MAX_KEY_BYTES + 1], b"value"),
            2 => batch.delete_range(KeyspaceId::DEFAULT, b"b"..b"a"),
            // What is more than an entry of the log may have, in a batch that takes no large value.
            3 => {
                batch.put(KeyspaceId::DEFAULT, b"key", vec![0; segment_bytes / 4 + 1]);
                batch.delete_range(KeyspaceId::DEFAULT, b"a"..b"b");
            }
            _ => batch.put(KeyspaceId(u32::MAX), b"key", b"value"),
        }
        let refused = match (flaw, self.db().write(&batch)) {
            (_, Ok(())) => false,
            (0, Err(error)) => matches!(error, Error::EmptyRange),
            (1, Err(error)) => matches!(error, Error::KeyTooLong { .. }),
            (2, Err(error)) => matches!(error, Error::EmptyRange),
            (3, Err(error)) => matches!(error, Error::LargeValue(_)),
            (_, Err(error)) => matches!(error, Error::UnknownKeyspace { .. }),
        };
        if refused {
            return Ok(());
        }
        Err(Halt::Wrong(format!("a batch with flaw {flaw} is not refused for it")))
    }
}

/// Whether a keyspace takes values that are larger than a log entry may be.
fn takes_large_values(settings: &KeyspaceSettings) -> bool {
    let KeyspaceSettings { merge, compaction_filter, dedup, .. } = settings;
    let has_goal = matches!(dedup, Dedup::SpaceGoal { .. });
    merge.is_none() && compaction_filter.is_none() && !has_goal
}

fn largest_encoding(write: &Write) -> usize {
    const HEADER: usize = 16;
    HEADER
        + match write {
            Write::Put(_, key, value) | Write::Merge(_, key, value) => key.len() + value.len(),
            Write::PutUntil(_, key, value, _) => key.len() + EXPIRY_BYTES + value.len(),
            Write::Delete(_, key) => key.len(),
            Write::DeleteRange(_, start, end) => start.len() + end.len(),
            Write::Ingest(..) | Write::FailedIngest(..) => unreachable!("no change is one"),
        }
}
