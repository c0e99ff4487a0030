//! Lanes: the kinds of background work, each with threads of its own.

/// Which thread does a job.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum JobClass {
    Prepare,
    Flush,
    Sync,
    Compaction,
}

impl JobClass {
    pub(crate) const ALL: [JobClass; 4] =
        [JobClass::Prepare, JobClass::Flush, JobClass::Sync, JobClass::Compaction];

    pub(crate) fn name(self) -> &'static str {
        match self {
            JobClass::Prepare => "prepare",
            JobClass::Flush => "flush",
            JobClass::Sync => "sync",
            JobClass::Compaction => "compaction",
        }
    }

    /// The kinds of work of the lane, the most urgent first.
    pub(crate) fn urgencies(self) -> &'static [Urgency] {
        if self == JobClass::Compaction { &[Urgency::Due, Urgency::Spare] } else { &[Urgency::Due] }
    }
}

/// How urgent work is. Databases that share threads come first with what is due.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Urgency {
    Due,
    /// Compactions for deletes, and help with a plan that another thread does.
    Spare,
}
