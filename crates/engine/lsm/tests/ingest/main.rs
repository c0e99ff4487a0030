//! Ingest: sorted entries that become visible at once, whatever else happens.

mod bad_input;
mod bulk;
mod crashes;
mod files;
mod model;
mod order;
mod support;
mod threads;
