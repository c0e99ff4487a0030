//! Calls the merge operator of a keyspace. A panic of it ends here.

use super::operands::Operands;
use super::operators::OperatorName;
use crate::user_keys::KeyFormat;
use esker_api::{MergeError, MergeOperator};
use esker_base::{Error, Result};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// Two operands whose combination would be longer are kept apart: a part of it is copied at each
/// further combination.
const COMBINED_BYTES_MAX: usize = 1 << 20;

/// The merge operator of a keyspace, if it has one and the open got it.
#[derive(Clone)]
pub struct Merger {
    keyspace: String,
    name: Option<OperatorName>,
    operator: Option<Arc<dyn MergeOperator>>,
    keys: KeyFormat,
}

impl Merger {
    /// The operator of a keyspace, and the name by which the keyspace knows it.
    pub(crate) fn new(
        keyspace: &str,
        name: Option<OperatorName>,
        operator: Option<Arc<dyn MergeOperator>>,
        keys: KeyFormat,
    ) -> Merger {
        Merger { keyspace: keyspace.to_owned(), name, operator, keys }
    }

    /// Why there is no operator.
    #[cold]
    fn missing(&self) -> Error {
        let reason = match self.name {
            Some(name) => format!(
                "this open has no merge operator {name:?}; add it with `Settings::merge_operator`, and \
                 open the database again"
            ),
            None => {
                "it has no merge operator; create a keyspace with `KeyspaceSettings::merge`".into()
            }
        };
        Error::NoMergeOperator { keyspace: self.keyspace.clone(), reason }
    }

    #[cold]
    fn failed(&self, key: &[u8], what: String) -> Error {
        Error::MergeFailed {
            key: key.escape_ascii().to_string(),
            keyspace: self.keyspace.clone(),
            what: format!("{}: {what}", self.name.map(String::from).unwrap_or_default()),
        }
    }

    fn operator(&self) -> Result<&dyn MergeOperator> {
        self.operator.as_deref().ok_or_else(|| self.missing())
    }

    fn call<T>(
        &self,
        key: &[u8],
        call: impl FnOnce(&dyn MergeOperator) -> Result<T, MergeError>,
    ) -> Result<T> {
        let operator = self.operator()?;
        // The operator is shared and not ours: what a panic leaves in it is its own.
        match catch_unwind(AssertUnwindSafe(|| call(operator))) {
            Ok(Ok(done)) => Ok(done),
            Ok(Err(error)) => Err(self.failed(key, error.to_string())),
            Err(_) => Err(self.failed(key, "the operator panicked".into())),
        }
    }

    /// Checks an operand for the user's `key`.
    pub(crate) fn check(&self, key: &[u8], operand: &[u8]) -> Result<()> {
        self.call(key, |operator| operator.check(key, operand))
    }

    /// The value after `operands` on `base`.
    pub(crate) fn merge(
        &self,
        stored_key: &[u8],
        base: Option<&[u8]>,
        operands: &Operands,
    ) -> Result<Vec<u8>> {
        self.merge_all(stored_key, base, &operands.oldest_first())
    }

    /// The value after `operands`, oldest first, on `base`.
    pub(crate) fn merge_all(
        &self,
        stored_key: &[u8],
        base: Option<&[u8]>,
        operands: &[&[u8]],
    ) -> Result<Vec<u8>> {
        let key = self.keys.user(stored_key);
        let value = self.call(&key, |operator| operator.merge(&key, base, operands))?;
        if value.len() > esker_table::format::VALUE_BYTES_MAX {
            return Err(self.failed(&key, format!("the value would have {} bytes", value.len())));
        }
        Ok(value)
    }

    /// One operand for two, if there is one.
    pub(crate) fn combine(&self, stored_key: &[u8], older: &[u8], newer: &[u8]) -> Option<Vec<u8>> {
        if self.operator.is_none() || older.len() + newer.len() > COMBINED_BYTES_MAX {
            return None;
        }
        let key = self.keys.user(stored_key);
        let combined = self.call(&key, |operator| Ok(operator.combine(&key, older, newer)));
        combined.ok().flatten().filter(|combined| combined.len() <= COMBINED_BYTES_MAX)
    }
}

impl std::fmt::Debug for Merger {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Merger")
            .field("keyspace", &self.keyspace)
            .field("name", &self.name)
            .finish()
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use esker_api::built_in_operators;

    /// A merger that adds.
    pub(crate) fn adding() -> Merger {
        named("add_i64")
    }

    /// A merger with a built-in operator, if there is one of that name.
    pub(crate) fn named(name: &str) -> Merger {
        let operator = built_in_operators().into_iter().find(|operator| operator.name() == name);
        Merger::new("sums", Some(name.into()), operator, KeyFormat::AsGiven)
    }

    #[test]
    fn a_missing_operator_is_named() {
        let error = named("mine").merge_all(b"k", None, &[b"1"]).unwrap_err().to_string();
        assert!(error.contains("\"sums\"") && error.contains("\"mine\""), "{error}");
    }

    #[test]
    fn a_panic_is_an_error_with_the_key() {
        struct Panics;
        impl MergeOperator for Panics {
            fn name(&self) -> &str {
                "panics"
            }
            fn merge(
                &self,
                _: &[u8],
                _: Option<&[u8]>,
                _: &[&[u8]],
            ) -> Result<Vec<u8>, MergeError> {
                std::panic::resume_unwind(Box::new("a bug"))
            }
            fn combine(&self, _: &[u8], _: &[u8], _: &[u8]) -> Option<Vec<u8>> {
                std::panic::resume_unwind(Box::new("a bug"))
            }
        }
        let merger =
            Merger::new("k", Some("panics".into()), Some(Arc::new(Panics)), KeyFormat::AsGiven);
        let error = merger.merge_all(b"key\xff", None, &[b"1"]).unwrap_err().to_string();
        assert!(error.contains("key\\xff") && error.contains("panicked"), "{error}");
        assert_eq!(merger.combine(b"k", b"1", b"2"), None);
    }
}
