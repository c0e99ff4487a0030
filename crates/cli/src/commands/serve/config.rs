//! What is to be served: as a file says it, or as flags do.
//!
//! ```toml
//! listen = "127.0.0.1:4420"
//! metrics = "127.0.0.1:9420"
//! hosts = "hosts"
//!
//! [[namespace]]
//! kind = "hash"
//! path = "store"
//! bytes = "64GiB"
//! ```

use crate::failure::{Failure, Outcome};
use crate::units;
use serde::{Deserialize, Deserializer};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

/// Each reactor is a thread that polls for itself: more than any machine has processors for.
pub const MOST_REACTORS: usize = 256;

/// A node.
#[derive(Deserialize, Debug)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Where it listens.
    #[serde(default = "listen")]
    pub listen: SocketAddr,
    /// The subsystem's name.
    #[serde(default = "nqn")]
    pub nqn: String,
    /// Threads that serve connections.
    #[serde(default = "reactors")]
    pub reactors: usize,
    /// Who may connect: a file; anyone if there is none.
    pub hosts: Option<PathBuf>,
    /// Where metrics and health are served.
    pub metrics: Option<SocketAddr>,
    /// Bytes of data in flight that all connections may hold together.
    #[serde(default = "transfer_memory", deserialize_with = "memory_size")]
    pub transfer_memory: usize,
    /// What is served; the first has id 1.
    #[serde(rename = "namespace")]
    pub namespaces: Vec<Kind>,
}

/// A namespace.
#[derive(Deserialize, Debug)]
#[serde(tag = "kind", rename_all = "lowercase", deny_unknown_fields)]
pub enum Kind {
    /// Keys in a database directory.
    Lsm {
        path: PathBuf,
        /// A database that is not there is created.
        #[serde(default)]
        create: bool,
        /// The capacity to announce.
        #[serde(default = "capacity", deserialize_with = "size")]
        capacity: u64,
        /// Where its followers are served.
        followers: Option<SocketAddr>,
        /// The most bytes of flushed logs to keep for each of them.
        #[serde(default = "followers_keep", deserialize_with = "size")]
        followers_keep: u64,
    },
    /// Keys in a hash store, in a file or on a device.
    Hash {
        path: PathBuf,
        /// A file that is not there is made with so many bytes.
        #[serde(default, deserialize_with = "some_size")]
        bytes: Option<u64>,
        #[serde(default)]
        volatile_cache: bool,
        /// Its keys are digests of longer ones.
        #[serde(default)]
        long_keys: bool,
    },
    /// Blocks in a file or on a device.
    Block {
        path: PathBuf,
        /// A file that is not there is made with so many bytes.
        #[serde(default, deserialize_with = "some_size")]
        bytes: Option<u64>,
        #[serde(default = "block_bytes")]
        block_bytes: u32,
        #[serde(default)]
        volatile_cache: bool,
    },
    /// Keys in memory.
    Ram {
        #[serde(deserialize_with = "size")]
        bytes: u64,
    },
}

fn listen() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 4420))
}

fn nqn() -> String {
    crate::commands::nvme::NODE.to_owned()
}

fn reactors() -> usize {
    1
}

fn transfer_memory() -> usize {
    esker_target::limits::MEMORY_BYTES
}

fn capacity() -> u64 {
    1 << 40
}

pub fn followers_keep() -> u64 {
    1 << 30
}

/// A page: what file systems write at least.
fn block_bytes() -> u32 {
    4096
}

fn size<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    let text = String::deserialize(deserializer)?;
    units::parse_bytes(&text).map(|bytes| bytes as u64).map_err(serde::de::Error::custom)
}

fn memory_size<'de, D: Deserializer<'de>>(deserializer: D) -> Result<usize, D::Error> {
    let text = String::deserialize(deserializer)?;
    units::parse_bytes(&text).map_err(serde::de::Error::custom)
}

fn some_size<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    size(deserializer).map(Some)
}

impl Config {
    /// Reads a file. Paths in it start from its own directory.
    pub fn read(path: &Path) -> Outcome<Self> {
        let name = path.display().to_string();
        let text =
            std::fs::read_to_string(path).map_err(|error| Failure::io("read", &name, error))?;
        let wrong = |why: String| Failure::Usage(format!("{name}: {why}"));
        let mut config: Config =
            toml::from_str(&text).map_err(|error| wrong(without_text(&error, &text)))?;
        if config.namespaces.is_empty() {
            return Err(wrong("a node has at least one namespace".to_owned()));
        }
        if !(1..=MOST_REACTORS).contains(&config.reactors) {
            return Err(wrong(format!("a node has 1 to {MOST_REACTORS} reactors")));
        }
        let dir = path.parent().unwrap_or(Path::new(""));
        let paths = config.namespaces.iter_mut().filter_map(Kind::path_mut);
        for path in paths.chain(&mut config.hosts) {
            *path = dir.join(&*path);
        }
        Ok(config)
    }
}

/// What is wrong, and in which line; not the line itself, which may be one of a file with secrets.
fn without_text(error: &toml::de::Error, text: &str) -> String {
    let before = error.span().and_then(|span| text.get(..span.start));
    let line = before.map(|before| format!("line {}: ", 1 + before.matches('\n').count()));
    line.unwrap_or_default() + error.message()
}

impl Kind {
    /// Where it is stored, if not in memory.
    pub fn path(&self) -> Option<&Path> {
        match self {
            Kind::Lsm { path, .. } | Kind::Hash { path, .. } | Kind::Block { path, .. } => {
                Some(path)
            }
            Kind::Ram { .. } => None,
        }
    }

    /// Where its followers are served, if they are, and the most bytes of flushed logs to keep for each.
    pub fn followers(&self) -> Option<(SocketAddr, u64)> {
        match self {
            Kind::Lsm { followers, followers_keep, .. } => Some(((*followers)?, *followers_keep)),
            Kind::Hash { .. } | Kind::Block { .. } | Kind::Ram { .. } => None,
        }
    }

    fn path_mut(&mut self) -> Option<&mut PathBuf> {
        match self {
            Kind::Lsm { path, .. } | Kind::Hash { path, .. } | Kind::Block { path, .. } => {
                Some(path)
            }
            Kind::Ram { .. } => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_said_has_a_default() {
        let config: Config =
            toml::from_str("[[namespace]]\nkind = \"lsm\"\npath = \"data\"\n").unwrap();
        assert_eq!((config.listen.to_string().as_str(), config.reactors), ("127.0.0.1:4420", 1));
        assert!(config.hosts.is_none() && config.metrics.is_none());
        assert!(
            matches!(&config.namespaces[0], Kind::Lsm { capacity, .. } if *capacity == 1 << 40)
        );
        assert_eq!(config.namespaces[0].followers(), None);
    }

    #[test]
    fn followers_are_of_a_database() {
        let followers = "followers = \"127.0.0.1:4421\"\n";
        let lsm = format!("[[namespace]]\nkind = \"lsm\"\npath = \"data\"\n{followers}");
        let read = |text: &str| toml::from_str::<Config>(text);
        let address = SocketAddr::from(([127, 0, 0, 1], 4421));
        let keeps = format!("{lsm}followers_keep = \"2MiB\"\n");
        for (text, keep) in [(&lsm, 1 << 30), (&keeps, 2 << 20)] {
            let config = read(text).unwrap();
            assert_eq!(config.namespaces[0].followers(), Some((address, keep)));
        }
        let ram = format!("[[namespace]]\nkind = \"ram\"\nbytes = \"1M\"\n{followers}");
        assert!(read(&ram).is_err() && read(&format!("{followers}{lsm}")).is_err());
    }

    #[test]
    fn what_is_not_known_is_refused() {
        for text in [
            "listen = \"127.0.0.1:1\"",
            "lisen = \"127.0.0.1:1\"\nnamespace = []",
            "[[namespace]]\nkind = \"tape\"",
            "[[namespace]]\nkind = \"ram\"",
            "[[namespace]]\nkind = \"ram\"\nbytes = \"1 parsec\"",
            "[[namespace]]\nkind = \"ram\"\nbytes = \"1M\"\nvolatile_cache = true",
        ] {
            assert!(toml::from_str::<Config>(text).is_err(), "{text}");
        }
    }
}
