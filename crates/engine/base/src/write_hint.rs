//! What the engine says to a storage about a file when it creates it.

/// What a file holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum FileKind {
    /// A log segment: written once in order, then recycled or removed within minutes.
    Log,
    /// One or more tables.
    Table,
    /// Tables that are read once, in order, and removed. They need not survive a power loss.
    Scratch,
    /// The manifest.
    Manifest,
    /// Anything small: lock, identity.
    Meta,
}

/// Placement hint, given at file creation. A storage may ignore it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WriteHint {
    /// What the file holds.
    pub kind: FileKind,
    /// For tables, the level they are written to; 0 otherwise. Deeper files live longer.
    pub level: u8,
    /// For tables, how many bytes of tables their database is expected to write from their creation to their
    /// removal. `None` while nothing is known of that; the level has to do then. It is an estimate: a storage must not
    /// rely on it.
    pub expected_lifetime: Option<u64>,
}

impl WriteHint {
    /// A hint for a file that belongs to no level.
    pub const fn of(kind: FileKind) -> Self {
        WriteHint { kind, level: 0, expected_lifetime: None }
    }

    /// A hint for tables of `level`, of which nothing else is known.
    pub const fn table(level: u8) -> Self {
        WriteHint { kind: FileKind::Table, level, expected_lifetime: None }
    }

    /// The same, and how long the file is expected to live.
    pub const fn living(self, expected_lifetime: Option<u64>) -> Self {
        WriteHint { expected_lifetime, ..self }
    }
}
