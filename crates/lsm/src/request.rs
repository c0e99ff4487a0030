//! Requests of other processes: a checkpoint of a database that this process has open.
//!
//! ```text
//! requester                         directory               the process that has it open
//!    ├─ creates ──────────────────► REQUEST
//!    │                              REQUEST.taken ◄──────── renames, and does what it says
//!    │                              ANSWER.<number> ◄────── creates, then removes REQUEST.taken
//!    └─ reads and removes ────────► ANSWER.<number>
//! ```
//!
//! Files, rather than a socket, so that any storage has them and no thread waits for connections. Both
//! sides look for them from time to time. Each file says its own length, so one that is only half
//! written is known.
//!
//! No requester waits forever. The answering process removes `REQUEST.taken` even if it cannot write
//! an answer, and the next open for writing removes all of these files. So a requester fails once its
//! request is in neither file and the answer is absent. It also notices that the lock is free.

use crate::db::Db;
use crate::inner::Inner;
use esker_base::{Clock, Error, FileKind, Hint, Result, Rng};
use esker_storage::{PosixStorage, Storage};
use std::ffi::OsString;
use std::io::ErrorKind;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

const REQUEST: &str = "REQUEST";
const TAKEN: &str = "REQUEST.taken";
const ANSWER: &str = "ANSWER.";

/// The answer to a request that was done.
const DONE: &[u8] = b"done";

/// How often a process with [`Settings::answers_requests`](crate::Settings::answers_requests) looks.
pub(crate) const LOOKS_EVERY: Duration = Duration::from_millis(100);

/// How long a request waits to be taken while no other one is taken. The answering process looks far
/// more often.
const TAKEN_WITHIN: Duration = Duration::from_secs(10);

/// How often a requester looks whether the database is still open somewhere, which it finds out by
/// taking the lock for a moment.
const LOCK_TRIED_EVERY: u32 = 20;

/// A request or an answer is no longer than this.
const BYTES_MAX: u64 = 64 << 10;

/// What became of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Requested {
    /// The process that has the database open has done it.
    Done,
    /// No process has the database open any more. Nothing was done.
    NotOpen,
    /// The caller stopped waiting. The process that has the database open has taken the request, and may
    /// still do it.
    Abandoned,
}

/// Whether a file of this name is a request or an answer. Nothing of a database depends on it.
pub(crate) fn is_request_file(name: &str) -> bool {
    name == REQUEST || name == TAKEN || name.starts_with(ANSWER)
}

/// Asks the process that has the database in `dir` open for a checkpoint into `target`, as
/// [`Db::checkpoint`](crate::Db::checkpoint) makes it, and waits for it as long as `goes_on` returns
/// true. `target` must mean the same directory there.
///
/// # Errors
///
/// [`Error::Unanswered`] if that process takes no requests: it was opened without
/// [`Settings::answers_requests`](crate::Settings::answers_requests). [`Error::RequestFailed`], with the
/// cause, if it could not do it. [`Error::Cancelled`] if `goes_on` returned false before that process had
/// taken the request.
pub fn request_checkpoint(
    dir: &Path,
    target: &Path,
    clock: &dyn Clock,
    seed: u64,
    goes_on: &dyn Fn() -> bool,
) -> Result<Requested> {
    let storage = PosixStorage::open(dir)?;
    let failed = |source| Error::io("find", target.display().to_string(), source);
    let target = std::path::absolute(target).map_err(failed)?;
    let number = Rng::new(seed).next_u64();
    let mut body = format!("checkpoint {number:016x}\n").into_bytes();
    body.extend_from_slice(target.as_os_str().as_bytes());
    let answer = format!("{ANSWER}{number:016x}");
    let (looks, waited) = (0, Duration::ZERO);
    Requester { storage: &storage, body, answer, clock, goes_on, looks, waited }.ask()
}

struct Requester<'a> {
    storage: &'a dyn Storage,
    /// What its request says.
    body: Vec<u8>,
    /// The file of its answer.
    answer: String,
    clock: &'a dyn Clock,
    goes_on: &'a dyn Fn() -> bool,
    looks: u32,
    /// How long the request that is in `REQUEST` now has waited.
    waited: Duration,
}

impl Requester<'_> {
    fn ask(mut self) -> Result<Requested> {
        let mut ahead = None;
        loop {
            match write_whole(self.storage, REQUEST, &self.body) {
                Err(error) if error.io_kind() == Some(ErrorKind::AlreadyExists) => {}
                Err(error) => return Err(error),
                Ok(()) => break,
            }
            let found = read_whole(self.storage, REQUEST)?;
            if found != ahead {
                (ahead, self.waited) = (found, Duration::ZERO);
            }
            if !(self.goes_on)() {
                return Err(Error::Cancelled { what: "checkpoint" });
            }
            if self.waits()? {
                return Ok(Requested::NotOpen);
            }
        }
        self.waited = Duration::ZERO;
        loop {
            // The answer comes before `REQUEST.taken` goes, so this order misses none.
            let is_pending = self.is_pending()?;
            if let Some(said) = read_whole(self.storage, &self.answer)? {
                let _ = self.storage.remove(&self.answer);
                return if said == DONE { Ok(Requested::Done) } else { Err(self.failed(&said)) };
            }
            if is_pending && !(self.goes_on)() {
                // Taken requests are carried out; one that is still there is not.
                let is_taken = read_whole(self.storage, REQUEST)?.as_ref() != Some(&self.body);
                return match is_taken || self.storage.remove(REQUEST).is_err() {
                    true => Ok(Requested::Abandoned),
                    false => Err(Error::Cancelled { what: "checkpoint" }),
                };
            }
            let is_closed = match is_pending {
                true => self.waits()?,
                false => self.is_closed()?,
            };
            if is_closed {
                return Ok(Requested::NotOpen);
            }
            if !is_pending {
                // Half of an answer, if anything.
                let _ = self.storage.remove(&self.answer);
                return Err(self.failed(b"it gave no answer; try again"));
            }
        }
    }

    /// Whether the request waits or is taken.
    fn is_pending(&self) -> Result<bool> {
        // In this order: it goes from one to the other.
        for name in [REQUEST, TAKEN] {
            if read_whole(self.storage, name)?.as_ref() == Some(&self.body) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Waits a moment. Returns whether no process has the database open.
    fn waits(&mut self) -> Result<bool> {
        self.looks += 1;
        if self.looks.is_multiple_of(LOCK_TRIED_EVERY) && self.is_closed()? {
            return Ok(true);
        }
        let is_untaken = self.storage.exists(REQUEST)? && !self.storage.exists(TAKEN)?;
        // One request may take long, and the next waits for it.
        self.waited = if is_untaken { self.waited + LOOKS_EVERY } else { Duration::ZERO };
        if self.waited > TAKEN_WITHIN {
            // Its own, or one that is left from a process that died.
            let _ = self.storage.remove(REQUEST);
            return Err(Error::Unanswered { dir: self.storage.describe() });
        }
        self.clock.sleep(LOOKS_EVERY);
        Ok(false)
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

impl Db {
    /// Answers a request of another process, if there is one: a checkpoint, which `esker checkpoint` asks
    /// for while this process has the database open. Says whether there was one. With
    /// [`Settings::answers_requests`](crate::Settings::answers_requests) a thread does this.
    pub fn answer_request(&self) -> Result<bool> {
        answer(&*self.upkeep()?)
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

/// Takes a request, if there is one, and answers it. Says whether there was one.
pub(crate) fn answer(inner: &Inner) -> Result<bool> {
    let storage = &*inner.storage;
    if !storage.exists(REQUEST)? {
        return Ok(false);
    }
    if read_whole(storage, REQUEST)?.is_none() {
        return Ok(false);
    }
    storage.rename(REQUEST, TAKEN)?;
    // Only now, for another request may have replaced the one seen above.
    let answered = answer_taken(inner, storage);
    // Also if there is no answer: its requester waits for as long as the file is there.
    storage.remove(TAKEN)?;
    answered.map(|()| true)
}

fn answer_taken(inner: &Inner, storage: &dyn Storage) -> Result<()> {
    let body = read_whole(storage, TAKEN)?.unwrap_or_default();
    let Some((number, target)) = parse(&body) else { return Ok(()) };
    let made = crate::checkpoint::checkpoint_into(inner, &target, &|| true);
    let said = made.map_or_else(|error| error.to_string().into_bytes(), |()| DONE.to_vec());
    write_whole(storage, &format!("{ANSWER}{number}"), &said)
}

/// Answers requests until the database closes. The requester fails if its request cannot be read or
/// answered.
pub(crate) fn serve(inner: &Inner) {
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

/// The number of a request for a checkpoint, and its target.
fn parse(body: &[u8]) -> Option<(&str, PathBuf)> {
    let end = body.iter().position(|&byte| byte == b'\n')?;
    let number = std::str::from_utf8(&body[..end]).ok()?.strip_prefix("checkpoint ")?;
    let is_number = number.len() == 16 && number.bytes().all(|byte| byte.is_ascii_hexdigit());
    let target = PathBuf::from(OsString::from_vec(body[end + 1..].to_vec()));
    (is_number && target.is_absolute()).then_some((number, target))
}

/// Creates a file that begins with its length. Removes it if that fails halfway.
fn write_whole(storage: &dyn Storage, name: &str, body: &[u8]) -> Result<()> {
    let mut file = storage.create(name, Hint::of(FileKind::Meta))?;
    let head = format!("{}\n", body.len());
    let written = file.append(&[head.as_bytes(), body].concat()).and_then(|()| file.sync());
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
