//! Keys and values on a storage node, from user space. Stores the key `esker-example`, and deletes it.
//!
//! cargo run -p esker-initiator --example node_client               # against a node in this process
//! cargo run -p esker-initiator --example node_client ADDRESS NQN   # against one that `esker serve` started

use esker_base::{Background, SystemClock, SystemEntropy, Threads};
use esker_initiator::{KeyClient, Settings};
use esker_nvme::Nqn;
use esker_target::{MemoryKeys, Subsystem, Target, limits};
use std::error::Error;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

/// The key that is stored and deleted.
const KEY: &[u8] = b"esker-example";

const NODE: &str = "nqn.2024-01.io.esker:node";
const HOST: &str = "nqn.2024-01.io.esker:example-host";

/// A node with one namespace of keys, in memory, at a port that the system chooses.
fn node() -> Result<Target, Box<dyn Error>> {
    let subsystem = Subsystem::new(
        Nqn::new(NODE)?,
        "EXAMPLE",
        vec![Arc::new(MemoryKeys::new([1; 16], 16 << 20))],
    );
    let settings = esker_target::Settings::new("127.0.0.1:0".parse()?)
        .reactors(1)
        .drain_time(Duration::from_secs(5))
        .memory_bytes(limits::MEMORY_BYTES)
        .subsystems(vec![subsystem]);
    let background: Arc<dyn Background> = Arc::new(Threads);
    let clock = Arc::new(SystemClock::new());
    Ok(Target::start(settings, clock, Arc::new(SystemEntropy), &background)?)
}

/// Uses the node at an address, or one of its own.
pub fn run(at: Option<(SocketAddr, Nqn)>) -> Result<(), Box<dyn Error>> {
    let own = if at.is_none() { Some(node()?) } else { None };
    let (address, subsystem) = match (&own, at) {
        (Some(own), _) => (own.address(), Nqn::new(NODE)?),
        (None, at) => at.ok_or("no node")?,
    };
    let settings = Settings::new(address, Nqn::new(HOST)?, subsystem);
    let (clock, entropy) = (Arc::new(SystemClock::new()), Arc::new(SystemEntropy));
    let keys = KeyClient::connect(settings, clock, entropy, Arc::new(Threads))?;

    // When a store returns, the node's promise of durability holds.
    keys.store(KEY, b"hello")?;
    assert_eq!(keys.retrieve(KEY)?.as_deref(), Some(&b"hello"[..]));
    assert!(keys.delete(KEY)?);
    assert!(!keys.exist(KEY)?);

    drop(keys);
    if let Some(own) = own {
        own.drain();
    }
    Ok(())
}

#[allow(dead_code, reason = "the tests call `run`")]
fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let at = match (arguments.next(), arguments.next()) {
        (Some(address), Some(subsystem)) => Some((address.parse()?, Nqn::new(&subsystem)?)),
        (None, _) => None,
        (Some(_), None) => return Err("usage: node_client [ADDRESS NQN]".into()),
    };
    run(at)
}
