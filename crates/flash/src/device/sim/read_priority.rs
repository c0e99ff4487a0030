//! How a device prioritizes reads on its own.

/// How a device treats reads during writes. It is a property of the device; a host cannot change
/// it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReadPriority {
    /// Dies and channels serve in order of arrival, and what has begun is ended: all isolation is the
    /// host's.
    HostOnly,
    /// Reads go before writes on dies and channels.
    ReadsFirst,
    /// Reads go first, and a program or an erase gives way to them: it takes so many nanoseconds to stop
    /// and as many to go on.
    Suspend(u64),
}

/// The most often that a program or an erase yields, as an array tolerates a limited number of
/// suspensions. With 16, the cost of suspending and resuming, at 15 us each, stays below half of a
/// program's time.
pub const SUSPENDS_MOST: u16 = 16;

/// A write that is this old goes before reads and does not give way any more, so that writes never
/// starve: about ten programs' time.
pub const WRITE_DEADLINE_NS: u64 = 10_000_000;

impl ReadPriority {
    /// The forms that results are given in.
    pub const ALL: [ReadPriority; 3] =
        [ReadPriority::HostOnly, ReadPriority::Suspend(15_000), ReadPriority::Suspend(100_000)];

    /// What it is called in results.
    pub fn name(self) -> String {
        match self {
            ReadPriority::HostOnly => "host-only".to_owned(),
            ReadPriority::ReadsFirst => "reads-first".to_owned(),
            ReadPriority::Suspend(nanos) => format!("suspend-{}us", nanos / 1_000),
        }
    }

    pub(super) fn reads_first(self) -> bool {
        self != ReadPriority::HostOnly
    }
}
