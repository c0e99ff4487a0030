//! What happened to a region, event by event.

use super::crash::CrashState;
use super::medium::Medium;
use std::ops::Range;
use std::sync::Arc;

/// Something that happened.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Event {
    /// Words were stored and flushed.
    Write {
        /// By this thread.
        thread: u64,
        /// The first word's number in the region.
        first: u32,
        /// What the words hold now.
        words: Vec<u64>,
        /// Those that were not flushed, because a flush was dropped.
        unflushed: Range<u32>,
    },
    /// A fence.
    Fence {
        /// By this thread.
        thread: u64,
    },
    /// What a test has said.
    Mark(u64),
}

/// All events from a decided start on.
#[derive(Clone, Debug)]
pub struct History {
    start: Arc<Vec<u64>>,
    events: Vec<Event>,
}

impl History {
    pub(super) fn new(start: Arc<Vec<u64>>) -> History {
        History { start, events: Vec::new() }
    }

    pub(super) fn push(&mut self, event: Event) {
        self.events.push(event);
    }

    /// The events, in their order.
    pub fn events(&self) -> &[Event] {
        &self.events
    }

    /// Goes through the history from its start.
    pub fn replay(&self) -> Replay<'_> {
        Replay {
            events: self.events.iter(),
            medium: Medium::sharing(self.start.clone()),
            marks: Vec::new(),
        }
    }
}

/// A place in a history.
pub struct Replay<'a> {
    events: std::slice::Iter<'a, Event>,
    medium: Medium,
    marks: Vec<u64>,
}

impl<'a> Replay<'a> {
    /// Lets the next event happen, and gives it.
    pub fn step(&mut self) -> Option<&'a Event> {
        let event = self.events.next()?;
        self.medium.apply(event);
        if let Event::Mark(what) = event {
            self.marks.push(*what);
        }
        Some(event)
    }

    /// What a crash here may leave.
    pub fn crash(&self) -> CrashState {
        self.medium.crash()
    }

    /// The marks so far.
    pub fn marks(&self) -> &[u64] {
        &self.marks
    }
}
