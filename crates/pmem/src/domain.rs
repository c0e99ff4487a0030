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
}

impl Domain {
    /// Whether stores survive power loss at all.
    pub fn survives_power_loss(self) -> bool {
        self != Domain::Emulated
    }
}

impl fmt::Display for Domain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Domain::MapSync => "persistent memory (DAX, MAP_SYNC)",
            Domain::Eadr => "persistent memory (DAX, MAP_SYNC, eADR)",
            Domain::Emulated => "emulated (DRAM: nothing survives power loss)",
        })
    }
}

/// What a caller agrees to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Accept {
    /// Persistent memory only.
    Persistent,
    /// Persistent memory, or a file on tmpfs in its stead.
    Emulated,
}
