//! Requests in flight: a slab of small records, linked into queues by number.

use crate::Chunk;

/// What a request does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Reads.
    Read,
    /// Writes a write unit.
    Write,
    /// Resets a chunk.
    Reset,
    /// Nothing: the host wants to be woken.
    Alarm,
}

/// A request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Request {
    pub(super) kind: Kind,
    pub(super) chunk: Chunk,
    pub(super) tag: u32,
    pub(super) submitted: u64,
    /// How long the array is busy with it.
    pub(super) array_ns: u64,
    pub(super) bytes: u32,
    /// What is still to go over the channel.
    pub(super) left: u32,
    /// The planes that a read is of, a bit each, where planes read independently.
    pub(super) planes: u16,
    next: u32,
}

const NONE: u32 = u32::MAX;

impl Request {
    pub(super) fn new(kind: Kind, chunk: Chunk, tag: u32, now: u64) -> Self {
        let (array_ns, bytes, left, planes) = (0, 0, 0, 0);
        Request { kind, chunk, tag, submitted: now, array_ns, bytes, left, planes, next: NONE }
    }
}

/// All requests in flight, by number.
#[derive(Debug, Default)]
pub(super) struct Slab {
    all: Vec<Request>,
    free: Vec<u32>,
}

impl Slab {
    pub(super) fn add(&mut self, request: Request) -> u32 {
        match self.free.pop() {
            Some(number) => {
                self.all[number as usize] = request;
                number
            }
            None => {
                self.all.push(request);
                self.all.len() as u32 - 1
            }
        }
    }

    pub(super) fn remove(&mut self, number: u32) -> Request {
        self.free.push(number);
        self.all[number as usize]
    }

    #[inline]
    pub(super) fn get(&self, number: u32) -> &Request {
        &self.all[number as usize]
    }

    #[inline]
    pub(super) fn get_mut(&mut self, number: u32) -> &mut Request {
        &mut self.all[number as usize]
    }
}

/// Requests in order of arrival. A request is in one queue at most.
#[derive(Clone, Copy, Debug)]
pub(super) struct Queue {
    head: u32,
    tail: u32,
}

impl Queue {
    pub(super) const EMPTY: Queue = Queue { head: NONE, tail: NONE };

    #[inline]
    pub(super) fn first(&self) -> Option<u32> {
        (self.head != NONE).then_some(self.head)
    }

    pub(super) fn push(&mut self, slab: &mut Slab, number: u32) {
        slab.get_mut(number).next = NONE;
        match self.head {
            NONE => self.head = number,
            _ => slab.get_mut(self.tail).next = number,
        }
        self.tail = number;
    }

    pub(super) fn pop(&mut self, slab: &Slab) -> Option<u32> {
        let first = self.first()?;
        self.head = slab.get(first).next;
        Some(first)
    }
    /// Takes out the first request that is `wanted`, and none behind one of which that says nothing.
    pub(super) fn take_first(
        &mut self,
        slab: &mut Slab,
        mut wanted: impl FnMut(&Request) -> Option<bool>,
    ) -> Option<u32> {
        let (mut before, mut number) = (NONE, self.head);
        while number != NONE {
            let next = slab.get(number).next;
            if wanted(slab.get(number))? {
                match before {
                    NONE => self.head = next,
                    _ => slab.get_mut(before).next = next,
                }
                if self.tail == number {
                    self.tail = before;
                }
                return Some(number);
            }
            (before, number) = (number, next);
        }
        None
    }
}
