//! A storage whose files are objects.

use crate::calls::{Calls, failed};
use crate::lease::{self, Lease, Lock};
use crate::reader::ObjectReader;
use crate::writer::{Content, ObjectWriter};
use esker::env::{
    Clock, LogFile, ReadableFile, Storage, SystemClock, WritableFile, WriteHint, check_name,
    copy_durably,
};
use esker::{Error, Result};
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt};
use std::ffi::OsString;
use std::io;
use std::sync::{Arc, Mutex};
use url::Url;

/// The object with the lock.
const LOCK: &str = "LOCK";

/// A storage for a [`Repository`](esker::backup::Repository), whose files are the objects below a prefix.
///
/// * A file appears when it is synced. One of more than 16 MiB is sent in parts, and cannot grow after that.
/// * A rename is a copy inside the store and a removal. If it fails between the two, both names exist.
/// * The lock is an object named `LOCK`, which its holder renews. After the death of the holder it stays
///   locked for five minutes, and the one that takes it then watches it for half of this time.
/// * Log files are refused: see the [crate's page](crate).
///
/// Calls block. They may be made on a thread of an asynchronous runtime, which they block as well.
///
/// # Examples
///
/// ```
/// use esker::env::{FileKind, Storage, WriteHint};
/// use esker_object_store::ObjectStorage;
///
/// # fn main() -> esker::Result<()> {
/// let storage = ObjectStorage::open("memory:///backups")?;
/// let mut file = storage.create("note", WriteHint::of(FileKind::Meta))?;
/// file.append(b"hello")?;
/// file.sync()?;
/// assert_eq!(storage.open("note")?.len()?, 5);
/// # Ok(())
/// # }
/// ```
pub struct ObjectStorage {
    store: Arc<dyn ObjectStore>,
    prefix: Path,
    place: String,
    calls: Arc<Calls>,
    lease: Lease,
    clock: Arc<dyn Clock>,
}

impl ObjectStorage {
    /// Opens the objects below `url`: `s3://bucket/prefix`, `gs://bucket/prefix`, `az://container/prefix`, or
    /// `memory:///prefix` for tests. The first three need the feature `aws`, `gcp` or `azure`.
    ///
    /// Credentials, region and endpoint come from the variables of the environment that the crate
    /// `object_store` documents, such as `AWS_ACCESS_KEY_ID` and `AWS_ENDPOINT`: those whose names begin
    /// with `AWS_`, `GOOGLE_` or `AZURE_`.
    ///
    /// # Errors
    /// [`Error::Io`] if the URL or a variable is invalid, or the feature for it is missing. Nothing is sent yet.
    pub fn open(url: &str) -> Result<ObjectStorage> {
        let shown = without_secrets(url);
        let invalid = |why: Box<dyn std::error::Error + Send + Sync>| {
            let why = io::Error::new(io::ErrorKind::InvalidInput, why);
            Error::io("open the object store", shown.clone(), why)
        };
        let parsed = Url::parse(url).map_err(|error| invalid(error.into()))?;
        if !parsed.username().is_empty() || parsed.password().is_some() || parsed.query().is_some()
        {
            return Err(invalid("give credentials in variables of the environment".into()));
        }
        let (store, prefix) = object_store::parse_url_opts(&parsed, variables(std::env::vars_os()))
            .map_err(|error| invalid(error.into()))?;
        ObjectStorage::with(Arc::from(store), prefix.as_ref(), url)
    }

    /// Returns the storage of the objects below `prefix` in `store`. Messages call it `place`.
    ///
    /// # Errors
    /// [`Error::Io`] if `prefix` is no path of objects, or no thread can be started.
    pub fn with(
        store: Arc<dyn ObjectStore>,
        prefix: &str,
        place: impl Into<String>,
    ) -> Result<ObjectStorage> {
        let place = place.into();
        let prefix = Path::parse(prefix).map_err(|error| {
            let why = io::Error::new(io::ErrorKind::InvalidInput, error);
            Error::io("use the prefix", prefix.to_owned(), why)
        })?;
        Ok(ObjectStorage {
            store,
            prefix,
            place: place.trim_end_matches('/').to_owned(),
            calls: Arc::new(Calls::new()?),
            lease: Lease::default(),
            clock: Arc::new(SystemClock::new()),
        })
    }

    fn location(&self, name: &str) -> Result<Path> {
        check_name(name)?;
        Ok(self.prefix.clone().join(name))
    }

    /// Runs a call that does `action` to `name`.
    fn call<T, F>(
        &self,
        action: &'static str,
        name: &str,
        call: impl FnOnce(Arc<dyn ObjectStore>, Path) -> F,
    ) -> Result<T>
    where
        T: Send + 'static,
        F: Future<Output = object_store::Result<T>> + Send + 'static,
    {
        let location = self.location(name)?;
        let done = self.calls.wait(call(self.store.clone(), location));
        done.map_err(|error| failed(action, self.path_of(name), error))
    }

    /// The length of a file. `None` if there is none.
    fn find(&self, name: &str) -> Result<Option<u64>> {
        self.call("look for", name, |store, location| async move {
            match store.head(&location).await {
                Ok(found) => Ok(Some(found.size)),
                Err(object_store::Error::NotFound { .. }) => Ok(None),
                Err(error) => Err(error),
            }
        })
    }

    fn failure(&self, action: &'static str, name: &str, kind: io::ErrorKind) -> Error {
        Error::io(action, self.path_of(name), kind.into())
    }

    fn refuse_log(&self, name: &str) -> Error {
        let why = "an object cannot be written in place; use the store for backups of a database";
        let why = io::Error::new(io::ErrorKind::Unsupported, why);
        Error::io("create the log", self.path_of(name), why)
    }
}

/// The variables for stores. Shorter names, such as `TOKEN` and `REGION`, would be options as well, but
/// those of the environment are not meant for a store.
fn variables(all: impl Iterator<Item = (OsString, OsString)>) -> Vec<(String, String)> {
    let named = all.filter_map(|(name, value)| {
        let name = name.into_string().ok()?.to_ascii_lowercase();
        let is_for_stores = ["aws_", "google_", "azure_"].iter().any(|it| name.starts_with(it));
        Some((name, value.into_string().ok()?)).filter(|_| is_for_stores)
    });
    named.collect()
}

/// The URL without user, password and query, also if it cannot be parsed.
fn without_secrets(url: &str) -> String {
    let url = url.split(['?', '#']).next().unwrap_or_default();
    let Some((scheme, rest)) = url.split_once("://") else {
        return url.rsplit('@').next().unwrap_or_default().to_owned();
    };
    // A password may have a slash of its own.
    let host = rest.rsplit('@').next().unwrap_or_default();
    format!("{scheme}://{host}")
}

/// The name of this machine, for the message of another one that finds the lock.
fn host() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname");
    name.map_or_else(|_| "an unknown machine".to_owned(), |name| name.trim().to_owned())
}

impl std::fmt::Debug for ObjectStorage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ObjectStorage").field("place", &self.place).finish_non_exhaustive()
    }
}

impl Storage for ObjectStorage {
    fn describe(&self) -> String {
        self.place.clone()
    }

    fn create(&self, name: &str, _hint: WriteHint) -> Result<Box<dyn WritableFile>> {
        let lease = self.lease.term();
        lease.expect_held()?;
        if self.find(name)?.is_some() {
            return Err(self.failure("create", name, io::ErrorKind::AlreadyExists));
        }
        Ok(Box::new(ObjectWriter {
            store: self.store.clone(),
            calls: self.calls.clone(),
            lease,
            location: self.location(name)?,
            bytes: 0,
            content: Content::Whole(Vec::new()),
            is_there: false,
        }))
    }

    fn open(&self, name: &str) -> Result<Arc<dyn ReadableFile>> {
        let Some(bytes) = self.find(name)? else {
            return Err(self.failure("open", name, io::ErrorKind::NotFound));
        };
        Ok(Arc::new(ObjectReader {
            store: self.store.clone(),
            calls: self.calls.clone(),
            location: self.location(name)?,
            name: self.path_of(name),
            bytes,
            sequential: Mutex::default(),
        }))
    }

    fn create_log(&self, name: &str, _bytes: u64) -> Result<Arc<dyn LogFile>> {
        Err(self.refuse_log(name))
    }

    fn recycle_log(&self, _old: &str, new: &str, _bytes: u64) -> Result<Option<Arc<dyn LogFile>>> {
        Err(self.refuse_log(new))
    }

    fn open_log(&self, name: &str) -> Result<Arc<dyn LogFile>> {
        Err(self.refuse_log(name))
    }

    fn list(&self) -> Result<Vec<String>> {
        let (store, prefix) = (self.store.clone(), self.prefix.clone());
        // One level: objects below a further `/` are not files of this storage.
        let listed = self.calls.wait(async move {
            let found = store.list_with_delimiter(Some(&prefix)).await?;
            let names = found.objects.iter().filter_map(|object| {
                let mut parts = object.location.prefix_match(&prefix)?;
                let name = parts.next().filter(|_| parts.next().is_none())?;
                Some(name.as_ref().to_owned())
            });
            Ok(names.collect::<Vec<String>>())
        });
        let names = listed.map_err(|error| failed("list", self.place.clone(), error))?;
        Ok(names.into_iter().filter(|name| name != LOCK).collect())
    }

    fn exists(&self, name: &str) -> Result<bool> {
        Ok(self.find(name)?.is_some())
    }

    fn remove(&self, name: &str) -> Result<()> {
        self.lease.term().expect_held()?;
        // Stores remove what is not there without an error.
        if self.find(name)?.is_none() {
            return Err(self.failure("remove", name, io::ErrorKind::NotFound));
        }
        self.call("remove", name, |store, location| async move { store.delete(&location).await })
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        self.lease.term().expect_held()?;
        let target = self.location(to)?;
        self.call("rename", from, |store, location| async move {
            store.copy(&location, &target).await?;
            store.delete(&location).await
        })
    }

    fn sync_names(&self) -> Result<()> {
        // A store answers once a change is durable.
        Ok(())
    }

    fn link_to(&self, name: &str, target: &dyn Storage) -> Result<()> {
        copy_durably(self, name, target)
    }

    fn lock(&self) -> Result<Box<dyn Send + Sync>> {
        let holder = format!("{} on {}", std::process::id(), host());
        let lock = Lock::new(self.store.clone(), self.prefix.clone().join(LOCK), holder);
        let held = lease::take(&self.calls, lock, &self.lease, &self.clock, &self.place)?;
        Ok(Box::new(held))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_variables_for_stores_are_options() {
        let given = [
            ("AWS_REGION", "eu-central-1"),
            ("Azure_Client_Id", "7"),
            ("GOOGLE_SERVICE_ACCOUNT", "a"),
            ("TOKEN", "ghp_secret"),
            ("REGION", "x"),
            ("ENDPOINT", "http://elsewhere"),
            ("TIMEOUT", "never"),
            ("MY_AWS_REGION", "x"),
        ];
        let given = given.map(|(name, value)| (OsString::from(name), OsString::from(value)));
        let names = variables(given.into_iter()).into_iter().map(|(name, _)| name);
        let expected = ["aws_region", "azure_client_id", "google_service_account"];
        assert_eq!(names.collect::<Vec<_>>(), expected);
    }

    #[test]
    fn urls_are_shown_without_secrets() {
        for (url, shown) in [
            ("s3://bucket/a/b", "s3://bucket/a/b"),
            ("s3://user:secret@bucket/x", "s3://bucket/x"),
            ("s3://user:sec/ret@bucket/x?token=secret", "s3://bucket/x"),
            ("user:secret@bucket", "bucket"),
            ("backups", "backups"),
        ] {
            assert_eq!(without_secrets(url), shown);
        }
    }
}
