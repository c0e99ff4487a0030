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
    /// `…_startbyte` and `…_endbyte`.
    bytes: std::ops::Range<u8>,
    /// `…_uniqueness`: the part of the bytes that no motif foretells, out of 1,024.
    unique: u64,
}

/// Sigma of the logarithm of the length: `NODE_DATASIZE_SIGMA` and `LINK_DATASIZE_SIGMA`.
const SIGMA: f64 = 1.0;

/// `…_motif_length`.
const MOTIF_BYTES: usize = 128;

/// Of nodes. Published as compressing to about 60%. The longest there is 1 MiB, which one node in 10^19
/// would reach.
pub(super) const NODE: Shape =
    Shape { median: 128.0, longest: 65_536.0, bytes: 50..220, unique: 645 };

/// Of links. Published as compressing to about 30%.
pub(super) const LINK: Shape = Shape { median: 8.0, longest: 255.0, bytes: 32..100, unique: 230 };

/// Makes payloads of one kind.
#[derive(Clone, Debug)]
pub(super) struct Payloads {
    shape: Shape,
    motif: Vec<u8>,
}

impl Payloads {
    pub(super) fn new(shape: Shape, seed: u64, label: &str) -> Self {
        let mut rng = stream(seed, label, 0);
        let motif = (0..MOTIF_BYTES).map(|_| any_byte(&shape, &mut rng)).collect();
        Payloads { shape, motif }
    }

    /// Appends the next one.
    pub(super) fn append(&self, out: &mut Vec<u8>, rng: &mut Rng) {
        let length = (self.shape.median * (SIGMA * normal(rng)).exp()).round();
        let length = length.min(self.shape.longest) as usize;
        out.extend((0..length).map(|at| {
            let drawn = rng.next_u64();
            if drawn >> 54 < self.shape.unique {
                self.shape.bytes.start + (((drawn & 0xffff_ffff) * self.span()) >> 32) as u8
            } else {
                self.motif[at % MOTIF_BYTES]
            }
        }));
    }

    fn span(&self) -> u64 {
        u64::from(self.shape.bytes.end - self.shape.bytes.start)
    }
}

fn any_byte(shape: &Shape, rng: &mut Rng) -> u8 {
    shape.bytes.start + rng.below(u64::from(shape.bytes.end - shape.bytes.start)) as u8
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
    fn as_many_bytes_as_published_are_foretold_by_the_motif() {
        for (shape, unique) in [(NODE, 0.63), (LINK, 0.225)] {
            let payloads = Payloads::new(shape, 1, "test");
            let (mut all, mut foretold, mut rng) = (0, 0, Rng::new(1));
            for _ in 0..20_000 {
                let mut payload = Vec::new();
                payloads.append(&mut payload, &mut rng);
                all += payload.len();
                let motif = payloads.motif.iter().cycle();
                foretold += payload.iter().zip(motif).filter(|(a, b)| a == b).count();
            }
            let share = foretold as f64 / all as f64;
            assert!((share - (1.0 - unique)).abs() < 0.02, "{share}");
        }
    }
}
