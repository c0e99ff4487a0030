//! What several examples share.

/// The key of record `number`. Keys of numbers in a row are far from each other.
pub fn key(number: u64) -> [u8; 16] {
    let mixed = (number + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mixed = (mixed ^ mixed >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mut key = *b"user000000000000";
    key[4..12].copy_from_slice(&mixed.to_be_bytes());
    key
}
