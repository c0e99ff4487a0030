//! Health (page 02h) and firmware slots (page 03h; Base 5.16.1.3, 5.16.1.4): what a program that is no drive can
//! truly say of itself.

use crate::event::Event;
use crate::le_fields::{put_text, put_u16, put_u64};

/// What was done since the start. Two quadwords each in the page; the upper stay zero.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Health {
    /// Bytes that hosts read.
    pub read_bytes: u64,
    /// Bytes that hosts wrote.
    pub written_bytes: u64,
    /// Read commands.
    pub reads: u64,
    /// Write commands.
    pub writes: u64,
    /// Hours since the start.
    pub hours: u64,
    /// A permanent failure, or stored data is damaged: a critical warning.
    pub is_unreliable: bool,
    /// How often what was stored could not be read, or was not what was written.
    pub integrity_errors: u64,
}

impl Health {
    /// The length of the page.
    pub const BYTES: usize = 512;

    /// The page's bytes.
    pub fn encode(&self) -> [u8; Self::BYTES] {
        /// Bytes are counted in thousands of 512, rounded up.
        const UNIT: u64 = 1000 * 512;
        /// Kelvin: a made-up 25 °C would be wrong, and 0 raises no alarm.
        const TEMPERATURE: u16 = 0;
        const SPARE_PERCENT: u8 = 100;
        const SPARE_THRESHOLD_PERCENT: u8 = 10;
        let mut out = [0; Self::BYTES];
        if self.is_unreliable {
            out[0] = Event::ReliabilityDegraded.mask() as u8;
        }
        put_u16(&mut out, 1, TEMPERATURE);
        out[3] = SPARE_PERCENT;
        out[4] = SPARE_THRESHOLD_PERCENT;
        put_u64(&mut out, 32, self.read_bytes.div_ceil(UNIT));
        put_u64(&mut out, 48, self.written_bytes.div_ceil(UNIT));
        put_u64(&mut out, 64, self.reads);
        put_u64(&mut out, 80, self.writes);
        put_u64(&mut out, 128, self.hours);
        put_u64(&mut out, 160, self.integrity_errors);
        out
    }
}

/// The one firmware that runs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FirmwareSlot(pub String);

impl FirmwareSlot {
    /// The length of the page.
    pub const BYTES: usize = 512;

    /// The page's bytes: slot 1 is active.
    pub fn encode(&self) -> [u8; Self::BYTES] {
        let mut out = [0; Self::BYTES];
        out[0] = 1;
        put_text(&mut out[8..16], &self.0);
        out
    }
}
