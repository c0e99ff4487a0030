//! Batches of several frames, as a rebuild reads them from logs.

use super::gathered::Gathered;
use crate::inspect::logs::LogDump;
use crate::recovery::replay::Rejected;
use esker_base::{Entry, KeyspaceId, Kind, RangeTombstone, Seqno};

/// The entries of a batch whose last frame was not read yet.
#[derive(Default)]
pub(super) struct UnfinishedBatch {
    /// Its first seqno, once a frame was read that another one follows.
    first_seqno: Option<Seqno>,
    entries: Vec<Logged>,
    /// The logs that hold its frames.
    logs: Vec<Rejected>,
}

struct Logged {
    seqno: Seqno,
    keyspace: KeyspaceId,
    kind: Kind,
    key: Vec<u8>,
    value: Vec<u8>,
}

impl UnfinishedBatch {
    /// The first seqno of the batch, if frames of one were read and its last frame was not.
    pub(super) fn first_seqno(&self) -> Option<Seqno> {
        self.first_seqno
    }

    /// Takes the writes of a log from seqno `expected` on.
    pub(super) fn take_log(&mut self, gathered: &mut Gathered, log: &LogDump, expected: Seqno) {
        for frame in log.scan.frames.iter().filter(|frame| frame.next_seqno() > expected) {
            let new = log.entries(frame).filter(|(seqno, _)| *seqno >= expected);
            self.entries.extend(new.map(|(seqno, entry)| Logged::new(seqno, &entry)));
            if frame.continues {
                self.first_seqno.get_or_insert(frame.first_seqno.max(expected));
            } else {
                self.finish(gathered);
            }
        }
        if self.first_seqno.is_some() {
            self.logs.push(log.content());
        }
    }

    /// Ends the batch, and hands its entries over.
    fn finish(&mut self, gathered: &mut Gathered) {
        self.first_seqno = None;
        self.logs.clear();
        for Logged { seqno, keyspace, kind, key, value } in self.entries.drain(..) {
            if gathered.is_dropped(keyspace) {
                continue;
            }
            gathered.repaired.log_entries += 1;
            gathered.next_keyspace = gathered.next_keyspace.max(keyspace.0 + 1);
            let part = gathered.parts.entry(keyspace).or_default();
            match kind {
                Kind::RangeDelete => {
                    part.range_deletes.push(RangeTombstone { start: key, end: value, seqno });
                }
                kind => part.versions.push((key, seqno, kind, value)),
            }
        }
    }

    /// Drops the batch, because its next frame is missing. Returns the logs that hold its frames.
    pub(super) fn leave_out(&mut self) -> Vec<Rejected> {
        self.first_seqno = None;
        self.entries.clear();
        std::mem::take(&mut self.logs)
    }
}

impl Logged {
    fn new(seqno: Seqno, entry: &Entry<'_>) -> Self {
        let Entry { keyspace, kind, key, value } = *entry;
        Logged { seqno, keyspace, kind, key: key.to_vec(), value: value.to_vec() }
    }
}
