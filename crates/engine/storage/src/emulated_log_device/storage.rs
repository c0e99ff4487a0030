//! A storage whose logs are on an emulated device. Everything else in it is as it was.

use super::{Device, DeviceFile};
use crate::{FileSystemWrapper, LogFile, Pace, ReadableFile, Storage};
use esker_base::Result;
use std::sync::Arc;

/// See the file's head.
pub struct DeviceStorage<S> {
    inner: S,
    device: Arc<Device>,
}

impl<S: Storage> DeviceStorage<S> {
    /// `inner`, whose logs take the time of `device`.
    pub fn new(inner: S, device: Arc<Device>) -> Self {
        DeviceStorage { inner, device }
    }

    fn on_device(&self, log: Arc<dyn LogFile>) -> Arc<dyn LogFile> {
        Arc::new(DeviceLog { inner: log, file: self.device.file() })
    }
}

impl<S: Storage> FileSystemWrapper for DeviceStorage<S> {
    fn below(&self) -> &dyn Storage {
        &self.inner
    }

    fn open_for_caching(&self, name: &str) -> Result<Arc<dyn ReadableFile>> {
        self.inner.open_for_caching(name)
    }

    fn create_log(&self, name: &str, bytes: u64) -> Result<Arc<dyn LogFile>> {
        Ok(self.on_device(self.inner.create_log(name, bytes)?))
    }

    fn create_log_in_steps(
        &self,
        name: &str,
        bytes: u64,
        prepared: u64,
    ) -> Result<Arc<dyn LogFile>> {
        Ok(self.on_device(self.inner.create_log_in_steps(name, bytes, prepared)?))
    }

    fn recycle_log(&self, old: &str, new: &str, bytes: u64) -> Result<Option<Arc<dyn LogFile>>> {
        Ok(self.inner.recycle_log(old, new, bytes)?.map(|log| self.on_device(log)))
    }

    fn open_log(&self, name: &str) -> Result<Arc<dyn LogFile>> {
        Ok(self.on_device(self.inner.open_log(name)?))
    }
}

struct DeviceLog {
    inner: Arc<dyn LogFile>,
    file: DeviceFile,
}

impl LogFile for DeviceLog {
    fn prepare(&self, through: u64, pace: Pace) -> Result<()> {
        self.inner.prepare(through, pace)
    }

    fn give_back(&self, from: u64) -> bool {
        self.inner.give_back(from)
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.inner.write_at(offset, bytes)?;
        self.file.wrote(bytes.len() as u64);
        Ok(())
    }

    fn sync(&self) -> Result<()> {
        self.file.sync(|| self.inner.sync())
    }

    fn name(&self) -> &str {
        self.inner.name()
    }
}
