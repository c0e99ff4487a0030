//! What a program has called for each event of a database.

use super::events::Event;
use parking_lot::RwLock;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

type Call = dyn Fn(&Event) + Send + Sync;

/// The listener of a database, if it has one.
#[derive(Default)]
pub(crate) struct Listener {
    call: RwLock<Option<Arc<Call>>>,
}

thread_local! {
    /// Whether the thread is in a listener.
    static LISTENS: Cell<bool> = const { Cell::new(false) };
}

impl Listener {
    /// Calls it, if there is one.
    pub(super) fn call(&self, event: &Event) {
        let Some(call) = self.call.read().clone() else { return };
        // A slow read of the listener is an event, too. It would call itself without end.
        if LISTENS.replace(true) {
            return;
        }
        // The job must end, whatever becomes of its listener.
        let _ = catch_unwind(AssertUnwindSafe(|| call(event)));
        LISTENS.set(false);
    }

    /// Calls `call` for each event from now on, in place of an earlier one.
    pub(crate) fn set(&self, call: Arc<Call>) {
        let earlier = self.call.write().replace(call);
        // What it holds may call the database when it is dropped.
        drop(earlier);
    }

    /// Calls nothing any more: what it held is freed.
    pub(crate) fn clear(&self) {
        let last = self.call.write().take();
        drop(last);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::events::EventLog;
    use crate::stats::events::tests::{Calendar, stall};
    use parking_lot::Mutex;

    #[test]
    fn a_listener_whose_calls_are_events_is_not_called_for_them() {
        let (log, heard) = (Arc::new(EventLog::default()), Arc::new(Mutex::new(0)));
        let (inner, to) = (Arc::downgrade(&log), heard.clone());
        log.listener.set(Arc::new(move |_: &Event| {
            *to.lock() += 1;
            inner.upgrade().unwrap().note(&Calendar, stall(2));
        }));
        log.note(&Calendar, stall(1));
        log.note(&Calendar, stall(1));
        assert_eq!((*heard.lock(), log.after(0).len()), (2, 4));
        log.listener.clear();
        assert_eq!(Arc::strong_count(&heard), 1, "what it held is freed");
    }

    #[test]
    fn a_listener_gets_each_event_until_it_is_replaced() {
        let log = EventLog::default();
        let heard = Arc::new(Mutex::new(Vec::new()));
        let to = heard.clone();
        log.note(&Calendar, stall(1));
        log.listener.set(Arc::new(move |event: &Event| to.lock().push(event.number)));
        (2..=4).for_each(|millis| log.note(&Calendar, stall(millis)));
        log.listener.set(Arc::new(|_: &Event| panic!("of the listener")));
        log.note(&Calendar, stall(5));
        log.listener.set(Arc::new(|_: &Event| {}));
        log.note(&Calendar, stall(6));
        assert_eq!(*heard.lock(), [2, 3, 4]);
        assert_eq!(Arc::strong_count(&heard), 1, "a listener that is replaced is dropped");
        assert_eq!(log.after(0).len(), 6);
    }
}
