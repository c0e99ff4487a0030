//! Tracks written files that must be synced before a flush may report success.
//!
//! Invariant: a write that completed before a flush began is synced when the flush returns,
//! whichever thread synced it.
//!
//! * A file is noted after its bytes were written. If it were noted before, a flush in between
//!   would take the note and sync nothing.
//! * One flush runs at a time. A second one would find no notes and return before the first
//!   completes.
//! * The first failure is permanent. A failed sync drops dirty data; the next one may succeed
//!   although the bytes are lost.
//!
//! A note keeps its file open, as a reopened file may not report earlier failures. To limit the
//! number of open files, the least recently changed one is synced when there are more. This counts
//! as a flush: one at a time, and a flush waits for it.

use esker_base::{Error, Result};
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// How many notes keep files open.
pub(super) const KEPT_NOTES: usize = 128;

/// Files by chunk number; `None` if no thread has it open.
type Files<F> = BTreeMap<usize, Option<Arc<F>>>;

/// Files that were changed, and those that a process before this one may have.
struct DirtyEntry<F> {
    changed: BTreeMap<usize, Note<F>>,
    before: BTreeSet<usize>,
    changes: u64,
}

struct Note<F> {
    file: Arc<F>,
    change: u64,
}

/// Files by chunk that a flush has to sync.
pub(super) struct DirtyFiles<F> {
    notes: Mutex<DirtyEntry<F>>,
    /// Held for the whole of a flush, and of a sync in its place: the first failure.
    flushing: Mutex<Option<Error>>,
}

impl<F> DirtyFiles<F> {
    /// What processes before this one wrote may be unsafe in all of `chunks`.
    pub(super) fn of(chunks: impl Iterator<Item = usize>) -> Self {
        let notes = DirtyEntry { changed: BTreeMap::new(), before: chunks.collect(), changes: 0 };
        DirtyFiles { notes: Mutex::new(notes), flushing: Mutex::default() }
    }

    /// Changes a file. One whose change failed may be changed in part, and is noted as well.
    pub(super) fn change<T>(&self, index: usize, file: &Arc<F>, change: impl FnOnce(&F) -> T) -> T {
        let outcome = change(file);
        let notes = &mut *self.notes.lock();
        notes.changes += 1;
        notes.changed.insert(index, Note { file: file.clone(), change: notes.changes });
        outcome
    }

    /// Syncs files until the number of notes is within the limit of open files. The next flush
    /// reports a failure.
    pub(super) fn relieve(&self, mut sync: impl FnMut(usize, &F) -> Result<()>) {
        while self.notes.lock().changed.len() > KEPT_NOTES {
            let mut failed = self.flushing.lock();
            let Some((index, file)) = self.notes.lock().take_oldest() else { return };
            if failed.is_none() {
                *failed = sync(index, &file).err();
            }
        }
    }

    /// Syncs what was changed since the last flush.
    pub(super) fn flush(&self, sync: impl FnOnce(Files<F>) -> Result<()>) -> Result<()> {
        let mut failed = self.flushing.lock();
        failed.clone().map_or(Ok(()), Err)?;
        let files = self.notes.lock().take_all();
        let synced = sync(files);
        *failed = synced.clone().err();
        synced
    }
}

impl<F> DirtyEntry<F> {
    /// The file that was changed longest ago, if there are too many.
    fn take_oldest(&mut self) -> Option<(usize, Arc<F>)> {
        if self.changed.len() <= KEPT_NOTES {
            return None;
        }
        let (index, _) = self.changed.iter().min_by_key(|(_, note)| note.change)?;
        let index = *index;
        self.changed.remove(&index).map(|note| (index, note.file))
    }

    fn take_all(&mut self) -> Files<F> {
        let mut files: Files<F> =
            std::mem::take(&mut self.before).into_iter().map(|index| (index, None)).collect();
        let changed = std::mem::take(&mut self.changed).into_iter();
        files.extend(changed.map(|(index, note)| (index, Some(note.file))));
        files
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::mpsc;

    fn none() -> DirtyFiles<()> {
        DirtyFiles::of(std::iter::empty())
    }

    /// Flushes, and says which files were synced.
    fn flushed(unflushed: &DirtyFiles<()>) -> Vec<usize> {
        let mut synced = Vec::new();
        let flushed = unflushed.flush(|files| {
            synced.extend(files.into_keys());
            Ok(())
        });
        flushed.unwrap();
        synced
    }

    #[test]
    fn what_is_changed_while_somebody_flushes_is_synced_by_the_next_flush() {
        let unflushed = none();
        unflushed.change(3, &Arc::new(()), |()| assert!(flushed(&unflushed).is_empty()));
        assert_eq!(flushed(&unflushed), [3]);
        assert!(flushed(&unflushed).is_empty());
    }

    #[test]
    fn a_flush_returns_after_the_one_that_took_its_files() {
        let unflushed = none();
        unflushed.change(3, &Arc::new(()), |()| ());
        let is_synced = AtomicBool::new(false);
        let (begins, has_begun) = mpsc::channel();
        let (returned, has_returned) = mpsc::channel();
        std::thread::scope(|scope| {
            let first = unflushed.flush(|_| {
                scope.spawn(|| {
                    begins.send(()).unwrap();
                    flushed(&unflushed);
                    returned.send(is_synced.load(Ordering::SeqCst)).unwrap();
                });
                has_begun.recv().unwrap();
                // Opportunities for the second to come back too early, if it does.
                (0..10_000).for_each(|_| std::thread::yield_now());
                is_synced.store(true, Ordering::SeqCst);
                Ok(())
            });
            first.unwrap();
        });
        assert!(has_returned.recv().unwrap());
    }

    #[test]
    fn of_too_many_files_those_that_were_changed_longest_ago_are_synced_and_a_failure_is_told() {
        let unflushed = none();
        let mut synced = Vec::new();
        for index in [1].into_iter().chain(0..KEPT_NOTES + 3) {
            unflushed.change(index, &Arc::new(()), |()| ());
            unflushed.relieve(|index, ()| {
                synced.push(index);
                Ok(())
            });
        }
        assert_eq!(synced, [0, 1, 2]);
        assert_eq!(flushed(&unflushed).len(), KEPT_NOTES);
        (0..KEPT_NOTES + 2).for_each(|index| unflushed.change(index, &Arc::new(()), |()| ()));
        let mut tries = 0;
        unflushed.relieve(|_, ()| {
            tries += 1;
            Err(Error::io("sync", "zone-00000", std::io::Error::other("lost")))
        });
        let told = unflushed.flush(|_| panic!("nothing is synced any more")).unwrap_err();
        assert!(tries == 1 && told.to_string().contains("lost"), "{tries}, {told}");
    }

    #[test]
    fn a_flush_that_failed_fails_for_good() {
        let unflushed = none();
        unflushed.change(3, &Arc::new(()), |()| ());
        let failure = || Err(Error::io("sync", "zone-00003", std::io::Error::other("lost")));
        unflushed.flush(|_| failure()).unwrap_err();
        let again = unflushed.flush(|_| panic!("nothing is synced any more")).unwrap_err();
        assert!(again.to_string().contains("lost"), "{again}");
    }
}
