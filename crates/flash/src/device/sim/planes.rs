//! Dies whose planes read independently of each other.
//!
//! Each plane senses into its own register. The register waits for the channel and is transferred
//! out, while other planes of the die sense, wait or transfer. A read of several planes occupies
//! all of them from start to end. A write's data transfer and program, or an erase, occupies all
//! planes. It starts when no plane reads, and no read starts before it completes or yields.
//!
//! Reads of one plane execute in order of arrival. A read passes others that wait for their planes.
//! It does not pass a write that arrived first, unless the device prioritizes reads.

use super::events::DelayQueue;
use super::read_priority::WRITE_DEADLINE_NS;
use super::request::{Kind, Request};
use super::{SENSED, Sim, State};
use crate::preset::{PLANES_MAX, UNITS_MAX};

/// On a channel all dies of the device have numbers, and behind them all planes.
const _: () = assert!(UNITS_MAX * (1 + PLANES_MAX as u32) <= u16::MAX as u32);

/// A plane that reads; of several that read together, the first.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Plane {
    request: u32,
}

impl Sim {
    /// Gives the planes of a die that is not being changed their next reads, or the die its next change.
    pub(super) fn start_planes(&mut self, unit: u16) {
        while let Some(read) = self.next_read(unit) {
            self.sense(unit, read);
        }
        let Some(change) = self.next_change(unit) else { return };
        let die = &mut self.dies[usize::from(unit)];
        if die.reading != 0 {
            return;
        }
        if die.suspended.is_some() {
            return self.resume(unit);
        }
        die.others.pop(&self.requests);
        die.current = change;
        match self.requests.get(change).kind {
            Kind::Write => {
                die.state = State::OnBus;
                self.want_bus(unit, unit, false);
            }
            _ => self.change(unit),
        }
    }

    /// The next read that its planes are free for, and that nothing goes before.
    fn next_read(&mut self, unit: u16) -> Option<u32> {
        if self.form.reads_first() && self.next_change(unit).is_some_and(|slot| self.is_late(slot))
        {
            return None;
        }
        let die = &mut self.dies[usize::from(unit)];
        let queue = if self.form.reads_first() { &mut die.reads } else { &mut die.others };
        let mut taken = die.reading;
        queue.take_first(&mut self.requests, |request: &Request| {
            let is_free = taken & request.planes == 0;
            taken |= request.planes;
            (request.kind == Kind::Read).then_some(is_free)
        })
    }

    /// What changes the die next, unless reads are before it in its queue.
    fn next_change(&self, unit: u16) -> Option<u32> {
        let die = &self.dies[usize::from(unit)];
        let next = die.suspended.or(die.others.first())?;
        (self.requests.get(next).kind != Kind::Read).then_some(next)
    }

    fn is_late(&self, slot: u32) -> bool {
        self.now - self.requests.get(slot).submitted > WRITE_DEADLINE_NS
    }

    fn sense(&mut self, unit: u16, slot: u32) {
        let &Request { planes, array_ns, .. } = self.requests.get(slot);
        let index = usize::from(unit) * self.planes_per_die() + planes.trailing_zeros() as usize;
        self.planes[index] = Plane { request: slot };
        let die = &mut self.dies[usize::from(unit)];
        if die.reading == 0 {
            die.read_since = self.now;
        }
        die.reading |= planes;
        let lane = if array_ns == self.times.read_ns[0] {
            DelayQueue::Sense
        } else {
            DelayQueue::SenseUpper
        };
        self.events.push(lane, self.now + array_ns, SENSED | index as u32);
    }

    /// A plane's register has what was read.
    pub(super) fn sensed(&mut self, index: usize) {
        let unit = (index / self.planes_per_die()) as u16;
        let number = (self.dies.len() + index) as u16;
        self.want_bus(unit, number, self.form.reads_first());
    }

    /// The request of a plane by its number on the channel.
    pub(super) fn plane_on_bus(&self, number: u16) -> u32 {
        self.planes[usize::from(number) - self.dies.len()].request
    }

    /// A plane's register is empty again. Says of which die.
    pub(super) fn plane_read_out(&mut self, number: u16) -> u16 {
        let index = usize::from(number) - self.dies.len();
        let unit = index / self.planes_per_die();
        let planes = self.requests.get(self.planes[index].request).planes;
        let die = &mut self.dies[unit];
        die.reading &= !planes;
        if die.reading == 0 {
            die.read_ns += self.now - die.read_since;
        }
        unit as u16
    }

    fn planes_per_die(&self) -> usize {
        self.media.geometry().planes.into()
    }
}
