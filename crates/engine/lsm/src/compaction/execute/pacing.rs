//! How fast a compaction may write.

use crate::output::io_throttle::IoThrottle;
use crate::tree::Tree;

/// How fast a compaction may write.
pub(crate) struct Pacing<'a> {
    pub(crate) throttle: &'a IoThrottle,
    /// Whether writers are throttled by the compaction debt.
    pub(crate) do_writers_wait: &'a (dyn Fn() -> bool + Sync),
    /// The threads that do compactions now.
    pub(crate) compaction_threads: usize,
}

impl Pacing<'_> {
    /// Whether a compaction pauses for reads that wait for writes. While writers are throttled by the
    /// compaction debt, a pause would only make them wait longer, and most who read write, too.
    pub(crate) fn yields_to_reads(&self, tree: &Tree) -> bool {
        !(self.do_writers_wait)() && tree.storage.is_busy()
    }
}
