//! Independent random sequences derived from one seed.

use esker_base::{Rng, hash64};

/// The generator of thread `thread` in the part of a run called `label`.
///
/// Different labels and threads give unrelated sequences: a read that repeated the sequence of the
/// fill before it would find every key, and in the order of their arrival.
pub fn stream(seed: u64, label: &str, thread: u64) -> Rng {
    let mut name = Vec::with_capacity(label.len() + 16);
    name.extend_from_slice(&seed.to_le_bytes());
    name.extend_from_slice(&thread.to_le_bytes());
    name.extend_from_slice(label.as_bytes());
    Rng::new(hash64(&name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seed_label_and_thread_each_change_the_sequence() {
        let first = |seed, label, thread| stream(seed, label, thread).next_u64();
        let base = first(1, "fill", 0);
        assert_eq!(base, first(1, "fill", 0));
        assert_ne!(base, first(2, "fill", 0));
        assert_ne!(base, first(1, "read", 0));
        assert_ne!(base, first(1, "fill", 1));
    }
}
