//! What happens in a simulated history, and how a history is drawn from its seed.
//!
//! An operation is plain data that means the same whatever came before it, so that a failing history
//! can be shrunk by leaving operations out.

mod additions;

use crate::settings::{OpenSettings, WINDOW, draw_keyspace, like};
use esker_base::{Rng, hash64};
use esker_lsm::{Dedup, KeyspaceSettings, Ratio, Shape};

/// The keyspaces of a history, by number. The first always exists.
pub const SPACES: [&str; 4] = ["default", "one", "two", "three"];

/// How many snapshots, and how many cursors, a history holds at a time.
pub const SLOTS: u8 = 3;

/// One change in a batch. Spaces and keys are numbers: see [`SPACES`] and [`crate::content::key`].
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Change {
    /// Sets a key to the value with this stamp and length.
    Put(u8, u16, u32, u16),
    /// Sets a key to the value with this stamp and length, for so many milliseconds.
    PutTtl(u8, u16, u32, u16, u16),
    /// Appends to a key the value with this stamp and length.
    Merge(u8, u16, u32, u16),
    /// Removes a key.
    Delete(u8, u16),
    /// Removes the keys between two.
    DeleteRange(u8, u16, u16),
}

impl Change {
    /// Makes a put of one that expires.
    fn stay(&mut self) {
        if let Change::PutTtl(space, key, stamp, bytes, _) = *self {
            *self = Change::Put(space, key, stamp, bytes);
        }
    }
}

/// A mishap that strikes a call to come: the one after that many more.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Fault {
    /// The power fails in the middle of it.
    PowerLoss {
        /// Calls until then.
        after: u16,
        /// Whether the log's disk is meant, if it has one.
        on_log: bool,
    },
    /// An I/O error.
    Io {
        /// Calls until then.
        after: u16,
        /// Whether the log's disk is meant, if it has one.
        on_log: bool,
    },
    /// No space, once.
    NoSpace {
        /// Calls until then.
        after: u16,
        /// Whether the log's disk is meant, if it has one.
        on_log: bool,
    },
    /// Part of a write is done, then an error.
    ShortWrite {
        /// Calls until then.
        after: u16,
        /// Whether the log's disk is meant, if it has one.
        on_log: bool,
    },
    /// A read fails.
    Read {
        /// Reads until then.
        after: u16,
        /// Whether the log's disk is meant, if it has one.
        on_log: bool,
    },
    /// The process ends between two stores or fences in persistent memory.
    Memory {
        /// Stores and fences until then.
        after: u16,
        /// Whether it is the power that fails.
        power: bool,
    },
}

impl Fault {
    /// Calls until it strikes.
    pub fn after(&self) -> u16 {
        let (Fault::PowerLoss { after, .. }
        | Fault::Io { after, .. }
        | Fault::NoSpace { after, .. }
        | Fault::ShortWrite { after, .. }
        | Fault::Read { after, .. }
        | Fault::Memory { after, .. }) = *self;
        after
    }

    /// Whether the log's disk is meant.
    pub fn on_log(&self) -> bool {
        match *self {
            Fault::PowerLoss { on_log, .. }
            | Fault::Io { on_log, .. }
            | Fault::NoSpace { on_log, .. }
            | Fault::ShortWrite { on_log, .. }
            | Fault::Read { on_log, .. } => on_log,
            Fault::Memory { .. } => false,
        }
    }

    fn draw(rng: &mut Rng, most: u64) -> Fault {
        let after = rng.below(most) as u16;
        let on_log = rng.one_in(2);
        match rng.below(8) {
            0 | 1 => Fault::PowerLoss { after, on_log },
            2 => Fault::Io { after, on_log },
            3 => Fault::NoSpace { after, on_log },
            4 => Fault::ShortWrite { after, on_log },
            5 => Fault::Read { after: after.min(20), on_log },
            _ => Fault::Memory { after, power: rng.one_in(2) },
        }
    }
}

/// How a process that ended is followed by the next one.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Recovery {
    /// Faults that strike one try to open each, before a last try without.
    pub faults: Vec<Fault>,
    /// Settings from then on, if not the old ones.
    pub settings: Option<OpenSettings>,
}

impl Recovery {
    fn draw(rng: &mut Rng) -> Recovery {
        let tries = if rng.one_in(3) { 1 + rng.below(3) } else { 0 };
        Recovery {
            faults: (0..tries).map(|_| Fault::draw(rng, 14)).collect(),
            settings: rng.one_in(3).then(|| OpenSettings::draw(rng)),
        }
    }
}

/// A move of a cursor.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Move {
    /// To the first entry.
    First,
    /// To the last entry.
    Last,
    /// To the first entry at or after a key.
    Seek(u16),
    /// To the last entry at or before a key.
    SeekBack(u16),
    /// To the next entry.
    Next,
    /// To the previous entry.
    Prev,
}

/// One step of a history.
#[derive(Clone, PartialEq, Debug)]
pub enum Operation {
    /// Writes a batch.
    Write {
        /// Its changes.
        changes: Vec<Change>,
        /// Whether it asks to survive power loss.
        sync: bool,
    },
    /// Ingests keys, each with the stamp and the length of its value. The flag: one of the values is larger than a
    /// log entry may be, if the keyspace takes that.
    Ingest(u8, Vec<(u16, u32, u16)>, bool),
    /// Writes that must be refused as they are malformed, number by number of what is wrong.
    Refused(u8),
    /// Reads keys, one by one and together.
    Get(u8, Vec<u16>),
    /// Reads the range between two keys, in either direction.
    Scan(u8, u16, u16),
    /// Takes a snapshot into a slot.
    TakeSnapshot(u8),
    /// Compares everything at a slot's snapshot.
    ReadSnapshot(u8),
    /// Lets a slot's snapshot go.
    DropSnapshot(u8),
    /// Opens a cursor over the range between two keys, or over all, into a slot.
    OpenCursor(u8, u8, Option<(u16, u16)>),
    /// Moves a slot's cursor.
    MoveCursor(u8, Vec<Move>),
    /// Makes everything survive power loss.
    Sync,
    /// Writes everything to tables.
    Flush,
    /// Merges everything.
    Compact,
    /// Does all background work.
    Settle,
    /// Does up to this many pieces of background work.
    Step(u8),
    /// Lets that many milliseconds pass.
    Sleep(u16),
    /// Creates a keyspace; the second number draws its settings.
    CreateSpace(u8, u64),
    /// Drops a keyspace.
    DropSpace(u8),
    /// Changes from which length on the values of a keyspace go to value files.
    SetThreshold(u8, Option<u32>),
    /// Makes a checkpoint, opens and compares it.
    Checkpoint,
    /// Opens the live database for reading concurrently with the writer, and compares.
    ReadOnly,
    /// Compares everything.
    CheckAll,
    /// Closes and opens again.
    Reopen(Recovery),
    /// Loses power between two calls.
    LosePower(Recovery),
    /// Ends the process between two calls.
    Kill(Recovery),
    /// Plans a fault; and how the next process begins, if it comes to that.
    Plan(Fault, Recovery),
    /// Leaves so many KiB free.
    LimitSpace(u16),
    /// Gives all space back.
    FreeSpace,
}

impl Operation {
    /// Lets time pass as windows need it: up to a minute.
    fn lengthen(&mut self) {
        if let Operation::Sleep(milliseconds) = self {
            *milliseconds *= 90;
        }
    }

    /// Whether it puts something that expires.
    pub fn expires(&self) -> bool {
        let expires = |change: &Change| matches!(change, Change::PutTtl(..));
        matches!(self, Operation::Write { changes, .. } if changes.iter().any(expires))
    }
}

/// All of a simulation: the same one has the same outcome every time.
#[derive(Clone, PartialEq, Debug)]
pub struct History {
    /// The disk's random seed.
    pub seed: u64,
    /// The argument of `esker-sim` that draws it, in addition to the seed.
    pub argument: &'static str,
    /// Whether the log has a disk of its own.
    pub own_log: bool,
    /// How many extents the pool has.
    pub extents: u8,
    /// How the database is first opened.
    pub settings: OpenSettings,
    /// The settings of the keyspace that always exists.
    pub default_keyspace: KeyspaceSettings,
    /// A table is among writes, as far as the disk knows, until so many calls after its own.
    pub settles_after: u64,
    /// Faults that strike one try each to create it, before a last try without.
    pub creation: Vec<Fault>,
    /// What happens.
    pub operations: Vec<Operation>,
}

impl History {
    /// Whether the files are encrypted: in one of four histories, which then has no pool.
    pub fn is_encrypted(&self) -> bool {
        self.seed % 4 == 2
    }

    /// The history of `seed`.
    pub fn draw(seed: u64) -> History {
        let mut rng = Rng::new(seed);
        let own_log = rng.one_in(4);
        // Of sixteen two segments are prepared ahead.
        let extents = [2, 3, 5, 16][rng.below(4) as usize];
        let settings = OpenSettings::draw(&mut rng);
        let creation = Recovery::draw(&mut rng).faults;
        let mut drawer = Drawer::new(rng);
        (drawer.merges, drawer.expires) = (merges(seed), expires(seed));
        let count = 40 + drawer.rng.below(220);
        let operations = (0..count).map(|_| drawer.operation()).collect();
        let mut operations = drawer.with_additions(seed, operations);
        if has_windows(seed) {
            operations.iter_mut().for_each(Operation::lengthen);
        }
        let mut rng = drawer.rng;
        let drawn = draw_keyspace(&mut rng);
        let default_keyspace = if rng.one_in(3) { KeyspaceSettings::default() } else { drawn };
        let window = has_windows(seed).then_some(WINDOW);
        let default_keyspace = like(default_keyspace, merges(seed), window);
        let settles_after = [0, 0, 30, 300][rng.below(4) as usize];
        History {
            seed,
            argument: "",
            own_log,
            extents,
            settings,
            default_keyspace,
            settles_after,
            creation,
            operations,
        }
    }

    /// The history of `seed` of a tree that grows to several levels: in one keyspace, longer, and compacted only as
    /// the pickers choose.
    pub fn draw_deep(seed: u64) -> History {
        let mut history = History { argument: " --deep", ..History::draw(seed) };
        let mut rng = Rng::new(seed ^ 0x0064_6565_7000);
        history.default_keyspace = draw_keyspace(&mut rng);
        if let Shape::Leveled { ratio } = &mut history.default_keyspace.shape {
            *ratio = 2 + *ratio % 2;
        }
        // Or a level that repeats its keys is hardly ever mostly empty, which is where it stays what it is.
        if let Dedup::PerLevel { threshold } = &mut history.default_keyspace.dedup {
            *threshold = Ratio::of_hundredths(105);
            history.default_keyspace.shape = Shape::Tiered { runs: 6 };
        }
        history.settles_after = [100, 300, 1000, 3000][rng.below(4) as usize];
        history.default_keyspace = like(history.default_keyspace, merges(seed), None);
        let count = 400 + rng.below(600);
        let mut drawer = Drawer::deep(rng);
        (drawer.merges, drawer.expires) = (merges(seed), expires(seed));
        let drawn = (0..count).map(|_| drawer.operation());
        let is_kept = |operation: &Operation| {
            let merges = matches!(operation, Operation::Compact | Operation::Settle);
            !merges && !matches!(operation, Operation::CreateSpace(..) | Operation::DropSpace(_))
        };
        let kept = drawn.filter(is_kept).collect();
        history.operations = drawer.with_additions(seed, kept);
        history
    }

    /// The history of `seed` with all that can go wrong left out, and nothing that depends on
    /// settings.
    pub fn draw_calm(seed: u64) -> History {
        let mut history = History { argument: " --calm", ..History::draw(seed) };
        history.creation.clear();
        history.operations.retain(|operation| {
            !matches!(
                operation,
                Operation::LosePower(_)
                    | Operation::Kill(_)
                    | Operation::Plan(..)
                    | Operation::LimitSpace(_)
            )
        });
        for operation in &mut history.operations {
            match operation {
                Operation::Reopen(recovery) => *recovery = Recovery::default(),
                // How much time passes depends on settings.
                Operation::Write { changes, .. } => changes.iter_mut().for_each(Change::stay),
                // So does whether there is a large value, and its length.
                Operation::Ingest(.., is_large) => *is_large = false,
                _ => {}
            }
        }
        history
    }
}

/// Whether the keyspaces of a history append by merges: of every other one.
fn merges(seed: u64) -> bool {
    seed % 2 == 1
}

/// Whether some entries of a history expire: in one of three.
pub fn expires(seed: u64) -> bool {
    seed % 3 == 1
}

/// Whether the keyspaces of a history have windows of time: of one in eight. They have no merges.
fn has_windows(seed: u64) -> bool {
    seed % 8 == 4
}

/// Draws operations in the mood of one history.
struct Drawer {
    rng: Rng,
    /// Whether some writes append.
    merges: bool,
    /// Whether some entries expire.
    expires: bool,
    /// Whether all goes to the keyspace that always exists.
    in_one_space: bool,
    /// Whether little is deleted.
    keeps_most: bool,
    keys: u64,
    value_bytes: u64,
    batch: u64,
    /// One in so many operations is a mishap; 0 for none.
    mishaps: u64,
    stamp: u32,
}

impl Drawer {
    fn new(mut rng: Rng) -> Self {
        Drawer {
            merges: false,
            expires: false,
            in_one_space: false,
            keeps_most: false,
            keys: [12, 60, 300, 1500][rng.below(4) as usize],
            value_bytes: [30, 600, 2500, 6000][rng.below(4) as usize],
            batch: [1, 4, 12, 40][rng.below(4) as usize],
            mishaps: [0, 12, 25, 60][rng.below(4) as usize],
            stamp: 0,
            rng,
        }
    }

    /// Draws large batches: over so many keys that data grows, or over fewer, so that there is obsolete data.
    fn deep(mut rng: Rng) -> Self {
        let grows = rng.one_in(2);
        Drawer {
            merges: false,
            expires: false,
            in_one_space: true,
            keeps_most: grows,
            keys: if grows { 4000 } else { 1500 },
            value_bytes: [600, 2500, 6000, 6000][rng.below(4) as usize],
            batch: 40,
            mishaps: [0, 40, 100][rng.below(3) as usize],
            stamp: 0,
            rng,
        }
    }

    fn key(&mut self) -> u16 {
        self.rng.below(self.keys) as u16
    }

    fn space(&mut self) -> u8 {
        // Half of all goes to the one that always exists.
        if self.in_one_space || self.rng.one_in(2) {
            0
        } else {
            self.rng.below(SPACES.len() as u64) as u8
        }
    }

    fn slot(&mut self) -> u8 {
        self.rng.below(SLOTS.into()) as u8
    }

    fn operation(&mut self) -> Operation {
        if self.mishaps > 0 && self.rng.one_in(self.mishaps) {
            return self.mishap();
        }
        match self.rng.below(100) {
            0..=54 => self.write(),
            55..=62 => self.read(),
            63..=70 => self.snapshot_or_cursor(),
            71..=76 => Operation::Step(1 + self.rng.below(6) as u8),
            77..=79 => Operation::Sleep(1 + self.rng.below(700) as u16),
            80..=83 => Operation::Sync,
            84..=86 => Operation::Flush,
            87 => Operation::Compact,
            88..=89 => Operation::Settle,
            90..=92 => Operation::CreateSpace(self.space(), self.rng.next_u64()),
            93 => Operation::DropSpace(self.space()),
            94 => Operation::Checkpoint,
            95 => Operation::ReadOnly,
            96 => Operation::Refused(self.rng.below(5) as u8),
            97 => Operation::FreeSpace,
            98 => Operation::CheckAll,
            _ => Operation::Reopen(Recovery::draw(&mut self.rng)),
        }
    }

    fn write(&mut self) -> Operation {
        let count = 1 + self.rng.below(self.batch);
        let changes = (0..count).map(|_| self.change()).collect();
        Operation::Write { changes, sync: self.rng.one_in(8) }
    }

    fn change(&mut self) -> Change {
        let (space, key) = (self.space(), self.key());
        if self.keeps_most {
            return self.change_that_keeps_most(space, key);
        }
        match self.rng.below(20) {
            0..=2 => Change::Delete(space, key),
            3 if self.rng.one_in(3) => Change::DeleteRange(space, key, self.key()),
            _ => self.put_or_merge(space, key),
        }
    }

    /// The same draws whether the history has merges and entries that expire or not.
    fn put_or_merge(&mut self, space: u8, key: u16) -> Change {
        self.stamp += 1;
        let bytes = self.rng.below(self.value_bytes) as u16;
        if self.merges && self.stamp.is_multiple_of(3) {
            return Change::Merge(space, key, self.stamp, bytes % 200);
        }
        if self.expires && self.stamp % 4 == 1 {
            // From at once to a few seconds.
            let ttl = (hash64(&self.stamp.to_le_bytes()) >> 32) as u16 % 3_000;
            return Change::PutTtl(space, key, self.stamp, bytes, ttl);
        }
        Change::Put(space, key, self.stamp, bytes)
    }

    fn change_that_keeps_most(&mut self, space: u8, key: u16) -> Change {
        /// Keys of one kind are so far apart.
        const KINDS: u16 = 5;
        match self.rng.below(50) {
            0 => Change::DeleteRange(space, key, key + KINDS),
            1..=3 => Change::Delete(space, key),
            _ => self.put_or_merge(space, key),
        }
    }

    fn read(&mut self) -> Operation {
        let space = self.space();
        if self.rng.one_in(2) {
            let count = 1 + self.rng.below(8);
            return Operation::Get(space, (0..count).map(|_| self.key()).collect());
        }
        Operation::Scan(space, self.key(), self.key())
    }

    fn snapshot_or_cursor(&mut self) -> Operation {
        let slot = self.slot();
        match self.rng.below(8) {
            0 | 1 => Operation::TakeSnapshot(slot),
            2 => Operation::ReadSnapshot(slot),
            3 => Operation::DropSnapshot(slot),
            4 | 5 => {
                let bounds = self.rng.one_in(2).then(|| (self.key(), self.key()));
                Operation::OpenCursor(slot, self.space(), bounds)
            }
            _ => {
                let count = 1 + self.rng.below(12);
                Operation::MoveCursor(slot, (0..count).map(|_| self.cursor_move()).collect())
            }
        }
    }

    fn cursor_move(&mut self) -> Move {
        match self.rng.below(12) {
            0 => Move::First,
            1 => Move::Last,
            2 => Move::Seek(self.key()),
            3 => Move::SeekBack(self.key()),
            4..=8 => Move::Next,
            _ => Move::Prev,
        }
    }

    fn mishap(&mut self) -> Operation {
        let recovery = Recovery::draw(&mut self.rng);
        match self.rng.below(10) {
            0 | 1 => Operation::LosePower(recovery),
            2 => Operation::Kill(recovery),
            3 => Operation::LimitSpace([0, 1, 20, 70, 200, 600][self.rng.below(6) as usize]),
            _ => Operation::Plan(Fault::draw(&mut self.rng, 60), recovery),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_draws_the_same_history_every_time() {
        assert_eq!(History::draw(5), History::draw(5));
        assert_ne!(History::draw(5), History::draw(6));
    }

    #[test]
    fn a_calm_history_has_writes_and_no_mishaps() {
        let histories: Vec<_> = (0..50).map(History::draw_calm).collect();
        let mut all = histories.iter().flat_map(|history| &history.operations);
        assert!(all.clone().any(|operation| matches!(operation, Operation::Write { .. })));
        assert!(!all.any(|operation| matches!(operation, Operation::Plan(..))));
    }
}
