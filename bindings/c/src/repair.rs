//! Repair of a damaged database.

use crate::border::{Failure, path, slot};
use crate::bytes::esker_bytes;
use crate::error::esker_error;
use crate::status::esker_status;
use esker::inspect::{Inspector, MissingLogPolicy};
use std::ffi::c_char;

/// Makes a database of what can be read in the directory `dir`, and drops the rest. No process may have
/// it open. `log_dir` is where its logs are, or NULL if they are in `dir`.
///
/// Keeps intact tables, every readable block of damaged ones, and the writes of the log before the first
/// damaged one. Damaged files are renamed to NAME.damaged. Where data is lost, an older or a deleted
/// value of a key may return: if there is a copy of the database, use the copy. If log files are missing,
/// it fails, unless `gives_up_logs`: then the writes in them are lost. Gives a report as JSON to
/// `json_out`, which may be NULL; the caller frees it.
///
/// `ESKER_NOT_A_DATABASE` if nothing is there to go by; `ESKER_LOCKED`, `ESKER_NEWER_FORMAT`,
/// `ESKER_ENCRYPTION`, `ESKER_IO`; `ESKER_CORRUPTION` if a log is missing. After an error, and if nothing
/// is damaged, everything is as it was.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_repair(
    dir: *const c_char,
    log_dir: *const c_char,
    gives_up_logs: bool,
    json_out: *mut esker_bytes,
    error: *mut *mut esker_error,
) -> esker_status {
    border!(error, {
        let out = match json_out.is_null() {
            true => None,
            false => Some(slot(json_out, esker_bytes::NOTHING, "the report")?),
        };
        let log_dir = match log_dir.is_null() {
            true => None,
            false => Some(path(log_dir, "log_dir")?),
        };
        let policy = match gives_up_logs {
            true => MissingLogPolicy::GiveUp,
            false => MissingLogPolicy::Refuse,
        };
        let report = Inspector::open(path(dir, "dir")?, log_dir)?.repair(policy)?;
        if let Some(out) = out {
            let json = serde_json::to_string(&report);
            let json =
                json.map_err(|error| Failure::new(esker_status::ESKER_OTHER, error.to_string()))?;
            out.put(esker_bytes::of_text(json));
        }
        Ok(())
    })
}
