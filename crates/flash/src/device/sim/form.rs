//! How a device prioritizes reads on its own.

/// How a device treats reads beside writes. A host can't command it: it is what a device has or has not.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Form {
    /// Dies and channels serve in order of arrival, and what has begun is ended: all isolation is the
    /// host's.
    HostOnly,
    /// Reads go before writes on dies and channels.
    ReadsFirst,
    /// Reads go first, and a program or an erase gives way to them: it takes so many nanoseconds to stop
    /// and as many to go on.
    Suspend(u64),
}

/// A program or an erase gives way this often at most, as an array stands only so many interruptions:
/// 16 keeps the cost of stopping and going on, at 15 us each, below half of a program's time.
pub const SUSPENDS_MOST: u16 = 16;

/// A write that is this old goes before reads and does not give way any more, so that writes never
/// starve: about ten programs' time.
pub const WRITE_DEADLINE_NS: u64 = 10_000_000;

impl Form {
    /// The forms that results are given in.
    pub const ALL: [Form; 3] = [Form::HostOnly, Form::Suspend(15_000), Form::Suspend(100_000)];

    /// What it is called in results.
    pub fn name(self) -> String {
        match self {
            Form::HostOnly => "host-only".to_owned(),
            Form::ReadsFirst => "reads-first".to_owned(),
            Form::Suspend(nanos) => format!("suspend-{}us", nanos / 1_000),
        }
    }

    pub(super) fn reads_first(self) -> bool {
        self != Form::HostOnly
    }
}
