//! The target sizes of the pickers, derived from the segment size.

/// Level 0 of a leveled keyspace is merged down when it has this many runs. A get inspects each of
/// them; with fewer the level below would be rewritten for less new data each time.
pub const LEVEL_0_RUNS: usize = 4;

/// Level 0 is compacted from this many runs on if merging it down would rewrite much for little new data.
/// Its runs are then merged with each other; the more of them there are, the less often each byte is
/// written again.
pub const LEVEL_0_RUNS_SMALL: usize = 2 * LEVEL_0_RUNS;

/// While runs come one after another it may have this many (`l0_delay`): so many alone slow no writer (`write_controller`).
pub const LEVEL_0_RUNS_MOST: usize = 3 * LEVEL_0_RUNS;

/// Level 0 is merged down only if that rewrites at most this many bytes below for each of its own;
/// until then its runs are merged with each other. The same bound says how large the last level may
/// be, in units of the base level's target, before a level is put above it: up to there, merging
/// straight into it writes less than going through a level between.
pub const DIRECT_OVERLAP: u64 = 4;

/// A caller that waits for an idle database has level 0 compacted with fewer runs than usual. That
/// rewrites at most this many bytes below for each of level 0, however often the caller waits. A
/// whole segment in a keyspace of [`SizeTargets::one_run_bytes`] is within it.
pub const ONE_RUN_OVERLAP: u64 = 8;

/// A merge from one level into the next takes tables up to this many times a table's size, so that
/// the space for its output, and the wait of others for its range, stay bounded.
pub const PLAN_TABLES: u64 = 25;

/// An output table is cut when it overlaps this many tables' bytes of the level below the output, so
/// that moving it down later stays cheap.
pub const GRANDPARENT_TABLES: u64 = 10;

/// How many segments of a pool with so many extents are to be in readiness: they hold no writes yet.
pub(crate) fn segments_ahead(extents: usize) -> usize {
    (extents / 8).clamp(1, 4)
}

/// Sizes for one database.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SizeTargets {
    /// The size of a log segment, in bytes.
    pub segment_bytes: u64,
}

impl SizeTargets {
    /// The size at which an output table is cut, before compression by others: a flush's own.
    pub fn table_bytes(self) -> u64 {
        self.segment_bytes
    }

    /// The least target of the level that level 0 is merged into: one batch of level 0's runs.
    pub fn base_bytes(self) -> u64 {
        self.segment_bytes * LEVEL_0_RUNS as u64
    }

    /// A keyspace up to this size is compacted to one run for a caller that waits for an idle database:
    /// eight segments, which is as much as two compactions of level 0.
    pub fn one_run_bytes(self) -> u64 {
        self.base_bytes() * 2
    }

    /// The most that a merge between two levels takes in.
    pub fn plan_bytes(self) -> u64 {
        self.table_bytes() * PLAN_TABLES
    }

    /// The most of the level below the output that one output table may overlap.
    pub fn grandparent_bytes(self) -> u64 {
        self.table_bytes() * GRANDPARENT_TABLES
    }

    /// The size of the last level's tables under a space goal: small, so that what a merge adds before
    /// its inputs go is small.
    pub fn goal_table_bytes(self) -> u64 {
        self.table_bytes() / 2
    }

    /// What a merge takes in under a space goal, if it can help it.
    pub fn goal_plan_bytes(self) -> u64 {
        self.table_bytes() * 2
    }

    /// What is kept free for the output of the next such merge: what most of them write.
    pub fn goal_reserve_bytes(self) -> u64 {
        self.goal_plan_bytes() * 3 / 4
    }

    /// The least that a table of level 0 is cut down to under a space goal. With larger ones more is
    /// merged than pays; smaller ones are mostly overhead.
    pub fn goal_piece_bytes(self) -> u64 {
        self.table_bytes() / 32
    }

    /// Tables below this size are rewritten when a larger one would just be moved. So small tables
    /// grow together, and a small table does not keep a flush's file alive that it shares with other
    /// keyspaces.
    pub fn small_table_bytes(self) -> u64 {
        self.table_bytes() / 4
    }
}
