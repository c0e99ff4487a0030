//! Atomics and locks of the commit path and of snapshots: those of the machine, or loom's models of
//! them.

#[cfg(not(loom))]
mod real {
    pub(crate) use parking_lot::{Condvar, Mutex};
    pub(crate) use std::hint::spin_loop;
    pub(crate) use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
    pub(crate) use std::thread::{Thread, current as current_thread, park, yield_now};

    /// Nothing: sequentially consistent operations have one order already.
    #[inline]
    pub(crate) fn order_sequentially() {}
}

#[cfg(loom)]
mod real {
    pub(crate) use loom::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
    pub(crate) use loom::thread::{Thread, current as current_thread, park, yield_now};

    pub(crate) fn spin_loop() {
        loom::thread::yield_now();
    }

    /// Loom takes sequentially consistent operations for acquire-release ones, but knows such fences.
    pub(crate) fn order_sequentially() {
        loom::sync::atomic::fence(Ordering::SeqCst);
    }

    /// `parking_lot`'s interface over loom's lock.
    pub(crate) struct Mutex<T>(loom::sync::Mutex<T>);

    impl<T> Mutex<T> {
        pub(crate) fn new(value: T) -> Self {
            Mutex(loom::sync::Mutex::new(value))
        }
        pub(crate) fn lock(&self) -> Guard<'_, T> {
            Guard(Some(self.0.lock().expect("no model panics while it holds the lock")))
        }
    }

    impl<T: Default> Default for Mutex<T> {
        fn default() -> Self {
            Mutex::new(T::default())
        }
    }

    pub(crate) struct Guard<'a, T>(Option<loom::sync::MutexGuard<'a, T>>);

    impl<T> std::ops::Deref for Guard<'_, T> {
        type Target = T;
        fn deref(&self) -> &T {
            self.0.as_ref().expect("the guard holds the lock")
        }
    }

    impl<T> std::ops::DerefMut for Guard<'_, T> {
        fn deref_mut(&mut self) -> &mut T {
            self.0.as_mut().expect("the guard holds the lock")
        }
    }

    pub(crate) struct Condvar(loom::sync::Condvar);

    impl Condvar {
        pub(crate) fn new() -> Self {
            Condvar(loom::sync::Condvar::new())
        }
        pub(crate) fn notify_all(&self) {
            self.0.notify_all();
        }
        pub(crate) fn wait<T>(&self, guard: &mut Guard<'_, T>) {
            let inner = guard.0.take().expect("the guard holds the lock");
            let inner = self.0.wait(inner).expect("no model panics while it holds the lock");
            guard.0 = Some(inner);
        }
    }
}

pub(crate) use real::*;
