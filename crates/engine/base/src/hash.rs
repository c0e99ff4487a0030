//! The one hash of a key. MemTable index, filters and sketches all use it, so it is computed once.

/// XXH3-64 of `key`. Stored in filters and sketches: changing it is a format change.
#[inline]
pub fn hash64(key: &[u8]) -> u64 {
    xxhash_rust::xxh3::xxh3_64(key)
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_hash_on_disk_never_changes() {
        assert_eq!(super::hash64(b""), 0x2d06_8005_38d3_94c2);
        assert_eq!(super::hash64(b"esker"), xxhash_rust::xxh3::xxh3_64(b"esker"));
    }
}
