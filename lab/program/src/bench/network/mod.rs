//! A network between a storage node and its clients, emulated on this machine: a relay that both sides reach through
//! loopback, and that delays what it passes on as a link of its kind would. It needs no rights.
//!
//! * [`wire`]: when what is sent at one end is there at the other;
//! * [`flow`]: the bytes of one connection in one direction, moved within the kernel;
//! * [`relay`]: the thread that does it for all connections.
//!
//! A relay costs processor time and wakings of its own, which no link has. So there is one that holds nothing back,
//! [`Network::Relay`], and what is measured through it compared with what is measured without one is that cost.

mod flow;
mod relay;
#[cfg(test)]
mod tests;
mod wire;

use crate::failure::{Failure, Outcome};
use esker_base::background::Running;
use esker_base::{Background, Priority, SystemClock, Threads};
use serde::{Deserialize, Serialize};
use std::net::{SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use wire::Wire;

/// What is between a node and its clients.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub enum Network {
    /// Loopback, as it is.
    #[default]
    Loopback,
    /// The relay, which passes everything on at once: what the emulation costs.
    Relay,
    /// The relay as a link of 10 Gigabit Ethernet, emulated.
    TenGigabit,
}

/// Ethernet's 10GBASE rate, in bits a second: IEEE 802.3, clause 44.
const TEN_GIGABITS: u64 = 10_000_000_000;

/// What a message takes from one host to the other in addition to the time on the wire: half of the 21 us by which a read of remote
/// flash over 10 GbE, through one switch, took longer than the same read of local flash in A. Klimovic, H. Litz and C.
/// Kozyrakis, "ReFlex: Remote Flash ≈ Local Flash", ASPLOS 2017. That has the hosts' lean network stacks in it, whose work the
/// kernel does here a second time: it is rather too much than too little.
const ONE_WAY_DELAY: Duration = Duration::from_nanos(10_500);

impl Network {
    /// What cases on it are called, behind their own names.
    pub fn suffix(self) -> &'static str {
        match self {
            Network::Loopback => "",
            Network::Relay => "-relay-alone",
            Network::TenGigabit => "-emulated-10gbe",
        }
    }

    /// In words, for the report.
    pub fn about(self) -> String {
        match self {
            Network::Loopback => "loopback".to_owned(),
            Network::Relay => {
                "loopback, through the emulated network's relay, which passes all on at once"
                    .to_owned()
            }
            Network::TenGigabit => format!("EMULATED: {}", ten_gigabit_ethernet()),
        }
    }

    /// What is emulated, if anything.
    pub fn emulation(self) -> Option<String> {
        (self == Network::TenGigabit).then(ten_gigabit_ethernet)
    }

    /// One direction of it.
    fn wire(self) -> Wire {
        match self {
            Network::Loopback | Network::Relay => Wire::ideal(),
            Network::TenGigabit => Wire::new(TEN_GIGABITS, ONE_WAY_DELAY),
        }
    }
}

fn ten_gigabit_ethernet() -> String {
    let delay = ONE_WAY_DELAY.as_nanos() as f64 / 1e3;
    format!(
        "10 Gigabit Ethernet by a relay in user space on loopback ({TEN_GIGABITS} bits/s each way for all connections, 1,538 bytes on \
         the wire for each 1,448 of payload; {delay} us one way, half of what ReFlex, ASPLOS 2017, measured there and back; no \
         loss; the relay's own work comes on top)"
    )
}

/// A relay at work. It ends when this is dropped.
pub struct Relay {
    address: SocketAddr,
    cpu: Arc<AtomicU64>,
    /// The thread sees it closed. It goes before the thread is waited for.
    alive: Option<OwnedFd>,
    thread: Mutex<Option<Box<dyn Running>>>,
}

impl Relay {
    /// Starts one before the node at `node`; `None` where there is nothing between.
    pub fn start(network: Network, node: SocketAddr) -> Outcome<Option<Self>> {
        if network == Network::Loopback {
            return Ok(None);
        }
        let failed = |error| Failure::io("start", "the emulated network", error);
        let listener = TcpListener::bind(("127.0.0.1", 0)).map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let (ended, alive) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)
            .map_err(|error| failed(error.into()))?;
        let cpu = Arc::new(AtomicU64::new(0));
        let wires = [network.wire(), network.wire()];
        let clock = Arc::new(SystemClock::new());
        let told = Arc::clone(&cpu);
        let mut relay = relay::Loop::new(listener, node, ended, wires, clock).map_err(failed)?;
        let body = move || {
            if let Err(error) = relay.run(&told) {
                crate::output::tell(format_args!("the emulated network failed: {error}"));
            }
        };
        let thread = Threads.spawn("esker-network", Priority::Normal, Box::new(body))?;
        Ok(Some(Relay { address, cpu, alive: Some(alive), thread: Mutex::new(thread) }))
    }

    /// Where clients find the node.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The processor time of its thread so far, which neither the client nor the node would have spent.
    pub fn cpu_time(&self) -> Duration {
        Duration::from_nanos(self.cpu.load(Relaxed))
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        drop(self.alive.take());
        let thread = self.thread.get_mut().unwrap_or_else(|poisoned| poisoned.into_inner());
        if let Some(thread) = thread.take() {
            thread.join();
        }
    }
}
