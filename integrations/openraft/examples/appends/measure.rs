//! Appends to a log of openraft, one after the other, each of which waits until it is on the disk.

use openraft::storage::{RaftLogStorage, RaftLogStorageExt};
use openraft::{CommittedLeaderId, Entry, EntryPayload, LogId, RaftTypeConfig};
use std::time::Duration;
use tokio::time::Instant;

const BATCHES: [u64; 3] = [1, 16, 128];
const VALUE_BYTES: [usize; 2] = [128, 1024];
/// The first part of a run is not measured.
const WARM_UP: Duration = Duration::from_millis(500);
const MEASURED: Duration = Duration::from_secs(3);

/// Prints a line for each size: entries of an append, bytes of a value, entries per second.
///
/// `command` makes a command with a value of so many bytes.
pub async fn measure<C, L>(name: &str, mut log: L, command: impl Fn(usize) -> C::D)
where
    C: RaftTypeConfig<NodeId = u64, Entry = Entry<C>>,
    L: RaftLogStorage<C>,
{
    let mut next = 1;
    for bytes in VALUE_BYTES {
        for batch in BATCHES {
            append::<C, L>(&mut log, &mut next, batch, || command(bytes), WARM_UP).await;
            let rate =
                append::<C, L>(&mut log, &mut next, batch, || command(bytes), MEASURED).await;
            println!("{name:<8} {batch:>4} entries of {bytes:>4} B {rate:>9.0} entries/s");
        }
    }
}

/// Appends for so long, and returns the entries per second.
async fn append<C, L>(
    log: &mut L,
    next: &mut u64,
    batch: u64,
    command: impl Fn() -> C::D,
    time: Duration,
) -> f64
where
    C: RaftTypeConfig<NodeId = u64, Entry = Entry<C>>,
    L: RaftLogStorage<C>,
{
    let (start, first) = (Instant::now(), *next);
    while start.elapsed() < time {
        let entries: Vec<_> = (*next..*next + batch)
            .map(|index| Entry {
                log_id: LogId::new(CommittedLeaderId::new(1, 0), index),
                payload: EntryPayload::Normal(command()),
            })
            .collect();
        log.blocking_append(entries).await.expect("the append fails");
        *next += batch;
    }
    (*next - first) as f64 / start.elapsed().as_secs_f64()
}
