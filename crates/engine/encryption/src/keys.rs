//! The keys of a database, and where they come from.

use crate::{Key, KeyId};
use esker_base::{EncryptionError, Entropy, Error, Result, SystemEntropy};
use std::fmt;
use std::path::Path;
use std::sync::Arc;
use zeroize::Zeroizing;

/// Where keys come from, such as a key service.
///
/// The engine asks for a key whenever it creates or opens a file.
pub trait KeyProvider: Send + Sync + 'static {
    /// Returns the key for new files.
    ///
    /// # Errors
    /// If it is not available. The file is not created then.
    fn current(&self) -> Result<Key>;

    /// Returns the key with this id, or `None` if there is none.
    ///
    /// # Errors
    /// If it is not available.
    fn find(&self, id: KeyId) -> Result<Option<Key>>;

    /// Names the keys in messages, without revealing them.
    fn describe(&self) -> String;
}

/// The keys of a database: one for new files, and those of files that were written before.
///
/// To rotate keys, open the database with a new key as the first one and the old keys after it. New files
/// have the new key. [`keys_in_use`](crate::keys_in_use) reports which files still have an old one.
#[derive(Clone)]
pub struct Keys {
    provider: Arc<dyn KeyProvider>,
    entropy: Arc<dyn Entropy>,
}

impl Keys {
    /// Returns keys of which the first is for new files.
    ///
    /// # Errors
    /// [`EncryptionError::BadKeys`] if there is none.
    pub fn new(keys: impl IntoIterator<Item = Key>) -> Result<Keys> {
        let keys: Vec<Key> = keys.into_iter().collect();
        match keys.is_empty() {
            true => Err(bad("the list of keys", "it is empty; give at least one key")),
            false => Ok(Keys::from_provider(KeyList(keys))),
        }
    }

    /// Returns the keys that `provider` has.
    pub fn from_provider(provider: impl KeyProvider) -> Keys {
        Keys { provider: Arc::new(provider), entropy: Arc::new(SystemEntropy) }
    }

    /// Reads keys from a file: one in each line, as 64 hexadecimal digits. Lines that are empty or begin with
    /// `#` are ignored. The first key is for new files.
    ///
    /// # Errors
    /// [`EncryptionError::BadKeys`] if it holds anything else, [`Error::Io`] if it cannot be read.
    pub fn from_file(path: impl AsRef<Path>) -> Result<Keys> {
        let origin = path.as_ref().display().to_string();
        let text = match std::fs::read_to_string(path) {
            Ok(text) => Zeroizing::new(text),
            Err(source) => return Err(Error::io("read", origin, source)),
        };
        Keys::parse(&text, &format!("the key file {origin}"))
    }

    /// Reads keys from text, as [`Keys::from_file`] does. Commas separate keys, too. Messages call the text
    /// `origin`.
    ///
    /// # Errors
    /// [`EncryptionError::BadKeys`] if it holds anything else.
    pub fn parse(text: &str, origin: &str) -> Result<Keys> {
        let mut keys = Vec::new();
        for (number, line) in (1..).zip(text.lines()) {
            let line = line.trim();
            if line.starts_with('#') {
                continue;
            }
            for key in line.split(',').map(str::trim).filter(|key| !key.is_empty()) {
                let wrong = || bad(origin, &format!("line {number} is not 64 hexadecimal digits"));
                keys.push(Key::parse(key).ok_or_else(wrong)?);
            }
        }
        match keys.is_empty() {
            true => Err(bad(origin, "it has no key; `esker key new` makes one")),
            false => Ok(Keys::from_provider(KeyList(keys))),
        }
    }

    /// Draws the salts of files from `entropy`, not from the system.
    ///
    /// This is for tests. A salt that repeats makes encryption insecure.
    #[must_use]
    pub fn entropy(self, entropy: Arc<dyn Entropy>) -> Keys {
        Keys { entropy, ..self }
    }

    pub(crate) fn provider(&self) -> &dyn KeyProvider {
        &*self.provider
    }

    pub(crate) fn random(&self) -> &dyn Entropy {
        &*self.entropy
    }
}

impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keys").field("provider", &self.provider.describe()).finish_non_exhaustive()
    }
}

/// Keys in memory. The first one is for new files.
struct KeyList(Vec<Key>);

impl KeyProvider for KeyList {
    fn current(&self) -> Result<Key> {
        Ok(self.0[0].clone())
    }

    fn find(&self, id: KeyId) -> Result<Option<Key>> {
        Ok(self.0.iter().find(|key| key.id() == id).cloned())
    }

    fn describe(&self) -> String {
        self.0.iter().map(|key| key.id().to_string()).collect::<Vec<_>>().join(", ")
    }
}

fn bad(origin: &str, reason: &str) -> Error {
    EncryptionError::BadKeys { origin: origin.to_owned(), reason: reason.to_owned() }.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_key_of_a_text_is_the_current_one() {
        let (new, old) = (Key::new([1; 32]), Key::new([2; 32]));
        let (first, second) = (new.to_hex(), old.to_hex());
        let lines = format!("# keys\n\n{}\r\n  {}  \n", *first, *second);
        let commas = format!("{},{}", *first, *second);
        for text in [lines, commas] {
            let keys = Keys::parse(&text, "x").unwrap();
            assert_eq!(keys.provider().current().unwrap().id(), new.id());
            assert_eq!(keys.provider().find(old.id()).unwrap().unwrap().id(), old.id());
            assert!(keys.provider().find(KeyId(7)).unwrap().is_none());
        }
    }

    #[test]
    fn a_text_without_keys_is_refused_and_never_repeated() {
        for text in ["", "# nothing\n", "secret", "00", &"0".repeat(63), &"0".repeat(65)] {
            let error = Keys::parse(text, "the variable K").unwrap_err().to_string();
            assert!(error.starts_with("could not use the variable K: "), "{error}");
            assert!(text.is_empty() || !error.contains(text) || text == "00", "{error}");
        }
        assert!(Keys::new([]).is_err());
        assert!(Keys::from_file("/nonexistent/keys").unwrap_err().io_kind().is_some());
    }
}
