//! Typed keyspaces: keys are tuples, and values have a type. Needs the feature `typed`.
//!
//! [`OpenTyped::typed`] opens one. The [tuple codec](mod@crate::tuple) encodes the keys, so entries
//! are in the order of the tuples. A [`ValueCodec`] encodes the values: [`Json`], [`String`] and
//! `Vec<u8>` have one.
//!
//! ```
//! use esker::typed::{Json, OpenTyped};
//! use esker::{Db, Settings};
//! use serde::{Deserialize, Serialize};
//!
//! #[derive(Serialize, Deserialize, PartialEq, Debug)]
//! struct User {
//!     role: String,
//! }
//!
//! # let dir = tempfile::tempdir()?;
//! # let dir = dir.path().join("data");
//! let db = Db::open(&dir, Settings::default())?;
//! let users = db.typed::<(u32, String), Json<User>>("users")?;
//! users.put(&(7, "grace".into()), &Json(User { role: "admiral".into() }))?;
//! users.put(&(7, "ada".into()), &Json(User { role: "analyst".into() }))?;
//!
//! // All users of tenant 7, by name.
//! let (key, Json(user)) = users.prefix(&(7_u32,)).next().unwrap()?;
//! assert_eq!((key.1.as_str(), user.role.as_str()), ("ada", "analyst"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use crate::tuple::{self, DecodeError, FromTuple, ToTuple};
use crate::{Db, Error, KeyRange, Keyspace, KeyspaceSettings, Range, Value, WriteBatch};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::borrow::Cow;
use std::fmt;
use std::iter::FusedIterator;
use std::marker::PhantomData;
use std::ops::RangeBounds;

/// The error of a codec.
pub type CodecError = Box<dyn std::error::Error + Send + Sync>;

/// The error of a typed keyspace.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TypedError {
    /// The database failed the call.
    #[error(transparent)]
    Db(#[from] Error),
    /// A stored key is not a tuple of the key's type.
    #[error("key {key:?} of keyspace {keyspace:?} has another type: {source}")]
    Key {
        /// The name of the keyspace.
        keyspace: String,
        /// The key, with escapes for bytes that are not printable.
        key: String,
        /// What is wrong with it.
        source: DecodeError,
    },
    /// A value cannot be encoded, or a stored value cannot be decoded.
    #[error("value of key {key:?} of keyspace {keyspace:?} has another type: {source}")]
    Value {
        /// The name of the keyspace.
        keyspace: String,
        /// The key, with escapes for bytes that are not printable.
        key: String,
        /// The error of the codec.
        source: CodecError,
    },
}

/// A type whose values can be stored in a [`TypedKeyspace`].
pub trait ValueCodec: Sized {
    /// Returns the bytes to store.
    ///
    /// # Errors
    /// The reason why the value cannot be encoded.
    fn encode(&self) -> Result<Cow<'_, [u8]>, CodecError>;

    /// Returns the value of stored bytes.
    ///
    /// # Errors
    /// The reason why the bytes are not a value of this type.
    fn decode(bytes: &[u8]) -> Result<Self, CodecError>;
}

impl ValueCodec for Vec<u8> {
    fn encode(&self) -> Result<Cow<'_, [u8]>, CodecError> {
        Ok(Cow::Borrowed(self))
    }

    fn decode(bytes: &[u8]) -> Result<Self, CodecError> {
        Ok(bytes.to_vec())
    }
}

impl ValueCodec for String {
    fn encode(&self) -> Result<Cow<'_, [u8]>, CodecError> {
        Ok(Cow::Borrowed(self.as_bytes()))
    }

    fn decode(bytes: &[u8]) -> Result<Self, CodecError> {
        Ok(std::str::from_utf8(bytes)?.to_owned())
    }
}

/// A value that is stored as JSON.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub struct Json<T>(pub T);

impl<T: Serialize + DeserializeOwned> ValueCodec for Json<T> {
    fn encode(&self) -> Result<Cow<'_, [u8]>, CodecError> {
        Ok(Cow::Owned(serde_json::to_vec(&self.0)?))
    }

    fn decode(bytes: &[u8]) -> Result<Self, CodecError> {
        Ok(Json(serde_json::from_slice(bytes)?))
    }
}

/// Opens typed keyspaces of a [`Db`].
pub trait OpenTyped {
    /// Returns the keyspace called `name` with keys of type `K` and values of type `V`, and creates
    /// it with default settings if it does not exist.
    ///
    /// The types are not stored. A keyspace that was written with others reports
    /// [`TypedError::Key`] or [`TypedError::Value`] where they do not match. For other settings,
    /// open the keyspace first, and use [`TypedKeyspace::new`].
    ///
    /// # Errors
    /// The errors of [`Db::keyspace`], except [`Error::KeyspaceSettingsDiffer`].
    fn typed<K: ToTuple + FromTuple, V: ValueCodec>(
        &self,
        name: &str,
    ) -> crate::Result<TypedKeyspace<K, V>>;
}

impl OpenTyped for Db {
    fn typed<K: ToTuple + FromTuple, V: ValueCodec>(
        &self,
        name: &str,
    ) -> crate::Result<TypedKeyspace<K, V>> {
        let opened = match self.open_keyspace(name) {
            Err(Error::UnknownKeyspace { .. }) => self.keyspace(name, KeyspaceSettings::default()),
            existing => existing,
        };
        opened.map(TypedKeyspace::new)
    }
}

/// A [`Keyspace`] with keys of type `K` and values of type `V`.
///
/// Clones are inexpensive, and threads may share one. See the [module](self) for an example.
pub struct TypedKeyspace<K, V> {
    keyspace: Keyspace,
    types: PhantomData<fn() -> (K, V)>,
}

impl<K, V> Clone for TypedKeyspace<K, V> {
    fn clone(&self) -> Self {
        TypedKeyspace { keyspace: self.keyspace.clone(), types: PhantomData }
    }
}

impl<K, V> fmt::Debug for TypedKeyspace<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("TypedKeyspace").field(&self.keyspace).finish()
    }
}

impl<K: ToTuple + FromTuple, V: ValueCodec> TypedKeyspace<K, V> {
    /// Returns `keyspace` with types for its keys and values. Nothing is read or checked.
    pub fn new(keyspace: Keyspace) -> Self {
        TypedKeyspace { keyspace, types: PhantomData }
    }

    /// Returns the keyspace, for reads and writes of bytes.
    pub fn keyspace(&self) -> &Keyspace {
        &self.keyspace
    }

    /// Returns the newest value of `key`, or `None`.
    ///
    /// # Errors
    /// [`TypedError::Value`] if the value is not a `V`, and the errors of [`Keyspace::get`].
    pub fn get(&self, key: &K) -> Result<Option<V>, TypedError> {
        let key = tuple::encode(key);
        match self.keyspace.get(&key)? {
            Some(value) => Ok(Some(decode_value(&self.keyspace, &key, &value)?)),
            None => Ok(None),
        }
    }

    /// Whether `key` exists.
    ///
    /// # Errors
    /// The errors of [`Keyspace::get`].
    pub fn contains_key(&self, key: &K) -> Result<bool, TypedError> {
        Ok(self.keyspace.contains_key(tuple::encode(key))?)
    }

    /// Sets `key` to `value`.
    ///
    /// # Errors
    /// [`TypedError::Value`] if the value cannot be encoded, and the errors of [`Keyspace::put`]. An
    /// encoded key has at most 64 KiB.
    ///
    /// # Panics
    /// If tuples nest deeper than 32 levels, as in every call that takes a key.
    pub fn put(&self, key: &K, value: &V) -> Result<(), TypedError> {
        let (key, value) = self.encoded(key, value)?;
        Ok(self.keyspace.put(key, value)?)
    }

    /// Deletes `key`, whether it exists or not.
    ///
    /// # Errors
    /// The errors of [`Keyspace::delete`].
    pub fn delete(&self, key: &K) -> Result<(), TypedError> {
        Ok(self.keyspace.delete(tuple::encode(key))?)
    }

    /// Adds a write to `batch` that sets `key` to `value`.
    ///
    /// # Errors
    /// [`TypedError::Value`] if the value cannot be encoded.
    pub fn put_in(&self, batch: &mut WriteBatch, key: &K, value: &V) -> Result<(), TypedError> {
        let (key, value) = self.encoded(key, value)?;
        batch.put(&self.keyspace, key, value);
        Ok(())
    }

    /// Adds a write to `batch` that deletes `key`.
    pub fn delete_in(&self, batch: &mut WriteBatch, key: &K) {
        batch.delete(&self.keyspace, tuple::encode(key));
    }

    /// Iterates over the entries with keys in `range`, in the order of the tuples.
    ///
    /// The iterator yields the errors of [`TypedKeyspace::get`], and [`TypedError::Key`] for a key
    /// that is not a `K`. After these two it goes on.
    pub fn range(&self, range: impl RangeBounds<K>) -> TypedRange<K, V> {
        let bounds = (
            range.start_bound().map(|key| tuple::encode(key)),
            range.end_bound().map(|key| tuple::encode(key)),
        );
        self.over(bounds.into())
    }

    /// Iterates over the entries whose keys start with the elements of `prefix`.
    pub fn prefix(&self, prefix: &(impl ToTuple + ?Sized)) -> TypedRange<K, V> {
        self.over(KeyRange::prefix(tuple::encode(prefix)))
    }

    /// Iterates over all entries.
    pub fn iter(&self) -> TypedRange<K, V> {
        self.over((..).into())
    }

    fn over(&self, range: KeyRange) -> TypedRange<K, V> {
        let (keyspace, range) = (self.keyspace.clone(), self.keyspace.range(range));
        TypedRange { keyspace, range, types: PhantomData }
    }

    fn encoded<'v>(&self, key: &K, value: &'v V) -> Result<(Vec<u8>, Cow<'v, [u8]>), TypedError> {
        let key = tuple::encode(key);
        match value.encode() {
            Ok(value) => Ok((key, value)),
            Err(source) => Err(value_error(&self.keyspace, &key, source)),
        }
    }
}

/// An iterator over typed entries, from both ends: see [`TypedKeyspace::range`].
#[must_use = "a range reads nothing until it is iterated"]
pub struct TypedRange<K, V> {
    keyspace: Keyspace,
    range: Range,
    types: PhantomData<fn() -> (K, V)>,
}

impl<K, V> fmt::Debug for TypedRange<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("TypedRange").field(&self.range).finish()
    }
}

impl<K: FromTuple, V: ValueCodec> TypedRange<K, V> {
    fn typed(&self, entry: crate::Result<(Value, Value)>) -> Result<(K, V), TypedError> {
        let (key, value) = entry?;
        let typed_key = tuple::decode(&key).map_err(|source| TypedError::Key {
            keyspace: self.keyspace.name().to_owned(),
            key: key.escape_ascii().to_string(),
            source,
        })?;
        Ok((typed_key, decode_value(&self.keyspace, &key, &value)?))
    }
}

impl<K: FromTuple, V: ValueCodec> Iterator for TypedRange<K, V> {
    type Item = Result<(K, V), TypedError>;

    fn next(&mut self) -> Option<Self::Item> {
        let entry = self.range.next()?;
        Some(self.typed(entry))
    }
}

impl<K: FromTuple, V: ValueCodec> DoubleEndedIterator for TypedRange<K, V> {
    fn next_back(&mut self) -> Option<Self::Item> {
        let entry = self.range.next_back()?;
        Some(self.typed(entry))
    }
}

impl<K: FromTuple, V: ValueCodec> FusedIterator for TypedRange<K, V> {}

fn decode_value<V: ValueCodec>(
    keyspace: &Keyspace,
    key: &[u8],
    value: &[u8],
) -> Result<V, TypedError> {
    V::decode(value).map_err(|source| value_error(keyspace, key, source))
}

fn value_error(keyspace: &Keyspace, key: &[u8], source: CodecError) -> TypedError {
    let key = key.escape_ascii().to_string();
    TypedError::Value { keyspace: keyspace.name().to_owned(), key, source }
}
