//! Admin commands: all are answered at once, but for requests to be notified of events, which are held, and Aborts of commands of other queues,
//! which the reactors of those answer.
//!
//! **Events.** A host is notified that a namespace of its subsystem failed, once for all failures since it last was, by the event that the
//! health log has a critical warning. As the specification has it, no more is reported until it has read that log.

use super::Connection;
use super::commands::{Command, State};
use crate::identify;
use crate::reactor_message::{AbortedBy, Message};
use esker_nvme::command::admin::AdminCommand;
use esker_nvme::event::Event;
use esker_nvme::limits::EVENT_REQUESTS;
use esker_nvme::log_page::page;
use esker_nvme::{Cqe, Sqe, Status};
use esker_uring::Buffer;

impl Connection {
    pub(super) fn admin(&mut self, sqe: &Sqe) -> Result<(), Status> {
        let id = sqe.command_id();
        self.host_lives();
        let word = match AdminCommand::parse(sqe)? {
            AdminCommand::Identify(request) => {
                let queue = self.queue.as_ref().ok_or(Status::SEQUENCE_ERROR)?;
                let structure = identify::identify(&self.shared, &queue.controller, &request)?;
                self.answer_with(id, sqe, &structure[..])?;
                0
            }
            AdminCommand::GetLogPage(request) => {
                let queue = self.queue.as_ref().ok_or(Status::SEQUENCE_ERROR)?;
                let whole =
                    identify::log_page(&self.shared, &queue.controller, &request, self.local)?;
                let part = part_of(whole, request.offset, request.bytes)?;
                self.answer_with(id, sqe, &part)?;
                if request.page == page::HEALTH && !request.retain_event {
                    self.health_is_read();
                }
                0
            }
            AdminCommand::GetFeatures { feature, select, value } => {
                self.feature(feature, select, value)?
            }
            AdminCommand::SetFeatures { feature, save, value } => {
                self.set_feature(feature, save, value)?
            }
            AdminCommand::Abort { queue, command_id } => {
                match self.abort_for_host(id, queue, command_id) {
                    Some(is_aborted) => NOT_ABORTED_AT_ONCE * u32::from(!is_aborted),
                    None => return Ok(()),
                }
            }
            AdminCommand::AsyncEventRequest => return self.hold_event_request(id),
            AdminCommand::KeepAlive => 0,
        };
        self.complete(Cqe::new(id, Status::SUCCESS).with_word(word));
        Ok(())
    }

    /// The keep-alive time starts again. Before a host has proved who it is, it has only the time to connect.
    pub(super) fn host_lives(&mut self) {
        let Some(queue) = self.queue.as_ref().filter(|queue| queue.auth.is_none()) else { return };
        let time = Some(queue.controller.keep_alive()).filter(|_| queue.is_admin());
        let time = time.filter(|time| !time.is_zero());
        self.deadline = time.map(|time| self.shared.clock.now() + time);
    }

    /// Sends as much of `data` as the host takes.
    fn answer_with(&mut self, id: u16, sqe: &Sqe, data: &[u8]) -> Result<(), Status> {
        let bytes = sqe.sgl()?.bytes();
        self.send_data(id, Buffer::from_slice(data).whole(), bytes, 0);
        Ok(())
    }

    /// Ends a command of a queue of this controller, if that can be done at once, and says whether it was; or has the queue's reactor say that
    /// to this Abort.
    fn abort_for_host(&mut self, id: u16, queue: u16, command_id: u16) -> Option<bool> {
        let own = self.queue.as_ref()?;
        if own.id == queue {
            return Some(self.abort_event_request(command_id));
        }
        let Some((connection, mailbox)) = own.controller.io_queue(queue) else {
            return Some(false);
        };
        let slot = self.commands.add(id, State::Aborts);
        let by = AbortedBy { to: self.mailbox.clone(), connection: self.id, slot };
        match mailbox.send(Message::Abort { connection, command_id, by }) {
            Ok(()) => None,
            // The reactor is gone, and the queue with it.
            Err(_) => {
                self.commands.free(slot);
                Some(false)
            }
        }
    }

    /// The command of an Abort was ended at once, or was not.
    pub(crate) fn abort_is_done(&mut self, slot: u16, is_aborted: bool) {
        let Some(Command { id, .. }) = self.commands.free(slot) else { return };
        if self.takes_frames() {
            let word = NOT_ABORTED_AT_ONCE * u32::from(!is_aborted);
            self.complete(Cqe::new(id, Status::SUCCESS).with_word(word));
        }
    }

    /// Commands of the admin queue are answered at once, but for these.
    fn abort_event_request(&mut self, command_id: u16) -> bool {
        let is_it = |&slot: &u16| self.commands.id_of(slot) == Some(command_id);
        let Some(slot) = self.commands.events().find(is_it) else { return false };
        self.commands.free(slot);
        self.fail(command_id, Status::ABORT_REQUESTED);
        true
    }

    /// Notifies the host of failures that it does not know of, if it is to be notified now. Says whether it did.
    pub(super) fn tell_of_failures(&mut self) -> bool {
        let Some(queue) = self.queue.as_mut().filter(|queue| queue.reports_health_events()) else {
            return false;
        };
        let Some(subsystem) = queue.controller.subsystem else { return false };
        let failures = self.shared.settings.subsystems[subsystem].failures();
        let Some(slot) = self.commands.events().next().filter(|_| failures > queue.failures_told)
        else {
            return false;
        };
        queue.failures_told = failures;
        queue.is_health_unread = true;
        let Some(Command { id, .. }) = self.commands.free(slot) else { return false };
        let word = Event::ReliabilityDegraded.dw0();
        self.complete(Cqe::new(id, Status::SUCCESS).with_word(word));
        true
    }

    fn health_is_read(&mut self) {
        if let Some(queue) = &mut self.queue {
            queue.is_health_unread = false;
        }
    }

    /// Drops a held event request whose id comes again: its host has forgotten it. SPDK does so
    /// when it shuts a controller down, and sets CC.SHN under that id. The Linux target carries the
    /// new command out, and so does this one.
    pub(super) fn forget_event_request(&mut self, command_id: u16) {
        let is_it = |&slot: &u16| self.commands.id_of(slot) == Some(command_id);
        let slot = self.commands.events().find(is_it);
        slot.map(|slot| self.commands.free(slot));
    }

    fn hold_event_request(&mut self, id: u16) -> Result<(), Status> {
        if self.commands.events().count() >= usize::from(EVENT_REQUESTS) {
            return Err(Status::EVENT_LIMIT_EXCEEDED);
        }
        self.commands.add(id, State::Event);
        Ok(())
    }
}

/// DW0 of Abort's completion: the command ends by itself, or is not there.
const NOT_ABORTED_AT_ONCE: u32 = 1;

/// The part of a log page that was asked for; what is beyond its end reads as zeros.
fn part_of(page: Vec<u8>, offset: u64, bytes: u64) -> Result<Vec<u8>, Status> {
    let start = usize::try_from(offset).ok().filter(|&start| start <= page.len());
    let start = start.ok_or(Status::INVALID_FIELD)?;
    let limit = u64::from(esker_nvme::limits::TRANSFER_BYTES);
    if bytes > limit {
        return Err(Status::INVALID_FIELD);
    }
    let mut part = page[start..].to_vec();
    part.resize(bytes as usize, 0);
    Ok(part)
}
