//! The geometry of a device, in the terms of the Open-Channel SSD specification 2.0.
//!
//! A device has *groups* (channels), a group has *units* (dies), a unit has *chunks* (blocks, one
//! in each plane), a chunk has *write units*, and these have *sectors*. A unit executes one
//! operation at a time; the units of a group share a bus. A chunk is reset as a whole and then
//! written sequentially, one write unit at a time. A sector is the smallest unit of reading.

use std::ops::Range;

/// A die, numbered through all groups: those of group 0 come first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Unit(pub u16);

/// A chunk of a unit.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Chunk {
    /// Whose it is.
    pub unit: Unit,
    /// Its number in the unit.
    pub number: u16,
}

/// The sizes of a device. Constant after construction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Geometry {
    /// Channels.
    pub groups: u16,
    /// Dies on a channel.
    pub units_per_group: u16,
    /// Chunks of a die.
    pub chunks_per_unit: u16,
    /// Bytes of a chunk: a multiple of the write unit.
    pub chunk_bytes: u32,
    /// Planes of a die. A chunk is one block on each of them. A write unit is stored on them in
    /// equal parts, in order.
    pub planes: u16,
    /// What is programmed at a time, on all planes, in bytes: a multiple of the sector.
    pub write_unit_bytes: u32,
    /// The least that is read, in bytes.
    pub sector_bytes: u32,
    /// A write unit can be read from the medium when this many more were written after it, or its chunk
    /// is full.
    pub mw_cunits: u32,
    /// The distance between two pages that share cells, in write units.
    pub pair_distance: u32,
}

impl Geometry {
    /// A device whose chunks are written in blocks of 4 KiB, each readable at once.
    pub fn of_blocks(
        groups: u16,
        units_per_group: u16,
        chunks_per_unit: u16,
        chunk_bytes: u32,
    ) -> Self {
        let (write_unit_bytes, sector_bytes) = (4096, 4096);
        Geometry {
            groups,
            units_per_group,
            chunks_per_unit,
            chunk_bytes,
            planes: 1,
            write_unit_bytes,
            sector_bytes,
            mw_cunits: 0,
            pair_distance: 1,
        }
    }

    /// The chunk at a place among all of them.
    pub fn chunk(&self, index: usize) -> Chunk {
        let chunks = usize::from(self.chunks_per_unit);
        Chunk { unit: Unit((index / chunks) as u16), number: (index % chunks) as u16 }
    }

    /// All dies.
    pub fn units(&self) -> usize {
        usize::from(self.groups) * usize::from(self.units_per_group)
    }

    /// All dies, in order.
    pub fn all_units(&self) -> impl Iterator<Item = Unit> + use<> {
        (0..self.groups * self.units_per_group).map(Unit)
    }

    /// The channel that a die is on.
    pub fn group(&self, unit: Unit) -> usize {
        usize::from(unit.0 / self.units_per_group)
    }

    /// A die by its channel and its place there.
    pub fn unit(&self, group: usize, place: usize) -> Unit {
        debug_assert!(group < usize::from(self.groups) && place < self.units_per_group.into());
        Unit((group * usize::from(self.units_per_group) + place) as u16)
    }

    /// All chunks of the device.
    pub fn chunks(&self) -> usize {
        self.units() * usize::from(self.chunks_per_unit)
    }

    /// The place of a chunk among all of them.
    pub fn index(&self, chunk: Chunk) -> usize {
        usize::from(chunk.unit.0) * usize::from(self.chunks_per_unit) + usize::from(chunk.number)
    }

    /// Write units of a chunk.
    pub fn write_units(&self) -> u32 {
        self.chunk_bytes / self.write_unit_bytes
    }

    /// The planes on which a part of a write unit is stored, one bit each.
    pub fn planes_of(&self, part: &Range<u32>) -> u16 {
        let plane_bytes = self.write_unit_bytes / u32::from(self.planes);
        let (first, last) = (part.start / plane_bytes, (part.end - 1) / plane_bytes);
        ((1u32 << (last + 1)) - (1 << first)) as u16
    }

    /// Sectors of a write unit.
    pub fn sectors(&self) -> u32 {
        self.write_unit_bytes / self.sector_bytes
    }

    /// The page whose cells the write unit `number` of a chunk shares, if the chunk has it. Pages come
    /// in blocks of twice the pairing distance: lower ones first, then the upper ones in the same order.
    pub fn partner(&self, number: u32) -> Option<u32> {
        let distance = self.pair_distance;
        let is_upper = number / distance % 2 == 1;
        let partner = if is_upper { number - distance } else { number + distance };
        (partner < self.write_units()).then_some(partner)
    }

    /// Whether the write unit `number` of a chunk is an upper page.
    pub fn is_upper(&self, number: u32) -> bool {
        number / self.pair_distance % 2 == 1
    }
}

#[cfg(test)]
mod tests {
    use crate::Preset;

    #[test]
    fn partners_are_partners_of_each_other() {
        let geometry = Preset::named("cnex-mlc").unwrap().geometry();
        for number in 0..geometry.write_units() {
            let partner = geometry.partner(number).unwrap();
            assert_eq!(geometry.partner(partner), Some(number));
            assert_ne!(geometry.is_upper(number), geometry.is_upper(partner));
            assert_eq!(partner.abs_diff(number), geometry.pair_distance);
        }
    }

    #[test]
    fn a_part_of_a_write_unit_lies_on_some_of_its_planes() {
        let geometry = Preset::named("cnex-mlc").unwrap().geometry();
        assert_eq!((geometry.planes, geometry.write_unit_bytes), (4, 64 << 10));
        for (from, to, planes) in [
            (0, 4, 0b0001),
            (12, 16, 0b0001),
            (16, 20, 0b0010),
            (60, 64, 0b1000),
            (12, 20, 0b0011),
            (16, 64, 0b1110),
            (0, 64, 0b1111),
        ] {
            assert_eq!(geometry.planes_of(&(from << 10..to << 10)), planes, "{from} to {to} KiB");
        }
    }

    #[test]
    fn units_are_numbered_group_by_group() {
        let geometry = Preset::named("cnex-mlc").unwrap().geometry();
        for (number, unit) in geometry.all_units().enumerate() {
            assert_eq!(geometry.unit(number / 8, number % 8), unit);
            assert_eq!(geometry.group(unit), number / 8);
        }
    }
}
