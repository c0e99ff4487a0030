//! Statistics as text.

use crate::border::{Failure, given, slot, text};
use crate::bytes::esker_bytes;
use crate::error::esker_error;
use crate::open::esker_db;
use crate::status::esker_status;
use esker::stats::prometheus;
use std::ffi::c_char;

/// Returns the most important statistics as text for people, one subject on a line. The text may change
/// between releases. The caller frees it.
///
/// `ESKER_CLOSED`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_stats_text(
    db: Option<&esker_db>,
    text_out: *mut esker_bytes,
    error: *mut *mut esker_error,
) -> esker_status {
    border!(error, {
        let out = slot(text_out, esker_bytes::NOTHING, "the statistics")?;
        let db = given(db, "db")?;
        db.closed.check()?;
        out.put(esker_bytes::of_text(db.db.stats().to_string()));
        Ok(())
    })
}

/// Returns all statistics as a JSON object, with the fields of the Rust type `esker::Stats`. The caller
/// frees it.
///
/// `ESKER_CLOSED`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_stats_json(
    db: Option<&esker_db>,
    text_out: *mut esker_bytes,
    error: *mut *mut esker_error,
) -> esker_status {
    border!(error, {
        let out = slot(text_out, esker_bytes::NOTHING, "the statistics")?;
        let db = given(db, "db")?;
        db.closed.check()?;
        let json = serde_json::to_string(&db.db.stats());
        let json = json.map_err(|why| Failure::new(esker_status::ESKER_OTHER, why.to_string()))?;
        out.put(esker_bytes::of_text(json));
        Ok(())
    })
}

/// Returns all statistics as a page for Prometheus, in its text format 0.0.4. `name` is the label
/// `database` of the metrics. Calls are timed for three minutes after each page. The caller frees it.
///
/// `ESKER_CLOSED`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_stats_prometheus(
    db: Option<&esker_db>,
    name: *const c_char,
    text_out: *mut esker_bytes,
    error: *mut *mut esker_error,
) -> esker_status {
    border!(error, {
        let out = slot(text_out, esker_bytes::NOTHING, "the page")?;
        let (db, name) = (given(db, "db")?, text(name, "name")?);
        db.closed.check()?;
        out.put(esker_bytes::of_text(prometheus::page([(name, &db.db.watched_stats())])));
        Ok(())
    })
}
