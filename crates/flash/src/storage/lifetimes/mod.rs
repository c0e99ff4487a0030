//! How long files live, and when the units that they are in are no longer written.
//!
//! Files with similar lifetimes share chunks (`lifetime`), so that whole chunks become free. A file whose units are no
//! longer written (`quiescence`) is read without waiting for writes.
//!
//! What must hold: the class of a file decides where it is written and never whether it can be read. It is stored with
//! the file, so an open knows it again.

pub(super) mod lifetime;
pub(super) mod quiescence;
