//! Persistence domains, and which of them a caller accepts.

use std::fmt;

/// The persistence domain of a pool: what its stores must reach to survive power loss.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "snake_case"))]
pub enum Domain {
    /// The memory behind the caches: a file on a DAX file system, mapped with `MAP_SYNC`.
    MapSync,
    /// The caches, which are part of the persistence domain (eADR).
    Eadr,
    /// None: DRAM that is accessed with the same instructions. Nothing survives power loss.
    Emulated,
    /// None: a copy of a pool on another file system, read-only.
    Copy,
}

impl Domain {
    /// Whether stores can survive power loss.
    pub fn survives_power_loss(self) -> bool {
        matches!(self, Domain::MapSync | Domain::Eadr)
    }
}

impl fmt::Display for Domain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Domain::MapSync => "persistent memory (DAX, MAP_SYNC)",
            Domain::Eadr => "persistent memory (DAX, MAP_SYNC, eADR)",
            Domain::Emulated => "emulated (DRAM: nothing survives power loss)",
            Domain::Copy => "a copy, on a file system without DAX: for inspection only",
        })
    }
}

/// The kinds of memory that a caller accepts for a pool.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Accept {
    /// Persistent memory only. To read, also a copy on a file system that is neither DAX nor tmpfs.
    Persistent,
    /// The same, and a file on tmpfs as an emulation.
    Emulated,
}
