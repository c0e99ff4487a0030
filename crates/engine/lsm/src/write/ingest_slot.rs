//! The seqno of an ingest among those of writes.
//!
//! The log has a [mark](ingest_mark) for it. With it, seqnos in the log have no gap, whether the ingest
//! succeeds or not. The mark is the first entry of a segment, so all earlier writes are in MemTables that
//! can be flushed before the ingest is installed, and all later ones are in newer MemTables.
//!
//! Until the slot is [released](IngestSlot::release), no later write is visible.

use super::{CommitPipeline, MemTableSwitch, Place, Reserved};
use crate::log::ingest_mark;
use esker_base::{Error, KeyspaceId, Result, Seqno};

/// A seqno that was given out for an ingest, and is not visible yet.
pub(crate) struct IngestSlot<'a> {
    commit: &'a CommitPipeline,
    seqno: Seqno,
    ticket: u64,
}

impl CommitPipeline {
    /// Begins a segment with the mark of an ingest into `keyspaces`, and returns the slot of its seqno. The
    /// mark is as durable as a write.
    ///
    /// `announce` is called under the lock with the seqno, before any reader can find the segment. If that
    /// has to be tried again, or fails, it is called with `None` before a later write is visible.
    pub(crate) fn begin_ingest(
        &self,
        keyspaces: &[KeyspaceId],
        rotation: &impl MemTableSwitch,
        announce: impl Fn(Option<Seqno>),
    ) -> Result<IngestSlot<'_>> {
        let mark = ingest_mark::batch_of(keyspaces);
        let Reserved { memtable, reservation, ticket, last_seqno, wakes } = loop {
            let mut tail = self.lock_active();
            if self.group.has_failed() {
                return Err(self.log_failed());
            }
            if tail.state.closed {
                return Err(Error::Closed);
            }
            announce(Some(tail.state.next_seqno));
            let rotated = rotation.rotate(&mut tail);
            if !matches!(rotated, Ok(true)) {
                announce(None);
                drop(tail);
                rotated?;
                rotation.wait_for_segment()?;
                continue;
            }
            match tail.state.reserve(&mark) {
                Place::Reserved(reserved) => break reserved,
                Place::Grows(..) | Place::Full => unreachable!("an empty segment holds an entry"),
            }
        };
        let slot = IngestSlot { commit: self, seqno: last_seqno, ticket };
        if wakes {
            rotation.look_ahead();
        }
        let given_up = || self.group.has_failed();
        if !self.ring.has_room(ticket) && !self.ring.wait_room(ticket, &given_up) {
            announce(None);
            return Err(self.log_failed());
        }
        let filled = memtable.fill(reservation, self.synced(), mark.encoded()).fence();
        memtable.insert(&filled);
        self.make_durable(last_seqno, self.durability).inspect_err(|_| announce(None))?;
        Ok(slot)
    }
}

impl IngestSlot<'_> {
    /// The seqno.
    pub(crate) fn seqno(&self) -> Seqno {
        self.seqno
    }

    /// Makes the seqno visible, once all writes before it are.
    pub(crate) fn release(self) {
        drop(self);
    }
}

impl Drop for IngestSlot<'_> {
    fn drop(&mut self) {
        let CommitPipeline { ring, group, .. } = self.commit;
        if ring.has_room(self.ticket) {
            ring.mark(self.ticket, self.seqno);
            ring.wait_indexed(self.seqno, &|| group.has_failed());
            self.commit.signal.announce();
        }
    }
}
