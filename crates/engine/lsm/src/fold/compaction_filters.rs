//! The compaction filters that an open gets.

use esker_api::CompactionFilter;
use std::fmt;
use std::sync::Arc;

/// The compaction filters that an open gets.
#[derive(Clone, Default)]
pub struct CompactionFilters {
    filters: Vec<Arc<dyn CompactionFilter>>,
}

impl CompactionFilters {
    /// Adds a filter. It replaces an earlier one of the same name.
    pub fn add(&mut self, filter: Arc<dyn CompactionFilter>) {
        self.filters.retain(|other| other.name() != filter.name());
        self.filters.push(filter);
    }

    /// Returns the filter called `name`, or `None`.
    pub fn named(&self, name: &str) -> Option<Arc<dyn CompactionFilter>> {
        self.filters.iter().find(|filter| filter.name() == name).cloned()
    }
}

/// Two sets are equal if they have the same filters.
impl PartialEq for CompactionFilters {
    fn eq(&self, other: &Self) -> bool {
        let same = |(one, two): (&Arc<_>, &Arc<_>)| Arc::ptr_eq(one, two);
        self.filters.len() == other.filters.len()
            && self.filters.iter().zip(&other.filters).all(same)
    }
}

impl Eq for CompactionFilters {}

impl fmt::Debug for CompactionFilters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.filters.iter().map(|filter| filter.name())).finish()
    }
}
