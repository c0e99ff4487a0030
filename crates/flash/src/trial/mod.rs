//! Measures how much writes slow down reads: random reads in a closed loop and writes at a fixed
//! rate, on the model, with a given placement policy.
//!
//! * `store`: the data on the device, as in a leveled tree, and which of it is readable;
//! * `run`: the loop;
//! * `mix`: sequential reads and writes in one closed loop, on a device that hides placement;
//! * `overwrite`: overwrites tables until a device is full, without time.
//!
//! Reads are uniform over all readable data, so the placement alone determines how often the units
//! being written are read. The static policies follow the published benchmark instead: the data
//! that is read is never written.

mod mix;
mod overwrite;
mod run;
mod store;

pub use mix::{Mix, Rates};
pub use overwrite::{Filled, Overwrite};
pub use run::{Measured, Run, Trial, saturated};
pub use store::LEVELS;
