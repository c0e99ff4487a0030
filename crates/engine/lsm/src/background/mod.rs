//! Background work: which job is next, how it runs, and what waits for it. `scheduler` has the state.
//!
//! Jobs run in lanes, so that none blocks another:
//!
//! * *prepare* prepares the next log segment;
//! * *flush* sorts MemTables and writes them to tables;
//! * *sync* makes the log durable when writers do not wait for that;
//! * *compaction* executes plans.
//!
//! The first three have one thread each, the last as many as the settings say. Databases that share
//! [`Resources`](crate::Resources) share these threads (`resources::crew`). Without threads, as in a
//! simulation, the owner steps all lanes.
//!
//! The lane keeps the error of a failed job and retries the job after a pause. A writer that needs
//! the result requests a retry at once, and gets the new error if that fails as well. So a full
//! disk stops writers with a reason, and freeing space resumes them.
//!
//! `steps` picks a job and runs it: `picker` asks `turns` for a due plan, `spare_plans` for one
//! against deletes, `segments` for a log segment, `deferral` for a pending install, and `log_space`
//! for log space to give back; `executor` runs it. `change` applies changes of settings.
//! `picker_context` collects what pickers know besides the version. Other threads wait in `wait` and
//! `idle`.

mod aging;
pub(crate) mod change;
mod deferral;
pub(crate) mod executor;
mod idle;
mod log_space;
pub(crate) mod picker;
pub(crate) mod picker_context;
mod segments;
mod served;
mod spare_plans;
pub(crate) mod steps;
mod turns;
pub(crate) mod wait;
