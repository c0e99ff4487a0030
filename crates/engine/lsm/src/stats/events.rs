//! What happens in an open database: a list of the latest events, histograms of how long they took, and
//! events of the crate `tracing`, if its feature is on.
//!
//! An event is noted once per background job, or when a writer stalled or a call was slow: never per
//! read or write. Slow calls have a list of their own, because they may be many.

use super::compaction_counts::CompactionReason;
use super::listener::Listener;
use esker_base::{Clock, OperationCost};
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::fmt;
use std::time::Duration;

/// So many of the latest events are kept, and so many slow calls.
const KEPT: usize = 256;
const SLOW_KEPT: usize = 64;

/// A writer that stalled for less is no event.
pub(crate) const STALL_LEAST: Duration = Duration::from_millis(1);

/// What happened.
#[derive(Clone, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum EventKind {
    /// A MemTable was flushed to tables.
    Flush {
        /// Bytes of the tables.
        bytes: u64,
        /// How long it took.
        took: Duration,
    },
    /// A compaction was executed. Its outputs may be installed later.
    Compaction {
        /// The name of the keyspace.
        keyspace: String,
        /// The reason.
        #[cfg_attr(feature = "serde", serde(serialize_with = "as_text"))]
        reason: CompactionReason,
        /// The level of the outputs.
        output_level: usize,
        /// Bytes of the input tables.
        read_bytes: u64,
        /// Bytes of the output tables.
        written_bytes: u64,
        /// How long it took.
        took: Duration,
    },
    /// A writer stalled until a segment or space in one was free. Shorter waits than 1 ms, and
    /// throttling, are not events: see [`Stats::stalled`](crate::Stats::stalled).
    Stall {
        /// How long it waited.
        took: Duration,
    },
    /// A checkpoint was written.
    Checkpoint {
        /// How long it took, with the flush before it.
        took: Duration,
    },
    /// A background job failed. It is retried, and its next error is noted after an event of another
    /// kind.
    BackgroundError {
        /// The job: `prepare`, `flush`, `sync` or `compaction`.
        job: &'static str,
        /// The error.
        error: String,
    },
    /// A setting was changed.
    SettingChanged {
        /// The change, as text.
        change: String,
    },
    /// A call took as long as [`Settings::slow_call`](crate::Settings::slow_call) or longer.
    SlowCall {
        /// The call.
        call: CallKind,
        /// The name of the keyspace, of a batch that of its first entry; empty if it was dropped.
        keyspace: String,
        /// The first key of the call, of a scan the start of its range: escaped, and cut after 64
        /// bytes.
        key: String,
        /// How long it took.
        took: Duration,
        /// What it cost.
        cost: OperationCost,
    },
}

/// A kind of call that [`EventKind::SlowCall`] reports.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum CallKind {
    /// A get of one key.
    Get,
    /// A get of several keys.
    MultiGet,
    /// A write of a batch: a put, a delete, a merge, the commit of a transaction.
    Write,
    /// A move of a cursor or a range that searched the tree, or read a block.
    Scan,
}

/// An event of a database: see [`Db::events`](crate::Db::events).
#[derive(Clone, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Event {
    /// The number of the event since the database was opened, from 1.
    pub number: u64,
    /// When it ended, since 1970-01-01 UTC.
    pub at: Duration,
    /// What happened.
    pub kind: EventKind,
}

#[cfg(feature = "serde")]
fn as_text<S: serde::Serializer>(reason: &CompactionReason, to: S) -> Result<S::Ok, S::Error> {
    to.collect_str(reason)
}

impl EventKind {
    /// The event as one line; if `hides`, without names, keys, and texts that may have them.
    pub(crate) fn shown(&self, hides: bool) -> String {
        const HIDDEN: &str = "(encrypted)";
        let mut event = self.clone();
        match &mut event {
            _ if !hides => {}
            EventKind::Flush { .. } | EventKind::Stall { .. } | EventKind::Checkpoint { .. } => {}
            EventKind::Compaction { keyspace, .. } => *keyspace = HIDDEN.into(),
            EventKind::BackgroundError { error, .. } => *error = HIDDEN.into(),
            EventKind::SettingChanged { change } => *change = HIDDEN.into(),
            EventKind::SlowCall { keyspace, key, .. } => {
                (*keyspace, *key) = (HIDDEN.into(), HIDDEN.into());
            }
        }
        event.to_string()
    }
}

/// Formats as one line for people, such as `flush of 12.5 MiB, 35ms`.
impl fmt::Display for EventKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mib = |bytes: &u64| format!("{:.1} MiB", *bytes as f64 / f64::from(1 << 20));
        let time =
            |took: &Duration| format!("{:?}", Duration::from_micros(took.as_micros() as u64));
        match self {
            EventKind::Flush { bytes, took } => {
                write!(f, "flush of {}, {}", mib(bytes), time(took))
            }
            EventKind::Compaction {
                keyspace,
                reason,
                output_level,
                read_bytes,
                written_bytes,
                took,
            } => write!(
                f,
                "compaction of {keyspace} into L{output_level} ({reason}): {} to {}, {}",
                mib(read_bytes),
                mib(written_bytes),
                time(took)
            ),
            EventKind::Stall { took } => write!(f, "a writer stalled for {}", time(took)),
            EventKind::Checkpoint { took } => write!(f, "checkpoint, {}", time(took)),
            EventKind::BackgroundError { job, error } => write!(f, "{job} failed: {error}"),
            EventKind::SettingChanged { change } => write!(f, "set {change}"),
            EventKind::SlowCall { call, keyspace, key, took, cost } => write!(
                f,
                "slow {call} of {keyspace} \"{key}\", {}: {} runs, {} blocks read, stalled {}",
                time(took),
                cost.runs,
                cost.blocks_read,
                time(&cost.stalled)
            ),
        }
    }
}

/// How often something took how long.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct TimeHistogram {
    /// How many took at most as long as the bound with the same index, and longer than the bound
    /// before; the last one counts those that took longer than all bounds.
    pub counts: [u64; TimeHistogram::BOUNDS.len() + 1],
    /// The sum of all times.
    pub sum: Duration,
}

impl TimeHistogram {
    /// The upper bounds of the classes.
    pub const BOUNDS: [Duration; 11] = [
        Duration::from_millis(1),
        Duration::from_millis(5),
        Duration::from_millis(10),
        Duration::from_millis(50),
        Duration::from_millis(100),
        Duration::from_millis(500),
        Duration::from_secs(1),
        Duration::from_secs(5),
        Duration::from_secs(10),
        Duration::from_secs(60),
        Duration::from_secs(300),
    ];

    /// Returns how many there were.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// The index of the class that counts such a time.
    pub(crate) fn class_of(took: Duration) -> usize {
        Self::BOUNDS.partition_point(|bound| *bound < took)
    }

    fn note(&mut self, took: Duration) {
        self.counts[Self::class_of(took)] += 1;
        self.sum += took;
    }
}

/// How long flushes, compactions and stalls took since the database was opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct JobTimes {
    /// Flushes.
    pub flushes: TimeHistogram,
    /// Compactions, without moves of tables.
    pub compactions: TimeHistogram,
    /// Stalled writers: [`EventKind::Stall`].
    pub stalls: TimeHistogram,
}

/// The latest events, and what is called for each.
#[derive(Default)]
pub(crate) struct EventLog {
    noted: Mutex<Noted>,
    pub(crate) listener: Listener,
}

#[derive(Default)]
struct Noted {
    latest: VecDeque<Event>,
    slow: VecDeque<Event>,
    number: u64,
    times: JobTimes,
}

impl Noted {
    /// Whether only errors were noted since one of this job.
    fn fails_already(&self, job: &str) -> bool {
        let errors = self.latest.iter().rev().map_while(|event| match &event.kind {
            EventKind::BackgroundError { job, .. } => Some(*job),
            _ => None,
        });
        errors.into_iter().any(|failed| failed == job)
    }
}

impl EventLog {
    pub(crate) fn note(&self, clock: &dyn Clock, kind: EventKind) {
        let mut noted = self.noted.lock();
        if let EventKind::BackgroundError { job, .. } = &kind
            && noted.fails_already(job)
        {
            return;
        }
        match &kind {
            EventKind::Flush { took, .. } => noted.times.flushes.note(*took),
            EventKind::Compaction { took, .. } => noted.times.compactions.note(*took),
            EventKind::Stall { took } => noted.times.stalls.note(*took),
            _ => {}
        }
        noted.number += 1;
        let event = Event { number: noted.number, at: clock.calendar(), kind };
        let (list, kept) = match &event.kind {
            EventKind::SlowCall { .. } => (&mut noted.slow, SLOW_KEPT),
            _ => (&mut noted.latest, KEPT),
        };
        if list.len() == kept {
            list.pop_front();
        }
        list.push_back(event.clone());
        drop(noted);
        trace(&event);
        self.listener.call(&event);
    }

    /// The events after the one with this number that are kept.
    pub(crate) fn after(&self, number: u64) -> Vec<Event> {
        let noted = self.noted.lock();
        let all = noted.latest.iter().chain(&noted.slow);
        let mut events: Vec<_> = all.filter(|event| event.number > number).cloned().collect();
        drop(noted);
        events.sort_unstable_by_key(|event| event.number);
        events
    }

    pub(crate) fn times(&self) -> JobTimes {
        self.noted.lock().times
    }
}

/// Hands the event to the subscriber of the crate `tracing`, if the program has one.
#[cfg(feature = "tracing")]
fn trace(event: &Event) {
    let micros = |took: &Duration| took.as_micros() as u64;
    match &event.kind {
        EventKind::Flush { bytes, took } => {
            tracing::info!(target: "esker::flush", bytes, took_us = micros(took), "flushed");
        }
        EventKind::Compaction {
            keyspace,
            reason,
            output_level,
            read_bytes,
            written_bytes,
            took,
        } => {
            tracing::info!(
                target: "esker::compaction",
                keyspace = &keyspace[..],
                %reason,
                output_level,
                read_bytes,
                written_bytes,
                took_us = micros(took),
                "compacted"
            );
        }
        EventKind::Stall { took } => {
            tracing::warn!(target: "esker::stall", took_us = micros(took), "a writer stalled");
        }
        EventKind::Checkpoint { took } => {
            tracing::info!(target: "esker::checkpoint", took_us = micros(took), "checkpoint written");
        }
        EventKind::BackgroundError { job, error } => {
            tracing::error!(target: "esker::background", job, error = &error[..], "a job failed");
        }
        EventKind::SettingChanged { change } => {
            tracing::info!(target: "esker::settings", change = &change[..], "setting changed");
        }
        EventKind::SlowCall { call, keyspace, key, took, cost } => {
            tracing::warn!(
                target: "esker::slow",
                %call,
                keyspace = &keyspace[..],
                key = &key[..],
                took_us = micros(took),
                memtables = cost.memtables,
                runs = cost.runs,
                filters = cost.filters,
                cache_hits = cost.cache_hits,
                cache_misses = cost.cache_misses,
                blocks_read = cost.blocks_read,
                bytes_read = cost.bytes_read,
                bytes_written = cost.bytes_written,
                stalled_us = micros(&cost.stalled),
                "a call was slow"
            );
        }
    }
}

#[cfg(not(feature = "tracing"))]
fn trace(_event: &Event) {}

/// While it lives, what the thread does is in a span of the crate `tracing`.
#[cfg(feature = "tracing")]
pub(crate) struct Span(#[allow(dead_code)] tracing::span::EnteredSpan);

#[cfg(not(feature = "tracing"))]
pub(crate) struct Span;

impl Span {
    pub(crate) fn flush() -> Span {
        #[cfg(feature = "tracing")]
        return Span(tracing::info_span!(target: "esker::flush", "flush").entered());
        #[cfg(not(feature = "tracing"))]
        Span
    }

    pub(crate) fn compaction() -> Span {
        #[cfg(feature = "tracing")]
        return Span(tracing::info_span!(target: "esker::compaction", "compaction").entered());
        #[cfg(not(feature = "tracing"))]
        Span
    }

    pub(crate) fn checkpoint() -> Span {
        #[cfg(feature = "tracing")]
        return Span(tracing::info_span!(target: "esker::checkpoint", "checkpoint").entered());
        #[cfg(not(feature = "tracing"))]
        Span
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(crate) struct Calendar;

    impl Clock for Calendar {
        fn now(&self) -> Duration {
            Duration::from_secs(7)
        }
        fn sleep(&self, _: Duration) {}
    }

    pub(crate) fn stall(millis: u64) -> EventKind {
        EventKind::Stall { took: Duration::from_millis(millis) }
    }

    #[test]
    fn the_latest_events_are_kept_and_numbered() {
        let log = EventLog::default();
        (1..=300).for_each(|millis| log.note(&Calendar, stall(millis)));
        let all = log.after(0);
        assert_eq!((all.len(), all[0].number, all[255].number), (KEPT, 45, 300));
        assert_eq!((all[255].at, &all[255].kind), (Duration::from_secs(7), &stall(300)));
        assert_eq!(log.after(298).iter().map(|event| event.number).collect::<Vec<_>>(), [299, 300]);
        assert!(log.after(300).is_empty());
        assert_eq!(log.times().stalls.count(), 300, "also those that are not kept");
    }

    #[test]
    fn slow_calls_push_out_no_other_event() {
        let log = EventLog::default();
        let slow = |key: String| EventKind::SlowCall {
            call: CallKind::Get,
            keyspace: "default".to_owned(),
            key,
            took: Duration::from_secs(1),
            cost: OperationCost::default(),
        };
        log.note(&Calendar, stall(1));
        (0..1000).for_each(|n| log.note(&Calendar, slow(n.to_string())));
        log.note(&Calendar, stall(2));
        let events = log.after(0);
        assert_eq!((events.len(), events[0].number, events[65].number), (66, 1, 1002));
        assert_eq!((&events[0].kind, &events[65].kind), (&stall(1), &stall(2)));
        assert_eq!((events[1].number, &events[1].kind), (938, &slow("936".to_owned())));
    }

    #[test]
    fn a_key_is_escaped_once() {
        let (call, keyspace) = (CallKind::Get, "users".to_owned());
        let (key, took) =
            (crate::stats::call_watch::shown_key(b"a\0\"b"), Duration::from_millis(12));
        let slow =
            EventKind::SlowCall { call, keyspace, key, took, cost: OperationCost::default() };
        let shown = r#"slow get of users "a\x00\"b", 12ms: "#;
        assert!(slow.to_string().starts_with(shown), "{slow}");
    }

    #[test]
    fn a_job_that_keeps_failing_is_noted_once() {
        let log = EventLog::default();
        let error = |job| EventKind::BackgroundError { job, error: "full".to_owned() };
        let (flush, sync) = (error("flush"), error("sync"));
        for kind in [&flush, &flush, &sync, &flush, &sync, &stall(2), &flush] {
            log.note(&Calendar, kind.clone());
        }
        let kinds: Vec<_> = log.after(0).into_iter().map(|event| event.kind).collect();
        assert_eq!(kinds, [flush.clone(), sync, stall(2), flush]);
    }

    #[test]
    fn a_time_counts_up_to_its_bound() {
        let mut histogram = TimeHistogram::default();
        for micros in [0, 1_000, 1_001, 5_000, 300_000_000, 300_000_001] {
            histogram.note(Duration::from_micros(micros));
        }
        assert_eq!(histogram.counts, [2, 2, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1]);
        assert_eq!((histogram.count(), histogram.sum), (6, Duration::from_micros(600_007_002)));
    }

    /// What a subscriber of the program gets.
    #[cfg(feature = "tracing")]
    #[test]
    fn a_subscriber_gets_events_with_their_fields() {
        use std::sync::Arc;
        use tracing::field::{Field, Visit};

        #[derive(Clone, Default)]
        struct Seen(Arc<Mutex<Vec<String>>>);

        impl Visit for Seen {
            fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
                self.0.lock().push(format!("{}={value:?}", field.name()));
            }
        }

        impl tracing::Subscriber for Seen {
            fn enabled(&self, _: &tracing::Metadata<'_>) -> bool {
                true
            }
            fn new_span(&self, span: &tracing::span::Attributes<'_>) -> tracing::span::Id {
                self.0.lock().push(format!("span {}", span.metadata().name()));
                tracing::span::Id::from_u64(1)
            }
            fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}
            fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}
            fn event(&self, event: &tracing::Event<'_>) {
                self.0.lock().push(event.metadata().target().to_owned());
                event.record(&mut self.clone());
            }
            fn enter(&self, _: &tracing::span::Id) {}
            fn exit(&self, _: &tracing::span::Id) {}
        }

        let emit = || {
            let _span = Span::flush();
            let took = Duration::from_micros(12);
            EventLog::default().note(&Calendar, EventKind::Flush { bytes: 5, took });
        };
        // First without a subscriber: a new one asks for all that was ever emitted. What is emitted for the
        // first time may be asked for by the thread of another test, which has no subscriber.
        emit();
        let seen = Seen::default();
        tracing::subscriber::with_default(seen.clone(), emit);
        let seen = seen.0.lock().join(" ");
        assert_eq!(seen, "span flush esker::flush message=flushed bytes=5 took_us=12");
    }
}
