//! What a region's memory promises, and what its user is content with.

use std::fmt;

/// How far a store must get to survive power loss.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Domain {
    /// Out of the caches: a file on a DAX file system, mapped so that its blocks stay put.
    MapSync,
    /// Into the caches, which are part of the persistence domain.
    Eadr,
    /// Nothing survives: this is DRAM, with the same instructions so that their cost is the same.
    Emulated,
    /// Nothing is stored: a copy of a pool, on any other file system, to be looked at.
    Copy,
}

impl Domain {
    /// Whether stores survive power loss at all.
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
            Domain::Copy => "a copy, on a file system without DAX: to look at only",
        })
    }
}

/// What a caller agrees to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Accept {
    /// Persistent memory only; and, to look at, a copy on a file system that is neither that nor tmpfs.
    Persistent,
    /// The same, or a file on tmpfs in its stead.
    Emulated,
}
