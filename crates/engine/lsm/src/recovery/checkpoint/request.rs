//! Requests of other processes: a checkpoint of a database that this process has open, a change of its
//! settings, or its status.
//!
//! ```text
//! requester                         directory                 the process that has it open
//!    ├─ creates ──────────────────► REQUEST.<number>
//!    ├─ rings ────────────────────► REQUEST ◄──────────────── looks for it
//!    │                              REQUEST.<number>.taken ◄─ renames, and does what it says
//!    │                              ANSWER.<number> ◄──────── creates, then removes REQUEST.<number>.taken
//!    └─ reads and removes ────────► ANSWER.<number>
//! ```
//!
//! Files, rather than a socket, so that any storage has them and no thread waits for connections. Both
//! sides look for them periodically. Each file says its own length, so a reader recognizes one that is
//! only half written. `REQUEST` is empty, so that a look without a request lists no directory.
//!
//! No requester waits forever. The answering process removes the taken request even if it cannot write
//! an answer, and the next open for writing removes all of these files. So a requester fails once its
//! request is under neither name and the answer is absent. It also notices that the lock is free. A
//! requester removes no request but its own.

use super::checkpoint_into;
use crate::background::change;
use crate::engine::Engine;
use crate::feed::consumer;
use crate::options::change::SettingChange;
use crate::recovery::report;
use crate::stats::LiveStatus;
use esker_base::{Clock, Error, FileKind, Result, Rng, Seqno, WriteHint};
use esker_storage::{PosixStorage, Storage};
use std::ffi::OsString;
use std::io::ErrorKind;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// What a requester creates to have the answering process list the directory. It does so again until
/// its request is taken, so both sides may remove it.
const BELL: &str = "REQUEST";
const REQUEST: &str = "REQUEST.";
/// Follows the name of a request that is being carried out.
const TAKEN: &str = ".taken";
const ANSWER: &str = "ANSWER.";

/// What a request for a checkpoint begins with; its target follows.
const CHECKPOINT: &[u8] = b"checkpoint\n";
/// What a request for a change of a setting begins with; the change follows.
const SET: &[u8] = b"set\n";

/// A request for a status. Its answer is this, and the status.
const STATUS: &[u8] = b"status\n";

/// What a request for the log begins with; the bound in bytes, what is acknowledged, and the name of
/// the consumer follow, each on a line. Its answer is this, and a sequence number.
const LOG: &[u8] = b"log\n";

/// The answer to a request that was done.
const DONE: &[u8] = b"done";

/// How often a process with [`Settings::answers_requests`](crate::Settings::answers_requests) looks.
pub(crate) const LOOKS_EVERY: Duration = Duration::from_millis(100);

/// How long a request waits to be taken while no other one is taken. The answering process looks far
/// more often.
const TAKEN_WITHIN: Duration = Duration::from_secs(10);

/// How often a requester looks whether the database is still open somewhere, which it finds out by
/// taking the lock briefly. An open waits for that: see `open::lock`.
const LOCK_TRIED_EVERY: u32 = 20;

/// A request or an answer is no longer than this.
const BYTES_MAX: u64 = 64 << 10;

/// The outcome of a request to another process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use = "only `Done` means that it was done"]
pub enum Requested {
    /// The other process made the checkpoint, or the change.
    Done,
    /// No process has the database open any more. Nothing was done.
    NotOpen,
    /// The caller stopped waiting after the other process had accepted the request, which may still
    /// complete.
    Abandoned,
}

/// Whether a file of this name is a request or an answer. Nothing of a database depends on it.
pub(crate) fn is_request_file(name: &str) -> bool {
    name == BELL || name.starts_with(REQUEST) || name.starts_with(ANSWER)
}

/// Asks the process that has the database in `dir` open to write a checkpoint into `target`.
///
/// Waits until the checkpoint is complete, as long as `goes_on` returns true. The checkpoint is
/// that of [`Db::checkpoint`](crate::Db::checkpoint). `target` must name the same directory in both
/// processes. `seed` makes the file name of the request unique, and `clock` times the wait.
///
/// # Errors
/// * [`Error::Unanswered`] if that process does not accept requests: it was opened without
///   [`Settings::answers_requests`](crate::Settings::answers_requests).
/// * [`Error::RequestFailed`] with the cause, if the checkpoint failed there.
/// * [`Error::Cancelled`] if `goes_on` returned false before that process accepted the request.
/// * [`Error::Io`] if the request cannot be written to `dir`.
pub fn request_checkpoint(
    dir: &Path,
    target: &Path,
    clock: &dyn Clock,
    seed: u64,
    goes_on: &dyn Fn() -> bool,
) -> Result<Requested> {
    let failed = |source| Error::io("find", target.display().to_string(), source);
    let target = std::path::absolute(target).map_err(failed)?;
    let body = [CHECKPOINT, target.as_os_str().as_bytes()].concat();
    request(dir, ("checkpoint", &body), (clock, seed), goes_on)
}

/// Asks the process that has the database in `dir` open to make `change`, as
/// [`Db::set`](crate::Db::set) does.
///
/// `goes_on`, `seed` and `clock` are as for [`request_checkpoint`].
///
/// # Errors
/// As for [`request_checkpoint`]: [`Error::RequestFailed`] with the cause if the change failed there.
pub fn request_change(
    dir: &Path,
    change: &SettingChange,
    clock: &dyn Clock,
    seed: u64,
    goes_on: &dyn Fn() -> bool,
) -> Result<Requested> {
    let body = [SET, change.to_string().as_bytes()].concat();
    request(dir, ("change of a setting", &body), (clock, seed), goes_on)
}

/// Asks the process that has the database in `dir` open for its status, as
/// [`Db::status`](crate::Db::status) returns it. `None`: no process has it open.
///
/// That process answers one request after another, so one for a checkpoint delays this one. `goes_on`,
/// `seed` and `clock` are as for [`request_checkpoint`].
///
/// # Errors
/// As for [`request_checkpoint`], and [`Error::RequestFailed`] if that process is of a version that
/// has no status.
pub fn request_status(
    dir: &Path,
    clock: &dyn Clock,
    seed: u64,
    goes_on: &dyn Fn() -> bool,
) -> Result<Option<LiveStatus>> {
    let what = "request for the status";
    match ask(dir, (what, STATUS), (clock, seed), goes_on)? {
        Asked::Done(said) => {
            let text = said.strip_prefix(STATUS).and_then(|text| std::str::from_utf8(text).ok());
            let status = text.and_then(LiveStatus::decode);
            let cause = || "it gave a status that is not understood here".to_owned();
            let failed = || Error::RequestFailed { dir: dir.display().to_string(), cause: cause() };
            status.map(Some).ok_or_else(failed)
        }
        Asked::NotOpen => Ok(None),
        Asked::Abandoned => Err(Error::Cancelled { what }),
    }
}

/// Asks the process that has the database in `dir` open to keep logs for the change consumer `name`,
/// as [`Db::change_consumer`](crate::Db::change_consumer) does, and to sync its log.
///
/// The consumer has processed all writes up to `acknowledged`. Returns the sequence number up to which
/// the log survives a power loss, or `None` if no process has the database open.
///
/// `goes_on`, `seed` and `clock` are as for [`request_checkpoint`].
///
/// # Errors
/// As for [`request_checkpoint`]; [`Error::Cancelled`] if `goes_on` returned false.
pub fn request_log(
    dir: &Path,
    (name, bound_bytes, acknowledged): (&str, u64, Seqno),
    clock: &dyn Clock,
    seed: u64,
    goes_on: &dyn Fn() -> bool,
) -> Result<Option<Seqno>> {
    let what = "request for the log";
    let body = [LOG, format!("{bound_bytes}\n{acknowledged}\n{name}").as_bytes()].concat();
    match ask(dir, (what, &body), (clock, seed), goes_on)? {
        Asked::Done(said) => {
            let text = said.strip_prefix(LOG).and_then(|text| std::str::from_utf8(text).ok());
            let through = text.and_then(|text| text.parse().ok());
            let cause = || "its answer is not understood here".to_owned();
            let failed = || Error::RequestFailed { dir: dir.display().to_string(), cause: cause() };
            through.map(Some).ok_or_else(failed)
        }
        Asked::NotOpen => Ok(None),
        Asked::Abandoned => Err(Error::Cancelled { what }),
    }
}

/// The outcome of a request, with what was answered.
enum Asked {
    Done(Vec<u8>),
    NotOpen,
    Abandoned,
}

/// Asks for `what`, which the request file says as `body`, and which is answered with no more than that
/// it was done.
fn request(
    dir: &Path,
    request: (&'static str, &[u8]),
    around: (&dyn Clock, u64),
    goes_on: &dyn Fn() -> bool,
) -> Result<Requested> {
    Ok(match ask(dir, request, around, goes_on)? {
        Asked::Done(_) => Requested::Done,
        Asked::NotOpen => Requested::NotOpen,
        Asked::Abandoned => Requested::Abandoned,
    })
}

fn ask(
    dir: &Path,
    (what, body): (&'static str, &[u8]),
    (clock, seed): (&dyn Clock, u64),
    goes_on: &dyn Fn() -> bool,
) -> Result<Asked> {
    let storage = PosixStorage::open(dir)?;
    let number = format!("{:016x}", Rng::new(seed).next_u64());
    let (request, answer) = (format!("{REQUEST}{number}"), format!("{ANSWER}{number}"));
    let taken = format!("{request}{TAKEN}");
    write_whole(&storage, &request, body)?;
    let (looks, waited) = (0, Duration::ZERO);
    let storage = &storage;
    let mut requester =
        Requester { storage, what, request, taken, answer, clock, goes_on, looks, waited };
    let asked = requester.wait();
    if asked.is_err() {
        let _ = requester.withdraw();
    }
    asked
}

struct Requester<'a> {
    storage: &'a dyn Storage,
    what: &'static str,
    /// The file of its request, before and after it is taken.
    request: String,
    taken: String,
    /// The file of its answer.
    answer: String,
    clock: &'a dyn Clock,
    goes_on: &'a dyn Fn() -> bool,
    looks: u32,
    /// How long the request has waited while the answering process carried out no other one.
    waited: Duration,
}

impl Requester<'_> {
    fn wait(&mut self) -> Result<Asked> {
        loop {
            // The answer comes before the taken request goes, so this order misses none.
            let is_pending = self.is_pending()?;
            if let Some(said) = read_whole(self.storage, &self.answer)? {
                let _ = self.storage.remove(&self.answer);
                let has_answer = [STATUS, LOG].iter().any(|start| said.starts_with(start));
                let is_done = said == DONE || has_answer;
                return if is_done { Ok(Asked::Done(said)) } else { Err(self.failed(&said)) };
            }
            if !is_pending {
                if self.is_closed()? {
                    return Ok(Asked::NotOpen);
                }
                // Half of an answer, if anything.
                let _ = self.storage.remove(&self.answer);
                return Err(self.failed(b"it gave no answer; try again"));
            }
            if !(self.goes_on)() {
                // A taken request is carried out.
                return match self.withdraw()? {
                    true => Err(Error::Cancelled { what: self.what }),
                    false => Ok(Asked::Abandoned),
                };
            }
            self.looks += 1;
            if self.looks.is_multiple_of(LOCK_TRIED_EVERY) && self.is_closed()? {
                return Ok(Asked::NotOpen);
            }
            if self.is_late()? && self.withdraw()? {
                return Err(Error::Unanswered { dir: self.storage.describe() });
            }
            self.clock.sleep(LOOKS_EVERY);
        }
    }

    /// Whether the request waits or is taken.
    fn is_pending(&self) -> Result<bool> {
        // In this order: it goes from one to the other.
        Ok(self.storage.exists(&self.request)? || self.storage.exists(&self.taken)?)
    }

    /// Rings while the request is not taken. Returns whether it has waited for too long.
    fn is_late(&mut self) -> Result<bool> {
        if !self.storage.exists(&self.request)? {
            return Ok(false);
        }
        match self.storage.create(BELL, WriteHint::of(FileKind::Meta)) {
            Err(error) if error.io_kind() == Some(ErrorKind::AlreadyExists) => {}
            rung => drop(rung?),
        }
        // One request may take long, and the next waits for it.
        let is_taken = |name: &String| name.starts_with(REQUEST) && name.ends_with(TAKEN);
        let is_other_taken = self.storage.list()?.iter().any(is_taken);
        self.waited = if is_other_taken { Duration::ZERO } else { self.waited + LOOKS_EVERY };
        Ok(self.waited > TAKEN_WITHIN)
    }

    /// Removes the request. Returns false if it is taken.
    fn withdraw(&self) -> Result<bool> {
        let _ = self.storage.remove(BELL);
        match self.storage.remove(&self.request) {
            Err(error) if error.io_kind() == Some(ErrorKind::NotFound) => Ok(false),
            removed => removed.map(|()| true),
        }
    }

    /// Whether no process has the database open, and none has answered.
    fn is_closed(&self) -> Result<bool> {
        let Ok(_lock) = self.storage.lock() else { return Ok(false) };
        // The answer may have come with the end.
        if read_whole(self.storage, &self.answer)?.is_some() {
            return Ok(false);
        }
        remove_request_files(self.storage);
        Ok(true)
    }

    fn failed(&self, said: &[u8]) -> Error {
        let cause = String::from_utf8_lossy(said).into_owned();
        Error::RequestFailed { dir: self.storage.describe(), cause }
    }
}

/// Removes what requests have left. For who holds the lock.
pub(crate) fn remove_request_files(storage: &dyn Storage) {
    for name in storage.list().unwrap_or_default() {
        if is_request_file(&name) {
            let _ = storage.remove(&name);
        }
    }
}

/// Takes a request, if there is one, and answers it. Returns whether there was one.
pub(crate) fn answer(inner: &Engine) -> Result<bool> {
    // Who asked for a status may have ended, and the calls with it.
    inner.calls.end_due_watch(&*inner.tree.clock);
    let storage = place(inner);
    if !storage.exists(BELL)? {
        return Ok(false);
    }
    for name in storage.list()? {
        if let Some(number) = name.strip_prefix(REQUEST).filter(|number| is_number(number))
            && answer_to(inner, &name, number)?
        {
            return Ok(true);
        }
    }
    // A requester that comes in this moment rings again.
    let _ = storage.remove(BELL);
    Ok(false)
}

/// Takes the request in the file `name` and answers it. Returns false if it is not whole, or withdrawn.
fn answer_to(inner: &Engine, name: &str, number: &str) -> Result<bool> {
    let storage = place(inner);
    let Some(body) = read_whole(storage, name)? else { return Ok(false) };
    let taken = format!("{name}{TAKEN}");
    match storage.rename(name, &taken) {
        Err(error) if error.io_kind() == Some(ErrorKind::NotFound) => return Ok(false),
        renamed => renamed?,
    }
    let answered = carry_out(inner, &body, number);
    // Also if there is no answer: its requester waits for as long as the file is there.
    storage.remove(&taken)?;
    answered.map(|()| true)
}

fn carry_out(inner: &Engine, body: &[u8], number: &str) -> Result<()> {
    let done = |made: Result<()>| made.map(|()| DONE.to_vec());
    let made = match parse(body) {
        Some(Wanted::Checkpoint(target)) => done(checkpoint_into(inner, &target, &|| true)),
        Some(Wanted::Change(change)) => done(change::apply(inner, &change)),
        Some(Wanted::Log { name, bound_bytes, acknowledged }) => {
            let kept = keep_log(inner, &name, bound_bytes, acknowledged);
            kept.map(|through| [LOG, through.to_string().as_bytes()].concat())
        }
        Some(Wanted::Status) => {
            let said = [STATUS, report::status(inner, true).encode().as_bytes()].concat();
            return write_whole(place(inner), &format!("{ANSWER}{number}"), &said);
        }
        None => return Ok(()),
    };
    let said = made.unwrap_or_else(|error| error.to_string().into_bytes());
    write_whole(place(inner), &format!("{ANSWER}{number}"), &said)
}

/// Keeps logs for a consumer, and syncs the log. Returns up to where it survives a power loss.
fn keep_log(inner: &Engine, name: &str, bound_bytes: u64, acknowledged: Seqno) -> Result<Seqno> {
    consumer::ensure(inner, name, bound_bytes)?;
    consumer::acknowledge(inner, name, acknowledged)?;
    // From now on they are noted, so that a copy notices when writes are lost that it has.
    inner.lineage()?;
    inner.commit.sync()?;
    Ok(inner.commit.visible().min(inner.commit.synced()))
}

/// Where requests and answers are. They are not encrypted: a requester needs no key.
fn place(inner: &Engine) -> &dyn Storage {
    let storage = &*inner.tree.storage;
    storage.encrypted().unwrap_or(storage)
}

/// Answers requests until the database closes. The requester fails if its request cannot be read or
/// answered.
pub(crate) fn serve(inner: &Engine) {
    let schedule = &inner.schedule;
    let mut jobs = schedule.jobs.lock();
    while !jobs.closing {
        drop(jobs);
        let _ = answer(inner);
        jobs = schedule.jobs.lock();
        if !jobs.closing {
            schedule.closing.wait_for(&mut jobs, LOOKS_EVERY);
        }
    }
}

fn is_number(text: &str) -> bool {
    text.len() == 16 && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// What a request asks for.
enum Wanted {
    /// A checkpoint in this directory.
    Checkpoint(PathBuf),
    Change(SettingChange),
    Status,
    /// The log for a consumer.
    Log {
        name: String,
        bound_bytes: u64,
        acknowledged: Seqno,
    },
}

fn parse(body: &[u8]) -> Option<Wanted> {
    if body == STATUS {
        return Some(Wanted::Status);
    }
    if let Some(change) = body.strip_prefix(SET) {
        return Some(Wanted::Change(std::str::from_utf8(change).ok()?.parse().ok()?));
    }
    if let Some(log) = body.strip_prefix(LOG) {
        let mut lines = std::str::from_utf8(log).ok()?.splitn(3, '\n');
        let (bound, acknowledged) = (lines.next()?.parse().ok()?, lines.next()?.parse().ok()?);
        let name = lines.next()?.to_owned();
        return Some(Wanted::Log { name, bound_bytes: bound, acknowledged });
    }
    let target = PathBuf::from(OsString::from_vec(body.strip_prefix(CHECKPOINT)?.to_vec()));
    target.is_absolute().then_some(Wanted::Checkpoint(target))
}

/// Creates a file that begins with its length. Removes it if that fails halfway.
fn write_whole(storage: &dyn Storage, name: &str, body: &[u8]) -> Result<()> {
    let mut file = storage.create(name, WriteHint::of(FileKind::Meta))?;
    let head = format!("{}\n", body.len());
    let written = file.append(&[head.as_bytes(), body].concat()).and_then(|()| match body {
        // Asked for every second, and worth nothing after a crash.
        body if body.starts_with(STATUS) => file.publish(),
        _ => file.sync(),
    });
    if written.is_err() {
        let _ = storage.remove(name);
    }
    written
}

/// What a file that begins with its length says. `None` if it is not there, or not all of it.
fn read_whole(storage: &dyn Storage, name: &str) -> Result<Option<Vec<u8>>> {
    match read_file(storage, name) {
        // It was renamed or removed just now.
        Err(error) if error.io_kind() == Some(ErrorKind::NotFound) => Ok(None),
        done => done,
    }
}

fn read_file(storage: &dyn Storage, name: &str) -> Result<Option<Vec<u8>>> {
    if !storage.exists(name)? {
        return Ok(None);
    }
    let file = storage.open(name)?;
    let mut bytes = vec![0; file.len()?.min(BYTES_MAX) as usize];
    file.read_exact_at(0, &mut bytes)?;
    let Some(end) = bytes.iter().position(|&byte| byte == b'\n') else { return Ok(None) };
    let len = std::str::from_utf8(&bytes[..end]).ok().and_then(|len| len.parse::<usize>().ok());
    let body = bytes.split_off(end + 1);
    Ok((len == Some(body.len())).then_some(body))
}
