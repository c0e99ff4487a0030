//! The manifest: which tables, keyspaces and logs there are, as a checksummed list of edits.
//!
//! `CURRENT` names the one manifest file in force. A manifest file starts with a header and one edit
//! that describes everything (a snapshot); each later change of the tree is one more edit, synced
//! before anything relies on it. Opening a database writes a fresh file and points `CURRENT` at it,
//! so the file stays small and a leftover tail is never appended to.
//!
//! See `docs/formats/manifest.md`.

pub mod invariants;
pub mod manifest_file;
pub(crate) mod manifest_state;
pub(crate) mod undecided_drops;
pub mod version_edit;
pub(crate) mod version_set;
pub(crate) mod zombie_tables;
