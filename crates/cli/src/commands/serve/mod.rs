//! `esker serve`: a storage node.

mod hosts;
mod namespace;

use super::stdout;
use crate::failure::{Failure, Outcome};
use crate::interrupt::Interrupt;
use crate::units;
use esker::Db;
use esker_base::{Background, Clock, SystemClock, SystemEntropy, Threads};
use esker_nvme::Nqn;
use esker_target::{Access, Namespace, Settings, Subsystem, Target};
use std::io::Write;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// How long commands under way may take when the node is asked to stop.
const DRAIN_TIME: Duration = Duration::from_secs(10);

/// How often it is looked whether it is.
const LOOK: Duration = Duration::from_millis(50);

/// Serve a namespace of keys over NVMe/TCP
///
/// Standard initiators reach it: the Key Value command set, keys of 1 to 16 bytes, values up to 1 MiB. A store that was
/// acknowledged survives power loss, unless the namespace lies in --memory. Without --hosts everybody who can reach the
/// port can read and write: keep it on loopback then. Stop it with Ctrl-C; what is under way is finished.
#[derive(clap::Args)]
pub struct Serve {
    /// The database directory that holds the keys, created if need be
    #[arg(required_unless_present = "memory")]
    db: Option<PathBuf>,
    /// Serve keys from memory instead: they are gone when this ends
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
    #[arg(long, value_name = "N", default_value_t = 1)]
    reactors: usize,
    /// Hosts that may connect, one a line: its NQN, then its DHHC-1 secret and the node's, if they are to prove themselves
    #[arg(long, value_name = "FILE")]
    hosts: Option<PathBuf>,
}

impl Serve {
    pub fn run(self) -> Outcome {
        let interrupt =
            Interrupt::listen().map_err(|error| Failure::io("listen to", "signals", error))?;
        let nqn = Nqn::new(&self.nqn).map_err(|error| Failure::Usage(error.to_string()))?;
        let access = match &self.hosts {
            Some(file) => Access::Listed(hosts::read(file)?),
            None => Access::Anyone,
        };
        let (namespace, db) = self.namespace(&nqn)?;
        let target = self.start(&nqn, namespace, access)?;
        self.announce(&nqn, target.address(), db.is_some())?;
        let clock = SystemClock::new();
        while !interrupt.is_set() {
            clock.sleep(LOOK);
        }
        eprintln!("finishing what is under way; Ctrl-C again ends at once");
        target.drain();
        if let Some(db) = db {
            db.close()?;
        }
        Ok(())
    }

    fn namespace(&self, nqn: &Nqn) -> Outcome<(Arc<dyn Namespace>, Option<Db>)> {
        match (&self.db, self.memory) {
            (Some(dir), _) => {
                let (namespace, db) = namespace::in_database(dir, nqn, self.capacity as u64)?;
                Ok((namespace, Some(db)))
            }
            (None, bytes) => Ok((namespace::in_memory(nqn, bytes.unwrap_or(0) as u64), None)),
        }
    }

    fn start(&self, nqn: &Nqn, namespace: Arc<dyn Namespace>, access: Access) -> Outcome<Target> {
        let subsystem = Subsystem {
            nqn: nqn.clone(),
            serial: namespace::serial(nqn),
            namespaces: vec![namespace],
            access,
        };
        let settings = Settings {
            listen: self.listen,
            reactors: self.reactors,
            drain_time: DRAIN_TIME,
            subsystems: vec![subsystem],
        };
        let background: Arc<dyn Background> = Arc::new(Threads);
        let clock = Arc::new(SystemClock::new());
        Ok(Target::start(settings, clock, Arc::new(SystemEntropy), &background)?)
    }

    /// Says where it is, and how to get there.
    fn announce(&self, nqn: &Nqn, address: SocketAddr, durable: bool) -> Outcome {
        let (ip, port) = (address.ip(), address.port());
        let mut out = stdout();
        writeln!(out, "listening on {address}, subsystem {nqn}")?;
        match durable {
            true => writeln!(out, "namespace 1: keys; what is acknowledged survives power loss")?,
            false => writeln!(out, "namespace 1: keys in memory; nothing survives this process")?,
        }
        writeln!(out, "  esker nvme ping --address {address} --nqn {nqn}")?;
        writeln!(out, "  nvme discover -t tcp -a {ip} -s {port}")?;
        writeln!(out, "  nvme connect -t tcp -a {ip} -s {port} -n {nqn}")?;
        Ok(out.flush()?)
    }
}
