//! What transactions promise, over a real database in memory.

mod anomalies;
mod deadlocks;
mod ends;
mod failures;
mod locks;
mod plain_writes;
mod support;
