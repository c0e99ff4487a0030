//! Measures how much writes slow down reads: random reads in a closed loop and writes at a fixed
//! rate, on the model, with a given placement policy.
//!
//! * `store`: the data on the device, as in a leveled tree, and which of it is readable;
//! * `run`: the loop;
//! * `mixed`: sequential reads and writes in one closed loop, on a device that hides placement;
//! * `overwrite`: overwrites tables until a device is full, without time.
//!
//! Reads are uniform over all readable data, so the placement alone determines how often the units
//! being written are read. The static policies follow the published benchmark instead: the data
//! that is read is never written.

mod mixed;
mod overwrite;
mod run;
mod store;

pub use mixed::{MixedLoad, Rates};
pub use overwrite::{FillResult, Overwrite};
pub use run::{InterferenceTest, Measurement, Run, saturated};
pub use store::LEVELS;
