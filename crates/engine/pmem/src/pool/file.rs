//! Pools in files.

use super::{Pool, PoolRepair, check_bytes, examine};
use crate::domain::Accept;
use crate::format::HOLDER_AT;
use crate::latency::{InjectedLatency, LatencyRegion};
use crate::mapped::{MappedRegion, sync_directory, sync_directory_again, write_holder};
use crate::region::Region;
use esker_base::{Clock, Error, Result};
use rustix::io::Errno;
use std::fs::File;
use std::io::{ErrorKind, Read};
use std::path::Path;
use std::sync::Arc;

impl Pool {
    /// Creates a pool of `bytes` bytes at `path`, where no file may exist, and allocates all its
    /// blocks.
    ///
    /// # Errors
    /// * [`Error::InvalidSetting`] if `bytes` is not between 136 KiB and 64 TiB.
    /// * [`Error::PoolRefused`] if the file system of `path` is not accepted.
    /// * [`Error::Io`] if the file exists or cannot be created, for example on a full disk.
    pub fn create(path: impl AsRef<Path>, bytes: u64, accept: Accept) -> Result<Arc<Pool>> {
        let path = path.as_ref();
        check_bytes(bytes)?;
        if path.symlink_metadata().is_ok() {
            // Of a device, too, whose directory would be judged.
            return Err(explain(Error::io("create", name(path), Errno::EXIST.into()), path));
        }
        // Before so many blocks are asked for: where no pool can be, it is not space that is missing.
        MappedRegion::judge_place(path, accept)?;
        let region =
            MappedRegion::create(path, bytes, accept).map_err(|error| explain(error, path))?;
        write_holder(&region, HOLDER_AT);
        let created = Pool::format(Arc::new(region), &name(path), esker_base::seed_from_os())
            .and_then(|pool| sync_directory(path).map(|()| pool));
        if created.is_err() {
            // The first failure says more than that of the clean-up.
            let _ = std::fs::remove_file(path);
        }
        created
    }

    /// Opens the pool at `path` for its one writer.
    ///
    /// # Errors
    /// * [`Error::Locked`] if another writer has the pool open.
    /// * [`Error::PoolRefused`] if its file system is not accepted; [`Error::PoolDamaged`] if it is
    ///   damaged.
    /// * [`Error::NewerVersion`] or [`Error::UnknownFeatures`] if a newer release wrote it.
    /// * [`Error::Io`] if the file cannot be opened or mapped.
    pub fn open(path: impl AsRef<Path>, accept: Accept) -> Result<Arc<Pool>> {
        open_through(path.as_ref(), accept, |region| region)
    }

    /// Opens a pool for its one writer and adds latency, for experiments.
    ///
    /// # Errors
    /// The errors of [`Pool::open`].
    #[doc(hidden)]
    pub fn open_delayed(
        path: impl AsRef<Path>,
        accept: Accept,
        delays: InjectedLatency,
        clock: Arc<dyn Clock>,
    ) -> Result<Arc<Pool>> {
        let delay = |region| Arc::new(LatencyRegion::new(region, delays, clock)) as Arc<dyn Region>;
        open_through(path.as_ref(), accept, delay)
    }

    /// Opens a pool for reading, at its present state, also while its writer continues.
    ///
    /// By the time an extent is read, the writer may have reused it for another segment. Then its
    /// checksums fail.
    ///
    /// # Errors
    /// The errors of [`Pool::open`], except [`Error::Locked`].
    pub fn open_read_only(path: impl AsRef<Path>, accept: Accept) -> Result<Arc<Pool>> {
        let path = path.as_ref();
        Pool::over(Arc::new(MappedRegion::open_read_only(path, accept)?), &name(path))
    }

    /// Opens a pool even if it is damaged, and returns it with its damage.
    ///
    /// # Errors
    /// [`Error::PoolDamaged`] if the header is damaged; otherwise the errors of [`Pool::open`].
    #[doc(hidden)]
    pub fn inspect(
        path: impl AsRef<Path>,
        accept: Accept,
        how: PoolRepair,
    ) -> Result<(Arc<Pool>, Vec<Error>)> {
        let path = path.as_ref();
        let region = match how {
            PoolRepair::ToMend => MappedRegion::open(path, accept)?,
            PoolRepair::Alone | PoolRepair::Beside => MappedRegion::open_read_only(path, accept)?,
        };
        if how == PoolRepair::Alone {
            region.lock(path)?;
        }
        let examined = examine(&region, &name(path))?;
        if how == PoolRepair::ToMend {
            own(&region, path)?;
        }
        Ok((Pool::of(Arc::new(region), &name(path), &examined), examined.problems))
    }
}

/// The error of creating a pool, and if its name is taken by one that was never finished, what to do.
fn explain(error: Error, path: &Path) -> Error {
    match &error {
        Error::Io { source, .. }
            if source.kind() == ErrorKind::AlreadyExists && is_unfinished(path) =>
        {
            let reason = "there is a file already: a pool whose creation was not finished, or is going \
                          on, or a file that starts with zeros; if it is the former, nothing was ever \
                          written to it: remove it and create the pool again";
            Error::PoolRefused { pool: name(path), reason: reason.into() }
        }
        _ => error,
    }
}

/// Whether a file has not got as far as its magic.
fn is_unfinished(path: &Path) -> bool {
    let mut start = [0; 8];
    let is_file = path.metadata().is_ok_and(|found| found.is_file());
    let length = is_file.then(|| File::open(path).and_then(|mut file| file.read(&mut start)));
    matches!(length, Some(Ok(_))) && start == [0; 8]
}

fn name(path: &Path) -> String {
    path.display().to_string()
}

fn open_through(
    path: &Path,
    accept: Accept,
    wrap: impl FnOnce(Arc<dyn Region>) -> Arc<dyn Region>,
) -> Result<Arc<Pool>> {
    let region = Arc::new(MappedRegion::open(path, accept)?);
    let pool = Pool::over(wrap(region.clone()), &name(path))?;
    own(&region, path)?;
    Ok(pool)
}

/// What a writer does first, once it has seen that the file is a pool.
fn own(region: &MappedRegion, path: &Path) -> Result<()> {
    region.fill_holes(path)?;
    sync_directory_again(path)?;
    write_holder(region, HOLDER_AT);
    Ok(())
}
