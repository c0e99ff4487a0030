//! Features: what Set Features and Get Features name (Base 5.27). Those that exist here.

/// How many commands are taken of a queue at a time.
pub const ARBITRATION: u8 = 0x01;
/// Which power state the controller is in. There is one.
pub const POWER_MANAGEMENT: u8 = 0x02;
/// From which temperature on the host is warned.
pub const TEMPERATURE_THRESHOLD: u8 = 0x04;
/// How long a namespace of blocks tries to recover data.
pub const ERROR_RECOVERY: u8 = 0x05;
/// Whether acknowledged writes may be in a volatile cache.
pub const VOLATILE_WRITE_CACHE: u8 = 0x06;
/// How many I/O queues the host wants and gets.
pub const NUMBER_OF_QUEUES: u8 = 0x07;
/// Whether AWUN and NAWUN need not hold.
pub const WRITE_ATOMICITY: u8 = 0x0a;
/// Which events the host asks for.
pub const ASYNC_EVENTS: u8 = 0x0b;
/// How long the controller waits for a Keep Alive, in milliseconds.
pub const KEEP_ALIVE: u8 = 0x0f;
/// Which combination of command sets is in use.
pub const COMMAND_SET_PROFILE: u8 = 0x19;

/// All of them.
pub const ALL: [u8; 10] = [
    ARBITRATION,
    POWER_MANAGEMENT,
    TEMPERATURE_THRESHOLD,
    ERROR_RECOVERY,
    VOLATILE_WRITE_CACHE,
    NUMBER_OF_QUEUES,
    WRITE_ATOMICITY,
    ASYNC_EVENTS,
    KEEP_ALIVE,
    COMMAND_SET_PROFILE,
];

/// CDW11 of Set Features and DW0 of its answer for [`NUMBER_OF_QUEUES`]: both counts are 0's based.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct QueueCounts {
    /// Submission queues.
    pub submission: u16,
    /// Completion queues.
    pub completion: u16,
}

impl QueueCounts {
    /// From a 0's based word, or `None` where a count is the reserved FFFFh.
    pub fn of(word: u32) -> Option<Self> {
        let submission = (word as u16).checked_add(1)?;
        let completion = ((word >> 16) as u16).checked_add(1)?;
        Some(QueueCounts { submission, completion })
    }

    /// The word, 0's based. No count is zero.
    pub fn word(self) -> u32 {
        u32::from(self.submission.saturating_sub(1))
            | u32::from(self.completion.saturating_sub(1)) << 16
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_one_more_than_their_words() {
        assert_eq!(QueueCounts::of(0x0007_0003).unwrap().word(), 0x0007_0003);
        assert_eq!(QueueCounts::of(0x0007_0003).unwrap().submission, 4);
        assert_eq!(QueueCounts::of(0xffff), None);
    }
}
