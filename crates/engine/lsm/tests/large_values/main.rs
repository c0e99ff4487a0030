//! Values that are larger than a log entry: how they are written and read, what they take, what a crash or
//! damage leaves of them, and what takes none.

#[path = "../support/killed.rs"]
mod killed;
#[path = "../support/pool_place.rs"]
mod pool_place;
#[path = "../support/replaced_file.rs"]
mod replaced_file;

mod batches;
mod copies;
mod crashes;
mod damage;
mod garbage;
mod pools;
mod reads;
mod refused;
mod support;
mod writes;
