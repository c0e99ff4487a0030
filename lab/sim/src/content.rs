//! The keys and values of simulated histories, each made from one small number.

use esker_base::Rng;
use std::sync::Arc;

/// Key number `number`. The kinds of keys that sort, compress and compare differently all occur:
/// short ones, ones with a long common prefix, prefixes of each other, and bytes at both ends.
pub fn key(number: u16) -> Vec<u8> {
    match number % 5 {
        0 => number.to_be_bytes().to_vec(),
        1 => format!("user/{number:05}").into_bytes(),
        2 => format!("a-rather-long-prefix-that-all-of-these-share/{number:05}/tail").into_bytes(),
        // The empty key, too. Neighbours are alike, so that a range between two is short.
        3 if number / 5 % 40 < 20 => vec![0; usize::from(number) / 5 % 20],
        3 => vec![0xff; 1 + usize::from(number) / 5 % 20],
        _ => {
            let mut key = vec![b'p'; 1 + usize::from(number) % 23];
            key.push(number as u8);
            key
        }
    }
}

/// The value of `bytes` bytes with this stamp. Half of the stamps make values that compress.
pub fn value(stamp: u32, bytes: u16) -> Arc<[u8]> {
    let mut value = vec![0; usize::from(bytes)];
    if stamp.is_multiple_of(2) {
        let pattern = stamp.to_le_bytes();
        value.iter_mut().zip(pattern.iter().cycle()).for_each(|(to, from)| *to = *from);
    } else {
        Rng::new(u64::from(stamp)).fill(&mut value);
    }
    value.into()
}
