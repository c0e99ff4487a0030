//! Memory that a list is built in: in DRAM, or in an extent of persistent memory. Both take pieces of
//! whole words at their end, and change single words of them, atomically.
//!
//! Nothing is taken out again. A place is in bytes from the memory's start.

use esker_pmem::Arena;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

pub(super) const WORD_BYTES: usize = size_of::<u64>();

/// See the module's text. One thread at a time appends and links; all may load.
pub(super) trait Memory: Send + Sync {
    /// Pieces from so many bytes on are best made of whole cache lines.
    const WHOLE_LINES_FROM: usize;

    /// Bytes that are left.
    fn room(&self) -> usize;

    /// Appends a piece, which is as durable as the memory when this returns, and gives its place;
    /// `None` if there is no space.
    fn append(&self, piece: &[u8]) -> Option<usize>;

    /// The word at a place, and all that was appended before it was stored.
    fn load(&self, at: usize) -> u64;

    /// Stores a word, which is as durable as the memory when this returns.
    fn link(&self, at: usize, word: u64);

    /// Stores a word that nothing but speed depends on.
    fn hint(&self, at: usize, word: u64);

    /// Called before a place is read that no cache will have. A place for injected latency.
    fn before_read(&self, bytes: usize);
}

/// The block that words are in.
type Block = Box<[AtomicU64]>;

/// Blocks that wait to be used again: their pages are present, so that no page fault strikes a put.
#[derive(Clone)]
pub(super) struct Blocks {
    words: usize,
    spare: Arc<Mutex<Vec<Block>>>,
}

impl Blocks {
    /// `count` blocks of `bytes` each, all their pages touched.
    pub(super) fn new(bytes: usize, count: usize) -> Blocks {
        let words = bytes / WORD_BYTES;
        let spare = (0..count).map(|_| block(words)).collect();
        Blocks { words, spare: Arc::new(Mutex::new(spare)) }
    }

    /// Empty memory. A new block if a reader still has the last use of each.
    pub(super) fn take(&self) -> Words {
        let spare = self.spare.lock().pop();
        let words = spare.unwrap_or_else(|| block(self.words));
        Words { words, end: AtomicUsize::new(0), home: self.clone() }
    }
}

fn block(words: usize) -> Block {
    (0..words).map(|_| AtomicU64::new(0)).collect()
}

/// Memory in DRAM.
pub(super) struct Words {
    words: Block,
    /// In bytes.
    end: AtomicUsize,
    home: Blocks,
}

impl Memory for Words {
    const WHOLE_LINES_FROM: usize = usize::MAX;

    fn room(&self) -> usize {
        self.words.len() * WORD_BYTES - self.end.load(Ordering::Relaxed)
    }

    fn append(&self, piece: &[u8]) -> Option<usize> {
        assert!(piece.len().is_multiple_of(WORD_BYTES), "a piece is whole words");
        if piece.len() > self.room() {
            return None;
        }
        let at = self.end.load(Ordering::Relaxed);
        let words = &self.words[at / WORD_BYTES..][..piece.len() / WORD_BYTES];
        for (word, bytes) in words.iter().zip(piece.as_chunks().0) {
            word.store(u64::from_le_bytes(*bytes), Ordering::Relaxed);
        }
        self.end.store(at + piece.len(), Ordering::Relaxed);
        Some(at)
    }

    #[inline]
    fn load(&self, at: usize) -> u64 {
        self.words[at / WORD_BYTES].load(Ordering::Acquire)
    }

    #[inline]
    fn link(&self, at: usize, word: u64) {
        self.words[at / WORD_BYTES].store(word, Ordering::Release);
    }

    #[inline]
    fn hint(&self, at: usize, word: u64) {
        self.link(at, word);
    }

    #[inline]
    fn before_read(&self, _bytes: usize) {}
}

impl Drop for Words {
    fn drop(&mut self) {
        let words = std::mem::take(&mut self.words);
        self.home.spare.lock().push(words);
    }
}

impl Memory for Arena {
    /// Where streaming becomes faster than copying and flushing.
    const WHOLE_LINES_FROM: usize = 256;

    fn room(&self) -> usize {
        Arena::room(self)
    }

    fn append(&self, piece: &[u8]) -> Option<usize> {
        Some(Arena::append(self, piece)?.into_inner())
    }

    #[inline]
    fn load(&self, at: usize) -> u64 {
        Arena::load(self, at)
    }

    fn link(&self, at: usize, word: u64) {
        self.store_word(at, word).fence().into_inner();
    }

    fn hint(&self, at: usize, word: u64) {
        self.store_hint(at, word);
    }

    #[inline]
    fn before_read(&self, bytes: usize) {
        Arena::before_read(self, bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_comes_back_when_its_last_use_ends() {
        let blocks = Blocks::new(64, 1);
        let first = blocks.take();
        assert_eq!((first.append(&[1; 56]), first.room()), (Some(0), 8));
        assert_eq!(first.append(&[1; 16]), None);
        let beside = blocks.take();
        drop(first);
        drop(beside);
        assert_eq!(blocks.spare.lock().len(), 2);
        assert_eq!(blocks.take().room(), 64);
    }
}
