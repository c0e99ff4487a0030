//! What reads lose beside writes: random reads in a closed loop, and writes at a fixed rate, on the
//! model, placed by a policy.
//!
//! * `store`: what the device holds, as a leveled tree would have it, and who of it is readable;
//! * `run`: the loop;
//! * `mix`: sequential reads and writes in one closed loop, on a device that hides where they lie;
//! * `overwrite`: tables that are overwritten until a device is full, without time.
//!
//! Reads are uniform over all data that is readable: so how much the units that are being written are
//! read is what the placement makes of it. The static policies follow the paper's benchmark instead:
//! what is read is never written.

mod mix;
mod overwrite;
mod run;
mod store;

pub use mix::{Mix, Rates};
pub use overwrite::{Filled, Overwrite};
pub use run::{Measured, Run, Trial, saturated};
pub use store::LEVELS;
