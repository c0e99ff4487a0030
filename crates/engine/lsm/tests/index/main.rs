//! Secondary indexes: whatever happens, an index that is ready has exactly the entries of the rows.

mod bad_input;
mod basic;
mod crashes;
mod model;
mod reopened;
mod support;
mod threads;
