//! Bytes of the log's keys, and of values of openraft's types.

use crate::error::{Error, Result};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Big-endian, so that keys sort as the indexes do.
pub fn key(index: u64) -> [u8; 8] {
    index.to_be_bytes()
}

/// MessagePack with the names of fields, so that types may get further ones.
pub fn encode(value: &impl Serialize) -> Result<Vec<u8>> {
    rmp_serde::to_vec_named(value)
        .map_err(|error| Error::Corrupted(format!("value cannot be encoded: {error}")))
}

pub fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T> {
    rmp_serde::from_slice(bytes)
        .map_err(|error| Error::Corrupted(format!("stored value cannot be decoded: {error}")))
}
