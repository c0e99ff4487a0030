//! A handle whose last copy does not close the database on a thread of the runtime.

use std::sync::Arc;
use tokio::runtime::Handle;

/// A database, whose drop flushes, syncs, and ends threads. When the last copy is dropped in a task, a thread that
/// may block drops the database.
#[derive(Debug)]
pub(crate) struct LastHandle<T: Send + 'static> {
    shared: Arc<Shared<T>>,
}

#[derive(Debug)]
struct Shared<T: Send + 'static> {
    /// `None` only while this is dropped.
    db: Option<T>,
}

impl<T: Send + 'static> LastHandle<T> {
    pub(crate) fn of(db: T) -> Self {
        LastHandle { shared: Arc::new(Shared { db: Some(db) }) }
    }

    pub(crate) fn get(&self) -> &T {
        self.shared.db.as_ref().expect("it is there until it is dropped")
    }
}

impl<T: Send + 'static> Clone for LastHandle<T> {
    fn clone(&self) -> Self {
        LastHandle { shared: self.shared.clone() }
    }
}

impl<T: Send + 'static> Drop for Shared<T> {
    fn drop(&mut self) {
        let db = self.db.take();
        if let Ok(runtime) = Handle::try_current() {
            runtime.spawn_blocking(move || drop(db));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::{Sender, channel};
    use std::thread::{self, ThreadId};

    /// Sends the thread that drops it.
    struct Probe(Sender<ThreadId>);

    impl Drop for Probe {
        fn drop(&mut self) {
            self.0.send(thread::current().id()).unwrap();
        }
    }

    #[test]
    fn the_last_copy_is_dropped_on_a_thread_that_may_block() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let (sender, dropped_on) = channel();
        runtime.block_on(async {
            let handle = LastHandle::of(Probe(sender));
            drop(handle.clone());
            assert!(dropped_on.try_recv().is_err(), "there is another copy");
            drop(handle);
        });
        assert_ne!(dropped_on.recv().unwrap(), thread::current().id());
    }

    #[test]
    fn without_a_runtime_the_last_copy_is_dropped_at_once() {
        let (sender, dropped_on) = channel();
        drop(LastHandle::of(Probe(sender)));
        assert_eq!(dropped_on.try_recv(), Ok(thread::current().id()));
    }
}
