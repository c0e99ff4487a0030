//! Log pages (Base 5.16.1): what a host may read about commands, health and subsystems.

mod discovery;
mod effects;
mod health;

pub use discovery::{Discovery, DiscoveryEntry, ENTRY_BYTES, SubsystemKind, parse_discovery};
pub use effects::command_effects;
pub use health::{FirmwareSlot, Health};

/// Which page: LID.
pub mod page {
    /// Errors.
    pub const ERRORS: u8 = 0x01;
    /// Health.
    pub const HEALTH: u8 = 0x02;
    /// Firmware.
    pub const FIRMWARE: u8 = 0x03;
    /// Namespaces that changed.
    pub const CHANGED_NAMESPACES: u8 = 0x04;
    /// Which commands there are, and what they touch.
    pub const COMMAND_EFFECTS: u8 = 0x05;
    /// Which subsystems there are, and where.
    pub const DISCOVERY: u8 = 0x70;
}

/// The length of an entry of the error page.
pub const ERROR_ENTRY_BYTES: usize = 64;

/// The length of the page of changed namespaces.
pub const CHANGED_NAMESPACES_BYTES: usize = 4096;
