//! An entry as it is in memory: one allocation, `seqno u64 | as_of u64 | keyspace u32 | key_len
//! u32 | key | value`, so that a hit finds header and key, and mostly the value, in neighbouring
//! cache lines. Who looks a key up knows where each begins without reading any of them, so the
//! processor fetches them at once.

use esker_base::{KeyspaceId, Seqno};

const SEQNO: usize = 0;
const AS_OF: usize = 8;
const KEYSPACE: usize = 16;
const KEY_LEN: usize = 20;
const HEADER_BYTES: usize = 24;

/// What a key is looked up by.
#[derive(Clone, Copy)]
pub(super) struct Key<'a> {
    pub keyspace: KeyspaceId,
    pub bytes: &'a [u8],
    /// The key's hash with the keyspace mixed in.
    pub hash: u64,
}

/// One version of a key, with its value.
pub(super) struct Row(Box<[u8]>);

/// The memory that an allocation of `len` bytes takes: a word of the allocator's own, in steps of
/// two words, as the common allocators have it.
pub(super) const fn heap_bytes(len: usize) -> usize {
    let whole = (len + 8).next_multiple_of(16);
    if whole < 32 { 32 } else { whole }
}

impl Row {
    pub fn new(key: &Key<'_>, seqno: Seqno, as_of: Seqno, value: &[u8]) -> Row {
        let mut bytes = Vec::with_capacity(HEADER_BYTES + key.bytes.len() + value.len());
        bytes.extend_from_slice(&seqno.to_le_bytes());
        bytes.extend_from_slice(&as_of.to_le_bytes());
        bytes.extend_from_slice(&key.keyspace.0.to_le_bytes());
        bytes.extend_from_slice(&(key.bytes.len() as u32).to_le_bytes());
        bytes.extend_from_slice(key.bytes);
        bytes.extend_from_slice(value);
        Row(bytes.into_boxed_slice())
    }

    /// The memory that an entry with such a key and value takes.
    pub fn bytes_for(key: &Key<'_>, value: &[u8]) -> usize {
        heap_bytes(HEADER_BYTES + key.bytes.len() + value.len())
    }

    /// The memory it takes.
    pub fn memory_bytes(&self) -> usize {
        heap_bytes(self.0.len())
    }

    #[inline]
    pub fn seqno(&self) -> Seqno {
        self.word(SEQNO)
    }

    #[inline]
    pub fn as_of(&self) -> Seqno {
        self.word(AS_OF)
    }

    #[inline]
    pub fn keyspace(&self) -> KeyspaceId {
        KeyspaceId(self.half(KEYSPACE))
    }

    #[inline]
    fn key_len(&self) -> usize {
        self.half(KEY_LEN) as usize
    }

    /// The value, if the entry is of `key`. Where it begins follows from the key that is asked for: to
    /// take the length from the header would be to wait for that before the value is fetched.
    #[inline]
    pub fn value_of(&self, key: &Key<'_>) -> &[u8] {
        debug_assert!(self.is_of(key), "the value that was asked for");
        &self.0[HEADER_BYTES + key.bytes.len()..]
    }

    #[inline]
    pub fn is_of(&self, key: &Key<'_>) -> bool {
        let len = key.bytes.len();
        self.key_len() == len
            && self.keyspace() == key.keyspace
            && same(&self.0[HEADER_BYTES..HEADER_BYTES + len], key.bytes)
    }

    pub fn set_as_of(&mut self, as_of: Seqno) {
        self.0[AS_OF..AS_OF + 8].copy_from_slice(&as_of.to_le_bytes());
    }

    /// Makes it another version of the same key in place. False, and nothing done, if the values
    /// differ in length.
    pub fn overwrite(&mut self, seqno: Seqno, as_of: Seqno, value: &[u8]) -> bool {
        let start = HEADER_BYTES + self.key_len();
        if self.0.len() - start != value.len() {
            return false;
        }
        self.0[SEQNO..SEQNO + 8].copy_from_slice(&seqno.to_le_bytes());
        self.set_as_of(as_of);
        self.0[start..].copy_from_slice(value);
        true
    }

    #[inline]
    fn word(&self, at: usize) -> u64 {
        u64::from_le_bytes(self.0[at..at + 8].try_into().expect("eight bytes"))
    }

    #[inline]
    fn half(&self, at: usize) -> u32 {
        u32::from_le_bytes(self.0[at..at + 4].try_into().expect("four bytes"))
    }
}

/// Whether two keys of one length are equal: word by word, which for most is over before a call of
/// the library's comparison had begun.
#[inline]
fn same(a: &[u8], b: &[u8]) -> bool {
    let (words, rest) = a.as_chunks::<8>();
    let (others, other_rest) = b.as_chunks::<8>();
    words.iter().zip(others).all(|(a, b)| u64::from_le_bytes(*a) == u64::from_le_bytes(*b))
        && rest.iter().zip(other_rest).all(|(a, b)| a == b)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn an_entry_is_what_it_was_made_of_and_then_what_it_was_overwritten_with() {
        let key = Key { keyspace: KeyspaceId(3), bytes: b"key", hash: 0 };
        let mut entry = Row::new(&key, 5, 9, b"value");
        assert!(entry.is_of(&key));
        assert!(!entry.is_of(&Key { keyspace: KeyspaceId(4), ..key }));
        assert!(!entry.is_of(&Key { bytes: b"keyv", ..key }));
        assert_eq!((entry.seqno(), entry.as_of(), entry.value_of(&key)), (5, 9, &b"value"[..]));
        assert_eq!(entry.memory_bytes(), Row::bytes_for(&key, b"value"));
        assert!(!entry.overwrite(6, 10, b"longer"));
        assert!(entry.overwrite(6, 10, b"other"));
        assert!(entry.is_of(&key));
        assert_eq!((entry.seqno(), entry.as_of(), entry.value_of(&key)), (6, 10, &b"other"[..]));
    }

    #[test]
    fn keys_of_every_length_are_told_apart_by_each_of_their_bytes() {
        for len in 0..20 {
            let bytes = vec![7; len];
            let key = Key { keyspace: KeyspaceId(3), bytes: &bytes, hash: 0 };
            let entry = Row::new(&key, 1, 1, b"value");
            assert!(entry.is_of(&key));
            for at in 0..len {
                let mut other = bytes.clone();
                other[at] ^= 0x80;
                assert!(!entry.is_of(&Key { bytes: &other, ..key }), "byte {at} of {len}");
            }
        }
    }
}
