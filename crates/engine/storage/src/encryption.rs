//! Encryption of the files of a storage, as far as the engine knows of it. The crate `esker-encryption`
//! does it.

use crate::Storage;
use std::sync::Arc;

/// The first bytes of every encrypted file.
pub const ENCRYPTED_MAGIC: [u8; 8] = *b"ESKRENC1";

/// Encrypts the files of a storage.
pub trait Encrypt: Send + Sync + 'static {
    /// Returns a storage whose files are encrypted and are kept in `below`.
    fn over(&self, below: Arc<dyn Storage>) -> Arc<dyn Storage>;
}

/// What encrypts the files of a database. Clones are the same.
#[derive(Clone)]
pub struct Encryption(Arc<dyn Encrypt>);

impl Encryption {
    /// Returns the encryption that `encrypt` does.
    pub fn new(encrypt: impl Encrypt) -> Encryption {
        Encryption(Arc::new(encrypt))
    }

    /// Returns a storage whose files are encrypted and are kept in `below`.
    pub fn over(&self, below: Arc<dyn Storage>) -> Arc<dyn Storage> {
        self.0.over(below)
    }
}

/// Two are equal if one is a clone of the other.
impl PartialEq for Encryption {
    fn eq(&self, other: &Encryption) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Encryption {}

impl std::fmt::Debug for Encryption {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Encryption").finish_non_exhaustive()
    }
}

/// Returns `below` as a storage that is encrypted as `model` is: with the same keys, or not at all.
pub fn encrypted_as(model: &dyn Storage, below: Arc<dyn Storage>) -> Arc<dyn Storage> {
    match model.encryption() {
        Some(encryption) => encryption.over(below),
        None => below,
    }
}
