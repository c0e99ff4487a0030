//! Compaction: merges runs into fewer, which bounds read amplification and frees the space of
//! overwritten and deleted data.
//!
//! ```text
//! version ─► pick ─► CompactionPlan ─► claim ─► execute ─► CompactionResult ─► edit ─► version
//!            no I/O                              the only                      by the
//!                                                I/O here                      caller
//! ```
//!
//! * [`pick`]: chooses the next compaction, from a version alone. [`space`]: the same under a
//!   space-amplification limit.
//! * [`plan`]: defines a plan, of [`inputs`], and which plans may run concurrently. A plan never moves
//!   newer data below older data of the same keys: [`plan`] has the argument. [`debt`]: the work that is due.
//! * [`in_progress`]: the running plans and their claims. `input_expansion` widens a plan's inputs,
//!   and `detour` plans around unreadable tables.
//! * [`execute`]: executes a plan in parts, and removes its outputs if it fails.

pub mod debt;
pub(crate) mod detour;
pub mod execute;
pub mod in_progress;
pub(crate) mod input_expansion;
pub mod inputs;
pub mod pick;
pub mod plan;
pub mod space;
#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
pub(crate) mod tests;
pub(crate) mod value_collection;
