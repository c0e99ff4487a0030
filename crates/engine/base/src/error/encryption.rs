//! Errors of encrypted databases.

use super::Error;

/// Why the files of a database cannot be decrypted, or must not be written.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EncryptionError {
    /// The database is encrypted, and it was opened without a key.
    #[error(
        "{place} is encrypted, and no key was given; give it with `--key-file`, in ESKER_KEY, or with \
         `Settings::encryption`"
    )]
    KeyNeeded {
        /// The directory.
        place: String,
    },

    /// A file was encrypted with a key that is not among those given.
    #[error(
        "{file} is encrypted with the key {key}, and the keys given are {given}; add that key to them"
    )]
    UnknownKey {
        /// The file.
        file: String,
        /// The id of its key.
        key: String,
        /// The ids of the keys given.
        given: String,
    },

    /// The database is not encrypted, and it was opened with a key.
    #[error(
        "{place} is not encrypted, and a key was given; open it without a key, or copy its entries to a new \
         database that is created with the key"
    )]
    NotEncrypted {
        /// The directory.
        place: String,
    },

    /// A copy of an encrypted database would not be encrypted.
    #[error(
        "could not write {what} of an encrypted database to {target}, which is not encrypted; {instead}"
    )]
    Exposed {
        /// What was to be written.
        what: &'static str,
        /// Where to.
        target: String,
        /// What to do.
        instead: &'static str,
    },

    /// Keys could not be read.
    #[error("could not use {origin}: {reason}")]
    BadKeys {
        /// Where the keys are: a file, or a variable of the environment.
        origin: String,
        /// Why, and what to do. It has no part of a key.
        reason: String,
    },
}

impl From<EncryptionError> for Error {
    fn from(error: EncryptionError) -> Self {
        Error::Encryption(Box::new(error))
    }
}
