//! How far the opening of tables in the background is.

/// How far the opening is, for the schedule.
#[derive(Default)]
pub(crate) struct TableOpenState {
    /// How many threads are still at it.
    pub(crate) openers: usize,
    /// Their tables are in files up to this one.
    pub(crate) newest_file: u64,
    /// What they take of the memory once they are open, about.
    pub(crate) table_memory: u64,
    /// They ended before all were open, because the database closes.
    pub(crate) is_given_up: bool,
}

/// Which tables that are not open a thread other than an opener may open for those who come later.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum OpenScope {
    All,
    /// In files after this one: openers have the rest.
    After(u64),
    /// A database that closes needs no more readers.
    None,
}

impl TableOpenState {
    /// What is to be kept of the memory for tables, open or not.
    pub(crate) fn reserved_memory(&self) -> u64 {
        if self.openers > 0 { self.table_memory } else { 0 }
    }

    pub(crate) fn leaves(&self) -> OpenScope {
        match self {
            TableOpenState { is_given_up: true, .. } => OpenScope::None,
            TableOpenState { openers: 0, .. } => OpenScope::All,
            TableOpenState { newest_file, .. } => OpenScope::After(*newest_file),
        }
    }
}
