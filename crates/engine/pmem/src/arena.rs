//! An extent that is filled piece by piece and then changed word by word, by safe code: what a linked
//! structure in persistent memory is built of.
//!
//! A piece is durable before anybody can reach it: [`Arena::append`] stores it, flushes it, fences it,
//! and only then moves the boundary below which words may be read. From then on it is words: all reads
//! are atomic loads, and all changes are atomic stores of one aligned word each, so no reader ever
//! sees half of one, nor does a crash leave it.
//!
//! Thread safety: all methods may be called from any thread. Appends wait for one another.

use crate::extent::Extent;
use crate::persist_state::{Durable, Flushed};
use crate::region::LINE_BYTES;
use parking_lot::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

const WORD_BYTES: usize = size_of::<u64>();

/// See the module's text.
pub struct Arena {
    extent: Extent,
    /// Up to here there are pieces, all durable.
    end: AtomicUsize,
    /// Held while a piece is appended.
    append: Mutex<()>,
}

impl Arena {
    /// An empty arena in `extent`, the first `start` bytes of which are left alone.
    pub fn new(extent: Extent, start: usize) -> Arena {
        let start = start.next_multiple_of(LINE_BYTES);
        assert!(start <= extent.len(), "an arena starts in its extent");
        Arena { extent, end: AtomicUsize::new(start), append: Mutex::new(()) }
    }

    /// Bytes that are left.
    pub fn room(&self) -> usize {
        self.extent.len() - self.end.load(Ordering::Acquire)
    }

    /// Appends a piece of whole words and gives its place, in bytes from the start of the extent. A
    /// piece of whole cache lines starts at one, so that it can be streamed. One fence. `None`, and
    /// nothing is stored, if there is no space.
    #[allow(unsafe_code)]
    pub fn append(&self, bytes: &[u8]) -> Option<Durable<usize>> {
        assert!(bytes.len().is_multiple_of(WORD_BYTES), "a piece is whole words");
        let _one_at_a_time = self.append.lock();
        let end = self.end.load(Ordering::Relaxed);
        let unit = if bytes.len().is_multiple_of(LINE_BYTES) { LINE_BYTES } else { WORD_BYTES };
        let at = end.next_multiple_of(unit);
        if at > self.extent.len() || bytes.len() > self.extent.len() - at {
            return None;
        }
        // SAFETY: the range lies beyond `end`, where nobody reads and, by the lock, nobody else
        // writes; `end` passes it after the fence.
        let stored = unsafe { self.extent.write(at, bytes) };
        let durable = stored.map(|_| at).fence();
        self.end.store(at + bytes.len(), Ordering::Release);
        Some(durable)
    }

    /// The word at `at`, of some piece.
    #[inline]
    pub fn load(&self, at: usize) -> u64 {
        self.check(at);
        self.extent.load_word(at)
    }

    /// Stores a word into a piece, at once, and starts its way to the medium. Readers see it from now
    /// on, a crash may take it back until the fence.
    #[inline]
    pub fn store_word(&self, at: usize, word: u64) -> Flushed<'_, ()> {
        self.store_hint(at, word);
        Flushed::new(self.extent.pool(), ())
    }

    /// Like [`Arena::store_word`], for words that may be lost in a crash until this thread's next
    /// fence, whatever that is for.
    #[inline]
    pub fn store_hint(&self, at: usize, word: u64) {
        self.check(at);
        self.extent.store_word(at, word);
    }

    /// See [`Extent::before_read`].
    #[inline]
    pub fn before_read(&self, bytes: usize) {
        self.extent.before_read(bytes);
    }

    #[inline]
    fn check(&self, at: usize) {
        let end = self.end.load(Ordering::Acquire);
        assert!(at.is_multiple_of(WORD_BYTES) && at < end, "a word of a piece");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pool::Pool;
    use crate::sim::SimRegion;
    use std::sync::Arc;

    fn arena() -> Arena {
        let pool = Pool::format(Arc::new(SimRegion::new(256 << 10)), "pool", 1).unwrap();
        Arena::new(pool.acquire(1, &[]).unwrap().unwrap(), 8)
    }

    #[test]
    fn pieces_of_whole_lines_start_at_one() {
        let arena = arena();
        let append = |bytes: usize| arena.append(&vec![1; bytes]).map(Durable::into_inner);
        assert_eq!(append(8), Some(64));
        assert_eq!(append(24), Some(72));
        assert_eq!(append(128), Some(128));
        assert_eq!(append(8), Some(256));
    }

    #[test]
    fn a_full_arena_takes_nothing() {
        let arena = arena();
        let room = arena.room();
        assert!(arena.append(&vec![1; room + 8]).is_none());
        assert_eq!(arena.room(), room);
        assert!(arena.append(&vec![1; room]).is_some());
        assert_eq!(arena.room(), 0);
        assert!(arena.append(&[1; 8]).is_none());
    }

    #[test]
    fn words_of_pieces_change_one_by_one() {
        let arena = arena();
        let at = arena.append(&[1; 16]).unwrap().into_inner();
        arena.store_word(at + 8, 7).fence().into_inner();
        arena.store_hint(at, 5);
        assert_eq!((arena.load(at), arena.load(at + 8)), (5, 7));
    }

    #[test]
    #[should_panic(expected = "a word of a piece")]
    fn what_is_not_in_a_piece_is_not_read() {
        let arena = arena();
        let at = arena.append(&[1; 16]).unwrap().into_inner();
        arena.load(at + 16);
    }
}
