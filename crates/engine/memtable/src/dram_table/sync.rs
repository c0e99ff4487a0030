//! The lock of a shard, so that loom can take its place. Counters are not part of any protocol and
//! stay the machine's own.

#[cfg(not(loom))]
pub(super) use parking_lot::RwLock;

#[cfg(loom)]
mod model {
    use loom::sync::{RwLockReadGuard, RwLockWriteGuard};

    /// `parking_lot`'s interface over loom's lock.
    pub(crate) struct RwLock<T>(loom::sync::RwLock<T>);

    impl<T> RwLock<T> {
        pub(crate) fn new(value: T) -> Self {
            RwLock(loom::sync::RwLock::new(value))
        }
        pub(crate) fn read(&self) -> RwLockReadGuard<'_, T> {
            self.0.read().expect("no model panics while it holds the lock")
        }
        pub(crate) fn write(&self) -> RwLockWriteGuard<'_, T> {
            self.0.write().expect("no model panics while it holds the lock")
        }
    }
}

#[cfg(loom)]
pub(super) use model::RwLock;
