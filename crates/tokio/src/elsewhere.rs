//! What is dropped where a thread may block.

use tokio::runtime::Handle;

/// Something whose drop may block: that of a database flushes, syncs, and ends threads; that of a range may remove
/// files that compaction has replaced. When this is dropped in a task, a thread of the pool for blocking calls drops
/// it. That thread is not waited for.
#[derive(Debug)]
pub(crate) struct Elsewhere<T: Send + 'static>(
    /// `None` only while it is taken out or dropped.
    Option<T>,
);

impl<T: Send + 'static> Elsewhere<T> {
    pub(crate) fn of(thing: T) -> Self {
        Elsewhere(Some(thing))
    }

    pub(crate) fn get(&self) -> &T {
        self.0.as_ref().expect("it is there until this is dropped")
    }

    pub(crate) fn get_mut(&mut self) -> &mut T {
        self.0.as_mut().expect("it is there until this is dropped")
    }

    /// Drops it on this thread.
    pub(crate) fn drop_here(mut self) {
        drop(self.0.take());
    }
}

impl<T: Send + 'static> Drop for Elsewhere<T> {
    fn drop(&mut self) {
        let Some(thing) = self.0.take() else { return };
        if let Ok(runtime) = Handle::try_current() {
            runtime.spawn_blocking(move || drop(thing));
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
    fn in_a_task_it_is_dropped_on_a_thread_that_may_block() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let (sender, dropped_on) = channel();
        runtime.block_on(async { drop(Elsewhere::of(Probe(sender))) });
        assert_ne!(dropped_on.recv().unwrap(), thread::current().id());
    }

    #[test]
    fn without_a_runtime_it_is_dropped_at_once() {
        let (sender, dropped_on) = channel();
        drop(Elsewhere::of(Probe(sender)));
        assert_eq!(dropped_on.try_recv(), Ok(thread::current().id()));
    }
}
