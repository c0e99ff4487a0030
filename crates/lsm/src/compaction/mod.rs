//! Compaction.

pub mod busy;
pub mod coverage;
pub mod execute;
pub mod fold;
pub mod full;
mod leveled;
pub mod output;
pub mod pick;
pub mod plan;
pub mod sizes;
pub mod span;
pub mod stripes;
#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;
mod tiered;

pub use busy::Busy;
pub use execute::{Context, Outcome, execute, execute_part};
pub use fold::{Fate, Fold};
pub use full::full;
pub use output::write_table;
pub use pick::{Debt, debt, pick};
pub use plan::{Part, Place, Plan, PlanInput, Reason};
pub use sizes::Sizes;
