//! How far a store has got, as types.
//!
//! [`Flushed`] comes from a store; [`Durable`] comes from fencing it, and from nowhere else. What
//! publishes a write takes a `Durable`, so the compiler refuses to publish anything else:
//!
//! ```compile_fail,E0308
//! # use esker_pmem::{Durable, Extent, ExtentRange};
//! fn publish(what: Durable<ExtentRange>) {}
//! fn commit(extent: &Extent) {
//!     let frame = unsafe { extent.write_frame(64, &[1; 32], &[2; 16], 64) };
//!     publish(frame); // not fenced
//! }
//! ```
//!
//! A fence counts for its own thread only, so a `Flushed` stays where it was made:
//!
//! ```compile_fail,E0277
//! # use esker_pmem::Extent;
//! fn commit(extent: &Extent) {
//!     let frame = unsafe { extent.write_frame(64, &[1; 32], &[2; 16], 64) };
//!     std::thread::scope(|scope| {
//!         scope.spawn(move || frame.fence());
//!     });
//! }
//! ```
//!
//! With the fence in its place, both are fine:
//!
//! ```
//! # use esker_pmem::{Durable, Extent, ExtentRange};
//! fn publish(what: Durable<ExtentRange>) {}
//! fn commit(extent: &Extent) {
//!     // SAFETY: nobody else has the extent.
//!     let frame = unsafe { extent.write_frame(64, &[1; 32], &[2; 16], 64) };
//!     let durable = frame.fence();
//!     std::thread::scope(|scope| {
//!         scope.spawn(move || publish(durable));
//!     });
//! }
//! ```
//!
//! No other thread makes a `Durable`. Elsewhere the name is known, and a use of one compiles,
//!
//! ```
//! use esker_pmem::Durable;
//! fn look(durable: Durable<u32>) -> u32 {
//!     durable.into_inner()
//! }
//! ```
//!
//! but its field is private:
//!
//! ```compile_fail,E0451
//! use esker_pmem::Durable;
//! fn look(durable: Durable<u32>) -> u32 {
//!     durable.into_inner()
//! }
//! look(Durable { value: 7 });
//! ```

use crate::pool::Pool;
use std::marker::PhantomData;
use std::mem::ManuallyDrop;

/// Stored by this thread and on its way to the medium. A crash may still lose all or part of it.
///
/// One that is thrown away is fenced all the same: streaming stores that no fence follows might
/// overtake what the thread does next.
#[must_use = "it is not durable before its fence"]
pub struct Flushed<'a, T> {
    pool: &'a Pool,
    value: ManuallyDrop<T>,
    /// Neither Send nor Sync: a fence counts only for what its own thread stored.
    thread: PhantomData<*const ()>,
}

impl<'a, T> Flushed<'a, T> {
    pub(crate) fn new(pool: &'a Pool, value: T) -> Self {
        Flushed { pool, value: ManuallyDrop::new(value), thread: PhantomData }
    }

    /// Waits until it is durable, with all else that this thread has stored in the pool.
    #[inline]
    pub fn fence(self) -> Durable<T> {
        self.pool.fence();
        Durable { value: self.take().1 }
    }

    /// The same state for another value, which stands for what was stored.
    #[inline]
    pub fn map<U>(self, change: impl FnOnce(T) -> U) -> Flushed<'a, U> {
        let (pool, value) = self.take();
        Flushed::new(pool, change(value))
    }

    /// Both under one fence. Panics if they are in different pools.
    pub fn and<U>(self, other: Flushed<'a, U>) -> Flushed<'a, (T, U)> {
        assert!(std::ptr::eq(self.pool, other.pool), "one fence is for one pool");
        let (pool, value) = self.take();
        Flushed::new(pool, (value, other.take().1))
    }

    #[inline]
    fn take(self) -> (&'a Pool, T) {
        let mut this = ManuallyDrop::new(self);
        let pool = this.pool;
        (pool, Self::take_value(&mut this))
    }
}

impl<T> Drop for Flushed<'_, T> {
    fn drop(&mut self) {
        self.pool.fence();
        drop(Self::take_value(self));
    }
}

impl<T> Flushed<'_, T> {
    #[allow(unsafe_code)]
    #[inline]
    fn take_value(this: &mut Self) -> T {
        // SAFETY: called once: by `drop`, or by `take`, which keeps `drop` from running.
        unsafe { ManuallyDrop::take(&mut this.value) }
    }
}

/// Will be found after a crash. Only a fence makes it.
#[derive(Debug)]
#[must_use = "no reader can see it before it is published"]
pub struct Durable<T> {
    value: T,
}

impl<T> Durable<T> {
    /// What is durable.
    pub fn into_inner(self) -> T {
        self.value
    }
}

impl<T> std::ops::Deref for Durable<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The forgery of this module's text, where the field can be seen: it fails to compile elsewhere for
    /// no other reason.
    #[test]
    fn only_the_field_keeps_others_from_making_one() {
        fn look(durable: Durable<u32>) -> u32 {
            durable.into_inner()
        }
        assert_eq!(look(Durable { value: 7 }), 7);
    }
}
