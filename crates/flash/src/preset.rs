//! Device parameters read from preset files, each with its source.
//!
//! The files are in `presets/` and are compiled into the program. Every measurement names its
//! preset, so a figure can be traced to the parameters and their sources.

use crate::Geometry;
use esker_base::{Error, Result};
use serde::Deserialize;

/// The most dies of a device, and planes of a die.
pub(crate) const UNITS_MAX: u32 = 1 << 10;
pub(crate) const PLANES_MAX: u16 = 16;

/// A value and where it is from.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cited<T> {
    /// The value.
    pub value: T,
    /// Where it is from, or "assumed" and why.
    pub source: String,
}

/// A device.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Preset {
    /// Its name: a word.
    pub name: String,
    /// What it stands for.
    pub about: String,
    geometry: GeometryFields,
    /// How long the medium takes.
    pub timing: Timing,
    /// The channels.
    pub bus: Bus,
    /// The way to the host.
    pub host: Host,
    /// The write buffer.
    pub buffer: Buffer,
}

#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct GeometryFields {
    groups: Cited<u16>,
    units_per_group: Cited<u16>,
    chunks_per_unit: Cited<u16>,
    chunk_bytes: Cited<u32>,
    planes: Cited<u16>,
    independent_plane_reads: Cited<bool>,
    write_unit_bytes: Cited<u32>,
    sector_bytes: Cited<u32>,
    mw_cunits: Cited<u32>,
    pair_distance: Cited<u32>,
    endurance_erases: Cited<u32>,
    bad_chunks_per_mille: Cited<u32>,
}

/// How long the medium takes, in nanoseconds. Reading and programming may differ by kind of page: the
/// lower page first, then the upper; one value for both.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Timing {
    /// From cells into a die's register.
    pub read_ns: Cited<Vec<u64>>,
    /// From a die's register into cells, a write unit.
    pub program_ns: Cited<Vec<u64>>,
    /// A chunk.
    pub erase_ns: Cited<u64>,
}

/// A channel, which its dies share.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bus {
    /// Its bandwidth.
    pub bytes_per_second: Cited<u64>,
    /// The most that is moved at a time: between two pieces, others have their turn.
    pub piece_bytes: Cited<u32>,
}

/// The way to the host, which all share. It carries as much in either direction at a time.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Host {
    /// Its bandwidth.
    pub bytes_per_second: Cited<u64>,
    /// From a read's arrival to its start on a die.
    pub read_firmware_ns: Cited<u64>,
    /// From a write's arrival to its place in the buffer, without the transfer.
    pub write_firmware_ns: Cited<u64>,
}

/// Memory in the device that takes writes until they are programmed.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Buffer {
    /// Its size; 0 if a write is acknowledged when it is programmed.
    pub bytes: Cited<u64>,
    /// Whether what is in it is programmed after all when power fails.
    pub survives_power_loss: Cited<bool>,
}

const FILES: [&str; 4] = [
    include_str!("../presets/cnex-mlc.toml"),
    include_str!("../presets/samsung-960-pro.toml"),
    include_str!("../presets/samsung-970-pro.toml"),
    include_str!("../presets/wd-zn540.toml"),
];

impl Preset {
    /// All that come with the program.
    pub fn all() -> Vec<Preset> {
        let parse = |text: &&str| Preset::parse(text).expect("own presets are tested");
        FILES.iter().map(parse).collect()
    }

    /// The one of this name.
    pub fn named(name: &str) -> Option<Preset> {
        Preset::all().into_iter().find(|preset| preset.name == name)
    }

    /// A preset from a file's text. Fails with [`Error::InvalidSetting`] if it is none, or its numbers
    /// make no device.
    pub fn parse(text: &str) -> Result<Preset> {
        let refused = |reason: String| Error::InvalidSetting {
            setting: "device preset",
            value: text.lines().find(|line| line.starts_with("name")).unwrap_or("unnamed").into(),
            reason,
        };
        let preset: Preset = toml::from_str(text).map_err(|error| refused(error.to_string()))?;
        match preset.fault() {
            Some(reason) => Err(refused(reason.to_owned())),
            None => Ok(preset),
        }
    }

    /// What it is made of.
    pub fn geometry(&self) -> Geometry {
        let from = &self.geometry;
        Geometry {
            groups: from.groups.value,
            units_per_group: from.units_per_group.value,
            chunks_per_unit: from.chunks_per_unit.value,
            chunk_bytes: from.chunk_bytes.value,
            planes: from.planes.value,
            write_unit_bytes: from.write_unit_bytes.value,
            sector_bytes: from.sector_bytes.value,
            mw_cunits: from.mw_cunits.value,
            pair_distance: from.pair_distance.value,
        }
    }

    /// The same with another number of chunks a die: smaller devices fill sooner.
    pub fn with_chunks_per_unit(mut self, chunks: u16) -> Preset {
        let source = "chosen for the run".to_owned();
        self.geometry.chunks_per_unit = Cited { value: chunks, source };
        self.checked()
    }

    /// The same with other numbers of channels and dies on each: a part of it.
    pub fn with_units(mut self, groups: u16, units_per_group: u16) -> Preset {
        let source = || "chosen for the run".to_owned();
        self.geometry.groups = Cited { value: groups, source: source() };
        self.geometry.units_per_group = Cited { value: units_per_group, source: source() };
        self.checked()
    }

    /// The same with chunks of another size, a multiple of the write unit. Of a chunk that is shorter than what has to
    /// be written behind a page before it can be read, all but one write unit has to be.
    pub fn with_chunk_bytes(mut self, bytes: u32) -> Preset {
        let source = "chosen for the run".to_owned();
        self.geometry.chunk_bytes = Cited { value: bytes, source };
        let most = self.geometry().write_units().saturating_sub(1);
        let later = &mut self.geometry.mw_cunits.value;
        *later = most.min(*later);
        self.checked()
    }

    /// Whether the planes of a die read independently of each other. If not, a die does one read at a time, whichever of its
    /// planes that is on.
    pub fn has_independent_plane_reads(&self) -> bool {
        self.geometry.independent_plane_reads.value
    }

    /// The same with planes that read independently, or not.
    pub fn with_independent_plane_reads(mut self, value: bool) -> Preset {
        let source = "chosen for the run".to_owned();
        self.geometry.independent_plane_reads = Cited { value, source };
        self.checked()
    }

    /// How often a chunk can be erased before it goes bad.
    pub fn endurance_erases(&self) -> u32 {
        self.geometry.endurance_erases.value
    }

    /// Chunks that are bad from the beginning, of a thousand.
    pub fn bad_chunks_per_mille(&self) -> u32 {
        self.geometry.bad_chunks_per_mille.value
    }

    /// How long a program of write unit `number` of a chunk takes in the array.
    pub fn program_ns(&self, number: u32) -> u64 {
        by_page(&self.timing.program_ns.value, self.geometry().is_upper(number))
    }

    /// How long `bytes` take on a channel.
    pub fn bus_ns(&self, bytes: u32) -> u64 {
        transfer_ns(bytes, self.bus.bytes_per_second.value)
    }

    /// How long `bytes` take to or from the host.
    pub fn host_ns(&self, bytes: u32) -> u64 {
        transfer_ns(bytes, self.host.bytes_per_second.value)
    }

    /// How long a unit is busy with one write unit, transfer and program, on average.
    pub fn write_unit_ns(&self) -> u64 {
        let program = &self.timing.program_ns.value;
        let mean = program.iter().sum::<u64>() / program.len() as u64;
        mean + self.bus_ns(self.geometry().write_unit_bytes)
    }

    /// How long a unit is busy with a read of a sector, sensing and transfer, on average.
    pub fn read_sector_ns(&self) -> u64 {
        let read = &self.timing.read_ns.value;
        let mean = read.iter().sum::<u64>() / read.len() as u64;
        mean + self.bus_ns(self.geometry().sector_bytes)
    }

    /// How many units' writes a channel carries at a time, rounded to the nearest.
    pub fn channel_units(&self) -> usize {
        let on_bus = self.bus_ns(self.geometry().write_unit_bytes).max(1);
        ((self.write_unit_ns() + on_bus / 2) / on_bus).max(1) as usize
    }

    /// Panics if a choice made it no device.
    fn checked(self) -> Preset {
        let fault = self.fault();
        assert_eq!(fault, None, "{} as it was chosen", self.name);
        self
    }

    /// What makes no device of it.
    fn fault(&self) -> Option<&'static str> {
        let geometry = self.geometry();
        let is_multiple = |of: u32, one: u32| one > 0 && of > 0 && of.is_multiple_of(one);
        let units = u32::from(geometry.groups) * u32::from(geometry.units_per_group);
        let pages = [&self.timing.read_ns.value, &self.timing.program_ns.value];
        if units == 0 || units > UNITS_MAX || geometry.chunks_per_unit == 0 {
            return Some("a device has 1 to 1,024 units, and chunks in each");
        }
        if !is_multiple(geometry.chunk_bytes, geometry.write_unit_bytes)
            || !is_multiple(geometry.write_unit_bytes, geometry.sector_bytes)
        {
            return Some("a chunk is whole write units, and these are whole sectors");
        }
        let plane_parts = u32::from(geometry.planes) * geometry.sector_bytes;
        if geometry.planes > PLANES_MAX || !is_multiple(geometry.write_unit_bytes, plane_parts) {
            return Some("a die has 1 to 16 planes, and a write unit whole sectors on each");
        }
        if geometry.pair_distance == 0 || geometry.mw_cunits >= geometry.write_units() {
            return Some("pair_distance is at least 1, and mw_cunits less than a chunk has");
        }
        if pages.iter().any(|times| times.is_empty() || times.len() > 2) {
            return Some("read_ns and program_ns have one value, or a lower and an upper page's");
        }
        if self.bus.bytes_per_second.value == 0 || self.host.bytes_per_second.value == 0 {
            return Some("a bandwidth is above zero");
        }
        if self.bus.piece_bytes.value < geometry.sector_bytes {
            return Some("a piece on the bus is at least a sector");
        }
        let buffer = self.buffer.bytes.value;
        if buffer > 0 && buffer < u64::from(geometry.write_unit_bytes) {
            return Some("a buffer holds at least one write unit");
        }
        None
    }
}

/// The time of a kind of page out of one or two.
pub(crate) fn by_page(times: &[u64], is_upper: bool) -> u64 {
    times[usize::from(is_upper) % times.len()]
}

fn transfer_ns(bytes: u32, bytes_per_second: u64) -> u64 {
    (u64::from(bytes) * 1_000_000_000).div_ceil(bytes_per_second)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_preset_is_a_device_with_a_name_of_its_own() {
        let all = Preset::all();
        let mut names: Vec<_> = all.iter().map(|preset| preset.name.clone()).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), FILES.len());
        for name in names {
            assert_eq!(Preset::named(&name).unwrap().name, name);
        }
        assert_eq!(Preset::named("tape"), None);
    }

    #[test]
    fn a_unit_of_the_open_channel_preset_writes_what_lightnvm_measured() {
        let preset = Preset::named("cnex-mlc").unwrap();
        let bytes = f64::from(preset.geometry().write_unit_bytes);
        let megabytes_per_second = bytes / preset.write_unit_ns() as f64 * 1_000.0;
        assert!((46.5..48.0).contains(&megabytes_per_second), "{megabytes_per_second}");
    }

    #[test]
    fn short_chunks_ask_for_fewer_later_writes_and_other_choices_are_checked() {
        let preset = Preset::named("cnex-mlc").unwrap();
        let unit = preset.geometry().write_unit_bytes;
        assert!(preset.geometry().mw_cunits > 3);
        assert_eq!(preset.clone().with_chunk_bytes(4 * unit).geometry().mw_cunits, 3);
        let (short, none) = (preset.clone(), preset);
        assert!(std::panic::catch_unwind(|| short.with_chunk_bytes(1)).is_err());
        assert!(std::panic::catch_unwind(|| none.with_units(0, 1)).is_err());
    }

    #[test]
    fn a_parameter_without_a_source_is_refused() {
        let text = FILES[0].replace(", source = \"LightNVM, table 1: channel data bandwidth\"", "");
        assert_ne!(text, FILES[0]);
        assert!(Preset::parse(&text).unwrap_err().to_string().contains("source"));
    }

    #[test]
    fn numbers_that_make_no_device_are_refused() {
        for (from, to) in [
            ("groups = { value = 16", "groups = { value = 0"),
            ("chunk_bytes = { value = 16777216", "chunk_bytes = { value = 16777217"),
            ("pair_distance = { value = 4", "pair_distance = { value = 0"),
            ("read_ns = { value = [48000, 64000]", "read_ns = { value = []"),
            ("piece_bytes = { value = 16384", "piece_bytes = { value = 512"),
            ("planes = { value = 4", "planes = { value = 0"),
            ("planes = { value = 4", "planes = { value = 3"),
            ("planes = { value = 4", "planes = { value = 32"),
        ] {
            let text = FILES[0].replace(from, to);
            assert_ne!(text, FILES[0], "{from}");
            let error = Preset::parse(&text).unwrap_err();
            assert!(matches!(error, Error::InvalidSetting { .. }), "{error}");
        }
    }
}
