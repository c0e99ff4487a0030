//! The manifest: the tables, keyspaces and logs of a database, as a checksummed list of edits.
//!
//! `CURRENT` names the manifest file in use. A manifest file starts with a header and one edit with
//! the whole state (a snapshot). Each later change of the tree is one more edit, synced before
//! anything relies on it. Each open writes a new file and points `CURRENT` at it, so the file stays
//! small and an incomplete record is never appended to.
//!
//! `version_set` is the one place that appends an edit and publishes the version that it makes;
//! `version_edit` encodes edits, `manifest_state` applies them, and `invariants` checks the result.
//! `feed_changes` and `feed_state` are the part of both for change feeds.
//! `manifest_file` reads and writes records, `encrypted_current` reads `CURRENT`, and `manifest_tail`
//! reads records that another process appends. `zombie_tables` holds files that readers still use.
//!
//! See `docs/formats/manifest.md`.

mod encrypted_current;
pub mod feed_changes;
pub(crate) mod feed_state;
#[cfg(test)]
mod golden;
pub mod invariants;
mod lifetimes_code;
pub mod manifest_file;
mod manifest_record;
pub(crate) mod manifest_state;
pub(crate) mod manifest_tail;
pub(crate) mod original;
pub(crate) mod settings_code;
mod table_code;
pub(crate) mod undecided_drops;
pub mod version_edit;
pub(crate) mod version_set;
pub(crate) mod zombie_tables;
