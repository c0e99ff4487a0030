//! The mark of a table whose read failed.

use esker_base::Error;
use parking_lot::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

/// Why a table is left alone, if it is.
#[derive(Debug, Default)]
pub(crate) struct Mark {
    is_set: AtomicBool,
    why: Mutex<Option<Error>>,
}

impl Mark {
    pub(crate) fn is_set(&self) -> bool {
        self.is_set.load(Ordering::Acquire)
    }

    pub(crate) fn why(&self) -> Option<Error> {
        if self.is_set() { self.why.lock().clone() } else { None }
    }

    /// Sets the mark. The first error stays.
    pub(crate) fn set(&self, error: &Error) {
        self.why.lock().get_or_insert_with(|| error.clone());
        self.is_set.store(true, Ordering::Release);
    }

    pub(crate) fn clear(&self) {
        if self.is_set() {
            self.is_set.store(false, Ordering::Release);
            *self.why.lock() = None;
        }
    }
}
