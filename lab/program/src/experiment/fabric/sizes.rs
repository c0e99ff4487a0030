//! How much the experiment measures, and the cases by name.

use super::super::Scale;
use crate::bench::network::Network;
use crate::bench::plan::ShelfAccess;
use crate::failure::{Failure, Outcome};
use std::time::Duration;

/// The clients of the paper.
const THREADS: usize = 15;
/// Connections, where nothing else is said: one for each client, so that what comes wakes who waits for it and no other thread.
const CONNECTIONS: usize = THREADS;

/// So many more writes of small values than of large ones.
const SMALL_PART: u64 = 2;

#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Sizes {
    pub(super) rounds: u32,
    /// How long reads go on.
    pub(super) duration: Duration,
    /// The node's file.
    pub(super) device_bytes: u64,
    /// Values of 32 KiB that a thread fills.
    writes: u64,
}

/// A case.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Shape {
    pub(super) name: String,
    pub(super) access: ShelfAccess,
    pub(super) value_bytes: usize,
    pub(super) threads: usize,
    pub(super) connections: usize,
    pub(super) is_power_safe: bool,
    pub(super) network: Network,
}

impl Sizes {
    pub(super) fn of(scale: Scale) -> Sizes {
        match scale {
            Scale::Quick => Sizes {
                rounds: 2,
                duration: Duration::from_millis(700),
                device_bytes: 1 << 30,
                writes: 500,
            },
            Scale::Full => Sizes {
                rounds: 2,
                duration: Duration::from_millis(1500),
                device_bytes: 6 << 30,
                writes: 6_000,
            },
        }
    }

    /// Keys that there are.
    pub(super) fn keys(&self, shape: &Shape) -> u64 {
        let each = match shape.value_bytes {
            ..=4096 => self.writes * SMALL_PART,
            _ => self.writes,
        };
        match shape.access {
            ShelfAccess::FillSame => each,
            // However many share them: the device has room for so many.
            ShelfAccess::FillOwn => each * THREADS as u64,
            // Filled by all together before it begins; several write buffers all the same.
            ShelfAccess::Read | ShelfAccess::Half => each * 8,
        }
    }

    /// The sizes by name, for the report.
    pub(super) fn named(&self) -> Vec<(String, String)> {
        let given = [
            ("seconds of reads", self.duration.as_secs_f64().to_string()),
            ("values of 32 KiB that each of up to 15 threads fills", self.writes.to_string()),
            (
                "smaller values that each of up to 15 threads fills",
                (self.writes * SMALL_PART).to_string(),
            ),
            ("node device bytes", self.device_bytes.to_string()),
            ("key bytes", "4".to_owned()),
        ];
        given.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
    }
}

/// All that there are. What they are called: durability, access, value, and the connections if they are not the usual ones.
fn all() -> Vec<Shape> {
    let mut shapes = Vec::new();
    for (durability, is_power_safe) in [("paper", false), ("safe", true)] {
        for (access_name, access) in [
            ("same", ShelfAccess::FillSame),
            ("own", ShelfAccess::FillOwn),
            ("read", ShelfAccess::Read),
            ("half", ShelfAccess::Half),
        ] {
            for (value, value_bytes) in [("32k", 32 << 10), ("4k", 4 << 10), ("100", 100)] {
                shapes.push(Shape {
                    name: format!("{durability}-{access_name}-{value}"),
                    access,
                    value_bytes,
                    threads: THREADS,
                    connections: CONNECTIONS,
                    is_power_safe,
                    network: Network::Loopback,
                });
            }
        }
    }
    for connections in [1, 4, 16, 64, 256] {
        for (access_name, access) in [("own", ShelfAccess::FillOwn), ("read", ShelfAccess::Read)] {
            shapes.push(Shape {
                name: format!("paper-{access_name}-4k-{connections}-connections"),
                access,
                value_bytes: 4 << 10,
                threads: THREADS.max(connections),
                connections,
                is_power_safe: false,
                network: Network::Loopback,
            });
        }
    }
    shapes
}

/// Whether a case of a full run, where none are asked for. What a value survives makes no difference to who reads it; and whether
/// all write the same keys is a question about the values of the paper.
fn is_in_full(shape: &Shape) -> bool {
    match shape.access {
        ShelfAccess::FillSame => shape.value_bytes == 32 << 10,
        ShelfAccess::Read => !shape.is_power_safe,
        ShelfAccess::FillOwn | ShelfAccess::Half => true,
    }
}

/// What a minute is enough for.
const QUICK: &str = "paper-same-32k,paper-own-32k,paper-read-32k,paper-half-32k,safe-own-32k";

/// What is also measured over networks where no cases are asked for.
const NETWORKED: [&str; 3] = ["paper-own-32k", "paper-read-32k", "safe-own-32k"];

/// The cases of a list, or those of a scale.
pub(super) fn chosen(scale: Scale, list: Option<&str>) -> Outcome<Vec<Shape>> {
    let all = all();
    let Some(list) = list.or((scale == Scale::Quick).then_some(QUICK)) else {
        return Ok(all.into_iter().filter(is_in_full).collect());
    };
    let find = |name: &str| {
        let found = all.iter().find(|shape| shape.name == name).cloned();
        found.ok_or_else(|| {
            let known: Vec<&str> = all.iter().map(|shape| &shape.name[..]).collect();
            Failure::Usage(format!("there is no case {name:?}; there are {}", known.join(", ")))
        })
    };
    list.split(',').map(|name| find(name.trim())).collect()
}

/// Puts behind each case the same over the emulation's relay, and over the emulated link: behind all, or those that are chosen here.
pub(super) fn add_networks(shapes: &mut Vec<Shape>, of_all: bool) {
    let over = |shape: Shape| {
        let networks: &[Network] = match of_all || NETWORKED.contains(&&shape.name[..]) {
            true => &[Network::Loopback, Network::Relay, Network::TenGigabit],
            false => &[Network::Loopback],
        };
        let name = shape.name.clone();
        networks.iter().map(move |&network| Shape {
            name: format!("{name}{}", network.suffix()),
            network,
            ..shape.clone()
        })
    };
    *shapes = std::mem::take(shapes).into_iter().flat_map(over).collect();
}

/// Whether a case of this name is over one of the networks that are added.
pub(super) fn has_network(name: &str) -> bool {
    [Network::Relay, Network::TenGigabit].iter().any(|network| name.ends_with(network.suffix()))
}
