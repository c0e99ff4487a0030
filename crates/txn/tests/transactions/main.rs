//! What transactions promise, over a real database in memory.

mod anomalies;
mod deadlocks;
mod ends;
mod locks;
mod plain_writes;
mod support;
