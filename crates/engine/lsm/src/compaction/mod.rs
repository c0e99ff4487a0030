//! Compaction: merging runs into fewer, so that reads stay quick and what was overwritten or deleted
//! gives its space back.
//!
//! ```text
//! version ──► pick ──► Plan ──► Busy::claim ──► execute ──► Outcome ──► an edit ──► version
//!          pure; leveled, tiered,                the only I/O here;        by the caller
//!          per level, for a space                fold decides what stays
//!          goal, or full
//! ```
//!
//! * [`pick`](pick::pick), [`pick::pick_aged`], [`pick::pick_idle`], [`full`](full::full): what to do next, from a version alone.
//! * [`plan`]: what a plan is, why plans keep newer data above older, and which may run together.
//! * [`monitor`]: how much a level repeats itself, from its tables' sketches.
//! * [`mod@estimate`]: what a merge would keep, from the tables' samples; [`space`]: what a keyspace may take.
//! * [`fold`]: what becomes of each version, given the snapshots. Flush folds too.
//! * [`execute`](execute::execute_part): does a plan, part by part, and leaves nothing behind if it fails.

mod alike;
pub mod arrival;
mod busy;
mod candidates;
pub mod coverage;
mod cuts;
mod deleted;
mod deletes;
mod detour;
pub mod estimate;
pub mod execute;
pub mod fold;
pub mod full;
pub mod history;
mod leveled;
pub mod monitor;
pub mod output;
mod per_level;
pub mod pick;
pub mod plan;
mod reach;
mod search;
mod second_count;
pub mod sizes;
pub mod space;
mod space_goal;
pub mod span;
pub mod stripes;
#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;
mod tiered;

pub use arrival::Arrival;
pub use busy::{Busy, Held};
pub use estimate::{Estimate, estimate};
pub use execute::{Context, Failure, Outcome, execute_part};
pub use fold::{Fate, Fold};
pub use full::full;
pub use history::History;
pub use monitor::Monitors;
pub use output::{write_cut_tables, write_table};
pub use pick::{Debt, Moved, admits_flush, debt, flush_cuts, is_due, pick, pick_aged, pick_idle};
pub use plan::{Cutting, Part, Place, Plan, PlanInput, Reason};
pub use sizes::Sizes;
pub use space::{Ledger, Surroundings};
