//! Logs that are kept for consumers of changes: none of them has a write that is not in tables.

use super::Inspector;
use crate::log::wal_files::log_file_name;
use crate::manifest::feed_changes::KeptLog;
use crate::manifest::manifest_state::ManifestState;
use esker_base::{Error, Result};

impl Inspector {
    /// Reports kept logs that are damaged or missing. `is_beside`: a writer may have let go of one meanwhile.
    pub(super) fn check_kept_logs(
        &self,
        state: &ManifestState,
        is_beside: bool,
        report: &mut dyn FnMut(Error),
    ) {
        for (epoch, kept) in self.kept_logs(state) {
            if let Err(error) = self.check_kept_log(epoch, &kept) {
                let is_there = self.log_storage.exists(&log_file_name(epoch)).unwrap_or(true);
                if is_there || !is_beside {
                    report(error);
                }
            }
        }
    }

    /// Takes damaged kept logs out of `state`, and those before them: a feed has no gap. Returns the names and what
    /// is wrong with them.
    pub(super) fn drop_damaged_kept_logs(
        &self,
        state: &mut ManifestState,
    ) -> Result<Vec<(String, String)>> {
        let mut damaged = Vec::new();
        let mut last = None;
        for (epoch, kept) in self.kept_logs(state) {
            match self.check_kept_log(epoch, &kept) {
                Err(error) if error.is_corruption() => {
                    damaged.push((log_file_name(epoch), error.fact()));
                    last = Some(epoch);
                }
                checked => checked?,
            }
        }
        state.feed.kept.retain(|&epoch, _| last.is_none_or(|last| epoch > last));
        Ok(damaged)
    }

    /// Those in files. A database whose log is in a pool now lets go of them at the next flush.
    fn kept_logs(&self, state: &ManifestState) -> Vec<(u32, KeptLog)> {
        let kept = state.feed.kept.iter().filter(|_| self.pool.is_none());
        kept.map(|(&epoch, &log)| (epoch, log)).collect()
    }

    fn check_kept_log(&self, epoch: u32, kept: &KeptLog) -> Result<()> {
        let log = self.read_log(epoch, Some(kept.end), Some(kept.first_seqno))?;
        let last = log.scan.frames.last().map(|frame| frame.next_seqno() - 1);
        if log.scan.end == kept.end.offset && last == Some(kept.end.last_seqno) {
            return Ok(());
        }
        let path = self.log_storage.path_of(&log.name);
        let what = format!(
            "no valid frame is here, and the log is kept for consumers of changes up to offset {} and \
             seqno {}",
            kept.end.offset, kept.end.last_seqno
        );
        Err(Error::corruption(path, log.scan.end, what))
    }
}
