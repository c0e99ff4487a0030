//! What a thread sent to the medium, reported to tests: that memory has the right bytes says nothing about
//! whether they would survive.

use super::*;
use std::cell::RefCell;
use std::collections::BTreeSet;

/// What was done, in order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Event {
    /// The line at this address was stored around the caches.
    Streamed(usize),
    /// The line at this address was driven out of them.
    Flushed(usize),
    Fenced,
}

thread_local! {
    static EVENTS: RefCell<Vec<Event>> = const { RefCell::new(Vec::new()) };
}

/// Takes a note.
pub(super) fn note(event: Event) {
    EVENTS.with_borrow_mut(|events| events.push(event));
}

/// Checks that what `store` does sends each of the lines of `bytes` bytes at `at` to the medium and no
/// other, and that nothing follows the fence.
#[track_caller]
fn check(at: *const u8, bytes: usize, what: &str, store: impl FnOnce()) {
    EVENTS.take();
    store();
    let mut events = EVENTS.take();
    assert_eq!(events.pop(), Some(Event::Fenced), "{what}");
    let lines = events.iter().map(|event| match *event {
        Event::Streamed(line) | Event::Flushed(line) => line,
        Event::Fenced => panic!("{what}: a fence too many"),
    });
    let (first, end) = (at.addr() / LINE_BYTES, (at.addr() + bytes).div_ceil(LINE_BYTES));
    let touched = if bytes == 0 { 0..0 } else { first..end };
    let expected: BTreeSet<usize> = touched.map(|line| line * LINE_BYTES).collect();
    assert_eq!(lines.collect::<BTreeSet<_>>(), expected, "{what}");
}

#[repr(align(64))]
struct Aligned([u8; 2048]);

/// All ways that flush which this processor has, streaming always, never, and from the measured size on.
fn all() -> impl Iterator<Item = Persist> {
    Stream::ALL.into_iter().flat_map(|stream| {
        Flush::ALL.into_iter().flat_map(move |flush| {
            let sizes = [0, STREAM_FROM_BYTES, usize::MAX].into_iter();
            sizes.filter_map(move |from| Persist::of(stream, flush, from))
        })
    })
}

#[test]
fn every_line_of_a_range_is_sent_and_fenced() {
    for ways in all() {
        for at in [0, 1, 63, 64, 65, 127, 128] {
            for bytes in [0, 1, 8, 63, 64, 65, 128, 511, 512, 513, 1024] {
                let mut memory = Aligned([0; 2048]);
                // SAFETY: it lies in the memory.
                let to = unsafe { memory.0.as_mut_ptr().add(at) };
                check(to, bytes, &format!("{ways:?}, {bytes} at {at}"), || {
                    // SAFETY: the range lies in the memory, which nobody else has.
                    unsafe { ways.write(to, &[7; 1024][..bytes]) };
                    ways.fence();
                });
            }
        }
    }
}

#[test]
fn every_line_of_a_frame_is_sent_and_fenced() {
    for ways in all() {
        for bytes in (0..300).chain([479, 480, 481, 544, 1000, 1099]) {
            let least = (FRAME_HEADER_BYTES + bytes).next_multiple_of(LINE_BYTES);
            for whole in [least, least + LINE_BYTES] {
                let mut memory = Aligned([0; 2048]);
                // SAFETY: it lies in the memory.
                let to = unsafe { memory.0.as_mut_ptr().add(LINE_BYTES) };
                check(to, whole, &format!("{ways:?}, {bytes} in {whole}"), || {
                    // SAFETY: the frame lies in the memory, which nobody else has.
                    unsafe { ways.write_frame(to, &[1; 32], &[2; 1099][..bytes], whole) };
                    ways.fence();
                });
            }
        }
    }
}

#[test]
fn the_line_of_a_word_is_sent_and_fenced() {
    for ways in all() {
        for at in [0, 8, 56, 64, 120] {
            let mut memory = Aligned([0; 2048]);
            // SAFETY: it lies in the memory.
            let to = unsafe { memory.0.as_mut_ptr().add(at) };
            check(to, size_of::<u64>(), &format!("{ways:?}, a word at {at}"), || {
                // SAFETY: the word is aligned and lies in the memory, which nobody else has.
                unsafe { ways.store_word(to, 5) };
                ways.fence();
            });
        }
    }
}

#[test]
#[cfg(target_os = "linux")]
fn a_mapped_pool_sends_and_fences_what_it_stores() {
    let dir = tempfile::tempdir_in("/dev/shm").unwrap();
    let path = dir.path().join("pool");
    let pool = crate::Pool::create(&path, 1 << 20, crate::Accept::Emulated).unwrap();
    let (region, at) = (&pool.region, pool.extent_at(0));
    let to = region.base().wrapping_add(at);
    check(to, 100, "a range", || {
        // SAFETY: the extent is free, and nobody else has the pool.
        unsafe { region.write(at, &[7; 100]) };
        region.fence();
    });
    check(to, 192, "a frame", || {
        // SAFETY: as above.
        unsafe { region.write_frame(at, &[1; 32], &[2; 100], 192) };
        region.fence();
    });
    check(to, 8, "a word", || {
        // SAFETY: as above; the word is aligned.
        unsafe { region.store_word(at, 5) };
        region.fence();
    });
}
