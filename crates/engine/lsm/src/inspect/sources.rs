//! Versions from damaged tables and from logs, merged into one order, forward only.

use esker_base::{EntryCursor, Error, Kind, Result, Seqno};
use esker_table::SalvageCursor;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// A version: key, seqno, kind, value.
pub(super) type Version = (Vec<u8>, Seqno, Kind, Vec<u8>);

/// A range of keys, from the first to the one behind it. `None` is without a bound.
pub(super) type Hidden = (Option<Vec<u8>>, Option<Vec<u8>>);

fn is_hidden(hidden: &[Hidden], key: &[u8]) -> bool {
    hidden.iter().any(|(from, to)| {
        from.as_deref().is_none_or(|from| from <= key) && to.as_deref().is_none_or(|to| key < to)
    })
}

/// Where versions come from, in order.
pub(super) enum Source {
    /// A table, but for ranges of keys that are not to be read.
    Table(SalvageCursor, Vec<Hidden>),
    List(std::vec::IntoIter<Version>, Option<Version>),
}

impl Source {
    pub(super) fn table(cursor: SalvageCursor) -> Source {
        Source::Table(cursor, Vec::new())
    }

    /// Versions of a log, in whatever order.
    pub(super) fn list(mut versions: Vec<Version>) -> Source {
        versions.sort_by(|a, b| (&a.0, Reverse(a.1)).cmp(&(&b.0, Reverse(b.1))));
        Source::List(versions.into_iter(), None)
    }

    fn advance(&mut self) -> Result<bool> {
        match self {
            Source::Table(cursor, hidden) => {
                while cursor.advance()? {
                    if !is_hidden(hidden, cursor.key()) {
                        return Ok(true);
                    }
                }
                Ok(false)
            }
            Source::List(rest, current) => {
                *current = rest.next();
                Ok(current.is_some())
            }
        }
    }

    fn key(&self) -> &[u8] {
        match self {
            Source::Table(cursor, _) => cursor.key(),
            Source::List(_, current) => current.as_ref().map_or(&[], |version| &version.0),
        }
    }

    fn seqno(&self) -> Seqno {
        match self {
            Source::Table(cursor, _) => cursor.seqno(),
            Source::List(_, current) => current.as_ref().map_or(0, |version| version.1),
        }
    }
}

/// A place in the order: key, newest seqno first, of equal ones the newest source first.
type Place = Reverse<(Vec<u8>, Reverse<Seqno>, Reverse<usize>)>;

/// Several sources as one. A source's place in the list is its rank: of one version in two sources, the later source's
/// counts, and comes first.
pub(super) struct Merged {
    sources: Vec<Source>,
    waiting: BinaryHeap<Place>,
    /// The source that the merge stands on.
    current: Option<usize>,
}

impl Merged {
    /// A merge that stands on the first version.
    pub(super) fn new(mut sources: Vec<Source>) -> Result<Merged> {
        let mut waiting = BinaryHeap::new();
        for (rank, source) in sources.iter_mut().enumerate() {
            if source.advance()? {
                waiting.push(place(source, rank));
            }
        }
        let mut merged = Merged { sources, waiting, current: None };
        merged.current = merged.pop();
        Ok(merged)
    }

    fn pop(&mut self) -> Option<usize> {
        self.waiting.pop().map(|Reverse((_, _, Reverse(rank)))| rank)
    }

    /// The rank of the source that the merge stands on.
    pub(super) fn rank(&self) -> usize {
        self.current.unwrap_or(0)
    }

    /// The sources, with what their cursors went around.
    pub(super) fn into_sources(self) -> Vec<Source> {
        self.sources
    }

    fn top(&self) -> Option<&Source> {
        self.current.map(|rank| &self.sources[rank])
    }
}

fn place(source: &Source, rank: usize) -> Place {
    Reverse((source.key().to_vec(), Reverse(source.seqno()), Reverse(rank)))
}

fn forward_only() -> Error {
    Error::NotOffered {
        store: "a merge of damaged files",
        what: "go anywhere but forward",
        instead: "repair the database and read it as usual",
    }
}

impl EntryCursor for Merged {
    fn valid(&self) -> bool {
        self.current.is_some()
    }

    fn seek_first(&mut self) -> Result<()> {
        Err(forward_only())
    }

    fn seek_last(&mut self) -> Result<()> {
        Err(forward_only())
    }

    fn seek(&mut self, _: &[u8], _: Seqno) -> Result<()> {
        Err(forward_only())
    }

    fn seek_before(&mut self, _: &[u8], _: Seqno) -> Result<()> {
        Err(forward_only())
    }

    fn prev(&mut self) -> Result<()> {
        Err(forward_only())
    }

    fn next(&mut self) -> Result<()> {
        if let Some(rank) = self.current.take() {
            let source = &mut self.sources[rank];
            if source.advance()? {
                let place = place(source, rank);
                self.waiting.push(place);
            }
            self.current = self.pop();
        }
        Ok(())
    }

    fn key(&self) -> &[u8] {
        self.top().map_or(&[], Source::key)
    }

    fn seqno(&self) -> Seqno {
        self.top().map_or(0, Source::seqno)
    }

    fn kind(&self) -> Kind {
        match self.top() {
            Some(Source::Table(cursor, _)) => cursor.kind(),
            Some(Source::List(_, Some(version))) => version.2,
            _ => Kind::Delete,
        }
    }

    fn value(&self) -> &[u8] {
        match self.top() {
            Some(Source::Table(cursor, _)) => cursor.value(),
            Some(Source::List(_, Some(version))) => &version.3,
            _ => &[],
        }
    }
}
