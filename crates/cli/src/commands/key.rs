//! `esker key`: keys of encrypted databases.

use crate::failure::{Failure, Outcome};
use crate::output::show;
use esker::env::PosixStorage;
use esker_base::SystemEntropy;
use esker_encryption::{Key as MasterKey, KeyUsage, keys_in_use};
use serde_json::json;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Make keys of encrypted databases, or list those in use
///
/// A database that is created with `--key-file FILE`, or with keys in the variable ESKER_KEY, is encrypted.
/// Every later command needs the keys, too. Keep a copy of them: without its keys, a database is lost.
#[derive(clap::Args)]
pub struct Key {
    #[command(subcommand)]
    action: Action,
}

#[derive(clap::Subcommand)]
enum Action {
    New(New),
    Usage(Usage),
}

/// Make a random key
///
/// To rotate keys, put the new one in front of the old ones: `esker key new FILE` does. Then run `esker compact`,
/// and remove old keys that `esker key usage` does not list any more.
#[derive(clap::Args)]
struct New {
    /// The file to make, or to put the key in front of its keys
    file: PathBuf,
}

/// List the keys that the files of a database are encrypted with
///
/// The keys themselves are not needed. A key that is not listed can be removed from the key file.
#[derive(clap::Args)]
struct Usage {
    /// The directory of the database, of its log files, or of a backup repository
    dir: PathBuf,
}

impl Key {
    pub fn run(self) -> Outcome {
        match self.action {
            Action::New(command) => command.run(),
            Action::Usage(command) => command.run(),
        }
    }
}

impl New {
    fn run(self) -> Outcome {
        let key = MasterKey::random(&SystemEntropy)?;
        let line = format!("{}\n", *key.to_hex());
        let place = self.file.display().to_string();
        let failed = |source| Failure::io("write", place.clone(), source);
        let old = match std::fs::read_to_string(&self.file) {
            Ok(old) => old,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
            Err(error) => return Err(Failure::io("read", place.clone(), error)),
        };
        // A new file, so that a crash leaves the old one or the new one.
        write(&self.file, &format!("{line}{old}")).map_err(failed)?;
        let id = key.id().to_string();
        show(|| json!({ "key": id, "file": place }), || format!("new key {id} in {place}\n"))
    }
}

/// Writes a file that only its owner can read.
fn write(file: &Path, text: &str) -> std::io::Result<()> {
    let mut name = file.as_os_str().to_owned();
    name.push(".new");
    let temporary = PathBuf::from(name);
    let mut options = std::fs::OpenOptions::new();
    let mut out = options.write(true).create_new(true).mode(0o600).open(&temporary)?;
    let written = out.write_all(text.as_bytes()).and_then(|()| out.sync_all());
    let installed = written.and_then(|()| std::fs::rename(&temporary, file));
    if installed.is_err() {
        let _ = std::fs::remove_file(&temporary);
    }
    installed
}

impl Usage {
    fn run(self) -> Outcome {
        let usage = keys_in_use(&PosixStorage::open(&self.dir)?)?;
        show(|| usage_json(&usage), || usage_text(&usage))
    }
}

fn usage_json(usage: &KeyUsage) -> serde_json::Value {
    let keys = usage.files.iter();
    let keys: Vec<_> =
        keys.map(|(id, files)| json!({ "key": id.to_string(), "files": files })).collect();
    json!({ "keys": keys, "not_encrypted": usage.others })
}

fn usage_text(usage: &KeyUsage) -> String {
    let mut out = String::new();
    for (id, files) in &usage.files {
        let example = files.first().map_or("", |name| name);
        out += &format!(
            "key {id}: {}, such as {example}\n",
            crate::units::counted(files.len() as u64, "file")
        );
    }
    for name in &usage.others {
        out += &format!("not encrypted: {name}\n");
    }
    out
}
