//! What is written and not flushed yet: which files have to be synced before a flush may say that all is safe.
//!
//! What must hold: a write that was done before a flush began is synced when the flush returns, whoever synced it.
//! So a file is noted after its bytes were written and not before, as a flush between would take the note and sync
//! nothing; and one flush is at work at a time, as a second that finds no notes would return before the first is done.
//!
//! A sync that fails drops what was not written; the next may succeed, and the bytes are lost all the same. So the
//! first failure stays.

use esker_base::{Error, Result};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;

/// By the chunk's number; `None` is a file that nobody has open.
type Files<F> = BTreeMap<usize, Option<Arc<F>>>;

/// Files by chunk that a flush has to sync.
pub(super) struct Unflushed<F> {
    files: Mutex<Files<F>>,
    /// Held for the whole of a flush: the first failure.
    flushing: Mutex<Option<Error>>,
}

impl<F> Unflushed<F> {
    /// What processes before this one wrote may be unsafe in all of `chunks`.
    pub(super) fn of(chunks: impl Iterator<Item = usize>) -> Self {
        let files = chunks.map(|index| (index, None)).collect();
        Unflushed { files: Mutex::new(files), flushing: Mutex::default() }
    }

    /// Changes a file. One whose change failed may be changed in part, and is noted as well.
    pub(super) fn change<T>(&self, index: usize, file: &Arc<F>, change: impl FnOnce(&F) -> T) -> T {
        let outcome = change(file);
        self.files.lock().insert(index, Some(file.clone()));
        outcome
    }

    /// Syncs what was changed since the last flush.
    pub(super) fn flush(&self, sync: impl FnOnce(Files<F>) -> Result<()>) -> Result<()> {
        let mut failed = self.flushing.lock();
        failed.clone().map_or(Ok(()), Err)?;
        let files = std::mem::take(&mut *self.files.lock());
        let synced = sync(files);
        *failed = synced.clone().err();
        synced
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::mpsc;

    fn none() -> Unflushed<()> {
        Unflushed::of(std::iter::empty())
    }

    /// Flushes, and says which files were synced.
    fn flushed(unflushed: &Unflushed<()>) -> Vec<usize> {
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
    fn a_flush_that_failed_fails_for_good() {
        let unflushed = none();
        unflushed.change(3, &Arc::new(()), |()| ());
        let failure = || Err(Error::io("sync", "zone-00003", std::io::Error::other("lost")));
        unflushed.flush(|_| failure()).unwrap_err();
        let again = unflushed.flush(|_| panic!("nothing is synced any more")).unwrap_err();
        assert!(again.to_string().contains("lost"), "{again}");
    }
}
