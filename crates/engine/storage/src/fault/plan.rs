//! Which calls fail, and how.

use std::io;

/// How a call fails.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FaultKind {
    /// An I/O error. Nothing is written; a sync leaves its bytes in doubt.
    Io,
    /// No space, this once. Nothing is written.
    NoSpace,
    /// Part of the bytes are written, then an I/O error. For calls without bytes, the same as `Io`.
    ShortWrite,
}

impl FaultKind {
    pub(super) fn error(self) -> io::Error {
        match self {
            FaultKind::NoSpace => io::ErrorKind::StorageFull.into(),
            FaultKind::Io | FaultKind::ShortWrite => io::Error::other("the device failed"),
        }
    }
}

/// What happens to one call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum CallOutcome {
    /// It is done.
    Succeed,
    /// It fails.
    Fail(FaultKind),
    /// It is done as far as the system goes, and the power fails before its caller knows.
    LosePower,
}

impl CallOutcome {
    /// Whether the system does what was asked.
    pub(super) fn is_applied(self) -> bool {
        !matches!(self, CallOutcome::Fail(_))
    }

    /// What the caller is answered.
    pub(super) fn outcome(self) -> io::Result<()> {
        match self {
            CallOutcome::Succeed => Ok(()),
            CallOutcome::Fail(kind) => Err(kind.error()),
            CallOutcome::LosePower => Err(power_lost()),
        }
    }
}

pub(super) fn power_lost() -> io::Error {
    io::Error::other("the machine lost power")
}

/// Counts calls, and knows what is planned for which of them. The first call has number 0.
#[derive(Clone, Debug, Default)]
pub(super) struct FaultPlan {
    operations: u64,
    reads: u64,
    power_loss: Option<u64>,
    faults: Vec<(u64, FaultKind)>,
    read_faults: Vec<u64>,
}

impl FaultPlan {
    pub(super) fn operations(&self) -> u64 {
        self.operations
    }

    pub(super) fn lose_power_after(&mut self, calls: u64) {
        self.power_loss = Some(self.operations + calls);
    }

    pub(super) fn fail_after(&mut self, calls: u64, kind: FaultKind) {
        self.faults.push((self.operations + calls, kind));
    }

    pub(super) fn fail_read_after(&mut self, reads: u64) {
        self.read_faults.push(self.reads + reads);
    }

    /// Forgets what is planned. The counts go on.
    pub(super) fn forget(&mut self) {
        let FaultPlan { operations, reads, .. } = *self;
        *self = FaultPlan { operations, reads, ..FaultPlan::default() };
    }

    /// Counts a mutating call and says what happens to it.
    pub(super) fn next_call(&mut self) -> CallOutcome {
        let call = self.operations;
        self.operations += 1;
        if self.power_loss == Some(call) {
            return CallOutcome::LosePower;
        }
        match self.faults.iter().position(|&(planned, _)| planned == call) {
            Some(at) => CallOutcome::Fail(self.faults.swap_remove(at).1),
            None => CallOutcome::Succeed,
        }
    }

    /// Counts a read and says whether it fails.
    pub(super) fn next_read(&mut self) -> io::Result<()> {
        let read = self.reads;
        self.reads += 1;
        match self.read_faults.contains(&read) {
            true => Err(FaultKind::Io.error()),
            false => Ok(()),
        }
    }
}
