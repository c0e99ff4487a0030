//! Compaction: merges runs into fewer, which bounds read amplification and frees the space of
//! overwritten and deleted data.
//!
//! ```text
//! version ──► pick ──► CompactionPlan ──► InProgressCompactions::claim ──► execute ──► CompactionResult ──► an edit ──► version
//!          pure; leveled, tiered,                the only I/O here;        by the caller
//!          per level, for a limit                version_filter decides
//!          of space, or manual                   what stays
//! ```
//!
//! * [`pick`]: chooses the next compaction, from a version alone. [`space`]: the same under a
//!   space-amplification limit.
//! * [`plan`]: defines a plan, of [`inputs`], why plans keep newer data above older, and which may
//!   run concurrently. [`debt`]: the work that is due.
//! * [`in_progress`]: the running plans and their claims. `input_expansion` widens a plan's inputs,
//!   and `detour` plans around unreadable tables.
//! * [`execute`]: executes a plan in parts, and leaves nothing behind if it fails.

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
