//! Reclaim units of the emulated disk. Data of one identifier fills units of its own. When no unit
//! is empty, the unit with the least valid data is collected: its valid blocks are moved, as a
//! page-mapping translation layer does.

use super::{BLOCK, Statistics};

/// Units in addition to those that the disk's capacity fills: overprovisioning, as in every flash
/// disk.
const SPARE_UNITS: usize = 4;

/// Where blocks are stored.
pub(super) struct ReclaimUnits {
    blocks: usize,
    /// By block of the disk.
    unit_of: Vec<Option<usize>>,
    units: Vec<Unit>,
    /// The unit that each identifier fills, and the one that moved blocks go to.
    open: Vec<Option<usize>>,
    statistics: Statistics,
}

#[derive(Clone, Default)]
struct Unit {
    written: usize,
    alive: usize,
}

impl ReclaimUnits {
    /// Empty ones for a disk that fills so many of so many blocks, and has so many identifiers.
    pub(super) fn new(filled: usize, blocks: usize, identifiers: usize) -> Self {
        let open = vec![None; identifiers + 1];
        let units = vec![Unit::default(); filled + SPARE_UNITS + open.len()];
        let (unit_of, statistics) = (vec![None; filled * blocks], Statistics::default());
        ReclaimUnits { blocks, unit_of, units, open, statistics }
    }

    pub(super) fn statistics(&self) -> Statistics {
        self.statistics
    }

    /// Writes a block that the host has for the `open`th identifier.
    pub(super) fn write_for_host(&mut self, block: usize, open: usize) {
        self.statistics.host_bytes += BLOCK as u128;
        self.write(block, open);
    }

    /// Writes a block to what is the `open`th to be filled.
    fn write(&mut self, block: usize, open: usize) {
        self.forget(block);
        let unit = match self.open[open].filter(|unit| self.units[*unit].written < self.blocks) {
            Some(unit) => unit,
            None => self.empty_unit(open),
        };
        self.open[open] = Some(unit);
        self.units[unit].written += 1;
        self.units[unit].alive += 1;
        self.unit_of[block] = Some(unit);
        self.statistics.media_bytes += BLOCK as u128;
    }

    /// Marks a block as obsolete.
    pub(super) fn forget(&mut self, block: usize) {
        if let Some(unit) = self.unit_of[block].take() {
            self.units[unit].alive -= 1;
        }
    }

    /// A unit without anything in it, for the `open`th to be filled. One is kept for what is moved.
    fn empty_unit(&mut self, open: usize) -> usize {
        self.open[open] = None;
        let moved = self.open.len() - 1;
        while open != moved && self.empty().count() < 2 {
            self.make_empty(moved);
        }
        let found = self.empty().next().expect("one is kept, and moving fills no more");
        self.units[found] = Unit::default();
        found
    }

    fn empty(&self) -> impl Iterator<Item = usize> + '_ {
        self.closed().filter(|unit| self.units[*unit].alive == 0)
    }

    fn closed(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.units.len()).filter(|unit| !self.open.contains(&Some(*unit)))
    }

    /// Moves what is alive out of the unit that has the least.
    fn make_empty(&mut self, moved: usize) {
        let used = self.closed().filter(|unit| self.units[*unit].alive > 0);
        let victim = used.min_by_key(|unit| self.units[*unit].alive);
        let victim = victim.expect("there are more units than are open");
        for block in 0..self.unit_of.len() {
            if self.unit_of[block] == Some(victim) {
                self.write(block, moved);
            }
        }
    }
}
