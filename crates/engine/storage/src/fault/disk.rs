//! The state of a simulated disk, and what each call and each event does to it.
//!
//! Every call of a process comes in two steps: the disk says what its fate is, and then does, as far
//! as that fate allows, what was asked.

use super::file::FaultFile;
use super::names::{FileId, SimulatedDirectory};
use super::plan::{CallOutcome, FaultKind, FaultPlan, power_lost};
use esker_base::Rng;
use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::ops::Range;

#[derive(Clone, Debug)]
pub(super) struct Disk {
    rng: Rng,
    names: SimulatedDirectory,
    files: BTreeMap<FileId, FaultFile>,
    next_file: FileId,
    /// The process that is served.
    process: u64,
    powered: bool,
    locked: bool,
    plan: FaultPlan,
    space_limit: Option<u64>,
    /// A file is quiescent so many calls after it was written last.
    settles_after: u64,
    /// The calls before this process.
    calls_before: u64,
}

/// The harness's side.
impl Disk {
    pub(super) fn new(rng: Rng) -> Self {
        Disk {
            rng,
            names: SimulatedDirectory::default(),
            files: BTreeMap::new(),
            next_file: 0,
            process: 0,
            powered: true,
            locked: false,
            plan: FaultPlan::default(),
            space_limit: None,
            settles_after: 0,
            calls_before: 0,
        }
    }

    pub(super) fn reseed(&mut self, rng: Rng) {
        self.rng = rng;
    }

    pub(super) fn process(&self) -> u64 {
        self.process
    }

    pub(super) fn is_powered(&self) -> bool {
        self.powered
    }

    pub(super) fn plan(&mut self) -> &mut FaultPlan {
        &mut self.plan
    }

    pub(super) fn set_space_limit(&mut self, bytes: Option<u64>) {
        self.space_limit = bytes;
    }

    pub(super) fn settle_after(&mut self, calls: u64) {
        self.settles_after = calls;
    }

    pub(super) fn used_bytes(&self) -> u64 {
        self.names.shown().map(|(_, id)| self.files[&id].space()).sum()
    }

    pub(super) fn lose_power(&mut self) -> u64 {
        self.names.survive(&mut self.rng);
        for file in self.files.values_mut() {
            file.survive(&mut self.rng);
        }
        self.start_process()
    }

    pub(super) fn end_process(&mut self) -> u64 {
        assert!(self.powered, "without power there is no next process: the next event is a crash");
        for file in self.files.values_mut() {
            file.drop_buffered(&mut self.rng);
        }
        self.start_process()
    }

    fn start_process(&mut self) -> u64 {
        self.powered = true;
        self.locked = false;
        self.plan.forget();
        self.calls_before = self.plan.operations();
        self.collect();
        self.process += 1;
        self.process
    }

    pub(super) fn content(&self, name: &str) -> Option<Vec<u8>> {
        self.names.get(name).map(|id| self.files[&id].bytes().to_vec())
    }

    pub(super) fn put_content(&mut self, name: &str, bytes: &[u8]) {
        let id = self.add(FaultFile::durable(bytes.to_vec()));
        self.names.set_durably(name, id);
        self.collect();
    }

    pub(super) fn flip(&mut self, name: &str, offset: u64, bit: u8) {
        let id = self.names.get(name);
        let file = id.and_then(|id| self.files.get_mut(&id));
        file.unwrap_or_else(|| panic!("there is no file {name:?}")).flip(offset, bit);
    }
}

/// The process's side.
impl Disk {
    /// Fails if `process` is not the one served, or the power is gone.
    pub(super) fn check_alive(&self, process: u64) -> io::Result<()> {
        if process != self.process {
            return Err(io::Error::other("the process that had this open is dead"));
        }
        if self.powered { Ok(()) } else { Err(power_lost()) }
    }

    /// The first step of every mutating call.
    pub(super) fn next_call(&mut self, process: u64) -> io::Result<CallOutcome> {
        self.check_alive(process)?;
        let fate = self.plan.next_call();
        self.powered = fate != CallOutcome::LosePower;
        Ok(fate)
    }

    /// The first step of every read.
    pub(super) fn next_read(&mut self, process: u64) -> io::Result<()> {
        self.check_alive(process)?;
        self.plan.next_read()
    }

    pub(super) fn file(&self, id: FileId) -> &FaultFile {
        &self.files[&id]
    }

    /// Whether enough calls came after this process's last byte in the file.
    pub(super) fn is_settled(&self, id: FileId) -> bool {
        let written = self.file(id).written_by();
        written <= self.calls_before || self.plan.operations() - written >= self.settles_after
    }

    pub(super) fn list(&self) -> Vec<String> {
        self.names.shown().map(|(name, _)| name.clone()).collect()
    }

    pub(super) fn find(&self, name: &str) -> io::Result<FileId> {
        self.names.get(name).ok_or_else(|| ErrorKind::NotFound.into())
    }

    /// Adds one hold to a file, which a handle then takes over.
    pub(super) fn hold(&mut self, id: FileId) {
        self.file_mut(id).hold();
    }

    /// Takes one hold away, if the process that had it still lives.
    pub(super) fn release(&mut self, process: u64, id: FileId) {
        if process == self.process {
            self.file_mut(id).release();
        }
    }

    /// Creates a file of `bytes` zeros that the device has; only the name is pending. If the power
    /// fails meanwhile, there may be fewer.
    pub(super) fn create(
        &mut self,
        name: &str,
        bytes: u64,
        fate: CallOutcome,
    ) -> io::Result<FileId> {
        if self.names.get(name).is_some() {
            return Err(ErrorKind::AlreadyExists.into());
        }
        if self.free_bytes().is_some_and(|free| free == 0 || free < bytes) {
            return Err(ErrorKind::StorageFull.into());
        }
        let bytes = if fate == CallOutcome::LosePower { self.rng.below(bytes + 1) } else { bytes };
        let bytes = usize::try_from(bytes).map_err(|_| io::Error::from(ErrorKind::OutOfMemory))?;
        let id = self.add(FaultFile::durable(vec![0; bytes]));
        self.names.create(name, id);
        Ok(id)
    }

    /// The same for a log of which the device allocates `prepared` bytes at first.
    pub(super) fn create_in_steps(
        &mut self,
        name: &str,
        bytes: u64,
        prepared: u64,
        fate: CallOutcome,
    ) -> io::Result<FileId> {
        let id = self.create(name, prepared.min(bytes), fate)?;
        if fate == CallOutcome::Succeed {
            let bytes =
                usize::try_from(bytes).map_err(|_| io::Error::from(ErrorKind::OutOfMemory))?;
            self.files.insert(id, FaultFile::in_steps(bytes, prepared.min(bytes as u64)));
        }
        Ok(id)
    }

    /// Allocates more of a log, if there is space.
    pub(super) fn prepare(
        &mut self,
        id: FileId,
        through: u64,
        fate: CallOutcome,
    ) -> io::Result<()> {
        fate.outcome()?;
        let through = through.min(self.file(id).len());
        let more = through.saturating_sub(self.file(id).prepared());
        if self.free_bytes().is_some_and(|free| free < more) {
            return Err(ErrorKind::StorageFull.into());
        }
        self.file_mut(id).prepare(through);
        Ok(())
    }

    /// Frees what is allocated of a log from `from` on.
    pub(super) fn give_back(&mut self, id: FileId, from: u64) {
        if from < self.file(id).prepared() {
            self.file_mut(id).give_back(from);
        }
    }

    /// Frees a part of a file. Returns how many bytes that is.
    pub(super) fn free_part(&mut self, name: &str, part: Range<u64>) -> io::Result<u64> {
        let id = self.find(name)?;
        Ok(self.file_mut(id).free_part(part))
    }

    pub(super) fn remove(&mut self, name: &str) -> io::Result<()> {
        self.find(name)?;
        self.names.remove(name);
        Ok(())
    }

    pub(super) fn rename(&mut self, from: &str, to: &str) -> io::Result<()> {
        self.find(from)?;
        self.names.rename(from, to);
        Ok(())
    }

    pub(super) fn sync_names(&mut self, fate: CallOutcome) -> io::Result<()> {
        if fate == CallOutcome::Succeed {
            self.names.sync();
            self.collect();
        }
        fate.outcome()
    }

    /// Appends what of `bytes` the fate and the space allow.
    pub(super) fn append(&mut self, id: FileId, bytes: &[u8], fate: CallOutcome) -> io::Result<()> {
        let wanted = self.portion(bytes, fate);
        let fits = match self.free_bytes() {
            Some(free) => &wanted[..wanted.len().min(free as usize)],
            None => wanted,
        };
        let call = self.plan.operations();
        self.file_mut(id).append(fits, call);
        fate.outcome()?;
        if fits.len() < bytes.len() { Err(ErrorKind::StorageFull.into()) } else { Ok(()) }
    }

    /// Overwrites what of `bytes` the fate allows, inside the file.
    pub(super) fn overwrite(
        &mut self,
        id: FileId,
        offset: u64,
        bytes: &[u8],
        fate: CallOutcome,
    ) -> io::Result<()> {
        let end = offset.checked_add(bytes.len() as u64);
        if end.is_none_or(|end| end > self.file(id).prepared()) {
            return Err(ErrorKind::InvalidInput.into());
        }
        let written = self.portion(bytes, fate);
        self.file_mut(id).overwrite(offset, written);
        fate.outcome()
    }

    pub(super) fn sync(&mut self, id: FileId, fate: CallOutcome) -> io::Result<()> {
        match fate {
            CallOutcome::Succeed => self.file_mut(id).sync(),
            CallOutcome::Fail(_) => self.file_mut(id).fail_sync(),
            // It was on its way: how far it came is for the crash to say.
            CallOutcome::LosePower => {}
        }
        fate.outcome()
    }

    /// Takes the lock. False if it is held.
    pub(super) fn lock(&mut self) -> bool {
        !std::mem::replace(&mut self.locked, true)
    }

    pub(super) fn unlock(&mut self, process: u64) {
        if process == self.process {
            self.locked = false;
        }
    }

    /// How much of a write is done.
    fn portion<'a>(&mut self, bytes: &'a [u8], fate: CallOutcome) -> &'a [u8] {
        match fate {
            CallOutcome::Succeed | CallOutcome::LosePower => bytes,
            CallOutcome::Fail(FaultKind::ShortWrite) if !bytes.is_empty() => {
                &bytes[..self.rng.below(bytes.len() as u64) as usize]
            }
            CallOutcome::Fail(_) => &[],
        }
    }

    fn free_bytes(&self) -> Option<u64> {
        self.space_limit.map(|limit| limit.saturating_sub(self.used_bytes()))
    }

    fn file_mut(&mut self, id: FileId) -> &mut FaultFile {
        self.files.get_mut(&id).expect("a handle or a name keeps the file")
    }

    fn add(&mut self, file: FaultFile) -> FileId {
        let id = self.next_file;
        self.next_file += 1;
        self.files.insert(id, file);
        id
    }

    /// Forgets files that nothing can bring back.
    fn collect(&mut self) {
        let needed = self.names.needed();
        self.files.retain(|id, file| file.is_held() || needed.contains(id));
    }
}
