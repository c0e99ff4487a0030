//! PDUs written by hand: nothing here uses the crate's own encoders.

/// Bytes with `fields` written at their offsets.
pub fn bytes(length: usize, fields: &[(usize, &[u8])]) -> Vec<u8> {
    let mut out = vec![0; length];
    for (offset, field) in fields {
        out[*offset..offset + field.len()].copy_from_slice(field);
    }
    out
}

/// ICReq with these digests (bit 0 header, bit 1 data).
pub fn initialize_request(digests: u8) -> Vec<u8> {
    bytes(128, &[(0, &[0, 0, 128, 0, 128, 0, 0, 0]), (11, &[digests])])
}

/// CapsuleCmd without digests: a Store of "key" with the value "value!!!" in the capsule, command 0x0102.
pub fn store_capsule() -> Vec<u8> {
    let mut pdu = bytes(
        80,
        &[
            (0, &[4, 0, 72, 72, 80, 0, 0, 0]),
            (8, &[0x01, 0x40, 0x02, 0x01, 1, 0, 0, 0]),
            (16, b"key"),
            (40, &[8, 0, 0, 0]),
            (47, &[0x01]),
            (48, &[8, 0, 0, 0]),
            (52, &[3]),
        ],
    );
    pdu[72..].copy_from_slice(b"value!!!");
    pdu
}
