//! Damages bytes at random, in the ways that find decoders' mistakes.

use esker_base::Rng;

/// Damages `bytes` in one to four places.
pub fn damage(bytes: &mut Vec<u8>, rng: &mut Rng) {
    for _ in 0..=rng.below(4) {
        if bytes.is_empty() {
            return;
        }
        let at = rng.below(bytes.len() as u64) as usize;
        match rng.below(7) {
            0 => bytes[at] ^= 1 << rng.below(8),
            1 => bytes[at] = rng.next_u64() as u8,
            // Lengths and offsets: the ends of the scale.
            2 => bytes[at] = [0, 1, 0x7f, 0x80, 0xff][rng.below(5) as usize],
            3 => bytes.truncate(at),
            4 => {
                let end = (at + 1 + rng.below(16) as usize).min(bytes.len());
                bytes.drain(at..end);
            }
            5 => {
                let from = rng.below(bytes.len() as u64) as usize;
                let end = (from + 1 + rng.below(64) as usize).min(bytes.len());
                let copy = bytes[from..end].to_vec();
                bytes.splice(at..at, copy);
            }
            _ => {
                let end = (at + 4).min(bytes.len());
                rng.fill(&mut bytes[at..end]);
            }
        }
    }
}
