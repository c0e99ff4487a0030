//! The functions of `esker.h` do what it says, called as C calls them.

#[macro_use]
mod support;

mod cursors;
mod errors;
mod nulls;
mod order;
mod places;
mod readers;
mod repairs;
mod settings;
mod threads;
mod transactions;
mod values;
