//! Group commit: one sync serves all that wait when it begins.
//!
//! A sync covers what was written before it began, so who comes while one is in progress waits for the next; that begins
//! as soon as the first has ended. So syncs are never more than one at a time, and no request waits for more than two.

/// Who waits for a sync.
#[derive(Debug)]
pub struct GroupCommit<T> {
    /// Covered by the sync in progress, if there is one.
    covered: Option<Vec<T>>,
    waiting: Vec<T>,
}

impl<T> Default for GroupCommit<T> {
    fn default() -> Self {
        GroupCommit { covered: None, waiting: Vec::new() }
    }
}

impl<T> GroupCommit<T> {
    /// One more waits: what it waits for was written.
    pub fn add(&mut self, who: T) {
        self.waiting.push(who);
    }

    /// Whether a sync is to begin now. If so, the caller begins it.
    pub fn begins(&mut self) -> bool {
        if self.covered.is_some() || self.waiting.is_empty() {
            return false;
        }
        self.covered = Some(std::mem::take(&mut self.waiting));
        true
    }

    /// The sync has ended: those that it covers.
    pub fn ended(&mut self) -> Vec<T> {
        self.covered.take().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_comes_during_a_sync_waits_for_the_next() {
        let mut syncs = GroupCommit::default();
        assert!(!syncs.begins(), "nobody waits");
        syncs.add('a');
        assert!(syncs.begins());
        syncs.add('b');
        syncs.add('c');
        assert!(!syncs.begins(), "one at a time");
        assert_eq!(syncs.ended(), ['a']);
        assert!(syncs.begins());
        assert_eq!(syncs.ended(), ['b', 'c']);
        assert!(!syncs.begins() && syncs.ended().is_empty());
    }
}
