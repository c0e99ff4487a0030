//! Properties: a controller's registers, read and written by fabrics commands (Base 3.1.3).

/// CAP, controller capabilities, 8 bytes.
pub const CAPABILITIES: u32 = 0x00;
/// VS, version, 4 bytes.
pub const VERSION: u32 = 0x08;
/// CC, controller configuration, 4 bytes.
pub const CONFIGURATION: u32 = 0x14;
/// CSTS, controller status, 4 bytes.
pub const STATUS: u32 = 0x1c;

/// The version of the base specification that a controller here implements: 2.0.
pub const VERSION_2_0: u32 = 0x0002_0000;

/// What CAP says, apart from constants: queues are contiguous, pages are 4 KiB, and several command sets are
/// available (CSS bit 6; bit 0 for NVM).
///
/// `timeout` is the longest time to become ready or to shut down, in units of 500 ms.
pub const fn capabilities(queue_entries: u16, timeout: u8) -> u64 {
    const CONTIGUOUS_QUEUES: u64 = 1 << 16;
    const NVM_COMMAND_SET: u64 = 1 << 37;
    const SEVERAL_COMMAND_SETS: u64 = 1 << 43;
    (queue_entries as u64 - 1)
        | CONTIGUOUS_QUEUES
        | (timeout as u64) << 24
        | NVM_COMMAND_SET
        | SEVERAL_COMMAND_SETS
}

/// Entries of the longest queue that a controller with these capabilities takes.
pub const fn queue_entries(capabilities: u64) -> u32 {
    (capabilities as u16) as u32 + 1
}

/// CC: what the host asks of the controller.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Configuration(pub u32);

impl Configuration {
    /// What a host writes to start a controller: enabled, all command sets, pages of 4 KiB, entries of 64 and
    /// 16 bytes.
    pub const START: Configuration = Configuration(1 | 6 << 4 | 6 << 16 | 4 << 20);
    /// What a host writes to shut a controller down in order.
    pub const SHUT_DOWN: Configuration = Configuration(Self::START.0 | 1 << 14);

    /// Whether the controller is to run.
    pub const fn enabled(self) -> bool {
        self.0 & 1 != 0
    }

    /// Whether the host announces that it goes.
    pub const fn shutdown(self) -> bool {
        self.0 >> 14 & 3 != 0
    }

    /// Which command sets: 0 is NVM alone, 6 all, 7 none but the admin commands.
    pub const fn command_sets(self) -> u32 {
        self.0 >> 4 & 7
    }

    /// Pages are 2^(12 + this) bytes.
    pub const fn page_size(self) -> u32 {
        self.0 >> 7 & 15
    }
}

/// CSTS: ready to work.
pub const READY: u32 = 1;
/// CSTS: the controller failed, and only a reset helps.
pub const FATAL: u32 = 1 << 1;
/// CSTS: shut down, nothing is unwritten.
pub const SHUTDOWN_COMPLETE: u32 = 2 << 2;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capabilities_are_those_that_initiators_accepted() {
        assert_eq!(capabilities(128, 0x14), 0x820_1401_007f);
        assert_eq!(queue_entries(0x820_1401_007f), 128);
    }

    #[test]
    fn a_start_is_what_linux_writes() {
        assert_eq!(Configuration::START.0, 0x0046_0061);
        let start = Configuration::START;
        assert!(start.enabled() && !start.shutdown() && start.command_sets() == 6);
        assert!(Configuration::SHUT_DOWN.shutdown());
    }
}
