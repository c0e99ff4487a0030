//! Versions from damaged tables and from logs, merged into one order, forward only.
//!
//! The same operands may be in several sources, alone and combined: of an interrupted flush and in the
//! log, or of a damaged table and the tables that it was compacted from. Those that a newer version
//! has are left out:
//!
//! ```text
//! one source:      operands 5 to 9, combined
//! another:         operand 9                     operand 7    operand 5    put 3
//! the merge:       operands 5 to 9, combined                               put 3
//! ```
//!
//! Sources of compactions have either all of some operands or none. A value at the sequence number of
//! an operand was folded from it.

use esker_base::{EntryCursor, Error, Kind, Result, Seqno, combined};
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

    fn kind(&self) -> Kind {
        match self {
            Source::Table(cursor, _) => cursor.kind(),
            Source::List(_, current) => current.as_ref().map_or(Kind::Delete, |version| version.2),
        }
    }

    fn value(&self) -> &[u8] {
        match self {
            Source::Table(cursor, _) => cursor.value(),
            Source::List(_, current) => current.as_ref().map_or(&[], |version| &version.3),
        }
    }

    fn is_operand(&self) -> bool {
        matches!(self.kind(), Kind::Merge | Kind::Combined)
    }

    /// The seqno of the oldest operand that the current version has. What is no operand has all.
    fn oldest(&self) -> Seqno {
        match self.kind() {
            Kind::Merge => self.seqno(),
            Kind::Combined => {
                combined::decode(self.seqno(), self.value()).map_or(self.seqno(), |(at, _)| at)
            }
            _ => 0,
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
    /// The source that the merge is on.
    current: Option<usize>,
    /// The key and the oldest seqno of the last combined operands.
    combined: Option<(Vec<u8>, Seqno)>,
    /// Whether operands were left out, because another version has them.
    has_left_out: bool,
}

impl Merged {
    /// A merge that is on the first version.
    pub(super) fn new(mut sources: Vec<Source>) -> Result<Merged> {
        let mut waiting = BinaryHeap::new();
        for (rank, source) in sources.iter_mut().enumerate() {
            if source.advance()? {
                waiting.push(place(source, rank));
            }
        }
        let (combined, has_left_out) = (None, false);
        let mut merged = Merged { sources, waiting, current: None, combined, has_left_out };
        merged.current = merged.pop();
        merged.leave_out()?;
        Ok(merged)
    }

    fn pop(&mut self) -> Option<usize> {
        self.waiting.pop().map(|Reverse((_, _, Reverse(rank)))| rank)
    }

    /// Whether operands were left out so far.
    pub(super) fn has_left_out(&self) -> bool {
        self.has_left_out
    }

    fn advance(&mut self, rank: usize) -> Result<()> {
        let source = &mut self.sources[rank];
        if source.advance()? {
            let place = place(source, rank);
            self.waiting.push(place);
        }
        Ok(())
    }

    /// Passes operands that another version has: the last combined ones, or one of the same seqno.
    fn leave_out(&mut self) -> Result<()> {
        while let Some(rank) = self.current {
            let own = &self.sources[rank];
            let is_in =
                |(key, oldest): &(Vec<u8>, Seqno)| key == own.key() && *oldest <= own.seqno();
            let left = if own.is_operand() && self.combined.as_ref().is_some_and(is_in) {
                rank
            } else if let Some(other) = self.equal(rank) {
                let wider = own.oldest() <= self.sources[other].oldest();
                if wider { other } else { rank }
            } else {
                break;
            };
            self.has_left_out = true;
            if left == rank {
                self.advance(rank)?;
                self.current = self.pop();
            } else {
                // The first of those that wait.
                self.pop();
                self.advance(left)?;
            }
        }
        if let Some(own) = self.top().filter(|own| own.kind() == Kind::Combined) {
            self.combined = Some((own.key().to_vec(), own.oldest()));
        }
        Ok(())
    }

    /// The source after the one of `rank`, if both have a version of the same key and seqno, and one of
    /// these is an operand.
    fn equal(&self, rank: usize) -> Option<usize> {
        let Reverse((key, Reverse(seqno), Reverse(other))) = self.waiting.peek()?;
        let own = &self.sources[rank];
        let is_operand = || own.is_operand() || self.sources[*other].is_operand();
        (*seqno == own.seqno() && key == own.key() && is_operand()).then_some(*other)
    }

    /// The rank of the source that the merge is on.
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
            self.advance(rank)?;
            self.current = self.pop();
            self.leave_out()?;
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
        self.top().map_or(Kind::Delete, Source::kind)
    }

    fn value(&self) -> &[u8] {
        self.top().map_or(&[], Source::value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn operand(seqno: Seqno) -> Version {
        (b"k".to_vec(), seqno, Kind::Merge, vec![seqno as u8])
    }

    fn operands(newest: Seqno, oldest: Seqno) -> Version {
        (b"k".to_vec(), newest, Kind::Combined, combined::encode(newest, oldest, b"all"))
    }

    fn put(seqno: Seqno) -> Version {
        (b"k".to_vec(), seqno, Kind::Put, vec![0])
    }

    /// The versions that a merge of `sources` has, and whether it left some out.
    fn merged(sources: &[&[Version]]) -> (Vec<(Seqno, Kind)>, bool) {
        let lists = sources.iter().map(|versions| Source::list(versions.to_vec()));
        let (mut merged, mut found) = (Merged::new(lists.collect()).unwrap(), Vec::new());
        while merged.valid() {
            found.push((merged.seqno(), merged.kind()));
            merged.next().unwrap();
        }
        (found, merged.has_left_out())
    }

    #[test]
    fn operands_that_others_have_are_left_out() {
        use Kind::{Combined, Merge, Put};
        let alone = [operand(9), operand(7), operand(5), put(3)];
        for sources in [[&alone[..], &[operands(9, 5)]], [&[operands(9, 5)], &alone[..]]] {
            assert_eq!(merged(&sources), (vec![(9, Combined), (3, Put)], true));
        }
        for sources in [[&alone[..], &[put(9)]], [&[put(9)], &alone[..]]] {
            // What is older than a value is hidden, so it may stay.
            assert_eq!(merged(&sources).0[0], (9, Put));
            assert!(merged(&sources).0.iter().all(|version| *version != (9, Merge)));
        }
        let nested = [&[operands(12, 5)][..], &[operands(9, 5)], &[operands(12, 10)], &[put(3)]];
        assert_eq!(merged(&nested), (vec![(12, Combined), (3, Put)], true));
        let twice = [&alone[..], &alone[..]];
        assert_eq!(merged(&twice).0.iter().filter(|version| version.1 == Merge).count(), 3);
    }

    #[test]
    fn other_operands_stay() {
        let sources = [&[operands(9, 7), put(1)][..], &[operand(6), operand(5)], &[operand(12)]];
        let (found, has_left_out) = merged(&sources);
        assert_eq!(found.iter().map(|version| version.0).collect::<Vec<_>>(), [12, 9, 6, 5, 1]);
        assert!(!has_left_out);
        let other = (b"l".to_vec(), 8, Kind::Merge, vec![1]);
        assert_eq!(merged(&[&[operands(9, 7)], &[other]]).0.len(), 2);
    }
}
