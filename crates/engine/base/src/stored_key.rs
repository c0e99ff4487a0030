//! Maps the keys of users to the keys that the engine stores.
//!
//! The engine needs two byte strings that are no key: the empty one, before all keys, and one above
//! all keys, where a range delete without an end stops. The map keeps both free:
//!
//! | key of the user | stored key |
//! |---|---|
//! | zeroes only, or empty | one more zero |
//! | starts with [`EDGE_BYTES`] bytes `ff` | a zero inserted after them |
//! | any other key | the same bytes |
//!
//! The map keeps the order of keys, so bounds and prefixes are mapped like keys:
//! * Strings of zeroes are ordered by length, and come before every string with another byte.
//! * Strings that start with the `ff` bytes come after every string that does not. Inserting the
//!   same byte at the same place changes no comparison between them.

use crate::key::MAX_KEY_BYTES;
use std::borrow::Cow;

/// So many bytes `ff` at its start make a key longer by one. Few keys have them.
pub const EDGE_BYTES: usize = 16;

/// The longest stored key, in bytes.
pub const MAX_STORED_KEY_BYTES: usize = MAX_KEY_BYTES + 1;

/// Above every stored key, though no stored key itself.
pub const ABOVE_STORED_KEYS: &[u8] = &[0xff; EDGE_BYTES + 1];

const HIGH: [u8; EDGE_BYTES] = [0xff; EDGE_BYTES];
/// Longer than every stored key. What a longer string of zeroes is mapped to is not stored either.
static ZEROES: [u8; MAX_STORED_KEY_BYTES + 1] = [0; MAX_STORED_KEY_BYTES + 1];

/// Whether the stored key differs from `key`.
#[inline]
pub fn is_edge_key(key: &[u8]) -> bool {
    match key.first() {
        Some(1..=0xfe) => false,
        Some(0xff) => key.starts_with(&HIGH),
        _ => is_zeroes(key),
    }
}

#[inline]
fn is_zeroes(key: &[u8]) -> bool {
    key.iter().all(|&byte| byte == 0)
}

/// Returns the stored key of `key`. Allocates only if `key` starts with [`EDGE_BYTES`] bytes `ff`.
#[inline]
pub fn stored_key(key: &[u8]) -> Cow<'_, [u8]> {
    if is_edge_key(key) { stored_edge_key(key) } else { Cow::Borrowed(key) }
}

#[cold]
fn stored_edge_key(key: &[u8]) -> Cow<'_, [u8]> {
    match key.strip_prefix(&HIGH) {
        Some(rest) => Cow::Owned([&HIGH[..], &[0], rest].concat()),
        None => Cow::Borrowed(&ZEROES[..ZEROES.len().min(key.len() + 1)]),
    }
}

/// Returns the key whose stored key is `stored`. A string that is no stored key stays as it is.
#[inline]
pub fn user_key(stored: &[u8]) -> Cow<'_, [u8]> {
    if !is_edge_key(stored) {
        return Cow::Borrowed(stored);
    }
    match stored.strip_prefix(&HIGH) {
        Some([0, rest @ ..]) => Cow::Owned([&HIGH[..], rest].concat()),
        Some(_) => Cow::Borrowed(stored),
        None => Cow::Borrowed(stored.get(1..).unwrap_or_default()),
    }
}

/// Does in place what [`user_key`] does.
#[inline]
pub fn restore_user_key(stored: &mut Vec<u8>) {
    if !is_edge_key(stored) {
        return;
    }
    match stored.strip_prefix(&HIGH) {
        Some([0, ..]) => drop(stored.remove(EDGE_BYTES)),
        Some(_) => {}
        None => drop(stored.pop()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::prefix_end;

    /// Keys around both edges: every string of up to three of these bytes behind every start.
    fn samples() -> Vec<Vec<u8>> {
        let starts = [0, 1, 2, 14, 15, 16, 17, 18]
            .map(|len| [vec![0; len], vec![0xff; len], [vec![0xff; len], vec![0; len]].concat()]);
        let mut ends = vec![Vec::new()];
        for byte in [0, 1, 0xfe, 0xff] {
            ends.push(vec![byte]);
            for second in [0, 1, 0xfe, 0xff] {
                ends.push(vec![byte, second]);
            }
        }
        let mut samples: Vec<Vec<u8>> = starts
            .concat()
            .iter()
            .flat_map(|start| ends.iter().map(move |end| [&start[..], end].concat()))
            .collect();
        samples.push(vec![0; MAX_KEY_BYTES]);
        samples.push(vec![0xff; MAX_KEY_BYTES]);
        samples.sort();
        samples.dedup();
        samples
    }

    #[test]
    fn the_map_keeps_the_order_and_has_an_inverse() {
        let samples = samples();
        for pair in samples.windows(2) {
            assert!(stored_key(&pair[0]) < stored_key(&pair[1]), "{pair:?}");
        }
        for key in &samples {
            let stored = stored_key(key);
            assert_eq!(is_edge_key(key), stored[..] != key[..]);
            assert_eq!(user_key(&stored), &key[..]);
            let mut restored = stored.to_vec();
            restore_user_key(&mut restored);
            assert_eq!(restored, *key);
            assert!(stored.len() <= MAX_STORED_KEY_BYTES);
        }
    }

    #[test]
    fn both_ends_are_free() {
        for key in samples() {
            let stored = stored_key(&key);
            assert!(!stored.is_empty() && stored[..] < *ABOVE_STORED_KEYS, "{key:?}");
        }
    }

    #[test]
    fn a_prefix_maps_to_the_range_of_the_keys_with_that_prefix() {
        let samples = samples();
        for prefix in &samples {
            let start = stored_key(prefix);
            let end = prefix_end(prefix);
            let end = end.as_deref().map(stored_key);
            for key in &samples {
                let stored = stored_key(key);
                let inside = stored >= start && end.as_ref().is_none_or(|end| stored < *end);
                assert_eq!(inside, key.starts_with(prefix), "{prefix:?} {key:?}");
            }
        }
    }

    #[test]
    fn keys_beyond_the_limit_are_never_taken_for_shorter_ones() {
        let longest = stored_key(&ZEROES[..MAX_KEY_BYTES]).into_owned();
        for extra in 1..4 {
            let key = vec![0; MAX_KEY_BYTES + extra];
            let stored = stored_key(&key);
            assert!(*stored > longest[..] && stored.len() > MAX_STORED_KEY_BYTES);
        }
    }
}
