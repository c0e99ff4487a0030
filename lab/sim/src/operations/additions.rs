//! Operations that are added to a history once it is drawn. The others are the same with them.

use super::{Drawer, Fault, Operation, Recovery, SPACES};
use esker_base::Rng;

impl Drawer {
    /// Adds what some histories have in addition.
    pub(super) fn with_additions(&self, seed: u64, operations: Vec<Operation>) -> Vec<Operation> {
        self.with_thresholds(seed, self.with_ingests(seed, operations))
    }

    /// Adds changes of the length from which on values are separated to one history of three.
    fn with_thresholds(&self, seed: u64, operations: Vec<Operation>) -> Vec<Operation> {
        let mut rng = Rng::new(seed ^ 0x0074_6872_6573_6800);
        if !rng.one_in(3) {
            return operations;
        }
        let mut all = Vec::new();
        for operation in operations {
            all.push(operation);
            if rng.one_in(20) {
                let space =
                    if self.in_one_space { 0 } else { rng.below(SPACES.len() as u64) as u8 };
                let threshold = [None, Some(1), Some(1), Some(100), Some(1_500)];
                all.push(Operation::SetThreshold(space, threshold[rng.below(5) as usize]));
            }
        }
        all
    }

    /// Adds ingests to one history of four. In those with mishaps, a third of the ingests meet a fault of
    /// their own. Other faults rarely strike during the edit of an ingest, and only such a fault lets a crash
    /// bring back an ingest that failed. Deep histories do without: they cost the most, and test compactions.
    fn with_ingests(&self, seed: u64, operations: Vec<Operation>) -> Vec<Operation> {
        if seed % 4 != 2 {
            return operations;
        }
        let is_deep = self.in_one_space;
        let mut rng = Rng::new(seed ^ 0x696e_6765_7374);
        let (mut all, mut stamp) = (Vec::new(), 1 << 24);
        for operation in operations {
            all.push(operation);
            if !rng.one_in(if is_deep { 12 } else { 9 }) {
                continue;
            }
            let space = if is_deep { 0 } else { rng.below(SPACES.len() as u64) as u8 };
            let entries = (0..1 + rng.below(80)).map(|_| {
                stamp += 1;
                (rng.below(self.keys) as u16, stamp, rng.below(self.value_bytes) as u16)
            });
            let entries: Vec<_> = entries.collect();
            let is_large = !is_deep && stamp % 3 == 0;
            let ingest = Operation::Ingest(space, entries, is_large);
            if self.mishaps > 0 && !is_deep && rng.one_in(3) {
                all.extend([Operation::Flush, ingest_fault(&mut rng)]);
            }
            all.push(ingest);
        }
        all
    }
}

/// A fault in an ingest that has nothing to flush: most often a power loss in the edit that installs it.
fn ingest_fault(rng: &mut Rng) -> Operation {
    let fault = match rng.one_in(3) {
        true => Fault::draw(rng, 12),
        false => Fault::PowerLoss { after: 7 + rng.below(4) as u16, on_log: false },
    };
    Operation::Plan(fault, Recovery::draw(rng))
}
