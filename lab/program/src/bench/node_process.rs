//! A storage node's process, from the outside: started, asked what it did, connected to, and ended with this.

use super::engine_settings::FabricSettings;
use super::network::{Network, Relay};
use super::node::{NodeCosts, NodeKind, NodeMessage, NodePlan, SETTLE, SUBSYSTEM};
use super::node_store::NodeStore;
use super::process::{Ended, line};
use crate::failure::{Failure, Outcome};
use esker_base::{SystemClock, SystemEntropy, Threads};
use esker_initiator::{BlockClient, KeyClient};
use esker_nvme::Nqn;
use esker_storage::BlockStorage;
use std::io::{BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::process::{ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// I/O queues of one controller, at most.
const QUEUES: usize = 64;

/// How many connections an engine has to its node, where `wanted` are: keys are reached through as many controllers as that takes, a
/// device of blocks through one.
pub fn connections(kind: NodeKind, wanted: usize) -> usize {
    match kind {
        NodeKind::Blocks => wanted.clamp(1, QUEUES),
        NodeKind::Hash | NodeKind::Lsm => wanted.max(1),
    }
}

/// The process.
pub struct Node {
    address: SocketAddr,
    /// What is before it, if anything.
    relay: Option<Relay>,
    lines: Mutex<(ChildStdin, BufReader<ChildStdout>)>,
    /// Ends when standard input does, which is before it in the order of fields.
    _process: Ended,
}

/// What a node has done since it listens, and what is before it.
#[derive(Clone, Copy, Default, Debug)]
pub struct NodeSpent {
    pub node: NodeCosts,
    /// The processor time of the emulated network, which is this process's.
    pub relay_cpu: Duration,
}

impl Node {
    pub fn start(plan: &NodePlan, network: Network) -> Outcome<Self> {
        let failed = |error| Failure::io("start", "a storage node", error);
        let program = std::env::current_exe().map_err(failed)?;
        let mut command = Command::new(program);
        command.args(["bench", "node"]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = command.spawn().map_err(failed)?;
        let mut stdin = process.stdin.take().expect("it was asked for");
        let mut stdout = BufReader::new(process.stdout.take().expect("it was asked for"));
        let process = Ended::new(process);
        stdin.write_all(&line(plan)?).map_err(failed)?;
        match hear(&mut stdout)? {
            NodeMessage::Listening(address) => {
                let relay = Relay::start(network, address)?;
                let lines = Mutex::new((stdin, stdout));
                Ok(Node { address, relay, lines, _process: process })
            }
            NodeMessage::Done(_) => {
                Err(Failure::new("the storage node does not listen".to_owned()))
            }
        }
    }

    /// What it has cost, and what is before it.
    pub fn spent(&self) -> Outcome<NodeSpent> {
        let relay_cpu = self.relay.as_ref().map(Relay::cpu_time).unwrap_or_default();
        Ok(NodeSpent { node: self.ask("")?, relay_cpu })
    }

    /// Waits until the node's store has nothing left to do.
    pub fn settle(&self) -> Outcome {
        self.ask(SETTLE).map(drop)
    }

    fn ask(&self, what: &str) -> Outcome<NodeCosts> {
        let mut lines = self.lines.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let asked = lines.0.write_all(format!("{what}\n").as_bytes());
        asked.map_err(|error| Failure::io("ask", "the storage node", error))?;
        match hear(&mut lines.1)? {
            NodeMessage::Done(costs) => Ok(costs),
            NodeMessage::Listening(_) => {
                Err(Failure::new("the storage node began again".to_owned()))
            }
        }
    }

    fn settings(&self, queues: usize) -> Outcome<esker_initiator::Settings> {
        let nqn = |name| Nqn::new(name).map_err(|error| Failure::new(error.to_string()));
        let host = nqn("nqn.2024-01.io.esker:bench-host")?;
        let address = self.relay.as_ref().map_or(self.address, Relay::address);
        let settings = esker_initiator::Settings::new(address, host, nqn(SUBSYSTEM)?);
        Ok(settings.queues(queues as u16))
    }

    /// What is set of each connection, by name.
    pub fn named(&self) -> Outcome<[(String, String); 2]> {
        let esker_initiator::Settings { depth, digests, .. } = self.settings(1)?;
        let yes_or_no = |is_on| if is_on { "yes" } else { "no" };
        let digests =
            format!("header {}, data {}", yes_or_no(digests.header), yes_or_no(digests.data));
        Ok([("queue depth", depth.to_string()), ("digests", digests)]
            .map(|(name, value)| (name.to_owned(), value)))
    }

    pub fn keys(&self, fabric: &FabricSettings) -> Outcome<NodeStore> {
        let mut left = connections(NodeKind::Hash, fabric.connections);
        let mut clients = Vec::new();
        while left > 0 {
            let queues = left.min(QUEUES);
            let (clock, entropy) = (Arc::new(SystemClock::new()), Arc::new(SystemEntropy));
            let client =
                KeyClient::connect(self.settings(queues)?, clock, entropy, Arc::new(Threads));
            clients.push(client.map_err(esker_base::Error::from)?);
            left -= queues;
        }
        Ok(NodeStore::new(clients))
    }

    pub fn storage(&self, fabric: &FabricSettings) -> Outcome<Arc<BlockStorage>> {
        let settings = self.settings(connections(NodeKind::Blocks, fabric.connections))?;
        let (clock, entropy) = (Arc::new(SystemClock::new()), Arc::new(SystemEntropy));
        let client = BlockClient::connect(settings, clock, entropy, Arc::new(Threads));
        let client = client.map_err(esker_base::Error::from)?;
        Ok(Arc::new(BlockStorage::open(Arc::new(client), &Threads)?))
    }
}

fn hear(stdout: &mut BufReader<ChildStdout>) -> Outcome<NodeMessage> {
    let mut text = String::new();
    let read = stdout.read_line(&mut text);
    let read = read.map_err(|error| Failure::io("hear", "the storage node", error))?;
    if read == 0 {
        return Err(Failure::new("the storage node ended early; it says why above".to_owned()));
    }
    Ok(serde_json::from_str(&text)?)
}
