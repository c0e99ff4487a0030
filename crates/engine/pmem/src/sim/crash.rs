//! The images that one crash may leave.

use super::medium::WORD_BYTES;
use esker_base::Rng;
use std::sync::Arc;

/// A word that has more than one possible value, the durable one first and then in the order stored.
#[derive(Clone, Debug)]
pub(super) struct WordChoice {
    pub word: u32,
    pub values: Vec<u64>,
}

/// All images that a crash at some point in time may leave.
#[derive(Clone, Debug)]
pub struct CrashState {
    durable: Arc<Vec<u64>>,
    generation: u64,
    choices: Vec<WordChoice>,
}

/// One of them: the durable words, and those that differ.
#[derive(Clone, Debug)]
pub struct Image<'a> {
    state: &'a CrashState,
    changes: Vec<(u32, u64)>,
}

/// How a sample favours what was stored over what was durable: words that went alike show other faults
/// than words that went each its own way.
#[derive(Clone, Copy)]
enum CrashBias {
    None,
    Old,
    New,
}

impl CrashState {
    pub(super) fn new(durable: Arc<Vec<u64>>, generation: u64, choices: Vec<WordChoice>) -> Self {
        CrashState { durable, generation, choices }
    }

    /// The number of images; the greatest number there is if they are more.
    pub fn count(&self) -> u128 {
        self.choices
            .iter()
            .fold(1, |count: u128, choice| count.saturating_mul(choice.values.len() as u128))
    }

    /// The number of words that may have more than one value.
    pub fn unsettled(&self) -> usize {
        self.choices.len()
    }

    /// The image with this number, below `count`. The first has only what is durable.
    pub fn image(&self, number: u128) -> Image<'_> {
        let mut rest = number;
        self.choose(|values| {
            let radix = values.len() as u128;
            let chosen = (rest % radix) as usize;
            rest /= radix;
            chosen
        })
    }

    /// The image in which everything stored has arrived.
    pub fn newest(&self) -> Image<'_> {
        self.choose(|values| values.len() - 1)
    }

    /// An image at random.
    pub fn sample(&self, rng: &mut Rng) -> Image<'_> {
        let leaning = match rng.below(4) {
            0 => CrashBias::Old,
            1 => CrashBias::New,
            _ => CrashBias::None,
        };
        self.choose(|values| match leaning {
            CrashBias::Old if !rng.one_in(8) => 0,
            CrashBias::New if !rng.one_in(8) => values.len() - 1,
            _ => rng.below(values.len() as u64) as usize,
        })
    }

    /// All images if they are at most `limit`; otherwise the oldest, the newest, and others at random,
    /// `limit` in all.
    pub fn images(&self, limit: u64, mut rng: Rng) -> impl Iterator<Item = Image<'_>> {
        let count = self.count();
        let all = count <= u128::from(limit);
        let number = if all { count as u64 } else { limit };
        (0..number).map(move |number| match number {
            _ if all => self.image(u128::from(number)),
            0 => self.image(0),
            1 => self.newest(),
            _ => self.sample(&mut rng),
        })
    }

    fn choose(&self, mut choose: impl FnMut(&[u64]) -> usize) -> Image<'_> {
        let chosen = self.choices.iter().map(|choice| (choice, choose(&choice.values)));
        let changes = chosen.filter(|(_, chosen)| *chosen > 0);
        let changes = changes.map(|(choice, chosen)| (choice.word, choice.values[chosen]));
        Image { state: self, changes: changes.collect() }
    }

    pub(super) fn durable(&self) -> &Arc<Vec<u64>> {
        &self.durable
    }

    pub(super) fn generation(&self) -> u64 {
        self.generation
    }
}

impl Image<'_> {
    /// The words that are not what is durable: their offsets in bytes, and their values.
    pub fn changes(&self) -> impl Iterator<Item = (usize, u64)> {
        self.changes.iter().map(|&(word, value)| (word as usize * WORD_BYTES, value))
    }

    /// The whole image.
    pub fn to_bytes(&self) -> Vec<u8> {
        let words = self.state.durable.iter();
        let mut bytes: Vec<u8> = words.flat_map(|word| word.to_le_bytes()).collect();
        for (at, value) in self.changes() {
            bytes[at..at + WORD_BYTES].copy_from_slice(&value.to_le_bytes());
        }
        bytes
    }

    pub(super) fn state(&self) -> &CrashState {
        self.state
    }

    pub(super) fn changed_words(&self) -> &[(u32, u64)] {
        &self.changes
    }
}
