//! Log pages (Base 5.16.1): what a host may read about commands, health and subsystems.

mod discovery;
mod effects;
mod health;

pub use discovery::{Discovery, DiscoveryEntry, ENTRY_BYTES, SubsystemKind, parse_discovery};
pub use effects::{command_effects, feature_effects, management_effects, supported_log_pages};
pub use health::{FirmwareSlot, Health};

/// Which page: LID.
pub mod page {
    /// Which log pages there are.
    pub const SUPPORTED: u8 = 0x00;
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
    /// Which features there are, and what they touch.
    pub const FEATURE_EFFECTS: u8 = 0x12;
    /// Which commands of NVMe-MI there are.
    pub const MANAGEMENT_EFFECTS: u8 = 0x13;
    /// Which subsystems there are, and where.
    pub const DISCOVERY: u8 = 0x70;

    /// Those of a controller with namespaces.
    pub const ALL: [u8; 8] = [
        SUPPORTED,
        ERRORS,
        HEALTH,
        FIRMWARE,
        CHANGED_NAMESPACES,
        COMMAND_EFFECTS,
        FEATURE_EFFECTS,
        MANAGEMENT_EFFECTS,
    ];
    /// Those of a discovery controller.
    pub const ALL_OF_DISCOVERY: [u8; 3] = [SUPPORTED, ERRORS, DISCOVERY];
}

/// The length of an entry of the error page.
pub const ERROR_ENTRY_BYTES: usize = 64;

/// The length of the page of changed namespaces.
pub const CHANGED_NAMESPACES_BYTES: usize = 4096;
