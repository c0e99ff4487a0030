//! RocksDB's log on an emulated device.
//!
//! RocksDB does all I/O through a replaceable `FileSystem`. The one in `shim.cc` forwards
//! everything to the operating system, and reports each written file, each write and each sync to
//! this side. For logs, this side answers with a [`DeviceFile`]: the code that computes and waits
//! for the device time of Esker's log.

use ::rocksdb::Env;
use esker_storage::Device;
use esker_storage::emulated_log_device::DeviceFile;
use std::ffi::{c_char, c_void};
use std::sync::Arc;

/// As `shim.cc` has it.
#[repr(C)]
struct Watcher {
    context: *const c_void,
    // SAFETY: of each it is said below what its caller promises; `shim.cc` alone calls them.
    opened: unsafe extern "C" fn(*const c_void, *const c_char, usize) -> *mut c_void,
    wrote: unsafe extern "C" fn(*const c_void, usize),
    sync: unsafe extern "C" fn(*const c_void, unsafe extern "C" fn(*mut c_void), *mut c_void),
    closed: unsafe extern "C" fn(*mut c_void),
    dropped: unsafe extern "C" fn(*const c_void),
}

// SAFETY: declared as in `shim.cc`.
unsafe extern "C" {
    /// Copies the watcher. Its calls come until `dropped`.
    fn esker_peers_watched_env(watcher: *const Watcher) -> *mut c_void;
}

/// The operating system's files, logs lying on `device`.
pub(super) fn with_logs_on(device: Arc<Device>) -> Env {
    let watcher =
        Watcher { context: Arc::into_raw(device).cast(), opened, wrote, sync, closed, dropped };
    // SAFETY: the context is a device that is counted until `dropped`, as the functions below want
    // it; the result is an env that nobody else has, as `from_raw` wants it.
    unsafe { Env::from_raw(esker_peers_watched_env(&watcher).cast()) }
}

/// How the name of a log ends. RocksDB's log of events is called `LOG`.
const LOG_SUFFIX: &[u8] = b".log";

/// # Safety
/// `context` is the watcher's; `path` has so many bytes.
// SAFETY: `shim.cc` alone calls it, and promises that.
unsafe extern "C" fn opened(
    context: *const c_void,
    path: *const c_char,
    path_bytes: usize,
) -> *mut c_void {
    // SAFETY: as the caller promises.
    let path = unsafe { std::slice::from_raw_parts(path.cast::<u8>(), path_bytes) };
    if !path.ends_with(LOG_SUFFIX) {
        return std::ptr::null_mut();
    }
    // SAFETY: the context is a device that `with_logs_on` gave away. This borrows it: the count that
    // was given away is not taken back here.
    let device = unsafe { std::mem::ManuallyDrop::new(Arc::from_raw(context.cast::<Device>())) };
    Box::into_raw(Box::new(device.file())).cast()
}

/// # Safety
/// `file` is from `opened`, and not closed.
unsafe extern "C" fn wrote(file: *const c_void, bytes: usize) {
    // SAFETY: as the caller promises.
    unsafe { &*file.cast::<DeviceFile>() }.wrote(bytes as u64);
}

/// # Safety
/// `file` is from `opened`, and not closed; `work` may be called with `argument` once.
unsafe extern "C" fn sync(
    file: *const c_void,
    work: unsafe extern "C" fn(*mut c_void),
    argument: *mut c_void,
) {
    // SAFETY: as the caller promises.
    let file = unsafe { &*file.cast::<DeviceFile>() };
    // SAFETY: as the caller promises: a device calls this once.
    file.sync(|| unsafe { work(argument) });
}

/// # Safety
/// `file` is from `opened`, and not used any more.
unsafe extern "C" fn closed(file: *mut c_void) {
    // SAFETY: as the caller promises; `opened` made it as a box.
    drop(unsafe { Box::from_raw(file.cast::<DeviceFile>()) });
}

/// # Safety
/// `context` is the watcher's, and no call comes after this one.
unsafe extern "C" fn dropped(context: *const c_void) {
    // SAFETY: the count that `with_logs_on` gave away is taken back, once.
    drop(unsafe { Arc::from_raw(context.cast::<Device>()) });
}

#[cfg(test)]
mod tests {
    use super::*;
    use ::rocksdb::{DB, Options, WriteOptions};
    use esker_base::SystemClock;
    use esker_storage::emulated_log_device::DeviceProfile;

    #[test]
    fn a_log_is_charged_for_its_syncs_and_its_bytes_and_tables_for_nothing() {
        let device = Device::emulated(DeviceProfile::ALL[1], Arc::new(SystemClock::new()));
        let dir = tempfile::tempdir().unwrap();
        {
            let mut options = Options::default();
            options.create_if_missing(true);
            options.set_env(&with_logs_on(device.clone()));
            let database = DB::open(&options, dir.path()).unwrap();
            let mut synced = WriteOptions::default();
            synced.set_sync(true);
            let before = device.served();
            for number in 0..10u32 {
                database.put_opt(number.to_be_bytes(), [7; 1000], &synced).unwrap();
            }
            let after = device.served();
            assert_eq!(after.syncs - before.syncs, 10);
            assert!((10_000..10_500).contains(&(after.bytes - before.bytes)), "{after:?}");
            database.put([1], [2]).unwrap();
            assert_eq!(device.served().syncs, after.syncs, "it was not to be synced");
            database.flush().unwrap();
            // RocksDB syncs the log that the flushed memtable leaves behind, if it syncs any.
            assert!(device.served().bytes - after.bytes < 100, "a table is no log");
            assert_eq!(database.get(3u32.to_be_bytes()).unwrap().unwrap(), [7; 1000]);
        }
        assert_eq!(Arc::strong_count(&device), 1, "all that RocksDB was given is given back");
    }
}
