//! A storage node with one namespace of blocks in a file, until it is killed.
//!
//! ```text
//! block_node FILE ADDRESS:PORT NQN
//! ```
use esker_base::{SystemClock, SystemEntropy, Threads};
use esker_nvme::Nqn;
use esker_target::{Access, DeviceBlocks, Settings, Subsystem, Target};
use std::fs::File;
use std::sync::Arc;
use std::time::Duration;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let [file, listen, nqn]: [String; 3] =
        std::env::args().skip(1).collect::<Vec<_>>().try_into().map_err(|_| "three arguments")?;
    let file = File::options().read(true).write(true).open(file)?;
    let bytes = file.metadata()?.len();
    let blocks = DeviceBlocks::new([7; 16], file.into(), bytes, 4096, false)?;
    let subsystem = Subsystem {
        nqn: Nqn::new(&nqn)?,
        serial: "blocks".to_owned(),
        namespaces: vec![Arc::new(blocks)],
        access: Access::Anyone,
    };
    let settings = Settings {
        listen: listen.parse()?,
        reactors: 1,
        drain_time: Duration::from_secs(1),
        subsystems: vec![subsystem],
    };
    let clock = Arc::new(SystemClock::new());
    let target =
        Target::start(settings, clock, Arc::new(SystemEntropy), &(Arc::new(Threads) as _))?;
    println!("listening on {}, subsystem {nqn}", target.address());
    loop {
        std::thread::park();
    }
}
