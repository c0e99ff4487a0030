//! Long values in value files: what readers see, what compaction carries, what is collected, and what
//! becomes of a damaged file.

#[path = "../support/replaced_file.rs"]
mod replaced_file;

mod collection;
mod copies;
mod crashes;
mod damage;
mod device_errors;
mod reads;
mod support;
