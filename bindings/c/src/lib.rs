//! The C library `libesker`: Esker for C, C++ and languages that call C.
//!
//! `include/esker.h` is generated from these sources, and is the documentation of the functions. It
//! has the rules of pointers that all of them share, which are the contract of each `unsafe` function
//! here. `docs/guide/c.md` shows how to use it.
//!
//! * `border` is what every function goes through: it catches panics, makes errors values, and reads
//!   arguments. All unsafe code is in it, but for the signatures.
//! * A handle is a type with the name that it has in C. It holds what it needs of the database, so
//!   handles may be freed in any order.

// The names are those of C.
#![allow(non_camel_case_types)]
// Bytes are two arguments.
#![allow(clippy::too_many_arguments)]
// The contract is in `esker.h`.
#![allow(clippy::missing_safety_doc)]

#[macro_use]
mod border;
pub mod backup;
pub mod batch;
pub mod bytes;
pub mod cursor;
pub mod database;
pub mod error;
pub mod keyspace;
pub mod open;
pub mod prepared;
pub mod reader;
pub mod repair;
pub mod settings;
pub mod snapshot;
pub mod stats;
pub mod status;
pub mod transaction;
mod transaction_cursor;
pub mod version;
