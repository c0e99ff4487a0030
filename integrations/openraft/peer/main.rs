//! Appends to the log of `openraft-rocksstore`. `../rates` builds it.

#[path = "../examples/appends/measure.rs"]
mod measure;

use openraft::storage::Adaptor;
use openraft_rocksstore::{RocksRequest, RocksStore, TypeConfig};

#[tokio::main]
async fn main() {
    let parent = std::env::args().nth(1).unwrap_or_else(|| ".".to_owned());
    let dir = tempfile::tempdir_in(parent).expect("no directory");
    let (log, _machine) = Adaptor::new(RocksStore::new(dir.path()).await);
    let command = |bytes| RocksRequest::Set { key: "key".to_owned(), value: "v".repeat(bytes) };
    // A task, as that of a node is.
    let measured = tokio::spawn(measure::measure::<TypeConfig, _>("rocksdb", log, command));
    measured.await.expect("the measurement fails");
}
