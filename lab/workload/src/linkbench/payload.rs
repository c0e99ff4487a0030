//! What nodes and links carry: bytes of log-normal length that compress about as well as published.

use crate::stream;
use esker_base::Rng;

/// What one kind of payload is like.
#[derive(Clone, Debug)]
pub(super) struct Shape {
    /// `node_datasize`, `link_datasize`: the median, in bytes.
    median: f64,
    /// The longest, in bytes.
    longest: f64,
    /// `…_startbyte` and `…_endbyte`, both included.
    bytes: std::ops::RangeInclusive<u8>,
    /// `…_uniqueness`: the part of the chunks that is new.
    unique: f64,
    /// `…_motif_length`: the bytes that all other chunks are taken from.
    motif_bytes: usize,
}

/// Sigma of the logarithm of the length: `NODE_DATASIZE_SIGMA` and `LINK_DATASIZE_SIGMA`.
const SIGMA: f64 = 1.0;

/// A payload is made of chunks of so many bytes, and what is left (`MotifDataGenerator`).
const CHUNK_BYTES: usize = 128;

/// Of nodes. Published as compressing to about 60%. The longest there is 1 MiB, which one node in 10^19
/// would reach. The length of the motif is not set there; this is the program's default.
pub(super) const NODE: Shape =
    Shape { median: 128.0, longest: 65_536.0, bytes: 50..=220, unique: 0.63, motif_bytes: 512 };

/// Of links. Published as compressing to about 30%.
pub(super) const LINK: Shape =
    Shape { median: 8.0, longest: 255.0, bytes: 32..=100, unique: 0.225, motif_bytes: 128 };

/// Makes payloads of one kind.
#[derive(Clone, Debug)]
pub(super) struct Payloads {
    shape: Shape,
    motif: Vec<u8>,
}

impl Payloads {
    pub(super) fn new(shape: Shape, seed: u64, label: &str) -> Self {
        let mut rng = stream(seed, label, 0);
        let motif = (0..shape.motif_bytes).map(|_| any_byte(&shape, &mut rng)).collect();
        Payloads { shape, motif }
    }

    /// Appends the next one.
    pub(super) fn append(&self, out: &mut Vec<u8>, rng: &mut Rng) {
        let length = (self.shape.median * (SIGMA * normal(rng)).exp()).round();
        let mut left = length.min(self.shape.longest) as usize;
        while left > 0 {
            let chunk = left.min(CHUNK_BYTES);
            if rng.unit() < self.shape.unique {
                out.extend((0..chunk).map(|_| any_byte(&self.shape, rng)));
            } else {
                let start = rng.below((self.motif.len() - chunk) as u64 + 1) as usize;
                out.extend_from_slice(&self.motif[start..start + chunk]);
            }
            left -= chunk;
        }
    }
}

fn any_byte(shape: &Shape, rng: &mut Rng) -> u8 {
    let (first, last) = (*shape.bytes.start(), *shape.bytes.end());
    first + rng.below(u64::from(last - first) + 1) as u8
}

/// A draw from the standard normal distribution (Box and Muller, 1958).
fn normal(rng: &mut Rng) -> f64 {
    let radius = (-2.0 * (1.0 - rng.unit()).ln()).sqrt();
    radius * (std::f64::consts::TAU * rng.unit()).cos()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lengths(shape: Shape) -> Vec<usize> {
        let payloads = Payloads::new(shape, 1, "test");
        let mut rng = Rng::new(4);
        let mut lengths: Vec<_> = (0..40_000)
            .map(|_| {
                let mut payload = Vec::new();
                payloads.append(&mut payload, &mut rng);
                assert!(payload.iter().all(|byte| payloads.shape.bytes.contains(byte)));
                payload.len()
            })
            .collect();
        lengths.sort_unstable();
        lengths
    }

    #[test]
    fn lengths_have_the_published_medians_and_spread() {
        let nodes = lengths(NODE);
        assert!((124..=132).contains(&nodes[20_000]), "{}", nodes[20_000]);
        // A standard deviation above the median is a factor of e.
        let above = nodes[(40_000.0 * 0.841_345) as usize] as f64 / 128.0;
        assert!((above / std::f64::consts::E - 1.0).abs() < 0.05, "{above}");
        let mean = nodes.iter().sum::<usize>() as f64 / 40_000.0;
        assert!((mean / (128.0 * 0.5f64.exp()) - 1.0).abs() < 0.05, "{mean}");
        let links = lengths(LINK);
        assert!((7..=9).contains(&links[20_000]) && links[39_999] <= 255);
    }

    #[test]
    fn payloads_compress_about_as_well_as_published() {
        for (shape, published) in [(NODE, 0.6), (LINK, 0.3)] {
            let payloads = Payloads::new(shape, 1, "test");
            let (mut all, mut rng) = (Vec::new(), Rng::new(1));
            while all.len() < 1 << 20 {
                payloads.append(&mut all, &mut rng);
            }
            let share = zstd::bulk::compress(&all, 3).unwrap().len() as f64 / all.len() as f64;
            assert!((share - published).abs() < 0.08, "{share}; {published} was expected");
        }
    }
}
