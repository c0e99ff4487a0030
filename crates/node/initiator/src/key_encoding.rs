//! What a namespace's commands call a key, and what they store with its value: itself and nothing in namespaces of keys up
//! to 16 bytes; a digest, and the key, in those of long keys ([`esker_nvme::command::long_key`]).

use crate::RemoteError;
use crate::sync_connection::unexpected;
use esker_nvme::command::kv::Key;
use esker_nvme::command::long_key::{HEAD_BYTES, LONG_KEY_BYTES, digest, put_key, split};
use esker_nvme::limits::KEY_BYTES;
use std::borrow::Cow;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum KeyEncoding {
    Short,
    Long,
}

impl KeyEncoding {
    /// What commands call `key`.
    pub(crate) fn name(self, key: &[u8]) -> Result<Key, RemoteError> {
        let (name, limit) = match self {
            KeyEncoding::Short => (Key::new(key), KEY_BYTES),
            KeyEncoding::Long => {
                let fits = (1..=LONG_KEY_BYTES).contains(&key.len());
                (fits.then(|| digest(key)), LONG_KEY_BYTES)
            }
        };
        name.ok_or(RemoteError::Key { bytes: key.len(), limit })
    }

    /// What is stored for `key`, which has a name, and `value`, if that is no more than `limit` bytes.
    pub(crate) fn stored<'a>(
        self,
        key: &[u8],
        value: &'a [u8],
        limit: usize,
    ) -> Result<Cow<'a, [u8]>, RemoteError> {
        let head = match self {
            KeyEncoding::Short => 0,
            KeyEncoding::Long => HEAD_BYTES + key.len(),
        };
        let limit = limit.saturating_sub(head);
        if value.len() > limit {
            return Err(RemoteError::Value { bytes: value.len(), limit });
        }
        if self == KeyEncoding::Short {
            return Ok(value.into());
        }
        let mut stored = Vec::with_capacity(head + value.len());
        put_key(key, &mut stored).ok_or(unexpected("a key without a name"))?;
        stored.extend_from_slice(value);
        Ok(stored.into())
    }

    /// The value of `key`, if what was stored is its own, and not that of another key of the same digest.
    pub(crate) fn value(
        self,
        key: &[u8],
        mut stored: Vec<u8>,
    ) -> Result<Option<Vec<u8>>, RemoteError> {
        if self == KeyEncoding::Short {
            return Ok(Some(stored));
        }
        let (full, _) = split(&stored).ok_or(unexpected("a value without its key"))?;
        let is_own = full == key;
        Ok(is_own.then(|| stored.split_off(HEAD_BYTES + key.len())))
    }
}
