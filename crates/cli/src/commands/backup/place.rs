//! Where a repository is: a directory, or the objects below a URL.

use crate::failure::Outcome;
use esker::backup::Repository;
use esker_storage::Encryption;
use std::path::Path;

/// Opens the repository at `place`, or makes it.
pub(super) fn create(place: &Path, encryption: Option<&Encryption>) -> Outcome<Repository> {
    match url(place) {
        // The first backup makes it.
        Some(url) => objects::repository(url, encryption),
        None => Ok(Repository::create_with(place, encryption)?),
    }
}

/// Opens the repository at `place`.
pub(super) fn open(place: &Path, encryption: Option<&Encryption>) -> Outcome<Repository> {
    let Some(url) = url(place) else { return Ok(Repository::open_with(place, encryption)?) };
    let repository = objects::repository(url, encryption)?;
    if repository.database()?.is_none() {
        let reason = "no backup was made into it".to_owned();
        let place = url.to_owned();
        let error = esker::backup::BackupError::NotARepository { place, reason };
        return Err(esker::Error::Backup(Box::new(error)).into());
    }
    Ok(repository)
}

/// The URL of an object store. A directory whose name looks like one is reached as `./NAME`.
fn url(place: &Path) -> Option<&str> {
    let text = place.to_str()?;
    let (scheme, _) = text.split_once("://")?;
    let is_scheme = !scheme.is_empty() && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric());
    is_scheme.then_some(text)
}

#[cfg(feature = "object-store")]
mod objects {
    use super::*;
    use esker_base::SystemClock;
    use esker_object_store::ObjectStorage;
    use std::sync::Arc;

    pub(super) fn repository(url: &str, encryption: Option<&Encryption>) -> Outcome<Repository> {
        let objects = Arc::new(ObjectStorage::open(url)?);
        let storage = match encryption {
            Some(encryption) => encryption.over(objects),
            None => objects,
        };
        Ok(Repository::of(storage, Arc::new(SystemClock::new())))
    }
}

#[cfg(not(feature = "object-store"))]
mod objects {
    use super::*;
    use crate::failure::Failure;

    pub(super) fn repository(url: &str, _: Option<&Encryption>) -> Outcome<Repository> {
        Err(Failure::new(format!(
            "cannot open {url}: this program was built without object stores; build it with \
             `--features object-store`"
        )))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_with_a_scheme_is_a_url_and_others_are_directories() {
        for place in ["s3://bucket/prefix", "gs://bucket", "az://container/a/b", "memory:///x"] {
            assert_eq!(url(Path::new(place)), Some(place));
        }
        for place in ["backups", "./s3://bucket", "/a/s3:/b", "://", "a b://c"] {
            assert_eq!(url(Path::new(place)), None, "{place}");
        }
    }
}
