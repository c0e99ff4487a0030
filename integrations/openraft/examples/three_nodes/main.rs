//! Three nodes on loopback: writes are replicated, one node misses some and gets a snapshot.
//!
//! ```sh
//! cargo run --example three_nodes
//! ```
//!
//! The program ends by itself, after some seconds.

mod rpc;

use esker::{Db, Settings};
use esker_openraft::{Application, SnapshotFile, State, Writes};
use openraft::{BasicNode, SnapshotPolicy};
use rpc::{Network, serve};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::error::Error;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

openraft::declare_raft_types!(
    /// Types of this cluster.
    pub Config: D = Put, R = (), SnapshotData = SnapshotFile
);

type Raft = openraft::Raft<Config>;

/// The only command.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Put {
    key: String,
    value: String,
}

struct Map;

impl Application<Config> for Map {
    fn apply(&self, command: &Put, writes: &mut Writes<'_>) -> Result<(), esker_openraft::Error> {
        Ok(writes.put(&command.key, &command.value)?)
    }

    fn no_command(&self) {}
}

struct Node {
    raft: Raft,
    state: State,
    db: Db,
    server: JoinHandle<()>,
}

const PATIENCE: Option<Duration> = Some(Duration::from_secs(30));

impl Node {
    async fn start(id: u64, dir: &Path, listener: TcpListener) -> Result<Self, Box<dyn Error>> {
        let db = Db::open(dir.join("data"), Settings::default())?;
        let (log, machine) = esker_openraft::open(&db, dir.join("snapshots"), Map)?;
        let state = machine.state();
        let config = openraft::Config {
            heartbeat_interval: 100,
            election_timeout_min: 500,
            election_timeout_max: 1_000,
            // Snapshots are made by `main`, and leave no entries of the log before them.
            snapshot_policy: SnapshotPolicy::Never,
            max_in_snapshot_log_to_keep: 0,
            ..openraft::Config::default()
        };
        let raft = Raft::new(id, Arc::new(config.validate()?), Network, log, machine).await?;
        let server = tokio::spawn(serve(listener, raft.clone()));
        Ok(Node { raft, state, db, server })
    }

    async fn stop(self) -> Result<(), Box<dyn Error>> {
        self.server.abort();
        self.raft.shutdown().await?;
        Ok(self.db.close()?)
    }

    /// Writes through this node, which leads, and returns the index of the last write.
    async fn write(&self, keys: std::ops::Range<u32>) -> Result<u64, Box<dyn Error>> {
        let mut last = 0;
        for key in keys {
            let command = Put { key: format!("key {key:04}"), value: format!("value {key}") };
            last = self.raft.client_write(command).await?.log_id.index;
        }
        Ok(last)
    }

    /// Waits until this node has applied the log up to `index`.
    async fn applied(&self, index: u64) -> Result<usize, Box<dyn Error>> {
        self.raft.wait(PATIENCE).applied_index_at_least(Some(index), "applied").await?;
        Ok(self.state.read(|state| state.iter().count()))
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let dir = tempfile::tempdir()?;
    let node_dir = |id: u64| dir.path().join(id.to_string());
    let mut members = BTreeMap::new();
    let mut nodes = Vec::new();
    for id in 1..=3 {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        members.insert(id, BasicNode::new(listener.local_addr()?));
        nodes.push(Node::start(id, &node_dir(id), listener).await?);
    }

    nodes[0].raft.initialize(members.clone()).await?;
    let wait = nodes[0].raft.wait(PATIENCE);
    let metrics = wait.metrics(|m| m.current_leader.is_some(), "a leader").await?;
    let leader = metrics.current_leader.ok_or("no leader")?;
    println!("node {leader} leads");
    // It answers writes. The last one is to be stopped.
    nodes.sort_by_key(|node| node.raft.metrics().borrow().id != leader);

    let last = nodes[0].write(0..100).await?;
    for node in &nodes {
        assert_eq!(node.applied(last).await?, 100);
    }
    println!("100 writes are on all three nodes");

    let stopped = nodes.pop().ok_or("no node")?;
    let id = stopped.raft.metrics().borrow().id;
    stopped.stop().await?;
    let last = nodes[0].write(100..200).await?;
    nodes[0].raft.trigger().snapshot().await?;
    let at_least = |m: &openraft::RaftMetrics<u64, BasicNode>| {
        m.purged.is_some_and(|purged| purged.index >= last)
    };
    nodes[0].raft.wait(PATIENCE).metrics(at_least, "snapshot made, log purged").await?;
    println!("node {id} is stopped; 100 more writes are in a snapshot, and no longer in the log");

    let address = &members[&id].addr;
    let node = Node::start(id, &node_dir(id), TcpListener::bind(address).await?).await?;
    assert_eq!(node.applied(last).await?, 200);
    assert_eq!(node.state.get("key 0150")?.as_deref(), Some(&b"value 150"[..]));
    let snapshot = node.raft.metrics().borrow().snapshot;
    assert!(snapshot.is_some_and(|snapshot| snapshot.index >= last), "{snapshot:?}");
    println!("node {id} is back, and has all 200 writes by the snapshot");

    nodes.push(node);
    for node in nodes {
        node.stop().await?;
    }
    Ok(())
}
