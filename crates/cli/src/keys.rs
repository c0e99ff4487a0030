//! The keys of an encrypted database.

use crate::failure::Outcome;
use clap::Args;
use esker::Settings;
use esker_encryption::Keys;
use esker_storage::Encryption;
use std::path::PathBuf;

/// The variable that has keys, where no file is named.
const VARIABLE: &str = "ESKER_KEY";

/// Where the keys of an encrypted database are.
#[derive(Args, Default)]
pub struct KeyPlace {
    /// The keys of an encrypted database: a file made by `esker key new`, with the key for new files in its
    /// first line. Without this flag the variable ESKER_KEY may have them
    #[arg(long, value_name = "FILE")]
    pub key_file: Option<PathBuf>,
}

impl KeyPlace {
    /// The encryption with these keys, if there are any.
    pub fn encryption(&self) -> Outcome<Option<Encryption>> {
        Ok(match &self.key_file {
            Some(file) => Some(Keys::from_file(file)?.into()),
            None => from_variable()?,
        })
    }

    /// `settings` with this encryption.
    pub fn apply(&self, settings: Settings) -> Outcome<Settings> {
        Ok(match self.encryption()? {
            Some(encryption) => settings.encryption(encryption),
            None => settings,
        })
    }
}

/// The encryption with the keys in the variable of the environment, if it has any.
pub fn from_variable() -> Outcome<Option<Encryption>> {
    match std::env::var(VARIABLE) {
        Ok(text) if !text.is_empty() => {
            Ok(Some(Keys::parse(&text, &format!("the variable {VARIABLE}"))?.into()))
        }
        _ => Ok(None),
    }
}
