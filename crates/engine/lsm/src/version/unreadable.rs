//! Tables that compaction leaves alone, because a read of one failed.
//!
//! A table whose read failed is marked, whatever the error was: damage, a failed device, a missing
//! file, a lost chunk. Pickers plan around a marked table as around one that a running plan holds.
//! The table stays where it is, and readers go on to read what they can of it. The mark is in
//! memory, so an open of the database tries the table again.
//!
//! An I/O error may pass. Such a mark is taken away after a pause that doubles ([`Retry`]), and
//! then compaction reads the table again. A table that could not be opened is opened again after
//! the same pause.

use super::{KeyspaceVersion, TableHandle, Version, table_file_name};
use crate::user_keys::KeyFormat;
use esker_base::{Error, KeyspaceId};
use std::sync::Arc;
use std::time::Duration;

/// When marked tables are tried again.
#[derive(Debug, Default)]
pub(crate) struct Retry {
    /// `None`: no table is to be tried again.
    at: Option<Duration>,
    /// The pause before the next try; zero before the first.
    pause: Duration,
    /// Whether a thread is at it: that may take longer than the pause.
    is_running: bool,
}

impl Retry {
    const FIRST: Duration = Duration::from_millis(500);
    /// A merge that fails again has read its inputs for nothing.
    const LONGEST: Duration = Duration::from_secs(600);

    /// Has marked tables tried again after the next pause.
    pub(crate) fn plan(&mut self, now: Duration) {
        if self.at.is_none() {
            self.pause = (self.pause * 2).clamp(Self::FIRST, Self::LONGEST);
            self.at = Some(now + self.pause);
        }
    }

    /// Takes up a try that is due.
    pub(crate) fn begin(&mut self, now: Duration) -> bool {
        let is_due = !self.is_running && self.at.is_some_and(|at| now >= at);
        self.is_running |= is_due;
        is_due
    }

    /// A try has ended; `is_over` if it left no table to be tried again.
    pub(crate) fn end(&mut self, now: Duration, is_over: bool) {
        (self.at, self.is_running) = (None, false);
        if !is_over {
            self.plan(now);
        }
    }
}

/// A table that compaction skips because a read of it failed.
#[derive(Clone, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct UnreadableTable {
    /// The name of the keyspace.
    pub keyspace: String,
    /// The level of the table.
    pub level: usize,
    /// The name of the file.
    pub file: String,
    /// The size of the table, in bytes.
    pub bytes: u64,
    /// The smallest key that the table holds or deletes.
    pub smallest: Vec<u8>,
    /// The largest key of the table, or the end of its last range tombstone.
    pub largest: Vec<u8>,
    /// The error of the read.
    pub error: String,
}

impl TableHandle {
    /// Why compaction leaves the table alone, if it does: with the table's file and its keys,
    /// as users know them.
    pub fn unreadable(&self, keys: KeyFormat) -> Option<Error> {
        let cause = Arc::new(self.mark.why()?);
        Some(Error::TableUnreadable {
            file: table_file_name(self.meta.id.file),
            smallest: keys.user(&self.meta.smallest).escape_ascii().to_string(),
            largest: keys.user(&self.meta.largest).escape_ascii().to_string(),
            cause,
        })
    }

    /// Whether compaction leaves the table alone.
    pub fn is_unreadable(&self) -> bool {
        self.mark.is_set()
    }

    /// Says that a read of the table failed. [`Error::Closed`] is no failure.
    pub(crate) fn mark_unreadable(&self, error: &Error) {
        if !matches!(error, Error::Closed) {
            self.mark.set(error);
        }
    }

    /// Whether the table may be read another time: it could not be opened, or a device failed. Not
    /// if its storage says that a part of it is lost, nor if its bytes are damaged.
    pub(crate) fn may_recover(&self) -> bool {
        let why = self.mark.why();
        why.is_some_and(|why| match self.opened() {
            None => !why.is_lost(),
            Some(_) => !why.is_lost() && !why.is_corruption(),
        })
    }
}

impl KeyspaceVersion {
    /// Whether there is a table that compaction leaves alone.
    pub fn has_unreadable(&self) -> bool {
        self.tables().any(|(_, _, table)| table.is_unreadable())
    }

    /// Why compaction leaves a table alone, if it leaves one.
    pub fn unreadable(&self, keys: KeyFormat) -> Option<Error> {
        self.tables().find_map(|(_, _, table)| table.unreadable(keys))
    }
}

impl Version {
    /// Why compaction leaves a table alone, if it leaves one.
    pub(crate) fn unreadable(&self, keys: KeyFormat) -> Option<Error> {
        self.keyspaces.values().find_map(|keyspace| keyspace.unreadable(keys))
    }

    /// The tables that compaction leaves alone.
    pub(crate) fn unreadable_tables(&self, keys: KeyFormat) -> Vec<UnreadableTable> {
        let of_keyspace = |keyspace: &Arc<KeyspaceVersion>| {
            let name = self.shown_name(keyspace);
            let tables = keyspace.tables();
            let marked =
                tables.filter_map(|(level, _, table)| Some((level, table, table.mark.why()?)));
            let described = marked.map(|(level, table, why)| UnreadableTable {
                keyspace: name.clone(),
                level,
                file: table_file_name(table.meta.id.file),
                bytes: table.meta.bytes,
                smallest: keys.user(&table.meta.smallest).into_owned(),
                largest: keys.user(&table.meta.largest).into_owned(),
                error: why.to_string(),
            });
            described.collect::<Vec<_>>()
        };
        self.keyspaces.values().flat_map(of_keyspace).collect()
    }

    /// The marked tables, of `keyspace` or of all, that may be read another time.
    pub(crate) fn recoverable(&self, keyspace: Option<KeyspaceId>) -> Vec<Arc<TableHandle>> {
        let asked = |id: &KeyspaceId| keyspace.is_none_or(|keyspace| keyspace == *id);
        let keyspaces = self.keyspaces.iter().filter(|(id, _)| asked(id));
        let tables = keyspaces.flat_map(|(_, keyspace)| keyspace.tables());
        let marked = tables.filter(|(_, _, table)| table.is_unreadable() && table.may_recover());
        marked.map(|(_, _, table)| table.clone()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manifest::version_edit::tests::sample_table;

    #[test]
    fn pauses_double_from_half_a_second_to_ten_minutes_and_begin_anew_after_a_rest() {
        let mut retry = Retry::default();
        let mut now = Duration::ZERO;
        let mut pauses = Vec::new();
        for _ in 0..13 {
            retry.plan(now);
            retry.plan(now + Duration::from_secs(1));
            let at = retry.at.unwrap();
            assert!(!retry.begin(at - Duration::from_nanos(1)));
            assert!(retry.begin(at) && !retry.begin(at), "one at a time");
            pauses.push((at - now).as_millis());
            now = at;
            retry.end(now, true);
            assert!(!retry.begin(now + Duration::from_secs(3600)), "nothing is left");
        }
        assert_eq!(pauses[..3], [500, 1000, 2000]);
        assert_eq!(pauses[11..], [600_000, 600_000]);
    }

    #[test]
    fn damage_and_loss_stay_and_a_failed_device_may_recover() {
        let table = TableHandle::detached(sample_table(1));
        assert!(!table.is_unreadable() && table.unreadable(KeyFormat::Mapped).is_none());
        table.mark_unreadable(&Error::Closed);
        assert!(!table.is_unreadable(), "a compaction that was cancelled");
        let failed = Error::io("read", "a file", std::io::ErrorKind::Other.into());
        table.mark_unreadable(&failed);
        assert!(table.may_recover());
        table.mark.clear();
        let (file, what) = ("f".to_owned(), "the chunk has gone bad".to_owned());
        table.mark_unreadable(&Error::Lost { file, offset: 0, what });
        table.mark_unreadable(&failed);
        assert!(!table.may_recover(), "the first error stays");
        assert!(table.unreadable(KeyFormat::Mapped).is_some_and(|error| error.is_lost()));
    }
}
