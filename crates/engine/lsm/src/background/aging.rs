//! Expiry by age: moves on what has expired of keyspaces with a time to live.
//!
//! Once a second the time at which writes became visible is noted. A keyspace of which that many
//! writes are old enough gets an edit, at most 64 times in its time to live. Without writes there is
//! no edit.
//!
//! The oldest runs of a keyspace with windows expire if it is larger than it may be.
//!
//! Only writes that survive power loss expire so. Otherwise later writes might get their seqnos.

use crate::compaction::pick::windowed;
use crate::engine::Engine;
use crate::manifest::version_edit::{VersionChange, VersionEdit};
use crate::scheduler::state::{Job, SchedulerState};
use crate::version::aging::Ages;
use esker_base::{KeyspaceId, Seqno};
use std::time::Duration;

/// How often the age of writes is inspected.
const EVERY: Duration = Duration::from_secs(1);

/// Edits of a keyspace in its time to live.
const STEPS: u64 = 64;

/// What has newly expired, if it is time to inspect that and there is something.
pub(super) fn next(inner: &Engine, jobs: &mut SchedulerState, now: Duration) -> Option<Job> {
    if now < jobs.aged_at + EVERY || inner.gate.is_cancelled() || inner.tree.read_only {
        return None;
    }
    let view = inner.tree.view.pin();
    view.version.aging().next()?;
    jobs.aged_at = now;
    let time = inner.tree.time.calendar();
    // Before the first keyspace with a time to live, ages are known by the dates of flushes.
    let ages = jobs.ages.get_or_insert_with(|| Ages::of(&view.version.dates));
    ages.note(inner.commit.visible(), time);
    let mut expired: Vec<(KeyspaceId, Seqno)> = Vec::new();
    for (keyspace, aging) in view.version.aging() {
        let since =
            jobs.expired_at.get(&keyspace.id).map_or(u64::MAX, |at| time.saturating_sub(*at));
        let by_age = aging.millis.filter(|millis| since >= millis / STEPS);
        let by_age = by_age.map_or(0, |millis| ages.aged(millis, time));
        if by_age > aging.expired_through {
            jobs.expired_at.insert(keyspace.id, time);
        }
        let through = by_age.max(windowed::beyond_size(keyspace));
        if through > aging.expired_through {
            expired.push((keyspace.id, through));
        }
    }
    (!expired.is_empty()).then_some(Job::Expire(expired))
}

/// Makes it durable. If that fails, a later inspection tries again.
pub(super) fn expire(inner: &Engine, expired: &[(KeyspaceId, Seqno)]) {
    let newest = expired.iter().map(|(_, through)| *through).max().unwrap_or(0);
    if inner.commit.syncs_later() && inner.commit.synced() < newest {
        let _ = inner.commit.sync_through(newest);
    }
    let flushed = inner.tree.view.pin().version.flushed_through;
    let durable = flushed.max(inner.commit.synced().min(inner.commit.visible()));
    let edit = |keyspaces: &mut dyn Iterator<Item = &(KeyspaceId, Seqno)>| {
        VersionEdit::of(keyspaces.map(|&(keyspace, through)| VersionChange::ExpiredThrough {
            keyspace,
            through: through.min(durable),
        }))
    };
    let _ = inner.tree.installer.install(
        &inner.tree.view,
        |state| {
            // One may have been dropped meanwhile.
            let is_there = |(id, _): &&(KeyspaceId, Seqno)| {
                state.version.keyspaces.get(id).is_some_and(|found| found.aging.is_some())
            };
            Ok(edit(&mut expired.iter().filter(is_there)))
        },
        |_| {},
    );
}
