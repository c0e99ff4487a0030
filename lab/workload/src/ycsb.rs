//! The Yahoo! Cloud Serving Benchmark (Cooper et al., SoCC 2010) with the meaning that its core
//! workload has, and what the paper on write-behind logging adds: G, H and `rmw`.
//!
//! * A [`Load`] writes the records, then a [`Run`] does the operations: two workloads, so that they
//!   can be measured apart. Both **divide** their work among their threads.
//! * Keys are `user` and the record's number, hashed with FNV-1a unless asked otherwise, so the
//!   keys here are those that YCSB's own client makes.
//! * A value is the fields back to back, ten of a hundred bytes each. Names of fields are not
//!   stored, so all stores keep the same bytes; reading one field is reading the record.
//! * An update writes a whole record ([`Update::Whole`]), where YCSB writes one field unless it is
//!   configured with `writeallfields=true`. In a key-value store that one field would make every update a
//!   read-modify-write; [`Update::Field`] has it so.
//! * A read-modify-write reads once and writes once. YCSB's bindings for key-value stores read a
//!   second time within the write.
//! * With [`Options::verify`] every value carries a stamp of its key, its write and its bytes, and a
//!   run remembers the last write of each record. A read that gives something else, something older
//!   or nothing fails the run. So does a scan that is out of order, or passes over or ends before a
//!   record that was loaded; it may pass over one that was inserted since. Verification costs one
//!   more pass over each value and 16 bytes of memory a record, with scans 24.
//! * [`property_file`] reads YCSB's own files.

mod client;
mod history;
mod key;
mod load;
mod mix;
mod options;
mod preset;
pub mod property_file;
mod record;
mod requests;
mod run;
mod scan_check;
mod scans;
mod verification;

pub use key::{KeyOrder, RecordKey};
pub use load::Load;
pub use mix::Mix;
pub use options::{Options, Update};
pub use preset::Preset;
pub use requests::Requests;
pub use run::Run;
pub use scans::{Lengths, Scans};

#[cfg(test)]
mod tests;
