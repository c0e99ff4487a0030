//! Requests to namespaces and their answers, and the commands that wait for memory in between.

use super::commands::{Command, Reading, State};
use super::{Connection, Phase};
use crate::{Answer, Reply, Request};
use esker_nvme::{Cqe, Status};

impl Connection {
    /// Submits a request that is answered without data. Says where it waits for the answer.
    pub(super) fn submit_new(&mut self, id: u16, namespace: u32, request: Request) -> u16 {
        let slot = self.commands.add(id, State::Submitted { answer: None });
        self.submit(slot, namespace, request);
        slot
    }

    /// Submits a request whose answer takes memory.
    pub(super) fn submit_read(
        &mut self,
        id: u16,
        namespace: u32,
        request: Request,
        answer: Reading,
    ) -> Result<(), Status> {
        let slot = self.commands.add(id, State::AwaitsSubmission { namespace, request, answer });
        if self.commands.reserve(slot, answer.bytes_max as usize) {
            self.submit_waiting(slot);
        }
        Ok(())
    }

    pub(super) fn submit_waiting(&mut self, slot: u16) {
        let Some(command) = self.commands.get(slot) else { return };
        let submitted = State::Submitted { answer: None };
        match std::mem::replace(&mut command.state, submitted) {
            State::AwaitsSubmission { namespace, request, answer } => {
                command.state = State::Submitted { answer: Some(answer) };
                self.submit(slot, namespace, request);
            }
            State::AwaitsComparison { namespace, key, store, .. } => {
                command.state = State::Compares { namespace, store };
                self.submit(slot, namespace, Request::Retrieve { key });
            }
            other => command.state = other,
        }
    }

    pub(super) fn submit(&mut self, slot: u16, namespace: u32, request: Request) {
        let namespace = match self.namespace(namespace) {
            Ok(namespace) => namespace,
            Err(status) => return self.answers.push_back((slot, Answer::Failed(status))),
        };
        if let Some(resident) = self.shared.resident(namespace) {
            return self.requests.push((resident, request, self.reply(slot)));
        }
        match namespace.answer_at_once(request) {
            Ok(answer) => self.answers.push_back((slot, answer)),
            Err(request) => namespace.submit(request, self.reply(slot)),
        }
    }

    /// Lets commands go on that waited for memory, and completes those that were answered at once.
    pub(super) fn go_on(&mut self) {
        self.submit_ready();
        self.take_answers();
    }

    /// Completes the commands that are answered, and all that this lets go on.
    pub(super) fn take_answers(&mut self) {
        while let Some((slot, answer)) = self.answers.pop_front() {
            if self.phase == Phase::Ending || self.phase == Phase::Over {
                self.commands.free(slot);
                continue;
            }
            self.finish(slot, answer);
            self.submit_ready();
        }
    }

    fn submit_ready(&mut self) {
        while matches!(self.phase, Phase::Open | Phase::Draining) {
            let Some(slot) = self.commands.next_ready() else { break };
            self.has_memory(slot);
        }
    }

    fn has_memory(&mut self, slot: u16) {
        match self.commands.get(slot).map(|command| &command.state) {
            Some(State::AwaitsTransfer { .. }) => self.ask_for_data(slot),
            _ => self.submit_waiting(slot),
        }
    }

    /// It is this connection's turn to take of the reactor's memory for transfers. Says whether it
    /// has had it: otherwise there is no space for its command yet.
    pub(crate) fn take_transfer_turn(&mut self) -> bool {
        if !matches!(self.phase, Phase::Open | Phase::Draining) {
            return true;
        }
        match self.commands.take_turn() {
            Ok(Some(slot)) => {
                self.has_memory(slot);
                self.go_on();
                true
            }
            Ok(None) => {
                self.go_on();
                true
            }
            Err(()) => false,
        }
    }

    /// Ends a command that nothing was done of yet, and says whether that is done. One whose data was asked for ends, undone, when
    /// that is here: the host may be sending it, and nothing stops it. What a namespace has begun, it finishes.
    pub(crate) fn abort(&mut self, command_id: u16) -> bool {
        let Some(slot) = self.commands.slot_of(command_id).filter(|_| self.takes_frames()) else {
            return false;
        };
        if self.commands.withdraw(slot) || self.withdraw_from_namespace(slot) {
            self.fail(command_id, Status::ABORT_REQUESTED);
            // It may have been what others waited for.
            self.go_on();
            return true;
        }
        if let Some(Command { state: State::Transfers { is_aborted, .. }, .. }) =
            self.commands.get(slot)
        {
            *is_aborted = true;
        }
        false
    }

    /// Drops the command in `slot` if its namespace does so. Says whether it did.
    fn withdraw_from_namespace(&mut self, slot: u16) -> bool {
        let state = self.commands.get(slot).map(|command| &command.state);
        if !matches!(state, Some(State::Submitted { .. } | State::Compares { .. })) {
            return false;
        }
        let index = self.queue.as_ref().and_then(|queue| queue.controller.subsystem);
        let subsystem = index.and_then(|index| self.shared.settings.subsystems.get(index));
        let is_it = |reply: &Reply| reply.is_of(self.id, slot);
        // Which namespace has it is not kept, because hosts rarely ask.
        let reply = subsystem.and_then(|subsystem| {
            subsystem.namespaces.iter().find_map(|namespace| namespace.withdraw(&is_it))
        });
        let Some(reply) = reply else { return false };
        reply.forget();
        if let Some(Command { reserved, .. }) = self.commands.free(slot) {
            self.commands.release(reserved);
        }
        true
    }

    /// Completes the command in `slot` with its namespace's answer.
    pub(super) fn finish(&mut self, slot: u16, answer: Answer) {
        let Some(command) = self.commands.free(slot) else { return };
        let Command { id, reserved, received, state } = command;
        let reading = match state {
            State::Submitted { answer } => answer,
            State::Compares { namespace, store } => {
                return self.compared((id, reserved, received), namespace, store, answer);
            }
            _ => return,
        };
        match (answer, reading) {
            (Answer::Data(data), Some(reading)) => {
                let length = data.len() as u32;
                self.send_data(id, data, reading.bytes_max, reserved);
                let word = if reading.says_length { length } else { 0 };
                self.complete(Cqe::new(id, Status::SUCCESS).with_word(word));
            }
            (answer, _) => {
                self.commands.release(reserved);
                let status = match answer {
                    Answer::Done => Status::SUCCESS,
                    Answer::Failed(status) => status,
                    Answer::Data(_) => Status::INTERNAL_ERROR,
                };
                self.complete(Cqe::new(id, status));
            }
        }
    }
}
