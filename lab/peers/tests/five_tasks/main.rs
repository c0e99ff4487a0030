//! The five tasks of `docs/guide/migrating.md` in other engines, as that page shows them. A test over the
//! page (`crates/cli/tests/layout/five_tasks.rs`) requires that its lines are these.

#[cfg(feature = "fjall")]
mod fjall;
#[cfg(feature = "redb")]
mod redb;
