//! The merge operators of an open database, and their names in keyspaces.

use esker_api::{MergeOperator, built_in_operators};
use std::fmt;
use std::sync::Arc;

/// The longest name of an operator, in bytes.
pub(crate) const NAME_BYTES_MAX: usize = 31;

/// The name of a merge operator or of a compaction filter, as the settings of a keyspace have it: 1 to
/// 31 bytes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(into = "String", from = "String")
)]
pub struct OperatorName {
    /// The length of the name as it was given. A longer one than [`NAME_BYTES_MAX`] is not valid.
    bytes: u8,
    /// The name, or its start, and then zeros.
    text: [u8; NAME_BYTES_MAX],
}

impl OperatorName {
    /// Returns `name` as a name. [`KeyspaceSettings::validate`](crate::KeyspaceSettings::validate)
    /// rejects one of another length.
    pub fn new(name: &str) -> Self {
        let mut end = name.len().min(NAME_BYTES_MAX);
        while !name.is_char_boundary(end) {
            end -= 1;
        }
        let mut text = [0; NAME_BYTES_MAX];
        text[..end].copy_from_slice(&name.as_bytes()[..end]);
        OperatorName { bytes: u8::try_from(name.len()).unwrap_or(u8::MAX), text }
    }

    /// Returns the name.
    pub fn as_str(&self) -> &str {
        let text = &self.text[..usize::from(self.bytes).min(NAME_BYTES_MAX)];
        let text = std::str::from_utf8(text).unwrap_or_default();
        // What was cut at a character's end is followed by zeros.
        text.trim_end_matches('\0')
    }

    /// Whether an operator or a filter can have the name.
    pub(crate) fn is_valid(&self) -> bool {
        let name = self.as_str();
        name.len() == usize::from(self.bytes)
            && !name.is_empty()
            && !name.chars().any(char::is_control)
    }
}

impl fmt::Display for OperatorName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for OperatorName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.as_str())
    }
}

impl From<&str> for OperatorName {
    fn from(name: &str) -> Self {
        OperatorName::new(name)
    }
}

impl From<String> for OperatorName {
    fn from(name: String) -> Self {
        OperatorName::new(&name)
    }
}

impl From<OperatorName> for String {
    fn from(name: OperatorName) -> Self {
        name.as_str().to_owned()
    }
}

/// The operators that an open gets, in addition to the built-in ones.
#[derive(Clone, Default)]
pub struct MergeOperators {
    own: Vec<Arc<dyn MergeOperator>>,
}

impl MergeOperators {
    /// Adds an operator. It replaces an earlier one, or a built-in one, of the same name.
    pub fn add(&mut self, operator: Arc<dyn MergeOperator>) {
        self.own.retain(|other| other.name() != operator.name());
        self.own.push(operator);
    }

    /// Returns the operator called `name`, or `None`.
    pub fn named(&self, name: &str) -> Option<Arc<dyn MergeOperator>> {
        self.all().into_iter().find(|operator| operator.name() == name)
    }

    /// The own operators, then the built-in ones.
    pub(crate) fn all(&self) -> Vec<Arc<dyn MergeOperator>> {
        self.own.iter().cloned().chain(built_in_operators()).collect()
    }
}

/// Two sets are equal if they have the same operators.
impl PartialEq for MergeOperators {
    fn eq(&self, other: &Self) -> bool {
        let same = |(one, two): (&Arc<_>, &Arc<_>)| Arc::ptr_eq(one, two);
        self.own.len() == other.own.len() && self.own.iter().zip(&other.own).all(same)
    }
}

impl Eq for MergeOperators {}

impl fmt::Debug for MergeOperators {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.own.iter().map(|operator| operator.name())).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_another_length_are_not_valid() {
        for (name, valid) in [("add_i64", true), ("", false), ("a\nb", false)] {
            let name = (OperatorName::new(name), valid);
            assert_eq!(name.0.is_valid(), name.1, "{}", name.0);
        }
        assert!(OperatorName::new(&"n".repeat(31)).is_valid());
        for long in ["n".repeat(32), "n".repeat(300), "é".repeat(16)] {
            assert!(!OperatorName::new(&long).is_valid());
        }
        assert_eq!(OperatorName::new("é").as_str(), "é");
    }
}
