//! Compaction filters: what compaction drops or replaces, in addition to what no reader can see.

/// What a filter decides about an entry.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum FilterDecision {
    /// The entry stays.
    Keep,
    /// The key has no value any more.
    Drop,
    /// The key has this value from now on. An entry that expires keeps its time.
    Replace(Vec<u8>),
}

/// Why a filter could not decide. The message ends up in the error of a manual compaction.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FilterError {
    what: String,
}

impl FilterError {
    /// Returns an error with a message, such as "the value has no header".
    pub fn new(what: impl Into<String>) -> Self {
        FilterError { what: what.into() }
    }
}

impl std::fmt::Display for FilterError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.what)
    }
}

impl std::error::Error for FilterError {}

/// Decides which entries a compaction keeps.
///
/// A keyspace names its filter when it is created. The database gets the filter itself at each
/// open. Compaction then asks it about the newest value of each key that it rewrites.
///
/// * A compaction asks only about values that no open snapshot can read, and installs its result only
///   while that holds. So a snapshot, a cursor or a transaction never sees a change by a filter.
/// * A reader that saw a decision sees it from then on, also after a crash.
/// * When a compaction asks is up to the engine: it may ask twice about an entry, or late, or never.
///   `Db::compact` asks about all entries that no snapshot keeps.
/// * Flush does not ask. Neither does a compaction that only moves a table to a lower level, unless
///   the table comes from level 0.
///
/// After an error or a panic the entry stays as it is, and `Db::compact` fails with
/// [`Error::FilterFailed`].
///
/// [`Error::FilterFailed`]: esker_base::Error::FilterFailed
///
/// # Examples
///
/// ```
/// # mod esker { pub mod filter { pub use esker_api::{CompactionFilter, FilterDecision, FilterError}; } }
/// use esker::filter::{CompactionFilter, FilterDecision, FilterError};
///
/// /// Drops values that are empty.
/// struct NotEmpty;
///
/// impl CompactionFilter for NotEmpty {
///     fn name(&self) -> &str {
///         "not_empty"
///     }
///
///     fn filter(&self, _key: &[u8], value: &[u8]) -> Result<FilterDecision, FilterError> {
///         Ok(if value.is_empty() { FilterDecision::Drop } else { FilterDecision::Keep })
///     }
/// }
///
/// assert_eq!(NotEmpty.filter(b"key", b""), Ok(FilterDecision::Drop));
/// ```
pub trait CompactionFilter: Send + Sync {
    /// Returns the name under which keyspaces store the filter: 1 to 31 bytes.
    fn name(&self) -> &str;

    /// Decides about `key`, whose newest value is `value`.
    ///
    /// Several threads may call it at once. It may read the database, but must not write: a write may
    /// wait for the compaction that calls it.
    ///
    /// # Errors
    /// If it cannot decide. Then the entry stays.
    fn filter(&self, key: &[u8], value: &[u8]) -> Result<FilterDecision, FilterError>;
}
