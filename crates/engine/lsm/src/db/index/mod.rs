//! Secondary indexes of an open database: registration, the build over rows that exist, reads and
//! checks. `crate::index` keeps them up to date with writes.
//!
//! `register` creates, registers and drops indexes. `build` adds the entries of rows that exist.
//! `handle` is an index for its readers, `rows` what they read, and `check` compares both with the
//! rows.

mod build;
pub(crate) mod check;
pub(crate) mod handle;
mod register;
pub(crate) mod rows;
