//! The bytes of the protocol: against bytes written by hand from the specification, in any split, and damaged.

mod any_bytes;
mod auth;
mod commands;
mod handmade;
mod pdus;
mod refused;
mod splits;
mod structures;
