//! Prefix extractors: which keys belong together for an iterator that keeps to a prefix.

use crate::border::callback::{Destructor, State, start};
use crate::border::{Handle, c_api};
use crate::merge::Name;
use std::ffi::{c_char, c_uchar, c_void};

type Transform =
    Option<unsafe extern "C" fn(*mut c_void, *const c_char, usize, *mut usize) -> *mut c_char>;
type InDomain = Option<unsafe extern "C" fn(*mut c_void, *const c_char, usize) -> c_uchar>;

/// RocksDB's `rocksdb_slicetransform_t`.
pub enum Prefix {
    /// The first bytes. Shorter keys have no prefix.
    Fixed(usize),
    /// The whole key.
    Whole,
    /// What functions of a C program return.
    Given {
        /// The first argument of both.
        state: State,
        /// Returns the prefix of a key.
        transform: Transform,
        /// Whether a key has a prefix.
        in_domain: InDomain,
    },
}

impl Prefix {
    /// The prefix of `key`, or `None` if it has none.
    pub fn of<'a>(&self, key: &'a [u8]) -> Option<&'a [u8]> {
        match self {
            Prefix::Fixed(length) => key.get(..*length),
            Prefix::Whole => Some(key),
            Prefix::Given { state, transform, in_domain } => {
                if let Some(in_domain) = in_domain {
                    // SAFETY: the arguments are those of `c.h`, and live during the call.
                    let is_in = unsafe { in_domain(state.get(), start(key), key.len()) };
                    if is_in == 0 {
                        return None;
                    }
                }
                let mut length = 0;
                // SAFETY: as above. The prefix is within the key, or a copy of its start.
                let _ = unsafe { (*transform)?(state.get(), start(key), key.len(), &mut length) };
                key.get(..length)
            }
        }
    }
}

c_api! {
    fn rocksdb_slicetransform_create(
        state: *mut c_void,
        destructor: Destructor,
        transform: Transform,
        in_domain: InDomain,
        _name: Name,
    ) -> Handle<Prefix> {
        Handle::new(Prefix::Given { state: State::new(state, destructor), transform, in_domain })
    }

    fn rocksdb_slicetransform_create_fixed_prefix(length: usize) -> Handle<Prefix> {
        Handle::new(Prefix::Fixed(length))
    }

    fn rocksdb_slicetransform_create_noop() -> Handle<Prefix> {
        Handle::new(Prefix::Whole)
    }

    fn rocksdb_slicetransform_destroy(prefix: Handle<Prefix>) {
        drop(prefix.take());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_keys_have_no_fixed_prefix() {
        assert_eq!(Prefix::Fixed(3).of(b"abcd"), Some(&b"abc"[..]));
        assert_eq!(Prefix::Fixed(3).of(b"ab"), None);
        assert_eq!(Prefix::Whole.of(b"ab"), Some(&b"ab"[..]));
    }
}
