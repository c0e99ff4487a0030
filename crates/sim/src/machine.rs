//! The machine that a simulated database runs on: one disk or two, a clock, and its mishaps.

use crate::clock::SimClock;
use crate::operations::Fault;
use esker_base::background::Stepped;
use esker_base::{Clock, Rng};
use esker_lsm::Env;
use esker_storage::fault::FaultKind;
use esker_storage::{FaultStorage, Storage};
use std::sync::Arc;
use std::time::Duration;

/// See the file's head.
pub struct Machine {
    disk: FaultStorage,
    log_disk: Option<FaultStorage>,
    clock: Arc<SimClock>,
    rng: Rng,
    /// For each disk, the number of mutating calls after which its last planned fault has struck.
    faults_until: [u64; 2],
    /// Whether faults of writes were planned in this process.
    had_faults: bool,
    /// Planned read faults that may not have struck yet.
    read_faults: u32,
    space_is_limited: bool,
}

impl Machine {
    /// A machine with empty disks. The log gets one of its own if `own_log`.
    pub fn new(seed: u64, own_log: bool) -> Self {
        let mut rng = Rng::new(seed ^ 0x006d_6163_6869_6e65);
        Machine {
            disk: FaultStorage::new(Rng::new(rng.next_u64())),
            log_disk: own_log.then(|| FaultStorage::new(Rng::new(rng.next_u64()))),
            clock: Arc::default(),
            rng,
            faults_until: [0; 2],
            had_faults: false,
            read_faults: 0,
            space_is_limited: false,
        }
    }

    /// The world for the next process.
    pub fn env(&mut self) -> Env {
        self.env_on(self.disk.clone(), self.log_disk.clone())
    }

    /// A world on other disks with the same time and chance.
    pub fn env_on(&mut self, disk: FaultStorage, log_disk: Option<FaultStorage>) -> Env {
        Env {
            storage: Arc::new(disk),
            log_storage: log_disk.map(|disk| Arc::new(disk) as Arc<dyn Storage>),
            pool: None,
            clock: self.clock.clone(),
            background: Arc::new(Stepped),
            seed: self.rng.next_u64(),
        }
    }

    /// A new, empty disk.
    pub fn another_disk(&mut self) -> FaultStorage {
        FaultStorage::new(Rng::new(self.rng.next_u64()))
    }

    /// Lets time pass.
    pub fn sleep(&self, duration: Duration) {
        self.clock.sleep(duration);
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
        };
        disk.fail_after(fault.after().into(), kind);
        let until = disk.operations() + u64::from(fault.after()) + 1;
        self.faults_until[number] = self.faults_until[number].max(until);
    }

    /// Whether a planned power loss has struck some disk.
    pub fn has_lost_power(&self) -> bool {
        self.disks().any(|disk| disk.has_lost_power())
    }

    /// Whether a write that began when `calls` had been made may fail.
    pub fn may_fail(&self, calls: [u64; 2]) -> bool {
        self.space_is_limited
            || self.has_lost_power()
            || calls.iter().zip(self.faults_until).any(|(&calls, until)| calls < until)
    }

    /// Whether a read may fail, once for each fault planned.
    pub fn take_read_fault(&mut self) -> bool {
        let planned = self.read_faults > 0;
        self.read_faults = self.read_faults.saturating_sub(1);
        planned || self.has_lost_power()
    }

    /// Whether faults were planned in this process, whether they have struck or not.
    pub fn had_faults(&self) -> bool {
        self.had_faults
    }

    /// Leaves `slack` bytes free on every disk.
    pub fn limit_space(&mut self, slack: u64) {
        self.disks().for_each(|disk| disk.set_space_limit(Some(disk.used_bytes() + slack)));
        self.space_is_limited = true;
    }

    /// Gives all space back.
    pub fn free_space(&mut self) {
        self.disks().for_each(|disk| disk.set_space_limit(None));
        self.space_is_limited = false;
    }

    /// Loses power, and comes back.
    pub fn lose_power(&mut self) {
        self.disk = self.disk.crash();
        self.log_disk = self.log_disk.as_ref().map(FaultStorage::crash);
        self.forget_faults();
    }

    /// Ends the process; the system keeps running.
    pub fn end_process(&mut self) {
        self.disk = self.disk.kill();
        self.log_disk = self.log_disk.as_ref().map(FaultStorage::kill);
        self.forget_faults();
    }

    fn forget_faults(&mut self) {
        self.faults_until = [0; 2];
        self.had_faults = false;
        self.read_faults = 0;
    }

    fn disks(&self) -> impl Iterator<Item = &FaultStorage> {
        std::iter::once(&self.disk).chain(&self.log_disk)
    }
}
