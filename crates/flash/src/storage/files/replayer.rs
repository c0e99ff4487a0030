//! Makes the files anew from the journal's changes.

use crate::Geometry;
use crate::storage::chunks::erase_counts::EraseCounter;
use crate::storage::files::file_meta::FileMeta;
use crate::storage::format::JournalRecord;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Whether changes make the same files as others, with the same bytes in the same places.
pub(crate) fn is_same(geometry: &Geometry, one: &[JournalRecord], other: &[JournalRecord]) -> bool {
    let files = |ops: &[JournalRecord]| {
        let mut replay = Replayer::new(geometry.chunks());
        ops.iter().try_for_each(|op| replay.apply(op)).ok()?;
        let of_one = |(name, body): (&String, &Arc<FileMeta>)| {
            let made = body.made(name);
            // A snapshot has pieces as one that several edits named.
            let joined = FileMeta::new(&made);
            body.recorded().into_iter().for_each(|extent| joined.push(extent));
            (made, joined.unrecorded())
        };
        Some(replay.names.iter().map(of_one).collect::<Vec<_>>())
    };
    files(one).is_some_and(|files_of_one| files(other) == Some(files_of_one))
}

/// The files while the journal's changes are made anew.
pub(crate) struct Replayer {
    pub(crate) names: BTreeMap<String, Arc<FileMeta>>,
    /// The same by number. A journal may have so many that to look through all of them for each change is felt.
    pub(crate) ids: BTreeMap<u64, Arc<FileMeta>>,
    pub(crate) next_id: u64,
    pub(crate) wear: EraseCounter,
}

impl Replayer {
    pub(crate) fn new(chunks: usize) -> Self {
        let (names, ids) = Default::default();
        Replayer { names, ids, next_id: 1, wear: EraseCounter::new(chunks) }
    }

    pub(crate) fn apply(&mut self, op: &JournalRecord) -> std::result::Result<(), String> {
        match op {
            JournalRecord::Create(made) => {
                self.next_id = made.id.max(self.next_id - 1) + 1;
                let body = FileMeta::new(made);
                self.ids.insert(made.id, body.clone());
                if self.names.insert(made.name.clone(), body).is_some() {
                    return Err(format!("its journal makes {} twice", made.name));
                }
            }
            // A file that was removed while it was written is extended by its writer still.
            JournalRecord::Extend(id, extents) => {
                if let Some(body) = self.ids.get(id) {
                    extents.iter().for_each(|extent| body.push(*extent));
                    body.record();
                }
            }
            JournalRecord::Replace(id, extents) => {
                if let Some(body) = self.ids.get(id) {
                    body.replace(extents.clone());
                    body.record();
                }
            }
            JournalRecord::Reset(chunks) => self.wear.learn_more(chunks),
            JournalRecord::Resets(resets) => self.wear.learn(resets),
            JournalRecord::Remove(name) => _ = self.take_out(name),
            JournalRecord::Rename(from, to) => {
                let body = self.take_out(from);
                let body =
                    body.ok_or_else(|| format!("its journal renames {from}, which is not there"))?;
                self.take_out(to);
                self.ids.insert(body.id, body.clone());
                self.names.insert(to.clone(), body);
            }
        }
        Ok(())
    }

    fn take_out(&mut self, name: &str) -> Option<Arc<FileMeta>> {
        let body = self.names.remove(name)?;
        self.ids.remove(&body.id)
    }
}
