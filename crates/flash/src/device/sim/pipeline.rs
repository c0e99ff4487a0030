//! Moves requests through the buffer, the dies, the channels and the host link.

use super::die::State;
use super::events::DelayQueue;
use super::read_priority::{ReadPriority, SUSPENDS_MOST, WRITE_DEADLINE_NS};
use super::request::{Kind, Request};
use super::{ARRAY, BUFFERED, FINISHED, MOVED, Sim};

impl Sim {
    /// Admits writes to the buffer while it has space.
    pub(super) fn fill_buffer(&mut self) {
        let bytes = u64::from(self.times.write_unit_bytes);
        let has_none = self.times.buffer_bytes == 0;
        while has_none || self.buffer_used + bytes <= self.times.buffer_bytes {
            let Some(slot) = self.unbuffered.pop_front() else { return };
            self.media.buffered(self.requests.get(slot).chunk);
            self.buffer_used += bytes;
            let begin = self.from_host_free.max(self.now);
            self.from_host_free = begin + self.times.write_host_ns;
            let at = self.from_host_free + self.times.write_firmware_ns;
            self.events.push(DelayQueue::FromHost, at, BUFFERED | slot);
        }
    }

    /// A write has come from the host; returned if that acknowledges it.
    pub(super) fn buffered(&mut self, slot: u32) -> Option<Request> {
        let request = *self.requests.get(slot);
        self.arrive(slot);
        (self.times.buffer_bytes > 0).then_some(request)
    }

    /// A request is at its die.
    pub(super) fn arrive(&mut self, slot: u32) {
        let request = self.requests.get(slot);
        let (unit, is_read) = (request.chunk.unit.0, request.kind == Kind::Read);
        let goes_first = is_read && self.form.reads_first();
        let die = &mut self.dies[usize::from(unit)];
        let queue = if goes_first { &mut die.reads } else { &mut die.others };
        queue.push(&mut self.requests, slot);
        match die.state {
            State::Idle => self.start(unit),
            State::Changing if goes_first => self.suspend(unit),
            _ => {}
        }
    }

    /// Stops a program or an erase if that is worth it and allowed.
    fn suspend(&mut self, unit: u16) {
        let ReadPriority::Suspend(stop_ns) = self.form else { return };
        let now = self.now;
        let die = &mut self.dies[usize::from(unit)];
        let is_late = now - self.requests.get(die.current).submitted > WRITE_DEADLINE_NS;
        if is_late || die.suspends >= SUSPENDS_MOST || die.end - now <= stop_ns {
            return;
        }
        die.left_ns = die.end - now;
        die.suspends += 1;
        die.state = State::Stopping;
        die.timer = self.events.push(DelayQueue::Other, now + stop_ns, ARRAY | u32::from(unit));
    }

    /// Gives an idle die its next work, if it has any: reads first, where they go first, then what was
    /// suspended, then the rest. A write that waits too long goes before reads.
    pub(super) fn start(&mut self, unit: u16) {
        if !self.planes.is_empty() {
            return self.start_planes(unit);
        }
        let now = self.now;
        let die = &mut self.dies[usize::from(unit)];
        debug_assert_eq!(die.state, State::Idle);
        let is_late = |slot| {
            let request: &Request = self.requests.get(slot);
            request.kind != Kind::Read && now - request.submitted > WRITE_DEADLINE_NS
        };
        let read = match die.suspended.or(die.others.first()) {
            Some(waiting) if is_late(waiting) => None,
            _ => die.reads.pop(&self.requests),
        };
        if read.is_none() && die.suspended.is_some() {
            self.resume(unit);
            return;
        }
        let Some(slot) = read.or_else(|| die.others.pop(&self.requests)) else { return };
        die.current = slot;
        let request = self.requests.get(slot);
        match request.kind {
            Kind::Read => {
                (die.state, die.read_since) = (State::Sensing, now);
                let is_upper = request.array_ns != self.times.read_ns[0];
                let lane = if is_upper { DelayQueue::SenseUpper } else { DelayQueue::Sense };
                let at = now + request.array_ns;
                die.timer = self.events.push(lane, at, ARRAY | u32::from(unit));
            }
            Kind::Write => {
                die.state = State::OnBus;
                self.want_bus(unit, unit, false);
            }
            Kind::Reset | Kind::Alarm => self.change(unit),
        }
    }

    /// Goes on with what was suspended.
    pub(super) fn resume(&mut self, unit: u16) {
        let ReadPriority::Suspend(resume_ns) = self.form else { unreachable!("nothing gives way") };
        let die = &mut self.dies[usize::from(unit)];
        die.current = die.suspended.take().expect("something is suspended");
        die.state = State::Changing;
        die.end = self.now + resume_ns + die.left_ns;
        die.timer = self.events.push(DelayQueue::Other, die.end, ARRAY | u32::from(unit));
    }

    /// Starts the array on the die's current program or erase.
    pub(super) fn change(&mut self, unit: u16) {
        let die = &mut self.dies[usize::from(unit)];
        let array_ns = self.requests.get(die.current).array_ns;
        (die.state, die.suspends) = (State::Changing, 0);
        die.end = self.now + array_ns;
        die.write_ns += array_ns;
        die.timer = self.events.push(DelayQueue::Program, die.end, ARRAY | u32::from(unit));
        if die.reads.first().is_some() {
            self.suspend(unit);
        }
    }

    /// The array of a die has done what it was doing. Returns a request that this completes.
    pub(super) fn array_done(&mut self, unit: u16) -> Option<Request> {
        let reads_first = self.form.reads_first();
        let die = &mut self.dies[usize::from(unit)];
        match die.state {
            State::Sensing => {
                die.state = State::OnBus;
                self.want_bus(unit, unit, reads_first);
                None
            }
            State::Stopping => {
                (die.state, die.suspended) = (State::Idle, Some(die.current));
                self.start(unit);
                None
            }
            State::Changing => {
                die.state = State::Idle;
                let request = self.requests.remove(die.current);
                self.start(unit);
                self.changed(request)
            }
            State::Idle | State::OnBus => unreachable!("the array of {unit} was not busy"),
        }
    }

    /// A program or an erase is done.
    fn changed(&mut self, request: Request) -> Option<Request> {
        if request.kind == Kind::Reset {
            self.media.erased(request.chunk);
            return Some(request);
        }
        self.media.programmed(request.chunk);
        self.buffer_used -= u64::from(request.bytes);
        self.fill_buffer();
        (self.times.buffer_bytes == 0).then_some(request)
    }

    /// Something of a die, by its number on the channel, has a piece to move.
    pub(super) fn want_bus(&mut self, unit: u16, number: u16, goes_first: bool) {
        let group = usize::from(unit / self.times.units_per_group);
        self.buses[group].wait(number, goes_first);
        if self.buses[group].current.is_none() {
            self.move_next(group);
        }
    }

    /// Starts to move the next piece on a channel.
    fn move_next(&mut self, group: usize) {
        let Some(number) = self.buses[group].next() else { return };
        let request = self.requests.get(self.on_bus(number));
        let is_read = request.kind == Kind::Read;
        let took = self.times.piece_ns(request.left);
        if !is_read {
            self.dies[usize::from(number)].write_ns += took;
        }
        self.buses[group].busy_ns += took;
        let lane = if is_read { DelayQueue::BusOut } else { DelayQueue::BusIn };
        self.events.push(lane, self.now + took, MOVED | group as u32);
    }

    /// A channel has moved a piece.
    pub(super) fn moved(&mut self, group: usize) {
        let number = self.buses[group].current.take().expect("it moved something");
        let slot = self.on_bus(number);
        let request = self.requests.get_mut(slot);
        request.left -= request.left.min(self.times.piece_bytes);
        match (request.left, request.kind == Kind::Read) {
            (0, true) => {
                let unit = self.read_out(number);
                self.send(slot, self.now);
                self.start(unit);
            }
            (0, false) => self.change(number),
            (_, is_read) => self.buses[group].wait(number, is_read && self.form.reads_first()),
        }
        if self.buses[group].current.is_none() {
            self.move_next(group);
        }
    }

    /// What a number on a channel moves: its die's, or, behind the dies' numbers, its plane's.
    #[inline]
    fn on_bus(&self, number: u16) -> u32 {
        match self.dies.get(usize::from(number)) {
            Some(die) => die.current,
            None => self.plane_on_bus(number),
        }
    }

    /// All of a read is out of its register. Says on which die.
    #[inline]
    fn read_out(&mut self, number: u16) -> u16 {
        let Some(die) = self.dies.get_mut(usize::from(number)) else {
            return self.plane_read_out(number);
        };
        die.state = State::Idle;
        die.read_ns += self.now - die.read_since;
        number
    }

    /// Sends what was read to the host, when it is `ready` and those before it are sent.
    pub(super) fn send(&mut self, slot: u32, ready: u64) {
        let took = self.times.to_host_ns(self.requests.get(slot).bytes);
        self.to_host_free = self.to_host_free.max(ready) + took;
        self.events.push(DelayQueue::ToHost, self.to_host_free, FINISHED | slot);
    }
}
