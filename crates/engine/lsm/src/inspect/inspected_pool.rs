//! A pool of persistent memory that may be damaged.

use esker_base::Error;
use esker_pmem::{Accept, Pool};
use std::path::PathBuf;
use std::sync::Arc;

/// A pool that may be damaged.
#[derive(Clone)]
pub(super) struct InspectedPool {
    pub(super) pool: Arc<Pool>,
    /// What of it is corrupt.
    pub(super) problems: Vec<Error>,
    /// The file, and what is accepted of it; `None` if the pool is the caller's, who has it alone.
    pub(super) file: Option<(PathBuf, Accept)>,
}
