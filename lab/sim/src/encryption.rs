//! Encryption of the disks of a simulated machine: salts follow from a seed, and keys are rotated.

use esker_base::{Entropy, Result, Rng};
use esker_encryption::{Key, Keys};
use esker_storage::{Encryption, Storage};
use std::sync::{Arc, Mutex};

/// One of so many processes begins with a new key.
const ROTATED_EVERY: u64 = 3;

/// Salts that follow from a seed.
struct Salts(Mutex<Rng>);

impl Entropy for Salts {
    fn fill(&self, out: &mut [u8]) -> Result<()> {
        self.0.lock().expect("no panic").fill(out);
        Ok(())
    }
}

/// See the file's head.
pub(crate) struct Encrypted {
    rng: Rng,
    salts: Arc<Salts>,
    /// The number of the key for new files. All from 1 on are there.
    key: u8,
}

impl Encrypted {
    pub(crate) fn new(seed: u64) -> Encrypted {
        let mut rng = Rng::new(seed ^ 0x0065_6e63_7279_7074);
        let salts = Arc::new(Salts(Mutex::new(Rng::new(rng.next_u64()))));
        Encrypted { rng, salts, key: 1 }
    }

    /// May begin with a new key.
    pub(crate) fn rotate(&mut self) {
        if self.key < u8::MAX && self.rng.one_in(ROTATED_EVERY) {
            self.key += 1;
        }
    }

    /// A storage that is encrypted, and kept in `below`.
    pub(crate) fn over(&self, below: Arc<dyn Storage>) -> Arc<dyn Storage> {
        let keys = (1..=self.key).rev().map(|number| Key::new([number; 32]));
        let keys = Keys::new(keys).expect("there is at least one");
        Encryption::from(keys.entropy(self.salts.clone())).over(below)
    }
}
