//! Clients against a target in the same process, over real sockets.

mod blocks;
mod client;
mod clock;
mod keep_alive;
mod long_keys;
mod many;
#[path = "../../examples/node_client.rs"]
mod node_client;
mod parting;
mod proxy;
mod silent;
mod tls;

use esker_base::{Background, Clock, SystemClock, SystemEntropy, Threads};
use esker_initiator::{BlockClient, KeyClient, RemoteError, Settings};
use esker_nvme::Nqn;
use esker_target::{Namespace, Subsystem, Target};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

const NODE: &str = "nqn.2024-01.io.esker:node";
const HOST: &str = "nqn.2014-08.org.nvmexpress:uuid:7c1b5b0a-0000-4000-8000-000000000001";

fn nqn(name: &str) -> Nqn {
    Nqn::new(name).unwrap()
}

/// A node with these namespaces, for anyone, at a port that the system chooses.
fn node(namespaces: Vec<Arc<dyn Namespace>>) -> esker_target::Settings {
    let subsystem = Subsystem::new(nqn(NODE), "TEST", namespaces);
    esker_target::Settings::new("127.0.0.1:0".parse().unwrap())
        .reactors(2)
        .drain_time(Duration::from_secs(5))
        .memory_bytes(esker_target::limits::MEMORY_BYTES)
        .subsystems(vec![subsystem])
}

fn start(node: esker_target::Settings, clock: Arc<dyn Clock>) -> Target {
    let background: Arc<dyn Background> = Arc::new(Threads);
    Target::start(node, clock, Arc::new(SystemEntropy), &background).unwrap()
}

fn serve(namespaces: Vec<Arc<dyn Namespace>>) -> Target {
    start(node(namespaces), Arc::new(SystemClock::new()))
}

/// Again where it was.
fn serve_at(listen: SocketAddr, namespaces: Vec<Arc<dyn Namespace>>) -> Target {
    let node = node(namespaces).listen(listen);
    start(node, Arc::new(SystemClock::new()))
}

fn settings(address: SocketAddr) -> Settings {
    Settings::new(address, nqn(HOST), nqn(NODE))
}

fn keys(settings: Settings) -> Result<KeyClient, RemoteError> {
    keys_by(Arc::new(SystemClock::new()), settings)
}

/// A client whose deadlines go by `clock`.
fn keys_by(clock: Arc<dyn Clock>, settings: Settings) -> Result<KeyClient, RemoteError> {
    KeyClient::connect(settings, clock, Arc::new(SystemEntropy), Arc::new(Threads))
}

fn blocks(settings: Settings) -> Result<BlockClient, RemoteError> {
    blocks_by(Arc::new(SystemClock::new()), settings)
}

/// A client whose deadlines go by `clock`.
fn blocks_by(clock: Arc<dyn Clock>, settings: Settings) -> Result<BlockClient, RemoteError> {
    BlockClient::connect(settings, clock, Arc::new(SystemEntropy), Arc::new(Threads))
}

#[test]
fn the_example_runs_to_its_end() {
    node_client::run(None).unwrap();
}
