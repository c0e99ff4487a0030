//! openraft's own suite of tests of storage.

mod support;

use openraft::StorageError;
use openraft::testing::{StoreBuilder, Suite};
use support::{Config, Log, Machine, Store};
use tempfile::TempDir;

struct Builder;

impl StoreBuilder<Config, Log, Machine, TempDir> for Builder {
    async fn build(&self) -> Result<(TempDir, Log, Machine), StorageError<u64>> {
        let dir = tempfile::tempdir().unwrap();
        let Store { log, machine, .. } = Store::open(dir.path());
        Ok((dir, log, machine))
    }
}

#[test]
fn all_cases_of_openraft_pass() {
    Suite::test_all(Builder).unwrap();
}
