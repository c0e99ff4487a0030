//! What the logs of engines are on: devices that are emulated, this machine's disk, or memory that is
//! for persistent memory.

use super::engine_settings::EngineSettings;
use super::pool::EMULATED;
use crate::failure::{Failure, Outcome};
use esker_base::SystemClock;
use esker_storage::emulated_log_device::DeviceProfile;
use esker_storage::{Device, DeviceStorage, PosixStorage, Storage};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A device for a log, by name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LogDevice {
    /// A [`DeviceProfile`] of this name, its bytes in memory.
    Emulated(&'static str),
    /// The disk of the store, or of the directory that the user names: measured as it is.
    Disk,
    /// A file system on persistent memory: here tmpfs, whose syncs have nothing to do.
    Pmem,
}

/// A device with a directory on it, open.
pub struct OpenLog {
    what: LogDevice,
    /// Removed with this, if it is in memory or where the user said.
    temporary: Option<tempfile::TempDir>,
    dir: PathBuf,
    device: Arc<Device>,
}

impl LogDevice {
    fn profile(self) -> Option<DeviceProfile> {
        match self {
            LogDevice::Emulated(name) => {
                Some(DeviceProfile::named(name).expect("engines name profiles that are there"))
            }
            LogDevice::Disk | LogDevice::Pmem => None,
        }
    }

    /// What is not what it is called, if anything.
    pub fn emulation(self) -> Option<String> {
        match self {
            LogDevice::Emulated(name) => {
                let profile = self.profile()?;
                Some(format!(
                    "the log device {name}, by a file on tmpfs whose syncs take {:?} and {} MB/s \
                     ({})",
                    profile.sync,
                    profile.bytes_per_second / 1_000_000,
                    profile.source
                ))
            }
            LogDevice::Disk => None,
            LogDevice::Pmem => Some(format!("{EMULATED}, for a log in files")),
        }
    }

    /// Opens it for the log of the store in `dir`.
    pub fn open(self, dir: &Path, settings: &EngineSettings) -> Outcome<OpenLog> {
        let clock = Arc::new(SystemClock::new());
        let parent = match self {
            LogDevice::Disk => settings.log_dir.as_deref(),
            LogDevice::Emulated(_) | LogDevice::Pmem => Some(settings.pool.pool_dir.as_path()),
        };
        let failed = |error| {
            let place = parent.unwrap_or(dir).display();
            Failure::io("create", format!("a directory for logs in {place}"), error)
        };
        let make = |parent| tempfile::Builder::new().prefix("esker-log-").tempdir_in(parent);
        let temporary = parent.map(make).transpose().map_err(failed)?;
        let log_dir = match &temporary {
            Some(made) => made.path().to_owned(),
            None => dir.join("log"),
        };
        if temporary.is_none() {
            std::fs::create_dir_all(&log_dir).map_err(failed)?;
        }
        let device = match self.profile() {
            Some(profile) => Device::emulated(profile, clock),
            None => Device::real(clock),
        };
        Ok(OpenLog { what: self, temporary, dir: log_dir, device })
    }
}

impl OpenLog {
    /// The directory.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The device, with its account.
    pub fn device(&self) -> &Arc<Device> {
        &self.device
    }

    /// The directory as Esker's logs are kept in it.
    pub fn storage(&self) -> Outcome<Arc<dyn Storage>> {
        let storage = PosixStorage::open(&self.dir)?;
        Ok(Arc::new(DeviceStorage::new(storage, self.device.clone())))
    }

    /// What was set, by name.
    pub fn named(&self) -> BTreeMap<String, String> {
        let device = self.what.emulation().unwrap_or_else(|| {
            let whose = if self.temporary.is_some() { "that of --log-dir" } else { "the store's" };
            format!("the disk: {whose}")
        });
        BTreeMap::from([("log_device".to_owned(), device)])
    }
}
