//! The bytes on the device, shared by writer and reader; `docs/formats/hashstore.md` describes them.
//!
//! Every structure begins with a tag: XXH3-64 of the rest of it, seeded with the store's secret. The
//! secret is drawn when the store is made and leaves it never, so a value can't be made to look
//! like a structure, and what an earlier store left on the device is none of this one's. Each structure
//! also says where it is, so that it means nothing in another place.

pub mod journal;
pub mod record;
pub mod superblock;

use xxhash_rust::xxh3::xxh3_64_with_seed;

/// The bytes of a tag, in front of what it covers.
pub const TAG_BYTES: usize = 8;

/// The tag of `bytes`.
pub fn tag(bytes: &[u8], secret: u64) -> u64 {
    xxh3_64_with_seed(bytes, secret)
}

/// Writes the tag in front of the rest of `bytes`.
pub fn seal(bytes: &mut [u8], secret: u64) {
    let tag = tag(&bytes[TAG_BYTES..], secret);
    bytes[..TAG_BYTES].copy_from_slice(&tag.to_le_bytes());
}

/// Whether the tag in front is that of the rest.
pub fn is_sealed(bytes: &[u8], secret: u64) -> bool {
    bytes.len() > TAG_BYTES && bytes[..TAG_BYTES] == tag(&bytes[TAG_BYTES..], secret).to_le_bytes()
}
