//! What a device holds, for tools: inspection without a change, and repair.
//!
//! What must hold:
//!
//! * an inspection writes nothing;
//! * a repair writes nothing if nothing is damaged, and otherwise one new generation of the journal. It moves no data;
//! * a repair never takes an edit of a history that a later generation replaced.

pub(super) mod content;
mod pieces;
pub(super) mod repair;
