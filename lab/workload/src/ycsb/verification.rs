//! What the threads of a verified run share: the writes of each record and, for scans, which records
//! follow each other.

use super::Options;
use super::history::History;
use super::scan_check::{LoadedKeys, ScanCheck};

/// Made once a run.
#[derive(Debug)]
pub(super) struct Verification {
    pub(super) history: History,
    loaded: Option<LoadedKeys>,
}

impl Verification {
    pub(super) fn new(options: &Options) -> Self {
        let loaded = options.loaded();
        Verification {
            history: History::new(loaded.start, loaded.end - loaded.start),
            loaded: (options.mix.scan > 0.0).then(|| LoadedKeys::new(options)),
        }
    }

    /// One thread's check of its scans.
    pub(super) fn scan_check(&self, options: &Options) -> Option<ScanCheck<'_>> {
        let loaded = self.loaded.as_ref()?;
        Some(ScanCheck::new(&self.history, loaded, options))
    }
}
