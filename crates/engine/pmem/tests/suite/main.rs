//! Pools in files.

mod golden;
mod mend;
mod pool;
