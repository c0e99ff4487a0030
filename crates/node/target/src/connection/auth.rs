//! Proofs of who the host is, on a queue.
//!
//! What takes milliseconds is computed by another thread (`dh_worker`). Until it is computed, the command that brought
//! the message is not completed, and the host has nothing to fetch.
//!
//! Until a proof ends well, the queue takes nothing but its messages. When it ends badly the host is notified by
//! Failure1, and may not begin again on this connection.

use super::authenticator::{AuthResult, Authenticator};
use super::commands::{Command, State};
use super::{Connection, Phase};
use crate::dh_step::DhResult;
use crate::limits::CONNECT_TIME;
use esker_nvme::{Cqe, Status};
use esker_uring::Buffer;

impl Connection {
    /// A message of a proof came. Says where the command waits, if something is to be computed.
    pub(super) fn auth_send(&mut self, id: u16, data: &[u8]) -> Result<Option<u16>, Status> {
        let entropy = self.shared.entropy.clone();
        match self.authenticator_of_queue()?.take(data, entropy.as_ref()) {
            AuthResult::Computes(step) => {
                let proofs = self.shared.proofs.as_ref().ok_or(Status::INTERNAL_ERROR)?;
                let slot = self.commands.add(id, State::Computes);
                let lives = std::sync::Arc::downgrade(&self.lives);
                proofs.submit(step, self.mailbox.clone(), self.id, slot, lives);
                Ok(Some(slot))
            }
            verdict => {
                self.complete(Cqe::new(id, Status::SUCCESS));
                self.apply(&verdict);
                Ok(None)
            }
        }
    }

    /// What the command in `slot` waits for is computed.
    pub(crate) fn computed(&mut self, slot: u16, computed: DhResult) {
        let Some(Command { id, reserved, .. }) = self.commands.free(slot) else { return };
        self.commands.release(reserved);
        if !self.takes_frames() {
            return;
        }
        if let Ok(authenticator) = self.authenticator_of_queue() {
            authenticator.computed(computed);
        }
        self.complete(Cqe::new(id, Status::SUCCESS));
        self.go_on();
    }

    pub(super) fn auth_receive(&mut self, id: u16, bytes: u32) -> Result<(), Status> {
        let fetched = self.authenticator_of_queue()?.fetch();
        let (message, verdict) = fetched.ok_or(Status::SEQUENCE_ERROR)?;
        self.send_data(id, Buffer::from_slice(&message).whole(), bytes, 0);
        self.complete(Cqe::new(id, Status::SUCCESS));
        self.apply(&verdict);
        Ok(())
    }

    fn authenticator_of_queue(&mut self) -> Result<&mut Authenticator, Status> {
        let queue = self.queue.as_mut().ok_or(Status::SEQUENCE_ERROR)?;
        queue.auth.as_mut().ok_or(Status::SEQUENCE_ERROR)
    }

    fn apply(&mut self, verdict: &AuthResult) {
        match verdict {
            AuthResult::Pending | AuthResult::Computes(_) => {}
            AuthResult::Proved => {
                if let Some(queue) = &mut self.queue {
                    queue.auth = None;
                    queue.controller.queue_is_proved(self.id);
                }
                self.host_lives();
            }
            AuthResult::Refused => {
                self.phase = Phase::Ending;
                self.deadline = Some(self.shared.clock.now() + CONNECT_TIME);
            }
        }
    }
}
