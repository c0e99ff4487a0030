//! The database, the keyspace and the range that a command works on.

use crate::failure::{Answer, Failure, Outcome};
use crate::form::Notation;
use crate::interrupt::Interrupt;
use crate::keys::KeyPlace;
use crate::output::tell;
use crate::session;
use crate::text::escape;
use clap::Args;
use esker::env::Env;
use esker::inspect::{Inspector, LostKeys, Skipped};
use esker::options::Recovery;
use esker::{Cursor, Db, KeyRange, Keyspace, Log, Settings, SyncPolicy};
use esker_flash::{FlashStorage, chunk_device};
use esker_pmem::pool::PoolRepair;
use esker_pmem::{Accept, Domain, Pool};
use std::ffi::OsString;
use std::ops::Bound;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A database.
#[derive(Args)]
pub struct Home {
    /// The database directory, or a flash device
    pub db: PathBuf,
    #[command(flatten)]
    pub log: LogPlace,
    #[command(flatten)]
    pub keys: KeyPlace,
    /// Open for writing even if intact frames of the log follow a damaged one. Keeps the writes before it
    #[arg(long)]
    pub accept_torn_log: bool,
}

/// A database whose files are inspected one by one.
#[derive(Args)]
pub struct Files {
    /// The database directory
    pub db: PathBuf,
    #[command(flatten)]
    pub log: LogPlace,
    #[command(flatten)]
    pub keys: KeyPlace,
}

/// Where a database's log is.
#[derive(Args)]
pub struct LogPlace {
    /// Where the log files are, if not in the database directory
    #[arg(long, value_name = "DIR")]
    pub log_dir: Option<PathBuf>,
    /// The pool of persistent memory that holds the log: see `esker pmem create`
    #[arg(long, value_name = "FILE", conflicts_with = "log_dir")]
    pub pool: Option<PathBuf>,
    /// Accept a pool in DRAM (tmpfs), where nothing survives power loss
    #[arg(long, requires = "pool")]
    pub emulated: bool,
}

impl Files {
    /// Inspects them to repair them, on a flash device, too.
    pub fn inspect_to_repair(&self) -> Outcome<Inspector> {
        if chunk_device::is_device(&self.db) {
            let storage: Arc<FlashStorage> =
                Arc::new(FlashStorage::open(chunk_device::open(&self.db)?)?);
            return decrypting(Inspector::of(storage.clone(), storage), &self.keys);
        }
        self.inspect()
    }

    /// Inspects them, without opening the database.
    pub fn inspect(&self) -> Outcome<Inspector> {
        if chunk_device::is_device(&self.db) {
            let reason = "the files of a database on a flash device can't be inspected one by one";
            return Err(Failure::Usage(reason.to_owned()));
        }
        decrypting(self.log.inspect(&self.db)?, &self.keys)
    }
}

impl LogPlace {
    /// Inspects the files of a database in the directory `db` whose log is here.
    fn inspect(&self, db: &Path) -> Outcome<Inspector> {
        Ok(match &self.pool {
            Some(pool) => Inspector::open_with_pool(db, pool, self.emulated)?,
            None => Inspector::open(db, self.log_dir.as_deref())?,
        })
    }
}

impl Home {
    /// What its log is, synced as `sync` says.
    pub fn log(&self, sync: SyncPolicy) -> Log {
        match &self.log.pool {
            Some(pool) => Log::Pmem { pool: pool.clone(), emulated: self.log.emulated },
            None => Log::File { dir: self.log.log_dir.clone(), sync },
        }
    }

    /// The bytes of an extent of its pool, which is a segment there, if it has one that can be inspected. What is
    /// wrong with another is said when it is opened.
    pub fn extent_bytes(&self) -> Option<usize> {
        let inspected = Pool::inspect(self.log.pool.as_ref()?, self.accept(), PoolRepair::Beside);
        Some(inspected.ok()?.0.extent_bytes())
    }

    fn accept(&self) -> Accept {
        if self.log.emulated { Accept::Emulated } else { Accept::Persistent }
    }

    /// Its arguments as a shell takes them.
    pub fn in_shell(&self) -> String {
        let mut out = quoted(&self.db);
        let log = &self.log;
        for (flag, path) in [("--log-dir", &log.log_dir), ("--pool", &log.pool)] {
            if let Some(path) = path {
                out += &format!(" {flag} {}", quoted(path));
            }
        }
        if log.emulated {
            out += " --emulated";
        }
        if let Some(file) = &self.keys.key_file {
            out += &format!(" --key-file {}", quoted(file));
        }
        out
    }

    /// Inspects its files, all of them together, without opening it.
    pub fn inspect(&self) -> Outcome<Inspector> {
        match self.on_flash(Access::Read)? {
            Some(Env { storage, .. }) => {
                decrypting(Inspector::of(storage.clone(), storage), &self.keys)
            }
            None => decrypting(self.log.inspect(&self.db)?, &self.keys),
        }
    }

    /// Whether it is on a flash device.
    pub fn is_on_flash(&self) -> bool {
        chunk_device::is_device(&self.db)
    }

    /// Opens it for reading, which works while another process writes.
    pub fn open_for_reading(&self) -> Outcome<Db> {
        if let Some(session) = session::get() {
            return Ok(session.db.clone());
        }
        let settings = self.keys.apply(Settings::default().log(self.log(SyncPolicy::Os)))?;
        warned(match self.on_flash(Access::Read)? {
            Some(env) => Db::open_read_only_with(env, settings)?,
            None => Db::open_read_only(&self.db, settings)?,
        })
    }

    /// What to do where whole frames of the log follow an invalid one.
    fn recovery(&self) -> Recovery {
        if self.accept_torn_log { Recovery::Prefix } else { Recovery::Strict }
    }

    /// Opens it, or creates it.
    pub fn open(&self, settings: Settings) -> Outcome<Db> {
        if let Some(session) = session::get() {
            return Ok(session.db.clone());
        }
        let settings = settings.recovery(self.recovery());
        if let Some(pool) = &self.log.pool
            && !self.db.exists()
        {
            // A pool that can't be used is refused before there is a directory.
            let (found, _) = Pool::inspect(pool, self.accept(), PoolRepair::Beside)?;
            if found.domain() == Domain::Copy {
                Pool::open(pool, self.accept())?;
            }
        }
        warned(match self.on_flash(Access::Write)? {
            Some(env) => Db::open_with(env, settings)?,
            None => Db::open(&self.db, settings)?,
        })
    }

    /// Opens it, if it is there.
    pub fn open_existing(&self, settings: Settings) -> Outcome<Db> {
        self.try_open_existing(settings)?.map_err(Failure::from)
    }

    /// The same. If nothing is there, the error names the flag that creates a database.
    pub fn open_existing_or_advise(&self, settings: Settings) -> Outcome<Db> {
        let opened = self.try_open_existing(settings)?;
        opened.map_err(|error| match &error {
            esker::Error::NotADatabase { .. } if self.is_vacant() => {
                Failure::from(error).and(": check the path, or create one with --create")
            }
            _ => error.into(),
        })
    }

    /// Whether a database can be created here: nothing is there, or an empty directory, or a device.
    fn is_vacant(&self) -> bool {
        let is_empty = |mut files: std::fs::ReadDir| files.next().is_none();
        !self.db.exists() || self.is_on_flash() || self.db.read_dir().is_ok_and(is_empty)
    }

    /// The same as [`Home::open_existing`], and the engine's own error.
    pub fn try_open_existing(&self, settings: Settings) -> Outcome<esker::Result<Db>> {
        if let Some(session) = session::get() {
            return Ok(Ok(session.db.clone()));
        }
        let settings = settings.recovery(self.recovery());
        let opened = match self.on_flash(Access::Write)? {
            Some(env) => Db::open_existing_with(env, settings),
            None => Db::open_existing(&self.db, settings),
        };
        match opened {
            Ok(db) => warned(db).map(Ok),
            Err(error) => Ok(Err(error)),
        }
    }

    /// Closes `db` after a command, unless a shell keeps it open for the next one.
    pub fn close(&self, db: Db) -> Outcome {
        match session::get() {
            Some(_) => Ok(()),
            None => Ok(db.close()?),
        }
    }

    /// The environment of a database on a flash device, if the path is one.
    fn on_flash(&self, access: Access) -> Outcome<Option<Env>> {
        if !self.is_on_flash() {
            return Ok(None);
        }
        if self.log.log_dir.is_some() || self.log.pool.is_some() {
            let reason = "a database on a flash device has its log there, too";
            return Err(Failure::Usage(reason.to_owned()));
        }
        let storage = match access {
            Access::Read => FlashStorage::open_to_read(chunk_device::open_to_look(&self.db)?)?,
            Access::Write => FlashStorage::open(chunk_device::open(&self.db)?)?,
        };
        if let Some(doubt) = storage.doubt() {
            tell(format_args!("{}: {doubt}: what is read may be older", self.db.display()));
        }
        Ok(Some(Env::over(Arc::new(storage))))
    }
}

/// `inspector`, which decrypts the files with `keys` if there are any.
fn decrypting(inspector: Inspector, keys: &KeyPlace) -> Outcome<Inspector> {
    Ok(match keys.encryption()? {
        Some(encryption) => inspector.encryption(&encryption),
        None => inspector,
    })
}

/// What a flash device is opened for.
#[derive(Clone, Copy)]
enum Access {
    Read,
    Write,
}

/// Says what opening dropped.
fn warned(db: Db) -> Outcome<Db> {
    if let Some(torn) = db.torn_tail() {
        tell(format_args!("{torn}"));
    }
    for name in db.set_aside() {
        tell(format_args!(
            "set aside {name}, which the manifest does not list: it may hold writes that were not \
             acknowledged as durable; remove it if nothing is missing"
        ));
    }
    Ok(db)
}

/// A path as a word of a shell.
fn quoted(path: &Path) -> String {
    let text = path.display().to_string();
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/._-+=:@%".contains(&byte);
    match !text.is_empty() && text.bytes().all(is_plain) {
        true => text,
        false => format!("'{}'", text.replace('\'', "'\\''")),
    }
}

/// A database and one of its keyspaces.
#[derive(Args)]
pub struct Place {
    #[command(flatten)]
    pub home: Home,
    /// The keyspace
    #[arg(short, long, value_name = "NAME", default_value = "default")]
    pub keyspace: String,
}

impl Place {
    /// Opens it for reading, which works while another process writes.
    pub fn open_for_reading(&self) -> Outcome<(Db, Keyspace)> {
        let db = self.home.open_for_reading()?;
        let keyspace = db.open_keyspace(&self.keyspace)?;
        Ok((db, keyspace))
    }
}

/// A range of keys.
#[derive(Args, Default)]
pub struct Stretch {
    /// The first key
    #[arg(long, value_name = "KEY")]
    pub from: Option<OsString>,
    /// The first key after the range
    #[arg(long, value_name = "KEY")]
    pub to: Option<OsString>,
    /// Only keys with this prefix
    #[arg(long, value_name = "KEY", conflicts_with_all = ["from", "to"])]
    pub prefix: Option<OsString>,
}

impl Stretch {
    /// Whether any bound was given.
    pub fn is_given(&self) -> bool {
        self.from.is_some() || self.to.is_some() || self.prefix.is_some()
    }

    /// Fails if an empty bound would make this the range of all keys: a script may have passed an unset
    /// variable.
    pub fn expect_no_empty_bound(&self) -> Outcome {
        let is_empty = |bound: &Option<OsString>| bound.as_ref().is_some_and(|key| key.is_empty());
        let flag = match self {
            Stretch { prefix, .. } if is_empty(prefix) => "--prefix",
            Stretch { from, to: None, .. } if is_empty(from) => "--from",
            _ => return Ok(()),
        };
        Err(Failure::Usage(format!("{flag} is empty, which means every key; use --all for that")))
    }

    /// The range.
    pub fn range(self, keys: Notation) -> Outcome<KeyRange> {
        if let Some(prefix) = self.prefix {
            return Ok(KeyRange::prefix(&keys.parse(prefix)?));
        }
        let start = self.from.map(|key| keys.parse(key)).transpose()?;
        let end = self.to.map(|key| keys.parse(key)).transpose()?;
        Ok(KeyRange {
            start: start.map_or(Bound::Unbounded, Bound::Included),
            end: end.map_or(Bound::Unbounded, Bound::Excluded),
        })
    }
}

/// Calls `visit` with each entry of a keyspace in `range`, in order, until it says `false`, and goes around what is
/// damaged. What was gone around is reported, and then the failure is that something is missing.
pub fn for_each_around(
    place: &Place,
    range: &KeyRange,
    visit: impl FnMut(&[u8], &[u8]) -> Outcome<bool>,
) -> Outcome {
    let mut skipped = 0u64;
    let mut report = |skip: Skipped| {
        skipped += 1;
        let what = if skip.are_range_deletes { "range deletes" } else { "versions" };
        let (keys, file, error) = (between(&skip.keys), &skip.file, &skip.keys.error);
        tell(format_args!("skipped {what} of keys {keys} in {file}: {error}"));
    };
    let inspector = place.home.inspect()?;
    inspector.read_around(&place.keyspace, range, visit, &mut report)?;
    match skipped {
        0 => Ok(()),
        _ => Err(Failure::No(
            Answer::Incomplete,
            "incomplete output: damaged blocks were skipped; see the messages above".into(),
        )),
    }
}

/// Calls `visit` with each entry of `range`, in order or backward, until it says `false`.
pub fn for_each(
    db: &Db,
    keyspace: &Keyspace,
    range: KeyRange,
    reverse: bool,
    mut visit: impl FnMut(&[u8], &[u8]) -> Outcome<bool>,
) -> Outcome {
    let mut cursor = db.cursor(keyspace, range)?;
    if reverse {
        cursor.seek_last()?;
    } else {
        cursor.seek_first()?;
    }
    while let Some((key, value)) = cursor.current() {
        if Interrupt::stops_line() {
            return Err(Failure::Interrupted("interrupted".to_owned()));
        }
        if !visit(key, value)? {
            break;
        }
        if reverse {
            cursor.prev()?;
        } else {
            cursor.next()?;
        }
    }
    Ok(())
}

/// A range of keys, for people.
pub fn between(keys: &LostKeys) -> String {
    let from = match &keys.from[..] {
        [] => "from the first".to_owned(),
        from => format!("from {}", escape(from)),
    };
    match &keys.to {
        Some(to) => format!("{from} to {}", escape(to)),
        None => format!("{from} on"),
    }
}
