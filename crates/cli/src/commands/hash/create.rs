//! `esker hash create`: a new, empty store.

use crate::failure::{Failure, Outcome};
use crate::output::show;
use crate::units;
use esker_base::{Rng, seed_from_os};
use esker_hashstore::device::{Device, FileDevice};
use esker_hashstore::{CreateSettings, store_file};
use serde_json::json;
use std::path::PathBuf;

/// Create an empty store in a new file, or on a block device
///
/// The whole file is written now, so later writes need no space and change no metadata.
#[derive(clap::Args)]
pub struct Create {
    /// A file that does not exist, or a block device, all of which is used
    path: PathBuf,
    /// The file's size
    #[arg(long, value_name = "SIZE", value_parser = units::parse_bytes)]
    bytes: Option<usize>,
    /// Expected mean size of a key with its value; sets how many keys fit
    #[arg(long, value_name = "SIZE", default_value = "8KiB", value_parser = units::parse_bytes)]
    bytes_a_key: usize,
    /// Number of partitions, a power of two up to 64 [default: one per GiB]
    #[arg(long, value_name = "NUMBER")]
    partitions: Option<u32>,
    /// Use a block device that holds data. All of it is lost
    #[arg(long)]
    overwrite: bool,
}

impl Create {
    pub fn run(self) -> Outcome {
        let is_new = !self.path.exists();
        let settings = CreateSettings::default()
            .bytes_a_key(self.bytes_a_key as u64)
            .partitions(self.partitions);
        let bytes = self.bytes.map(|bytes| bytes as u64);
        let made = FileDevice::create_with(&self.path, bytes, |device| -> Outcome<_> {
            // What was there is a block device: a file would have been refused.
            if !is_new && !self.overwrite {
                expect_nothing(device)?;
            }
            Ok(store_file::create(device, &settings, &mut Rng::new(seed_from_os()))?)
        });
        let (device, layout) = made?;
        let partitions = u64::from(layout.partitions);
        let data = partitions * u64::from(layout.blocks()) * u64::from(layout.block_bytes);
        let facts = json!({
            "path": device.name(),
            "bytes": layout.device_bytes,
            "data_bytes": data,
            "partitions": partitions,
            "partition_bytes": layout.region_bytes,
            "is_direct": device.is_direct(),
        });
        let mut text = format!(
            "{}: {}, of which {} for keys and values, in {} of {} each\n",
            device.name(),
            units::bytes(layout.device_bytes),
            units::bytes(data),
            units::counted(partitions, "partition"),
            units::bytes(layout.region_bytes),
        );
        if !device.is_direct() {
            text +=
                "The file system has no direct I/O: it will be written through the page cache.\n";
        }
        show(|| facts, || text)
    }
}

/// Fails if the device holds something.
fn expect_nothing(device: &dyn Device) -> Outcome {
    match store_file::found(device)? {
        None => Ok(()),
        Some(what) => Err(Failure::new(format!(
            "{} holds {what}: with --overwrite all that is on it is lost",
            device.name()
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::FileExt;

    const BYTES: u64 = 4 << 20;

    fn refusal(device: &dyn Device) -> Option<String> {
        match expect_nothing(device) {
            Err(Failure::Failed(message)) => Some(message),
            _ => None,
        }
    }

    #[test]
    fn a_device_that_holds_something_is_left_alone() {
        let directory = tempfile::tempdir().unwrap();
        // Files stand for devices.
        let path = directory.path().join("device");
        let device = FileDevice::create(&path, Some(BYTES)).unwrap();
        assert_eq!(refusal(&device), None);
        // Where ext4 has its superblock's magic.
        let file = std::fs::File::options().write(true).open(&path).unwrap();
        file.write_all_at(&[0x53, 0xef], 1080).unwrap();
        file.sync_all().unwrap();
        let message = refusal(&device).unwrap();
        assert!(message.contains("data, from byte 1080 on: with --overwrite"), "{message}");
        store_file::create(&device, &CreateSettings::default(), &mut Rng::new(1)).unwrap();
        let message = refusal(&device).unwrap();
        assert!(message.contains("a hash store"), "{message}");
    }
}
