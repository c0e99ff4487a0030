//! The directories outside the workspace that pools and logs are made in, while a campaign runs.
//!
//! Worker processes make them, and may be killed at any time: by the user, or with their terminal. So
//! what they make is in directories of the campaign's, which go with it.

use super::engines::{self, EngineSettings};
use super::log_device::LogDevice;
use crate::failure::{Failure, Outcome};
use std::path::Path;
use tempfile::TempDir;

/// Removed, with all that is in it, when this is dropped: after the last worker has gone.
pub struct Scratch {
    memory: Option<TempDir>,
    logs: Option<TempDir>,
}

impl Scratch {
    /// What these engines want, under these settings. Fails where nothing can be made there, so that
    /// no case runs before that shows.
    pub fn create(engines: &[String], settings: &EngineSettings) -> Outcome<Self> {
        let is_on = |disk: bool| {
            let on = |name: &String| match engines::log_device(name) {
                Some(device) => (device == LogDevice::Disk) == disk,
                None => !disk && engines::has_pool(name),
            };
            engines.iter().any(on)
        };
        let memory = is_on(false).then(|| make(&settings.pool.pool_dir)).transpose()?;
        let log_dir = settings.log_dir.as_deref().filter(|_| is_on(true));
        Ok(Scratch { memory, logs: log_dir.map(make).transpose()? })
    }

    /// The same settings, with pools and logs in here.
    pub fn within(&self, settings: &EngineSettings) -> EngineSettings {
        let mut settings = settings.clone();
        if let Some(memory) = &self.memory {
            settings.pool.pool_dir = memory.path().to_owned();
        }
        if let Some(logs) = &self.logs {
            settings.log_dir = Some(logs.path().to_owned());
        }
        settings
    }
}

fn make(parent: &Path) -> Outcome<TempDir> {
    tempfile::Builder::new().prefix("esker-bench-").tempdir_in(parent).map_err(|error| {
        let place = parent.display();
        Failure::io("create", format!("a directory for pools and logs in {place}"), error)
    })
}
