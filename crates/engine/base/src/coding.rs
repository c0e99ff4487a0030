//! Integers as bytes: little-endian fixed width, and LEB128 varints.
//!
//! Decoders take untrusted bytes. They return `None` instead of panicking, and refuse varints
//! that are longer than they need to be, so that a value has one encoding.

/// Appends `value` as a varint of 1 to 5 bytes.
#[inline]
pub fn put_varint32(out: &mut Vec<u8>, value: u32) {
    put_varint64(out, u64::from(value));
}

/// Appends `value` as a varint of 1 to 10 bytes.
#[inline]
pub fn put_varint64(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// The number of bytes that `value` takes as a varint.
#[inline]
pub fn varint_bytes(value: u64) -> usize {
    (70 - (value | 1).leading_zeros() as usize) / 7
}

/// Reads a varint from the front of `input` and advances it.
#[inline]
pub fn take_varint32(input: &mut &[u8]) -> Option<u32> {
    if let [first, rest @ ..] = *input
        && *first < 0x80
    {
        *input = rest;
        return Some(u32::from(*first));
    }
    u32::try_from(take_varint64(input)?).ok()
}

/// Reads a varint from the front of `input` and advances it.
#[inline]
pub fn take_varint64(input: &mut &[u8]) -> Option<u64> {
    let mut value = 0u64;
    for (at, &byte) in input.iter().enumerate().take(10) {
        let bits = u64::from(byte & 0x7f);
        if at == 9 && bits > 1 {
            return None;
        }
        value |= bits << (7 * at);
        if byte < 0x80 {
            if byte == 0 && at > 0 {
                return None;
            }
            *input = &input[at + 1..];
            return Some(value);
        }
    }
    None
}

/// Appends a length-prefixed byte string.
pub fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_varint64(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Reads a length-prefixed byte string from the front of `input` and advances it.
pub fn take_bytes<'a>(input: &mut &'a [u8]) -> Option<&'a [u8]> {
    let len = usize::try_from(take_varint64(input)?).ok()?;
    take(input, len)
}

/// Splits `len` bytes off the front of `input`.
#[inline]
pub fn take<'a>(input: &mut &'a [u8], len: usize) -> Option<&'a [u8]> {
    let (head, tail) = input.split_at_checked(len)?;
    *input = tail;
    Some(head)
}

/// Reads one byte from the front of `input`.
#[inline]
pub fn take_u8(input: &mut &[u8]) -> Option<u8> {
    Some(take(input, 1)?[0])
}

/// Reads a byte that is 0 or 1 from the front of `input`.
#[inline]
pub fn take_bool(input: &mut &[u8]) -> Option<bool> {
    match take_u8(input)? {
        0 => Some(false),
        1 => Some(true),
        _ => None,
    }
}

/// Reads a little-endian `u32` from the front of `input`.
#[inline]
pub fn take_u32(input: &mut &[u8]) -> Option<u32> {
    Some(u32::from_le_bytes(take(input, 4)?.try_into().expect("four bytes were taken")))
}

/// Reads a little-endian `u64` from the front of `input`.
#[inline]
pub fn take_u64(input: &mut &[u8]) -> Option<u64> {
    Some(u64::from_le_bytes(take(input, 8)?.try_into().expect("eight bytes were taken")))
}

/// Reads the little-endian `u32` at `offset`. Panics if it is out of bounds.
#[inline]
pub fn u32_at(bytes: &[u8], offset: usize) -> u32 {
    u32::from_le_bytes(bytes[offset..offset + 4].try_into().expect("a four-byte slice"))
}

/// Reads the little-endian `u64` at `offset`. Panics if it is out of bounds.
#[inline]
pub fn u64_at(bytes: &[u8], offset: usize) -> u64 {
    u64::from_le_bytes(bytes[offset..offset + 8].try_into().expect("an eight-byte slice"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn varints_round_trip_at_every_length() {
        for shift in 0..64 {
            for value in [1u64 << shift, (1u64 << shift) - 1, u64::MAX >> shift] {
                let mut bytes = Vec::new();
                put_varint64(&mut bytes, value);
                assert_eq!(bytes.len(), varint_bytes(value), "{value}");
                let mut input = &bytes[..];
                assert_eq!(take_varint64(&mut input), Some(value));
                assert!(input.is_empty());
                let mut input = &bytes[..];
                assert_eq!(take_varint32(&mut input), u32::try_from(value).ok());
            }
        }
    }

    #[test]
    fn truncated_overlong_and_padded_varints_are_refused() {
        for bad in [&[][..], &[0x80], &[0xff; 10], &[0xff; 11], &[0x80, 0x00]] {
            assert_eq!(take_varint64(&mut &bad[..]), None, "{bad:?}");
        }
    }

    #[test]
    fn byte_strings_longer_than_the_input_are_refused() {
        let mut bytes = Vec::new();
        put_bytes(&mut bytes, b"hello");
        assert_eq!(take_bytes(&mut &bytes[..]), Some(&b"hello"[..]));
        assert_eq!(take_bytes(&mut &bytes[..5]), None);
    }
}
