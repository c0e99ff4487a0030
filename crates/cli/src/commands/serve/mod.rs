//! `esker serve`: a storage node.

mod announce;
mod config;
mod hosts;
mod metrics;
mod namespace;
mod page;
mod stopping;

use crate::failure::{Failure, Outcome};
use crate::interrupt::Interrupt;
use crate::output::{is_json, show, tell};
use crate::units;
use announce::{Addresses, announce, facts};
use config::{Config, Kind};
use esker::Db;
use esker_base::{Background, Clock, SystemClock, SystemEntropy, Threads};
use esker_nvme::Nqn;
use esker_replication::{Primary, PrimarySettings};
use esker_target::{Access, Settings, Subsystem, Target, limits};
use metrics::Metrics;
use namespace::Served;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// How long commands in progress may take when the node is asked to stop.
const DRAIN_TIME: Duration = Duration::from_secs(10);

const TLS_NOTE: &str = if esker_tls::IS_BUILT {
    "This program was built with TLS."
} else {
    "This program was built without TLS; `cargo build --features tls` has it."
};

/// How often it is looked whether it is.
const LOOK: Duration = Duration::from_millis(50);

/// Serve keys, and blocks, over NVMe/TCP
///
/// For standard initiators: the Key Value command set, with keys of 1 to 16 bytes and values up to 1
/// MiB, and plain block namespaces. Acknowledged writes survive power loss, except with --memory or a
/// volatile cache. Without --hosts, any host that reaches the port can read and write, so listen on
/// loopback only. Ctrl-C stops it after the commands in progress.
#[derive(clap::Args)]
#[command(after_help = TLS_NOTE)]
pub struct Serve {
    /// The database directory that holds the keys
    #[arg(required_unless_present_any = ["memory", "config"])]
    db: Option<PathBuf>,
    /// Create the database if it is missing
    #[arg(long, requires = "db")]
    create: bool,
    /// A configuration file, for several namespaces of several kinds: see docs/operations/storage-node.md
    #[arg(
        long,
        value_name = "FILE",
        conflicts_with_all = ["db", "memory", "listen", "nqn", "capacity", "reactors", "hosts", "metrics", "followers"]
    )]
    config: Option<PathBuf>,
    /// Serve keys from memory of this size instead; they are lost when this ends
    #[arg(long, value_name = "SIZE", value_parser = units::parse_bytes, conflicts_with = "db")]
    memory: Option<usize>,
    /// Where to listen; port 0 lets the system choose
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:4420")]
    listen: SocketAddr,
    /// The subsystem's name
    #[arg(long, value_name = "NQN", default_value = super::nvme::NODE)]
    nqn: String,
    /// The capacity to announce
    #[arg(long, value_name = "SIZE", value_parser = units::parse_bytes, default_value = "1024G")]
    capacity: usize,
    /// Threads that serve connections
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=config::MOST_REACTORS as i64))]
    reactors: u16,
    /// Hosts that may connect, one per line: the NQN, the host's DHHC-1 secret and the node's, TLS keys
    ///
    /// All but the NQN is optional. A host with a secret authenticates (DH-HMAC-CHAP). A host with a TLS
    /// key (NVMeTLSkey-1:...) connects by TLS 1.3 only, on the same port. TLS needs a program built with
    /// `--features tls`.
    #[arg(long, value_name = "FILE")]
    hosts: Option<PathBuf>,
    /// Serve metrics for Prometheus, those of the served stores included, and health over HTTP at this address
    #[arg(long, value_name = "ADDRESS:PORT")]
    metrics: Option<SocketAddr>,
    /// Serve followers of the database at this address (`esker follow`), to the same hosts
    #[arg(long, value_name = "ADDRESS:PORT", requires = "db")]
    followers: Option<SocketAddr>,
    /// The most bytes of flushed logs to keep for each follower
    #[arg(long, value_name = "SIZE", requires = "followers", default_value = "1GiB", value_parser = units::parse_bytes)]
    followers_keep: usize,
}

impl Serve {
    pub fn run(self) -> Outcome {
        let interrupt =
            Interrupt::listen().map_err(|error| Failure::io("listen to", "signals", error))?;
        let config = self.config()?;
        let nqn = Nqn::new(&config.nqn).map_err(|error| Failure::Usage(error.to_string()))?;
        let access = match &config.hosts {
            Some(file) => Access::Listed(hosts::read(file)?),
            None => Access::Anyone,
        };
        let mut metrics = config.metrics.map(Metrics::listen).transpose()?;
        let opened = (1..).zip(&config.namespaces);
        let mut served: Vec<Served> = opened
            .map(|(number, kind)| namespace::open_or_fail(kind, &nqn, number))
            .collect::<Outcome<_>>()?;
        check_any_is_ready(&served)?;
        for (kind, served) in config.namespaces.iter().zip(&mut served) {
            serve_followers(kind, served, &nqn, &access)?;
        }
        let target = start(&config, &nqn, &served, access)?;
        let metrics_address = metrics.as_ref().map(Metrics::address).transpose();
        let metrics_address =
            metrics_address.map_err(|error| Failure::io("ask for", "the metrics' port", error))?;
        let address = target.address();
        let addresses = Addresses { node: address, metrics: metrics_address };
        let is_open = |address: &SocketAddr| !address.ip().is_loopback();
        let followers = served.iter().filter_map(|it| it.primary.as_ref());
        let mut followers = followers.map(Primary::address);
        if config.hosts.is_none() && (is_open(&address) || followers.any(|at| is_open(&at))) {
            tell(
                "no access control: any host that reaches this address can read and write; limit access with --hosts, or \
                 with `hosts` in the configuration",
            );
        }
        match is_json() {
            true => show(|| facts(&nqn, &addresses, &served), String::new)?,
            false => announce(&nqn, &addresses, &served)?,
        }
        let clock = SystemClock::new();
        while !interrupt.is_set() {
            clock.sleep(LOOK);
            if let Some(metrics) = &mut metrics {
                metrics.serve(&target, &served, &clock);
            }
        }
        tell("finishing the requests in progress; Ctrl-C again ends at once");
        stop(target, &mut served, tell);
        close(served)
    }

    /// What flags say, unless a file says it.
    fn config(self) -> Outcome<Config> {
        let kind = match (self.config, self.db, self.memory) {
            (Some(file), ..) => return Config::read(&file),
            (None, Some(path), _) => {
                let (create, capacity) = (self.create, self.capacity as u64);
                let (followers, followers_keep) = (self.followers, self.followers_keep as u64);
                Kind::Lsm { path, create, capacity, followers, followers_keep }
            }
            (None, None, bytes) => Kind::Ram { bytes: bytes.unwrap_or(0) as u64 },
        };
        Ok(Config {
            listen: self.listen,
            nqn: self.nqn,
            reactors: self.reactors.into(),
            hosts: self.hosts,
            metrics: self.metrics,
            transfer_memory: limits::MEMORY_BYTES,
            namespaces: vec![kind],
        })
    }
}

/// A node that could open none of its namespaces has nothing to serve: it fails as the first of
/// them did.
fn check_any_is_ready(served: &[Served]) -> Outcome {
    match served.first() {
        Some(first) if !served.iter().any(|served| served.namespace.is_ready()) => {
            let why = first.what.trim_start_matches(namespace::FAILED);
            Err(Failure::Failed(format!("no namespace could be opened: {why}")))
        }
        _ => Ok(()),
    }
}

/// Serves followers of the database of a namespace, if they are asked for. One that could not be opened has none.
fn serve_followers(kind: &Kind, served: &mut Served, nqn: &Nqn, access: &Access) -> Outcome {
    if let (Some((listen, keep)), Some(db)) = (kind.followers(), served.db.clone()) {
        let settings = PrimarySettings::new(listen).access(access.clone());
        let settings = settings.subsystem(nqn.clone()).bound_bytes(keep);
        served.primary = Some(Primary::start(db, settings)?);
    }
    Ok(())
}

/// Ends what is served. Gives `tell` lines that name the followers that lag.
fn stop(target: Target, served: &mut [Served], mut tell: impl FnMut(String)) {
    target.drain();
    // After the last write that was acknowledged: followers get it, too.
    for (number, served) in (1..).zip(served) {
        if let Some(primary) = served.primary.take() {
            primary.stop_with(|notice| tell(stopping::line(number, &notice)));
        }
    }
}

/// Closes all namespaces, whichever of them fail, and reports the first failure.
fn close(served: Vec<Served>) -> Outcome {
    let mut closed = Ok(());
    for Served { namespace, hash, db, .. } in served {
        // Its workers use the database.
        drop((namespace, hash));
        let this = db.map(Db::close).transpose();
        closed = closed.and(this.map(drop));
    }
    Ok(closed?)
}

fn start(config: &Config, nqn: &Nqn, served: &[Served], access: Access) -> Outcome<Target> {
    let subsystem = Subsystem::new(
        nqn.clone(),
        namespace::serial(nqn),
        served.iter().map(|served| served.namespace.clone()).collect(),
    )
    .access(access);
    let settings = Settings::new(config.listen)
        .reactors(config.reactors)
        .drain_time(DRAIN_TIME)
        .memory_bytes(config.transfer_memory)
        .subsystems([subsystem]);
    let background: Arc<dyn Background> = Arc::new(Threads);
    let clock = Arc::new(SystemClock::new());
    Ok(Target::start(settings, clock, Arc::new(SystemEntropy), &background)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use esker_initiator::KeyClient;
    use esker_replication::{Follower, FollowerSettings};
    use std::sync::mpsc::{Sender, channel};
    use std::thread;

    const PATIENCE: Duration = Duration::from_secs(300);
    const ACCESS: Access = Access::Anyone;

    fn any_port() -> SocketAddr {
        ([127, 0, 0, 1], 0).into()
    }

    /// A node with databases, all of which serve followers.
    fn node(dir: &std::path::Path, databases: usize) -> (Target, Vec<Served>) {
        let nqn = Nqn::new(super::super::nvme::NODE).unwrap();
        let kind = |number: usize| Kind::Lsm {
            path: dir.join(number.to_string()),
            create: true,
            capacity: 1 << 30,
            followers: Some(any_port()),
            followers_keep: 1 << 30,
        };
        let namespaces: Vec<_> = (1..=databases).map(kind).collect();
        let mut served = Vec::new();
        for (number, kind) in (1..).zip(&namespaces) {
            served.push(namespace::open(kind, &nqn, number).unwrap());
            serve_followers(kind, &mut served[number - 1], &nqn, &ACCESS).unwrap();
        }
        let config = Config {
            listen: any_port(),
            nqn: nqn.as_str().to_owned(),
            reactors: 1,
            hosts: None,
            metrics: None,
            transfer_memory: limits::MEMORY_BYTES,
            namespaces,
        };
        let target = start(&config, &nqn, &served, ACCESS).unwrap();
        (target, served)
    }

    /// Writes one key after another until the node does not take it. Returns the last that was acknowledged.
    fn write(node: SocketAddr, is_under_way: &Sender<()>) -> u64 {
        let [host, nqn] = ["nqn.writer", super::super::nvme::NODE].map(|it| Nqn::new(it).unwrap());
        let settings = esker_initiator::Settings::new(node, host, nqn);
        let (clock, entropy) = (Arc::new(SystemClock::new()), Arc::new(SystemEntropy));
        let client = KeyClient::connect(settings, clock, entropy, Arc::new(Threads)).unwrap();
        let is_stored = |number: &u64| {
            let _ = is_under_way.send(());
            client.store(&number.to_be_bytes(), b"value").is_ok()
        };
        (0..).take_while(is_stored).last().expect("one was acknowledged")
    }

    /// The writer goes on while the node stops. It takes a while to stop serving the followers of the
    /// further databases: it would write then, had the node not ended its commands before.
    #[test]
    fn followers_get_the_writes_that_are_acknowledged_while_the_node_stops() {
        let dir = tempfile::tempdir().unwrap();
        let (target, mut served) = node(&dir.path().join("node"), 8);
        let primary = served[0].primary.as_ref().unwrap().address();
        let settings = FollowerSettings::new(primary, "copy");
        let follower = Follower::start(dir.path().join("copy"), settings).unwrap();
        let (send, is_under_way) = channel();
        let node = target.address();
        let last = thread::scope(|threads| {
            let writer = threads.spawn(move || write(node, &send));
            assert!(follower.wait(PATIENCE, |stats| stats.is_connected && stats.applied > 0));
            (0..100).for_each(|_| is_under_way.recv().unwrap());
            stop(target, &mut served, |_| {});
            writer.join().unwrap()
        });
        let copy = follower.db().unwrap();
        let found = copy.default_keyspace().get(last.to_be_bytes()).unwrap();
        assert!(found.is_some(), "key {last} was acknowledged");
    }
}
