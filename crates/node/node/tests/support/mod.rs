//! A store behind a target in this process, and clients of it.

use esker_base::{Background, Rng, SystemClock, SystemEntropy, Threads};
use esker_hashstore::device::FileDevice;
use esker_hashstore::{CreateSettings, store_file};
use esker_initiator::{KeyClient, Settings};
use esker_node::HashKeys;
use esker_nvme::Nqn;
use esker_target::{Namespace, Subsystem, Target};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

const NODE: &str = "nqn.2024-01.io.esker:node";
const HOST: &str = "nqn.2014-08.org.nvmexpress:uuid:7c1b5b0a-0000-4000-8000-000000000001";

pub struct Store {
    _dir: tempfile::TempDir,
    pub path: PathBuf,
}

impl Store {
    pub fn new(bytes: u64, partitions: u32) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("store");
        let device = FileDevice::create(&path, Some(bytes)).unwrap();
        let partitions = Some(partitions);
        let settings = CreateSettings::default().partitions(partitions);
        store_file::create(&device, &settings, &mut Rng::new(1)).unwrap();
        Store { _dir: dir, path }
    }

    pub fn serve_with(&self, reactors: usize, has_volatile_cache: bool) -> Target {
        self.serve(reactors, self.open(has_volatile_cache))
    }

    pub fn open(&self, has_volatile_cache: bool) -> Arc<HashKeys> {
        Arc::new(HashKeys::open([1; 16], &self.path, has_volatile_cache).unwrap())
    }

    pub fn serve(&self, reactors: usize, keys: Arc<HashKeys>) -> Target {
        serve(reactors, keys)
    }
}

pub fn serve(reactors: usize, keys: Arc<dyn Namespace>) -> Target {
    let subsystem = Subsystem::new(Nqn::new(NODE).unwrap(), "TEST", vec![keys]);
    let settings = esker_target::Settings::new("127.0.0.1:0".parse().unwrap())
        .reactors(reactors)
        .drain_time(Duration::from_secs(5))
        .memory_bytes(esker_target::limits::MEMORY_BYTES)
        .subsystems(vec![subsystem]);
    let background: Arc<dyn Background> = Arc::new(Threads);
    Target::start(settings, Arc::new(SystemClock::new()), Arc::new(SystemEntropy), &background)
        .unwrap()
}

pub fn client(target: &Target) -> KeyClient {
    let nqn = |name| Nqn::new(name).unwrap();
    let settings = Settings::new(target.address(), nqn(HOST), nqn(NODE));
    KeyClient::connect(
        settings,
        Arc::new(SystemClock::new()),
        Arc::new(SystemEntropy),
        Arc::new(Threads),
    )
    .unwrap()
}
