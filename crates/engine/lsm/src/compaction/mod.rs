//! Compaction: merging runs into fewer, so that reads stay quick and what was overwritten or deleted
//! gives its space back.
//!
//! ```text
//! version ──► pick ──► Plan ──► Busy::claim ──► execute ──► Outcome ──► an edit ──► version
//!          pure; leveled, tiered,                the only I/O here;        by the caller
//!          per level, for a limit                version_filter decides
//!          of space, or manual                   what stays
//! ```
//!
//! * [`pick`]: what to do next, from a version alone. [`space`]: the same under a limit of space.
//! * [`plan`]: what a plan is, why plans keep newer data above older, and which may run together.
//! * [`in_progress`]: the plans that run, and what they keep others off. `input_expansion` widens a
//!   plan's inputs, and `detour` leads it around tables that can't be read.
//! * [`execute`]: does a plan, part by part, and leaves nothing behind if it fails.

pub(crate) mod detour;
pub mod execute;
pub mod in_progress;
pub(crate) mod input_expansion;
pub mod pick;
pub mod plan;
pub mod space;
#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
pub(crate) mod tests;
