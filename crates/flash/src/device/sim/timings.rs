//! The operation times of a preset, in the units of the model.

use crate::Preset;
use crate::preset::by_page;

/// Nanoseconds and bytes. Constant after construction.
#[derive(Debug)]
pub(super) struct Timings {
    pub(super) units_per_group: u16,
    /// Of a lower page and an upper.
    pub(super) read_ns: [u64; 2],
    pub(super) program_ns: [u64; 2],
    pub(super) erase_ns: u64,
    pub(super) piece_bytes: u32,
    piece_ns: u64,
    pub(super) sector_bytes: u32,
    sector_bus_ns: u64,
    sector_host_ns: u64,
    bus_bytes_per_second: u64,
    pub(super) write_unit_bytes: u32,
    pub(super) write_host_ns: u64,
    host_bytes_per_second: u64,
    pub(super) read_firmware_ns: u64,
    pub(super) write_firmware_ns: u64,
    pub(super) buffer_bytes: u64,
}

impl Timings {
    pub(super) fn of(preset: &Preset) -> Self {
        let geometry = preset.geometry();
        let pages = |times: &[u64]| [by_page(times, false), by_page(times, true)];
        Timings {
            units_per_group: geometry.units_per_group,
            read_ns: pages(&preset.timing.read_ns.value),
            program_ns: pages(&preset.timing.program_ns.value),
            erase_ns: preset.timing.erase_ns.value,
            piece_bytes: preset.bus.piece_bytes.value,
            piece_ns: preset.bus_ns(preset.bus.piece_bytes.value),
            sector_bytes: geometry.sector_bytes,
            sector_bus_ns: preset.bus_ns(geometry.sector_bytes),
            sector_host_ns: preset.host_ns(geometry.sector_bytes),
            bus_bytes_per_second: preset.bus.bytes_per_second.value,
            write_unit_bytes: geometry.write_unit_bytes,
            write_host_ns: preset.host_ns(geometry.write_unit_bytes),
            host_bytes_per_second: preset.host.bytes_per_second.value,
            read_firmware_ns: preset.host.read_firmware_ns.value,
            write_firmware_ns: preset.host.write_firmware_ns.value,
            buffer_bytes: preset.buffer.bytes.value,
        }
    }

    /// How long the next piece of `left` bytes takes on a channel.
    #[inline]
    pub(super) fn piece_ns(&self, left: u32) -> u64 {
        match left {
            left if left >= self.piece_bytes => self.piece_ns,
            left if left == self.sector_bytes => self.sector_bus_ns,
            left => transfer_ns(left, self.bus_bytes_per_second),
        }
    }

    /// How long `bytes` take to the host.
    #[inline]
    pub(super) fn to_host_ns(&self, bytes: u32) -> u64 {
        match bytes == self.sector_bytes {
            true => self.sector_host_ns,
            false => transfer_ns(bytes, self.host_bytes_per_second),
        }
    }
}

fn transfer_ns(bytes: u32, bytes_per_second: u64) -> u64 {
    (u64::from(bytes) * 1_000_000_000).div_ceil(bytes_per_second)
}
