//! Fabrics commands: a connection becomes a queue, a controller is configured, a host proves who it is.

use super::Connection;
use super::authenticator::Authenticator;
use super::capsule::CommandCapsule;
use super::commands::{Command, CommandKind, State};
use super::feature_values::Features;
use super::queue::Queue;
use crate::controller::{Controller, IoQueue};
use esker_nvme::command::fabrics::{
    ANY_CONTROLLER, AUTH_REQUIRED, Connect, ConnectData, ConnectError, FabricsCommand,
    connect_field,
};
use esker_nvme::limits::QUEUE_ENTRIES;
use esker_nvme::property::{self, Configuration};
use esker_nvme::{Cqe, Sqe, Status};
use std::sync::Arc;

/// Half seconds that a controller takes to become ready, at most: it takes none, but 0 is no valid time.
const READY_TIMEOUT: u8 = 0x14;

/// Entries of the longest admin queue. Hosts use 32.
const ADMIN_ENTRIES: u16 = 128;

impl Connection {
    pub(super) fn fabrics(&mut self, sqe: &Sqe, capsule: CommandCapsule<'_>) -> Result<(), Status> {
        let id = sqe.command_id();
        let command = FabricsCommand::parse(sqe)?;
        match (&command, &self.queue) {
            (FabricsCommand::Connect(connect), None) => {
                return self.take_data(id, sqe.sgl()?, capsule, CommandKind::Connect(*connect));
            }
            (FabricsCommand::Connect(_), Some(_)) | (_, None) => {
                return Err(Status::SEQUENCE_ERROR);
            }
            (FabricsCommand::AuthSend { bytes }, Some(_)) => {
                let sgl = sqe.sgl()?;
                if sgl.bytes() != *bytes {
                    return Err(Status::DATA_SGL_LENGTH_INVALID);
                }
                return self.take_data(id, sgl, capsule, CommandKind::Auth);
            }
            (FabricsCommand::AuthReceive { bytes }, Some(_)) => {
                let bytes = (*bytes).min(sqe.sgl()?.bytes());
                return self.auth_receive(id, bytes);
            }
            (_, Some(queue)) if queue.auth.is_some() => return Err(Status::AUTH_REQUIRED),
            _ => {}
        }
        let value = self.property(&command)?;
        self.complete(Cqe::new(id, Status::SUCCESS).with_double_word(value));
        Ok(())
    }

    fn property(&mut self, command: &FabricsCommand) -> Result<u64, Status> {
        let queue = self.queue.as_ref().ok_or(Status::SEQUENCE_ERROR)?;
        match *command {
            // An I/O queue that is disconnected takes nothing more; the host closes it.
            FabricsCommand::Disconnect if !queue.is_admin() => Ok(0),
            _ if !queue.is_admin() => Err(Status::INVALID_FIELD),
            FabricsCommand::PropertyGet { offset, wide } => {
                let controller = &queue.controller;
                match (offset, wide) {
                    (property::CAPABILITIES, true) => {
                        Ok(property::capabilities(QUEUE_ENTRIES, READY_TIMEOUT))
                    }
                    (property::VERSION, false) => Ok(property::VERSION_2_0.into()),
                    (property::CONFIGURATION, false) => Ok(controller.configuration().0.into()),
                    (property::STATUS, false) => Ok(controller.status().into()),
                    _ => Err(Status::INVALID_FIELD),
                }
            }
            FabricsCommand::PropertySet { offset: property::CONFIGURATION, value } => {
                queue.controller.configure(Configuration(value as u32));
                self.host_lives();
                Ok(0)
            }
            _ => Err(Status::INVALID_FIELD),
        }
    }

    /// Whether the host that Connect's data names has changes that are not done, of connections that are gone.
    pub(super) fn has_lost_changes(&self, data: &[u8]) -> bool {
        let data = ConnectData::parse(data);
        data.is_ok_and(|data| self.shared.lost_changes.has_any(&(data.host, data.host_id)))
    }

    /// A Connect that waited for such changes goes on, if they are done by now. Says whether it did.
    pub(super) fn connect_again(&mut self) -> bool {
        // Until it is connected, a connection has one command at a time.
        let Some(Command { state: State::AwaitsLostChanges { connect, data }, .. }) =
            self.commands.get(0)
        else {
            return false;
        };
        let (connect, data) = (*connect, data.to_vec());
        if self.has_lost_changes(&data) {
            return false;
        }
        let Some(Command { id, reserved, .. }) = self.commands.free(0) else { return false };
        self.commands.release(reserved);
        self.connect(id, &connect, &data);
        true
    }

    /// Connect, with its data: answers in any case.
    pub(super) fn connect(&mut self, id: u16, connect: &Connect, data: &[u8]) {
        let cqe = match self.connected(connect, data) {
            Ok(queue) => {
                let auth = if queue.auth.is_some() { AUTH_REQUIRED } else { 0 };
                let word = u32::from(queue.controller.id) | auth;
                self.queue = Some(queue);
                self.host_lives();
                Cqe::new(id, Status::SUCCESS).with_word(word)
            }
            Err(error) => Cqe::new(id, error.status).with_word(error.word),
        };
        self.complete(cqe);
    }

    fn connected(&self, connect: &Connect, data: &[u8]) -> Result<Queue, ConnectError> {
        let data = ConnectData::parse(data)?;
        let subsystem = match data.subsystem.is_discovery() {
            true => None,
            false => Some(
                self.shared
                    .subsystem(&data.subsystem)
                    .ok_or(ConnectError::data(connect_field::SUBSYSTEM))?,
            ),
        };
        let entries = connect.entries_less_one.checked_add(1).filter(|&entries| entries >= 2);
        let longest = if connect.queue == 0 { ADMIN_ENTRIES } else { QUEUE_ENTRIES };
        let entries = entries
            .filter(|&entries| entries <= longest)
            .ok_or(ConnectError::command(connect_field::ENTRIES))?;
        self.check_channel(subsystem, &data)?;
        let auth = self.authenticator(subsystem, &data);
        let controller = match connect.queue {
            0 => self.new_controller(subsystem, &data)?,
            _ => self.join_controller(connect, subsystem, &data, auth.is_none())?,
        };
        let has_secret = auth.is_some() || self.secured.is_some();
        if connect.queue == 0 {
            controller.set_keep_alive(connect.keep_alive_ms);
        }
        Ok(Queue {
            id: connect.queue,
            auth,
            has_secret,
            features: Features::by_default(&controller),
            controller,
            entries,
            head: (!connect.no_flow_control).then_some(1 % entries),
            failures_told: 0,
            is_health_unread: false,
        })
    }

    /// Whether the host comes as it must: by TLS if it has a key, and then by the names in its key.
    fn check_channel(
        &self,
        subsystem: Option<usize>,
        data: &ConnectData,
    ) -> Result<(), ConnectError> {
        let requires_tls = || {
            subsystem.is_some_and(|index| {
                self.shared.settings.subsystems[index].requires_tls(&data.host)
            })
        };
        match &self.secured {
            Some(peer) if peer.host != data.host => Err(ConnectError::data(connect_field::HOST)),
            Some(peer) if peer.subsystem != data.subsystem => {
                Err(ConnectError::data(connect_field::SUBSYSTEM))
            }
            None if requires_tls() => Err(ConnectError { status: Status::CONNECT_HOST, word: 0 }),
            Some(_) | None => Ok(()),
        }
    }

    fn new_controller(
        &self,
        subsystem: Option<usize>,
        data: &ConnectData,
    ) -> Result<Arc<Controller>, ConnectError> {
        let refused = ConnectError { status: Status::CONNECT_HOST, word: 0 };
        if data.controller != ANY_CONTROLLER {
            return Err(ConnectError::data(connect_field::CONTROLLER));
        }
        if let Some(index) = subsystem {
            self.shared.settings.subsystems[index].access_of(&data.host).ok_or(refused)?;
        }
        let make = |id| Controller::new(id, subsystem, data.host.clone(), data.host_id);
        let busy = ConnectError { status: Status::CONNECT_BUSY, word: 0 };
        self.shared.registry.add(subsystem.is_none(), make).ok_or(busy)
    }

    fn join_controller(
        &self,
        connect: &Connect,
        subsystem: Option<usize>,
        data: &ConnectData,
        is_proved: bool,
    ) -> Result<Arc<Controller>, ConnectError> {
        let unknown = ConnectError::data(connect_field::CONTROLLER);
        let controller = self.shared.registry.get(data.controller).ok_or(unknown)?;
        if controller.host != data.host || controller.host_id != data.host_id {
            return Err(ConnectError::data(connect_field::HOST));
        }
        if controller.subsystem != subsystem {
            return Err(ConnectError::data(connect_field::SUBSYSTEM));
        }
        let (id, connection, mailbox) = (connect.queue, self.id, self.mailbox.clone());
        let added = controller.add_queue(IoQueue { id, connection, mailbox, is_proved });
        added.map_err(|status| match status {
            Status::CONNECT_INVALID => ConnectError::command(connect_field::QUEUE),
            status => ConnectError { status, word: 0 },
        })?;
        Ok(controller)
    }

    /// What the host has to prove on this queue, if anything.
    fn authenticator(&self, subsystem: Option<usize>, data: &ConnectData) -> Option<Authenticator> {
        let subsystem = &self.shared.settings.subsystems[subsystem?];
        let access = subsystem.access_of(&data.host).flatten()?;
        let secret = access.secret.clone()?;
        Some(Authenticator::new(
            secret,
            access.controller_secret.clone(),
            data.host.clone(),
            subsystem.nqn.clone(),
        ))
    }
}
