//! The native methods of `esker.Native`, which the classes of the Java package call.
//!
//! A handle of Java is a number, not an address: [`table`] maps it to the object. So a call with a
//! handle that was closed, by whichever thread, is an exception. [`border`] is what each method goes
//! through: it throws what fails, and lets no panic reach the Java machine.

mod batch;
mod border;
mod calls;
mod database;
mod foreign;
mod keyspace;
mod scan;
mod snapshot;
mod table;
mod transaction;
