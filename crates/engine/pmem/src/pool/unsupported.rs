//! Pools in files, on systems where they are not known to be persistent memory: there are none.

use super::{PoolRepair, Pool};
use crate::latency::InjectedLatency;
use crate::domain::Accept;
use esker_base::{Clock, Error, Result};
use std::path::Path;
use std::sync::Arc;

fn refuse<T>(path: &Path) -> Result<T> {
    let reason = "pools are files on Linux only; use a log file instead".into();
    Err(Error::PoolRefused { pool: path.display().to_string(), reason })
}

impl Pool {
    /// Refused.
    pub fn create(path: impl AsRef<Path>, _bytes: u64, _accept: Accept) -> Result<Arc<Pool>> {
        refuse(path.as_ref())
    }

    /// Refused.
    pub fn open(path: impl AsRef<Path>, _accept: Accept) -> Result<Arc<Pool>> {
        refuse(path.as_ref())
    }

    /// Refused.
    #[doc(hidden)]
    pub fn open_delayed(
        path: impl AsRef<Path>,
        _accept: Accept,
        _delays: InjectedLatency,
        _clock: Arc<dyn Clock>,
    ) -> Result<Arc<Pool>> {
        refuse(path.as_ref())
    }

    /// Refused.
    pub fn open_read_only(path: impl AsRef<Path>, _accept: Accept) -> Result<Arc<Pool>> {
        refuse(path.as_ref())
    }

    /// Refused.
    #[doc(hidden)]
    pub fn inspect(
        path: impl AsRef<Path>,
        _accept: Accept,
        _how: PoolRepair,
    ) -> Result<(Arc<Pool>, Vec<Error>)> {
        refuse(path.as_ref())
    }
}
