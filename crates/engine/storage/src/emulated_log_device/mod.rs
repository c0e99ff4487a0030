//! Log devices: those that this machine does not have, by files whose syncs take as long as the device
//! would need; and those that it has, measured.
//!
//! An emulated [`Device`] has a [`DeviceProfile`]: how long a sync takes, and how fast bytes are written. A sync of
//! what was written to a file since its last one takes [`DeviceProfile::service`]; the device serves one at
//! a time, in the order in which they come (`queue`). The bytes themselves go to a file underneath,
//! which best is in memory; whatever its own sync takes is part of the service time, and the rest is
//! waited out (`wait`).
//!
//! Nothing here knows who writes. [`DeviceStorage`] puts the logs of a [`Storage`](crate::Storage) on
//! a device; a storage with files of another kind gives each a [`DeviceFile`].
//!
//! What is left out: writing without a sync costs nothing, and neither does the creation of a file. A
//! sync finds all of its bytes still to be written, as if a device wrote nothing by itself. Service
//! times do not vary.
//!
//! An emulation is only as good as its clock, so a device keeps [`account`] of the time that it was to
//! take and the time that it took. One that is real ([`Device::real`]) adds nothing to the time of the
//! files underneath; of it there is only the account.

pub mod account;
mod profile;
mod queue;
mod storage;
mod wait;

pub use account::ServiceStats;
pub use profile::DeviceProfile;
pub use storage::DeviceStorage;

use account::{ServiceRecorder, thread_cpu};
use esker_base::Clock;
use parking_lot::Mutex;
use queue::Queue;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use wait::PreciseSleep;

/// A device that logs are on. Shared by all files that do.
pub struct Device {
    emulated: Option<Emulated>,
    clock: Arc<dyn Clock>,
    account: Mutex<ServiceRecorder>,
}

/// A device that is not there. It serves one sync at a time.
struct Emulated {
    profile: DeviceProfile,
    waiter: PreciseSleep,
    queue: Mutex<Queue>,
}

impl Device {
    /// A device like `profile`. Takes a few milliseconds, to measure how late this machine wakes
    /// sleepers.
    pub fn emulated(profile: DeviceProfile, clock: Arc<dyn Clock>) -> Arc<Self> {
        let waiter = PreciseSleep::calibrated(&*clock);
        let emulated = Some(Emulated { profile, waiter, queue: Mutex::default() });
        Arc::new(Device { emulated, clock, account: Mutex::default() })
    }

    /// The device that the files underneath are on: syncs take what they take.
    pub fn real(clock: Arc<dyn Clock>) -> Arc<Self> {
        Arc::new(Device { emulated: None, clock, account: Mutex::default() })
    }

    /// What it is like, if it is emulated.
    pub fn profile(&self) -> Option<&DeviceProfile> {
        self.emulated.as_ref().map(|emulated| &emulated.profile)
    }

    /// Another file on it.
    pub fn file(self: &Arc<Self>) -> DeviceFile {
        DeviceFile { device: Arc::clone(self), unsynced: AtomicU64::new(0) }
    }

    /// How many syncs it has served: cheap, for those who look while it works.
    pub fn syncs(&self) -> u64 {
        self.account.lock().syncs()
    }

    /// What it has done so far. Takes milliseconds, for the medians, in which no sync comes to its end.
    pub fn served(&self) -> ServiceStats {
        self.account.lock().served()
    }

    fn sync<T>(&self, bytes: u64, work: impl FnOnce() -> T) -> T {
        let now = self.clock.now();
        let Some(Emulated { profile, waiter, queue }) = &self.emulated else {
            let result = work();
            let achieved = self.clock.now().saturating_sub(now);
            self.account.lock().add(bytes, Duration::ZERO, achieved, Duration::ZERO);
            return result;
        };
        let slot = queue.lock().enter(now, profile.service(bytes));
        let result = work();
        let cpu = thread_cpu();
        waiter.wait(&*self.clock, slot.end);
        let achieved = self.clock.now().saturating_sub(slot.start);
        let burned = thread_cpu().saturating_sub(cpu);
        self.account.lock().add(bytes, slot.end - slot.start, achieved, burned);
        result
    }
}

/// What a device knows of one file: the bytes that its next sync has to write.
pub struct DeviceFile {
    device: Arc<Device>,
    unsynced: AtomicU64,
}

impl DeviceFile {
    /// Says that `bytes` were written to the file.
    pub fn wrote(&self, bytes: u64) {
        self.unsynced.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Syncs the file underneath by `work`, and returns no sooner than the device would have done it.
    pub fn sync<T>(&self, work: impl FnOnce() -> T) -> T {
        self.device.sync(self.unsynced.swap(0, Ordering::Relaxed), work)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Time that passes when a thread sleeps, and a little at each look.
    #[derive(Default)]
    struct Slept(AtomicU64);

    const LOOK_NS: u64 = 100;

    impl Clock for Slept {
        fn now(&self) -> Duration {
            Duration::from_nanos(self.0.fetch_add(LOOK_NS, Ordering::SeqCst))
        }

        fn sleep(&self, duration: Duration) {
            self.0.fetch_add(duration.as_nanos() as u64, Ordering::SeqCst);
        }
    }

    fn device() -> (Arc<Slept>, Arc<Device>) {
        let clock = Arc::new(Slept::default());
        let profile = DeviceProfile {
            name: "test",
            sync: Duration::from_micros(100),
            bytes_per_second: 1_000_000_000,
            source: "",
        };
        (clock.clone(), Device::emulated(profile, clock))
    }

    #[test]
    fn a_sync_takes_its_time_and_that_of_what_was_written_since_the_last() {
        let (clock, device) = device();
        let file = device.file();
        for (bytes, micros) in [(0, 100), (50_000, 150), (0, 100)] {
            file.wrote(bytes);
            let begin = clock.now();
            file.sync(|| ());
            let took = clock.now() - begin;
            let service = Duration::from_micros(micros);
            assert!(took >= service && took < service + Duration::from_micros(2), "{took:?}");
        }
        let served = device.served();
        assert_eq!((served.syncs, served.bytes), (3, 50_000));
        assert_eq!(served.requested_mean, Duration::from_nanos(350_000 / 3));
        assert_eq!(served.requested_p50, Duration::from_micros(100));
        assert!(served.is_within_tolerance(), "{served:?}");
    }

    #[test]
    fn what_the_file_underneath_takes_is_part_of_the_service() {
        let (clock, device) = device();
        let begin = clock.now();
        let answer = device.file().sync(|| {
            clock.sleep(Duration::from_micros(90));
            7
        });
        assert_eq!(answer, 7);
        assert!(clock.now() - begin < Duration::from_micros(102));
    }

    #[test]
    fn a_device_that_cannot_keep_its_times_says_so() {
        let (clock, device) = device();
        for _ in 0..3 {
            device.file().sync(|| clock.sleep(Duration::from_micros(121)));
        }
        let served = device.served();
        assert!(served.achieved_p50 >= Duration::from_micros(121), "{served:?}");
        assert!(!served.is_within_tolerance());
    }

    #[test]
    fn a_real_device_takes_what_its_file_takes_and_is_measured() {
        let clock = Arc::new(Slept::default());
        let device = Device::real(clock.clone());
        let file = device.file();
        file.wrote(10);
        file.sync(|| clock.sleep(Duration::from_micros(7)));
        let served = device.served();
        assert_eq!((served.syncs, served.bytes), (1, 10));
        assert_eq!(served.achieved_p50, Duration::from_nanos(7_000 + LOOK_NS));
        assert!(served.is_within_tolerance(), "nothing was asked of it");
    }
}
