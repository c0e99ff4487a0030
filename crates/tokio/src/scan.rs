//! A range of entries as a stream.

use crate::blocking::Blocking;
use crate::elsewhere::Elsewhere;
use esker::{Db, Range, Result, Value};
use futures_core::Stream;
use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

/// Entries that the first part of a scan has: many scans are short.
const FIRST_ENTRIES: usize = 16;
/// No part has more entries, or more bytes once it has this many.
const ENTRIES_MAX: usize = 1024;
const BYTES_MAX: usize = 256 << 10;

type Entry = Result<(Value, Value)>;

/// Reads a part of a range, and gives the range back, unless it has ended.
type Reading =
    Pin<Box<dyn Future<Output = Result<(Option<Elsewhere<Range>>, VecDeque<Entry>)>> + Send>>;

/// The entries of a range in order, a [`Stream`] of key and value.
///
/// It reads ahead in parts: 16 entries first, then up to 1,024, and no more after 256 KiB. Dropping it
/// ends the scan, and never blocks in a task. After an error there are no more entries.
#[must_use = "a scan reads nothing until it is polled"]
pub struct Scan {
    /// Between two parts. `None` while one is read, and at the end.
    range: Option<Elsewhere<Range>>,
    reading: Option<Reading>,
    ready: VecDeque<Entry>,
    /// Entries of the next part.
    entries: usize,
    is_backward: bool,
    blocking: Blocking,
    /// After the range, which keeps the database open, too.
    _db: Arc<Elsewhere<Db>>,
}

impl Scan {
    pub(crate) fn new(range: Range, db: Arc<Elsewhere<Db>>, blocking: Blocking) -> Self {
        Scan {
            range: Some(Elsewhere::of(range)),
            reading: None,
            ready: VecDeque::new(),
            entries: FIRST_ENTRIES,
            is_backward: false,
            blocking,
            _db: db,
        }
    }

    /// Turns a scan around that nothing was read from: it begins with the last entry.
    ///
    /// # Panics
    /// If something was read from it.
    pub fn rev(self) -> Scan {
        assert!(self.entries == FIRST_ENTRIES, "nothing was read from the scan");
        Scan { is_backward: !self.is_backward, ..self }
    }

    /// Returns the next entry, or `None` after the last.
    ///
    /// # Errors
    /// The errors of [`Keyspace::range`](esker::Keyspace::range).
    pub async fn next(&mut self) -> Option<Entry> {
        poll_fn(|context| Pin::new(&mut *self).poll_next(context)).await
    }

    /// Begins to read the next part.
    fn read(&mut self, mut range: Elsewhere<Range>) -> Reading {
        let (entries, is_backward) = (self.entries, self.is_backward);
        let blocking = self.blocking.clone();
        self.entries = (2 * entries).min(ENTRIES_MAX);
        Box::pin(async move {
            let part = move || {
                let (mut part, mut bytes, reader) = (VecDeque::new(), 0, range.get_mut());
                while part.len() < entries && bytes < BYTES_MAX {
                    let next = if is_backward { reader.next_back() } else { reader.next() };
                    let Some(entry) = next else {
                        range.drop_here();
                        return Ok((None, part));
                    };
                    bytes += entry.as_ref().map_or(0, |(key, value)| key.len() + value.len());
                    part.push_back(entry);
                }
                Ok((Some(range), part))
            };
            blocking.run(part).await
        })
    }
}

impl Stream for Scan {
    type Item = Entry;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Entry>> {
        loop {
            if let Some(entry) = self.ready.pop_front() {
                return Poll::Ready(Some(entry));
            }
            if let Some(range) = self.range.take() {
                self.reading = Some(self.read(range));
            }
            let Some(reading) = &mut self.reading else { return Poll::Ready(None) };
            let Poll::Ready(read) = reading.as_mut().poll(context) else { return Poll::Pending };
            self.reading = None;
            match read {
                Ok(read) => (self.range, self.ready) = read,
                Err(error) => return Poll::Ready(Some(Err(error))),
            }
        }
    }
}

impl std::fmt::Debug for Scan {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Scan").field("ready", &self.ready.len()).finish_non_exhaustive()
    }
}
