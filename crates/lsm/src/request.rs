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
//! written is known. A process that dies here leaves files behind: the next open for writing removes
//! them, and a requester notices that the lock is free.

use crate::db::Db;
use crate::inner::Inner;
use esker_base::{Clock, Error, FileKind, Hint, Result, Rng};
use esker_storage::{PosixStorage, Storage};
use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

const REQUEST: &str = "REQUEST";
const TAKEN: &str = "REQUEST.taken";
const ANSWER: &str = "ANSWER.";

/// How often a process with [`Settings::answers_requests`](crate::Settings::answers_requests) looks.
pub(crate) const LOOKS_EVERY: Duration = Duration::from_millis(100);

/// How long a request waits to be taken. The answering process looks far more often.
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
}

/// Whether a file of this name is a request or an answer. Nothing of a database depends on it.
pub(crate) fn is_request_file(name: &str) -> bool {
    name == REQUEST || name == TAKEN || name.starts_with(ANSWER)
}

/// Asks the process that has the database in `dir` open for a checkpoint into `target`, as
/// [`Db::checkpoint`](crate::Db::checkpoint) makes it, and waits for it. `target` must mean the same
/// directory there.
///
/// # Errors
///
/// [`Error::Unanswered`] if that process takes no requests: it was opened without
/// [`Settings::answers_requests`](crate::Settings::answers_requests). [`Error::RequestFailed`], with the
/// cause, if it could not do it.
pub fn request_checkpoint(
    dir: &Path,
    target: &Path,
    clock: &dyn Clock,
    seed: u64,
) -> Result<Requested> {
    let storage = PosixStorage::open(dir)?;
    let failed = |source| Error::io("find", target.display().to_string(), source);
    let target = std::path::absolute(target).map_err(failed)?;
    let number = Rng::new(seed).next_u64();
    let mut body = format!("checkpoint {number:016x}\n").into_bytes();
    body.extend_from_slice(target.as_os_str().as_bytes());
    place_request(&storage, &body, clock)?;
    await_answer(&storage, &format!("{ANSWER}{number:016x}"), clock)
}

fn place_request(storage: &dyn Storage, body: &[u8], clock: &dyn Clock) -> Result<()> {
    let mut waited = Duration::ZERO;
    loop {
        match write_whole(storage, REQUEST, body) {
            Err(error) if error.io_kind() == Some(std::io::ErrorKind::AlreadyExists) => {}
            done => return done,
        }
        if waited >= TAKEN_WITHIN {
            // Nobody takes that one either. Its requester finds out by itself.
            let _ = storage.remove(REQUEST);
            return Err(Error::Unanswered { dir: storage.describe() });
        }
        clock.sleep(LOOKS_EVERY);
        waited += LOOKS_EVERY;
    }
}

fn await_answer(storage: &dyn Storage, answer: &str, clock: &dyn Clock) -> Result<Requested> {
    for looks in 1_u32.. {
        if let Some(said) = read_whole(storage, answer)? {
            let _ = storage.remove(answer);
            return match &said[..] {
                b"done" => Ok(Requested::Done),
                _ => Err(Error::RequestFailed {
                    dir: storage.describe(),
                    cause: String::from_utf8_lossy(&said).into_owned(),
                }),
            };
        }
        if looks % LOCK_TRIED_EVERY == 0
            && let Ok(_lock) = storage.lock()
        {
            // The answer may have come with the end.
            if !storage.exists(answer)? {
                remove_request_files(storage);
                return Ok(Requested::NotOpen);
            }
        }
        if LOOKS_EVERY * looks >= TAKEN_WITHIN && storage.exists(REQUEST)? {
            let _ = storage.remove(REQUEST);
            return Err(Error::Unanswered { dir: storage.describe() });
        }
        clock.sleep(LOOKS_EVERY);
    }
    unreachable!("a requester looks fewer times than that")
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
    let Some(body) = read_whole(storage, REQUEST)? else { return Ok(false) };
    storage.rename(REQUEST, TAKEN)?;
    if let Some((number, target)) = parse(&body) {
        let made = PosixStorage::create(target)
            .and_then(|target| crate::checkpoint::checkpoint(inner, &target));
        let said = made.map_or_else(|error| error.to_string(), |()| "done".to_owned());
        write_whole(storage, &format!("{ANSWER}{number}"), said.as_bytes())?;
    }
    storage.remove(TAKEN)?;
    Ok(true)
}

/// Answers requests until the database closes. A request that can't be read or answered is left: its
/// requester gives up.
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

/// Writes a file that begins with its length.
fn write_whole(storage: &dyn Storage, name: &str, body: &[u8]) -> Result<()> {
    let mut file = storage.create(name, Hint::of(FileKind::Meta))?;
    file.append(format!("{}\n", body.len()).as_bytes())?;
    file.append(body)?;
    file.sync()
}

/// What a file that begins with its length says. `None` if it is not there, or not all of it.
fn read_whole(storage: &dyn Storage, name: &str) -> Result<Option<Vec<u8>>> {
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
