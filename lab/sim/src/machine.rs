//! The machine that a simulated database runs on: one disk or two, persistent memory, a clock, and its
//! mishaps.

use crate::clock::SimClock;
use crate::encryption::Encrypted;
use crate::operations::Fault;
use esker_base::background::Stepped;
use esker_base::{Clock, Rng};
use esker_lsm::Env;
use esker_lsm::inspect::Inspector;
use esker_pmem::Pool;
use esker_pmem::sim::SimRegion;
use esker_storage::fault::FaultKind;
use esker_storage::{FaultStorage, Storage};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

/// The extents of the machine's pool are as small as they get.
pub(crate) const EXTENT_BYTES: u64 = 64 << 10;

/// What a pool uses in addition to its extents.
const POOL_HEADER_BYTES: u64 = 8 << 10;

/// What is left for the next process.
struct Remains {
    disk: FaultStorage,
    log_disk: Option<FaultStorage>,
    memory: SimRegion,
    power_failed: bool,
}

/// See the file's head.
pub struct Machine {
    disk: FaultStorage,
    log_disk: Option<FaultStorage>,
    /// The pool's. Each process has a view of its own on it.
    memory: Arc<SimRegion>,
    /// Set in the middle of a call that a planned end has struck.
    remains: Arc<Mutex<Option<Remains>>>,
    clock: Arc<SimClock>,
    rng: Rng,
    /// How the disks are encrypted, if they are.
    encrypted: Option<Encrypted>,
    /// For each disk, the number of mutating calls after which its last planned fault has struck.
    faults_until: [u64; 2],
    /// Whether faults of writes were planned in this process.
    had_faults: bool,
    /// Planned read faults that may not have struck yet.
    read_faults: u32,
    space_is_limited: bool,
    /// Whether it was, in this process.
    space_was_limited: bool,
}

impl Machine {
    /// A machine with empty disks, and a pool of so many extents. The log gets a disk of its own if
    /// `own_log`.
    pub fn new(seed: u64, own_log: bool, extents: u8) -> Self {
        let mut rng = Rng::new(seed ^ 0x006d_6163_6869_6e65);
        let bytes = POOL_HEADER_BYTES + u64::from(extents) * EXTENT_BYTES;
        let memory = Arc::new(SimRegion::new(bytes as usize));
        Pool::format(memory.clone(), "pool", rng.next_u64()).expect("the size is in bounds");
        Machine {
            disk: FaultStorage::new(Rng::new(rng.next_u64())),
            log_disk: own_log.then(|| FaultStorage::new(Rng::new(rng.next_u64()))),
            memory,
            remains: Arc::default(),
            clock: Arc::default(),
            rng,
            encrypted: None,
            faults_until: [0; 2],
            had_faults: false,
            read_faults: 0,
            space_is_limited: false,
            space_was_limited: false,
        }
    }

    /// The machine, whose disk says that a table is among writes until so many calls after its own.
    pub fn settling_after(self, calls: u64) -> Self {
        self.disk.settle_after(calls);
        self
    }

    /// The machine, whose disks are encrypted if `seed` is there.
    pub fn encrypted(self, seed: Option<u64>) -> Self {
        Machine { encrypted: seed.map(Encrypted::new), ..self }
    }

    /// Whether its disks are encrypted.
    pub fn is_encrypted(&self) -> bool {
        self.encrypted.is_some()
    }

    /// `disk` as the database is to see it.
    pub fn storage(&self, disk: &FaultStorage) -> Arc<dyn Storage> {
        let disk = Arc::new(disk.clone());
        match &self.encrypted {
            Some(encrypted) => encrypted.over(disk),
            None => disk,
        }
    }

    /// The environment for the next process.
    pub fn env(&mut self) -> Env {
        if let Some(encrypted) = &mut self.encrypted {
            encrypted.rotate();
        }
        self.env_on(self.disk.clone(), self.log_disk.clone())
    }

    /// An environment on other disks with the same persistent memory, time and randomness.
    pub fn env_on(&mut self, disk: FaultStorage, log_disk: Option<FaultStorage>) -> Env {
        let pool = Pool::over(self.memory.clone(), "pool").expect("a pool is whole at any time");
        let mut env = Env::over(self.storage(&disk))
            .pool(pool)
            .clock(self.clock.clone())
            .background(Arc::new(Stepped))
            .seed(self.rng.next_u64());
        env.log_storage = log_disk.map(|disk| self.storage(&disk));
        env
    }

    /// An empty pool, for a copy of the database.
    pub fn another_pool(&mut self) -> Arc<Pool> {
        let memory = Arc::new(SimRegion::new((POOL_HEADER_BYTES + 2 * EXTENT_BYTES) as usize));
        Pool::format(memory, "another pool", self.rng.next_u64()).expect("the size is in bounds")
    }

    /// A new, empty disk.
    pub fn another_disk(&mut self) -> FaultStorage {
        FaultStorage::new(Rng::new(self.rng.next_u64()))
    }

    /// An inspector of the files of a database that is closed, and whose log is in the pool or not.
    pub fn inspector(&self, in_pool: bool) -> Inspector {
        let storage = self.storage(&self.disk);
        if in_pool {
            let pool =
                Pool::over(self.memory.clone(), "pool").expect("a pool is whole at any time");
            return Inspector::of_pool(storage, pool);
        }
        let log_storage = self.log_disk.as_ref().map(|disk| self.storage(disk));
        Inspector::of(storage.clone(), log_storage.unwrap_or(storage))
    }

    /// Lets time pass.
    pub fn sleep(&self, duration: Duration) {
        self.clock.sleep(duration);
    }

    /// The time, in whole milliseconds.
    pub fn millis(&self) -> u64 {
        self.clock.now().as_millis() as u64
    }

    /// The mutating calls made so far, on all disks.
    pub fn calls(&self) -> [u64; 2] {
        let log_calls = self.log_disk.as_ref().map_or(0, |disk| disk.operations());
        [self.disk.operations(), log_calls]
    }

    fn target(&self, on_log: bool) -> (&FaultStorage, usize) {
        match &self.log_disk {
            Some(disk) if on_log => (disk, 1),
            _ => (&self.disk, 0),
        }
    }

    /// Plans `fault`.
    pub fn plan(&mut self, fault: Fault) {
        if let Fault::Memory { after, power } = fault {
            return self.plan_end(after, power);
        }
        self.had_faults = true;
        let (disk, number) = self.target(fault.on_log());
        let disk = disk.clone();
        let kind = match fault {
            Fault::PowerLoss { after, .. } => return disk.crash_after(after.into()),
            Fault::Read { after, .. } => {
                disk.fail_read_after(after.into());
                self.read_faults += 1;
                return;
            }
            Fault::Io { .. } => FaultKind::Io,
            Fault::NoSpace { .. } => FaultKind::NoSpace,
            Fault::ShortWrite { .. } => FaultKind::ShortWrite,
            Fault::Memory { .. } => unreachable!("it was planned above"),
        };
        disk.fail_after(fault.after().into(), kind);
        let until = disk.operations() + u64::from(fault.after()) + 1;
        self.faults_until[number] = self.faults_until[number].max(until);
    }

    /// Ends the process after so many more events in the persistent memory: what the disks hold is taken
    /// at that point, and none of this process's calls reaches them any more.
    fn plan_end(&mut self, after: u16, power: bool) {
        let (disk, log_disk) = (self.disk.clone(), self.log_disk.clone());
        let (remains, mut rng) = (self.remains.clone(), Rng::new(self.rng.next_u64()));
        self.memory.interrupt_after(after.into(), move |moment| {
            let mut disks = std::iter::once(&disk).chain(&log_disk);
            let power_failed = power || disks.any(|disk| disk.has_lost_power());
            let end = |disk: &FaultStorage| if power_failed { disk.crash() } else { disk.kill() };
            let memory = match power_failed {
                true => moment.crash().sample(&mut rng).to_region(),
                false => moment.kill(),
            };
            let left = Remains {
                disk: end(&disk),
                log_disk: log_disk.as_ref().map(end),
                memory,
                power_failed,
            };
            *remains.lock().expect("no panic") = Some(left);
            None
        });
    }

    fn remains(&self) -> MutexGuard<'_, Option<Remains>> {
        self.remains.lock().expect("no panic")
    }

    /// Whether this process is over although it goes on: a planned power loss has struck some disk, or
    /// a planned end the persistent memory.
    pub fn is_over(&self) -> bool {
        self.has_lost_power() || self.remains().is_some()
    }

    /// Whether a planned end has struck the persistent memory.
    pub fn was_cut_off(&self) -> bool {
        self.remains().is_some()
    }

    /// Whether a planned power loss has struck.
    pub fn has_lost_power(&self) -> bool {
        self.disks().any(|disk| disk.has_lost_power())
            || self.remains().as_ref().is_some_and(|remains| remains.power_failed)
    }

    /// Whether a write that began when `calls` had been made may fail.
    pub fn may_fail(&self, calls: [u64; 2]) -> bool {
        self.space_is_limited
            || self.is_over()
            || calls.iter().zip(self.faults_until).any(|(&calls, until)| calls < until)
    }

    /// Whether a read may fail, once for each fault planned.
    pub fn take_read_fault(&mut self) -> bool {
        let planned = self.read_faults > 0;
        self.read_faults = self.read_faults.saturating_sub(1);
        planned || self.is_over()
    }

    /// Whether faults were planned in this process, whether they have struck or not.
    pub fn had_faults(&self) -> bool {
        self.had_faults
    }

    /// Whether nothing was in the way of this process.
    pub fn was_calm(&self) -> bool {
        !self.had_faults && !self.space_was_limited && !self.is_over()
    }

    /// Leaves `slack` bytes free on every disk.
    pub fn limit_space(&mut self, slack: u64) {
        self.disks().for_each(|disk| disk.set_space_limit(Some(disk.used_bytes() + slack)));
        (self.space_is_limited, self.space_was_limited) = (true, true);
    }

    /// Gives all space back.
    pub fn free_space(&mut self) {
        self.disks().for_each(|disk| disk.set_space_limit(None));
        self.space_is_limited = false;
    }

    /// Loses power, and comes back; but what has struck in the middle of a call counts.
    pub fn lose_power(&mut self) {
        if !self.take_remains() {
            self.disk = self.disk.crash();
            self.log_disk = self.log_disk.as_ref().map(FaultStorage::crash);
            let image = self.memory.crash();
            self.memory = Arc::new(image.sample(&mut self.rng).to_region());
        }
        self.forget_faults();
    }

    /// Ends the process; the system keeps running. But what has struck in the middle of a call counts.
    pub fn end_process(&mut self) {
        if !self.take_remains() {
            self.disk = self.disk.kill();
            self.log_disk = self.log_disk.as_ref().map(FaultStorage::kill);
            self.memory = Arc::new(self.memory.kill());
        }
        self.forget_faults();
    }

    fn take_remains(&mut self) -> bool {
        let Some(remains) = self.remains().take() else { return false };
        self.disk = remains.disk;
        self.log_disk = remains.log_disk;
        self.memory = Arc::new(remains.memory);
        true
    }

    fn forget_faults(&mut self) {
        self.faults_until = [0; 2];
        self.had_faults = false;
        self.space_was_limited = self.space_is_limited;
        self.read_faults = 0;
        // What the dead process does on its way out is not to end the next one.
        self.remains = Arc::default();
    }

    fn disks(&self) -> impl Iterator<Item = &FaultStorage> {
        std::iter::once(&self.disk).chain(&self.log_disk)
    }
}
