//! HyperLogLog: the number of distinct hashes seen, from 4,096 small registers.
//!
//! A hash's top 12 bits choose a register; the register keeps the largest *rank* seen, which is one
//! more than the number of zeros that lead the other 52 bits. The estimate is Ertl's improved raw
//! estimator ("New cardinality estimation algorithms for HyperLogLog sketches", 2017): unbiased at
//! every size, with no table of corrections.
//!
//! ```text
//! sparse:  0 u8 | (gap to the next register used varint, rank u8)...
//! dense:   1 u8 | 4,096 ranks of 6 bits, low bits first
//! ```

use esker_base::coding::{put_varint32, take_u8, take_varint32};

/// Bits of the hash that choose the register.
const INDEX_BITS: u32 = 12;
const REGISTERS: usize = 1 << INDEX_BITS;
const RANK_BITS: u32 = 64 - INDEX_BITS;
const RANK_MAX: u8 = RANK_BITS as u8 + 1;

const SPARSE: u8 = 0;
const DENSE: u8 = 1;
const DENSE_BYTES: usize = REGISTERS * 6 / 8;

/// A mergeable counter of distinct hashes.
#[derive(Clone, PartialEq, Eq)]
pub struct Hll {
    registers: Box<[u8; REGISTERS]>,
}

impl Default for Hll {
    fn default() -> Self {
        Hll { registers: Box::new([0; REGISTERS]) }
    }
}

impl std::fmt::Debug for Hll {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Hll(about {:.0})", self.estimate())
    }
}

impl Hll {
    /// The standard error, as a part of what is counted: 1.04 / sqrt(2^12) = 1.6% (Flajolet and others,
    /// "HyperLogLog", 2007); less where most registers are empty.
    pub const ERROR: f64 = 1.04 / 64.0;

    /// A counter that has seen nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// Notes a hash.
    #[inline]
    pub fn insert(&mut self, hash: u64) {
        let register = &mut self.registers[(hash >> RANK_BITS) as usize];
        // The bit below the rest ends the count of zeros there.
        let rest = hash << INDEX_BITS | 1 << (INDEX_BITS - 1);
        *register = (*register).max(rest.leading_zeros() as u8 + 1);
    }

    /// Notes all hashes that `other` has seen.
    pub fn merge(&mut self, other: &Hll) {
        for (register, &rank) in self.registers.iter_mut().zip(other.registers.iter()) {
            *register = (*register).max(rank);
        }
    }

    /// About how many distinct hashes were seen.
    pub fn estimate(&self) -> f64 {
        let mut count_of_rank = [0u32; RANK_MAX as usize + 1];
        for &rank in self.registers.iter() {
            count_of_rank[usize::from(rank)] += 1;
        }
        let m = REGISTERS as f64;
        let share = |rank: u8| f64::from(count_of_rank[usize::from(rank)]) / m;
        let mut sum = m * tau(1.0 - share(RANK_MAX));
        for rank in (1..RANK_MAX).rev() {
            sum = 0.5 * (sum + f64::from(count_of_rank[usize::from(rank)]));
        }
        sum += m * sigma(share(0));
        m * m / (2.0 * std::f64::consts::LN_2 * sum)
    }

    /// Bytes of memory that the counter takes.
    pub fn memory_bytes(&self) -> usize {
        REGISTERS
    }

    /// The counter as bytes, few if it has seen little.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = vec![SPARSE];
        let mut expected = 0;
        for (register, &rank) in self.registers.iter().enumerate() {
            if rank > 0 {
                put_varint32(&mut out, (register - expected) as u32);
                out.push(rank);
                expected = register + 1;
            }
            if out.len() > DENSE_BYTES {
                return self.encode_dense();
            }
        }
        out
    }

    fn encode_dense(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(1 + DENSE_BYTES);
        out.push(DENSE);
        for four in self.registers.as_chunks::<4>().0 {
            let packed = four.iter().rev().fold(0, |bits, &rank| bits << 6 | u32::from(rank));
            out.extend_from_slice(&packed.to_le_bytes()[..3]);
        }
        out
    }

    /// Reads what [`Hll::encode`] wrote. `None` if the bytes are something else.
    pub fn decode(mut input: &[u8]) -> Option<Hll> {
        let mut hll = Hll::default();
        match take_u8(&mut input)? {
            SPARSE => hll.decode_sparse(input)?,
            DENSE => hll.decode_dense(input)?,
            _ => return None,
        }
        hll.registers.iter().all(|&rank| rank <= RANK_MAX).then_some(hll)
    }

    fn decode_sparse(&mut self, mut input: &[u8]) -> Option<()> {
        let mut expected = 0usize;
        while !input.is_empty() {
            let register = expected + take_varint32(&mut input)? as usize;
            let rank = take_u8(&mut input).filter(|&rank| rank > 0)?;
            *self.registers.get_mut(register)? = rank;
            expected = register + 1;
        }
        Some(())
    }

    fn decode_dense(&mut self, input: &[u8]) -> Option<()> {
        if input.len() != DENSE_BYTES {
            return None;
        }
        let triples = input.as_chunks::<3>().0;
        for (four, bytes) in self.registers.as_chunks_mut::<4>().0.iter_mut().zip(triples) {
            let packed = u32::from_le_bytes([bytes[0], bytes[1], bytes[2], 0]);
            *four = std::array::from_fn(|n| (packed >> (6 * n)) as u8 & 0x3f);
        }
        Some(())
    }
}

/// `x + x^2 + 2 x^4 + 4 x^8 + ...`: what empty registers add.
fn sigma(mut x: f64) -> f64 {
    if x == 1.0 {
        return f64::INFINITY;
    }
    let (mut weight, mut sum) = (1.0, x);
    loop {
        x *= x;
        let before = sum;
        sum += x * weight;
        weight *= 2.0;
        if sum == before {
            return sum;
        }
    }
}

/// `(1 - x - sum of (1 - x^(1/2^k))^2 / 2^k) / 3`: what registers at the highest rank take away.
fn tau(mut x: f64) -> f64 {
    if x == 0.0 || x == 1.0 {
        return 0.0;
    }
    let (mut weight, mut sum) = (1.0, 1.0 - x);
    loop {
        x = x.sqrt();
        let before = sum;
        weight *= 0.5;
        sum -= (1.0 - x) * (1.0 - x) * weight;
        if sum == before {
            return sum / 3.0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use esker_base::Rng;

    fn of(seed: u64, count: u64) -> Hll {
        let mut rng = Rng::new(seed);
        let mut hll = Hll::new();
        (0..count).for_each(|_| hll.insert(rng.next_u64()));
        hll
    }

    #[test]
    fn estimates_are_right_at_every_scale() {
        for exponent in 0..=6 {
            let count = 10u64.pow(exponent);
            let mean: f64 =
                (0..10).map(|seed| of(seed, count).estimate() / count as f64).sum::<f64>() / 10.0;
            // 1.6% each, 0.5% for the mean of ten: four standard deviations.
            assert!((mean - 1.0).abs() < 0.02, "{count}: {mean}");
        }
        assert_eq!(Hll::new().estimate(), 0.0);
    }

    #[test]
    fn repeats_change_nothing() {
        let mut twice = of(3, 5000);
        twice.merge(&of(3, 5000));
        assert_eq!(twice, of(3, 5000));
    }

    #[test]
    fn a_merge_is_the_counter_of_the_union() {
        let (mut a, b) = (of(1, 40_000), of(2, 40_000));
        a.merge(&b);
        assert!((a.estimate() / 80_000.0 - 1.0).abs() < 0.07, "{}", a.estimate());
    }

    #[test]
    fn bytes_round_trip_and_small_counters_are_small() {
        for count in [0, 1, 10, 1000, 3000, 100_000] {
            let hll = of(5, count);
            let bytes = hll.encode();
            assert!(bytes.len() as u64 <= 1 + 4 * count.min(768), "{count}: {}", bytes.len());
            assert_eq!(Hll::decode(&bytes), Some(hll));
        }
    }

    #[test]
    fn extreme_hashes_fit_their_registers() {
        let mut hll = Hll::new();
        hll.insert(0);
        hll.insert(u64::MAX);
        assert_eq!(hll.registers[0], RANK_MAX);
        assert_eq!(hll.registers[REGISTERS - 1], 1);
    }

    #[test]
    fn damaged_bytes_are_refused_or_read_but_never_panic() {
        for bytes in [of(5, 9).encode(), of(5, 9000).encode()] {
            for at in 0..bytes.len() {
                let mut bad = bytes.clone();
                bad[at] ^= 0xff;
                Hll::decode(&bad);
                Hll::decode(&bytes[..at]);
            }
        }
        assert!(Hll::decode(&[SPARSE, 0xff, 0x1f, 1]).is_some(), "register 4095");
        assert!(Hll::decode(&[SPARSE, 0, 53]).is_some(), "rank 53");
        assert_eq!(Hll::decode(&[SPARSE, 0x80, 0x20, 1]), None, "register 4096");
        assert_eq!(Hll::decode(&[SPARSE, 0, 54]), None, "rank 54");
        assert_eq!(Hll::decode(&[2]), None);
    }
}
