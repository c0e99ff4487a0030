//! Followers: databases that another process writes, and whose writes become visible here.

mod anew;
mod between_reads;
mod every_call;
mod files;
mod model;
mod refused;
mod repaired;
mod replaced;
mod support;
mod threads;
