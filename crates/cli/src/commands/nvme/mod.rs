//! `esker nvme`: a host, from the command line.

mod discover;
mod keys;
mod list;
mod ping;

use crate::failure::{Failure, Outcome};
use crate::secret_file;
use esker_base::{SystemClock, SystemEntropy, Threads};
use esker_initiator::{KeyClient, Settings};
use esker_nvme::Nqn;
use esker_nvme::auth::Secret;
use esker_nvme::tls::TlsKey;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// The subsystem that `esker serve` is, unless configured otherwise.
pub const NODE: &str = "nqn.2024-01.io.esker:node";

/// This host, where the system has no name of its own.
const HOST: &str = "nqn.2024-01.io.esker:host";

/// Where Linux keeps this host's name.
const HOST_FILE: &str = "/etc/nvme/hostnqn";

/// Use a namespace of keys on a storage node
///
/// Works with every node that serves the NVMe Key Value command set over TCP, such as `esker serve`.
#[derive(clap::Args)]
pub struct Nvme {
    #[command(subcommand)]
    action: Action,
}

#[derive(clap::Subcommand)]
enum Action {
    Discover(discover::Discover),
    Store(keys::Store),
    Retrieve(keys::Retrieve),
    Delete(keys::Delete),
    Exist(keys::Exist),
    List(list::List),
    Ping(ping::Ping),
}

impl Nvme {
    pub fn run(self) -> Outcome {
        match self.action {
            Action::Discover(command) => command.run(),
            Action::Store(command) => command.run(),
            Action::Retrieve(command) => command.run(),
            Action::Delete(command) => command.run(),
            Action::Exist(command) => command.run(),
            Action::List(command) => command.run(),
            Action::Ping(command) => command.run(),
        }
    }
}

/// Where the node is, and who asks.
#[derive(clap::Args)]
struct Node {
    /// The node's address and port
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:4420", value_parser = parse_address)]
    address: SocketAddr,
    /// The subsystem's name
    #[arg(long, value_name = "NQN", default_value = NODE)]
    nqn: String,
    /// The namespace's id
    #[arg(long, value_name = "N", default_value_t = 1)]
    namespace: u32,
    /// This host's name; by default the one in /etc/nvme/hostnqn, if there is one
    #[arg(long, value_name = "NQN")]
    host: Option<String>,
    /// A file with this host's DHHC-1 secret and, to authenticate the node, the node's after it
    #[arg(long, value_name = "FILE")]
    secret: Option<PathBuf>,
    /// A file with this host's TLS key (NVMeTLSkey-1:...), to connect by TLS 1.3. Needs a program built
    /// with `--features tls`
    #[arg(long, value_name = "FILE")]
    tls_key: Option<PathBuf>,
    /// How long to wait for a connection to the node, and then for the answer, in seconds
    #[arg(long, value_name = "S", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..))]
    timeout: u64,
}

/// An address, or one that a name stands for: of IPv4 if there is one, as `esker serve` listens there by default.
pub fn parse_address(text: &str) -> Result<SocketAddr, String> {
    let wrong = |why: String| format!("{why}; it is a host and a port, such as localhost:4420");
    let found = text.to_socket_addrs().map_err(|error| wrong(error.to_string()))?;
    let preferred = found.min_by_key(SocketAddr::is_ipv6);
    preferred.ok_or_else(|| wrong("the name has no address".to_owned()))
}

/// A name, as a flag has it.
pub fn parse_nqn(name: &str) -> Outcome<Nqn> {
    Nqn::new(name).map_err(|error| Failure::Usage(error.to_string()))
}

/// The name of this host: the one that is given, or that of the system.
pub fn host_of(given: Option<&str>) -> Outcome<Nqn> {
    let of_system = std::fs::read_to_string(HOST_FILE).ok();
    parse_nqn(given.or(of_system.as_deref().map(str::trim)).unwrap_or(HOST))
}

impl Node {
    fn settings(&self) -> Outcome<Settings> {
        let host = host_of(self.host.as_deref())?;
        let mut settings = Settings::new(self.address, host, parse_nqn(&self.nqn)?);
        settings.namespace = self.namespace;
        settings.deadline = Duration::from_secs(self.timeout);
        if let Some(file) = &self.secret {
            (settings.secret, settings.controller_secret) = secrets(file)?;
        }
        settings.tls_key = self.tls_key.as_deref().map(tls_key).transpose()?;
        Ok(settings)
    }

    fn connect(&self) -> Outcome<KeyClient> {
        let (clock, entropy) = (Arc::new(SystemClock::new()), Arc::new(SystemEntropy));
        Ok(KeyClient::connect(self.settings()?, clock, entropy, Arc::new(Threads))?)
    }
}

/// This host's secret and the node's, of a file.
pub fn secrets(path: &Path) -> Outcome<(Option<Secret>, Option<Secret>)> {
    let name = path.display().to_string();
    let text = secret_file::read("--secret", path)?;
    let mut words = text.split_whitespace().map(|word| {
        Secret::parse(word).map_err(|error| Failure::Usage(format!("{name}: {error}")))
    });
    let own = words.next().transpose()?;
    let node = words.next().transpose()?;
    match own {
        Some(_) => Ok((own, node)),
        None => Err(Failure::Usage(format!("{name} is empty; it should hold a secret"))),
    }
}

/// This host's TLS key, of a file.
pub fn tls_key(path: &Path) -> Outcome<TlsKey> {
    let name = path.display().to_string();
    let text = secret_file::read("--tls-key", path)?;
    TlsKey::parse(&text).map_err(|error| Failure::Usage(format!("{name}: {error}")))
}
