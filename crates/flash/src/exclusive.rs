//! Exclusive use of a device within this process.

use esker_base::{Error, Result};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether a device is in use. Clones share the flag.
#[derive(Clone, Debug, Default)]
pub(crate) struct ExclusiveUse(Arc<AtomicBool>);

impl ExclusiveUse {
    /// Takes what is called `name`, until what is returned is dropped. Fails if it is taken.
    pub(crate) fn take(&self, name: impl FnOnce() -> String) -> Result<Box<dyn Send + Sync>> {
        if self.0.swap(true, Ordering::Acquire) {
            let pid = std::process::id().to_string();
            return Err(Error::Locked { dir: name(), pid });
        }
        Ok(Box::new(ExclusiveGuard(self.0.clone())))
    }

    /// Releases the flag, whichever process owns it: power was lost.
    pub(crate) fn free(&self) {
        self.0.store(false, Ordering::Release);
    }
}

struct ExclusiveGuard(Arc<AtomicBool>);

impl Drop for ExclusiveGuard {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}
