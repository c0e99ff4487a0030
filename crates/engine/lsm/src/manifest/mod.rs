//! The manifest: which tables, keyspaces and logs there are, as a checksummed list of edits.
//!
//! `CURRENT` names the one manifest file in force. A manifest file starts with a header and one edit
//! that describes everything (a snapshot); each later change of the tree is one more edit, synced
//! before anything relies on it. Opening a database writes a fresh file and points `CURRENT` at it,
//! so the file stays small and a leftover tail is never appended to.
//!
//! See `docs/formats/manifest.md`.

mod edit;
mod file;
pub mod invariants;
mod state;

#[cfg(test)]
pub(crate) use edit::tests::sample_table;
pub use edit::{Change, Edit, LogEnd};
pub(crate) use edit::{read_settings_property, settings_property};
pub use file::{
    CURRENT, Current, Manifest, Record, manifest_file_name, parse_manifest_file_name, read_current,
    read_manifest, read_pointer,
};
pub(crate) use file::{PreparedManifest, cut_off_at, read_prefix};
pub use state::{LogState, State};
