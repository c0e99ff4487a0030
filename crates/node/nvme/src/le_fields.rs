//! Fields at fixed offsets of structures whose length is known. An offset out of bounds is a bug here, not an
//! input, and panics.

pub(crate) use esker_base::coding::{u32_at, u64_at};

#[inline]
pub(crate) fn u16_at(bytes: &[u8], offset: usize) -> u16 {
    u16::from_le_bytes([bytes[offset], bytes[offset + 1]])
}

#[inline]
pub(crate) fn put_u16(bytes: &mut [u8], offset: usize, value: u16) {
    bytes[offset..offset + 2].copy_from_slice(&value.to_le_bytes());
}

#[inline]
pub(crate) fn put_u32(bytes: &mut [u8], offset: usize, value: u32) {
    bytes[offset..offset + 4].copy_from_slice(&value.to_le_bytes());
}

#[inline]
pub(crate) fn put_u64(bytes: &mut [u8], offset: usize, value: u64) {
    bytes[offset..offset + 8].copy_from_slice(&value.to_le_bytes());
}

/// ASCII text, cut or padded with spaces to the field's length.
pub(crate) fn put_text(field: &mut [u8], text: &str) {
    field.fill(b' ');
    let bytes = text.len().min(field.len());
    field[..bytes].copy_from_slice(&text.as_bytes()[..bytes]);
}

/// The text of a field that [`put_text`] or zeros padded.
pub(crate) fn text_of(field: &[u8]) -> String {
    String::from_utf8_lossy(field).trim_end_matches(['\0', ' ']).to_owned()
}
