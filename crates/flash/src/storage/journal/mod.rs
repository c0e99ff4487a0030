//! The journal: a snapshot of the directory and the edits since, in one of the device's first
//! chunks.
//!
//! When the chunk is full, and at the first change after an open, the directory is written as a
//! snapshot into another of these chunks, with the next generation. A process that only reads
//! writes nothing.
//!
//! * A chunk is valid if its snapshot is complete. Of several valid chunks, the newest generation
//!   counts.
//! * The previous chunk is kept until the new snapshot is complete. A chunk that a dead process
//!   left incomplete is never appended to.
//! * If damage removes an edit from the end, the chunk itself does not show it. Log records
//!   therefore name the edit that was durable when they were written (`proof`), and a close writes
//!   the directory a second time, as its own generation.
//! * A bad chunk may have contained the newest generation. Each generation therefore records which
//!   of these chunks were bad when it was written. The next generation can only be in the first
//!   following chunk that was not.
//!
//! `replay` makes the directory of what was found, and a snapshot of the directory.

pub(super) mod found;
pub(super) mod journal_file;
pub(super) mod marks;
pub(super) mod replay;
