//! A database that another process writes, followed by this one: what that one writes becomes visible
//! here.
//!
//! * `tail` reads the manifest and the logs; `log_tail` reads one log into a MemTable.
//! * `catch_up` publishes what was read, as a view of its own. A reader pins a view and reads at its end, so
//!   it sees whole batches, and all of them up to some sequence number.
//!
//! The writer knows nothing of its followers. Tables are open before a view has them, so the writer may
//! remove their files. A log that it removes or uses again is in tables, which the manifest says. A
//! snapshot keeps its view, because compactions keep nothing for it.
//!
//! The writer may show less after a crash than a follower has read. So after another process has opened the
//! database for writing, a follower begins anew.

pub(crate) mod catch_up;
mod log_tail;
pub(crate) mod tail;
