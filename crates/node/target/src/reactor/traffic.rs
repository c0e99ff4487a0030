//! Bytes that come and go: between sockets and connections, by TLS or not.

use super::{ConnectionSlot, KIND_BITS, TargetReactor};
use crate::limits::{HANDSHAKES, TURN_BYTES};
use crate::reactor_message::{ConnectionId, RECEIVE, SEND};
use crate::secure::{Secure, Wire};
use crate::stats::add;
use esker_tls::HANDSHAKE;
use esker_uring::{Buffer, Completion, Descriptor, Operation, Slice, SubmitError};
use rustix::net::{SendAncillaryBuffer, SendFlags};
use std::io::IoSlice;

impl TargetReactor {
    /// Bytes came or went.
    pub(super) fn moved(&mut self, completion: Completion) {
        let id = completion.token >> KIND_BITS;
        let Some(served) = self.connections.get_mut(&id) else { return };
        let ConnectionSlot { connection, wire, .. } = served;
        match (completion.result, completion.operation, wire) {
            (Ok(bytes), Operation::Receive { into, .. }, Wire::Secure(secure)) => {
                secure.received(&into[..bytes], connection);
            }
            (Ok(_), Operation::Send { .. }, Wire::Secure(secure)) => secure.sent(connection),
            (Ok(bytes), Operation::Receive { into, .. }, Wire::Undecided)
                if into[..bytes].first() == Some(&HANDSHAKE) =>
            {
                self.secure(id, into, bytes);
            }
            (Ok(bytes), Operation::Receive { into, .. }, wire) => {
                *wire = Wire::Clear;
                connection.received(into, bytes);
            }
            (Ok(bytes), Operation::Send { .. }, _) => connection.rest_sent(bytes),
            _ => connection.close(),
        }
        self.touch(id);
    }

    /// A host begins with TLS: its first bytes are in `room`.
    fn secure(&mut self, id: ConnectionId, room: Slice, bytes: usize) {
        let is_full = !self.has_place_for_handshake();
        let Some(served) = self.connections.get_mut(&id) else { return };
        let keys = self.shared.host_keys.clone().filter(|_| !is_full);
        match keys.and_then(|keys| Secure::begin(keys, room, bytes).ok()) {
            Some(secure) => served.wire = Wire::Secure(Box::new(secure)),
            None => {
                add(&self.counters.tls_refused, 1);
                served.connection.close();
            }
        }
    }

    /// Whether one more handshake may begin. Where there are too many, hosts that have proved no key make space.
    fn has_place_for_handshake(&mut self) -> bool {
        let handshakes = || self.connections.iter().filter(|(_, it)| it.wire.is_handshake());
        if handshakes().count() < HANDSHAKES {
            return true;
        }
        let unproved = handshakes().filter(|(_, served)| served.wire.is_unproved());
        let Some(oldest) = unproved.map(|(id, _)| *id).min() else { return false };
        add(&self.counters.tls_refused, 1);
        self.forget(oldest);
        true
    }

    /// Submits what the connection wants, or drops it.
    pub(super) fn go_on(&mut self, id: ConnectionId) {
        let Some(served) = self.connections.get_mut(&id) else { return };
        served.is_touched = false;
        add(&self.counters.visits, 1);
        let is_over = |shell: &Self| shell.connections[&id].connection.is_over();
        loop {
            if is_over(self) || self.send(id).is_err() {
                return self.forget(id);
            }
            // What was sent made room for more.
            self.hand_on_requests(id);
            match self.receive(id) {
                Ok(has_more) if !is_over(self) => {
                    if !has_more {
                        return;
                    }
                }
                _ => return self.forget(id),
            }
        }
    }

    /// Sends what there is: as much as the socket takes at once, and the rest through the ring. So is what comes
    /// of a peer that reads as quickly as it asks, after a while: other connections have their turn first.
    fn send(&mut self, id: ConnectionId) -> Result<(), SubmitError> {
        let Some(served) = self.connections.get_mut(&id) else { return Ok(()) };
        if let Wire::Secure(_) = served.wire {
            return self.send_sealed(id);
        }
        let mut sent_in_turn = 0;
        loop {
            let parts = served.connection.unsent();
            let bytes: usize = parts.iter().map(|part| part.len()).sum();
            if bytes == 0 {
                break;
            }
            let mut sent = 0;
            if sent_in_turn < TURN_BYTES {
                sent = send_now(&served.socket, &parts);
                served.connection.sent(sent);
                sent_in_turn += sent;
            }
            if sent < bytes {
                let from = served.connection.take_unsent();
                let send = Operation::Send { socket: served.socket.clone(), from };
                self.io.submit(id << KIND_BITS | SEND, send)?;
            }
        }
        if served.connection.is_drained() && !served.shut {
            served.shut = true;
            let _ = rustix::net::shutdown(&served.socket, rustix::net::Shutdown::Write);
        }
        Ok(())
    }

    /// The same by TLS: all that there is is encrypted, and then sent.
    fn send_sealed(&mut self, id: ConnectionId) -> Result<(), SubmitError> {
        let Some(served) = self.connections.get_mut(&id) else { return Ok(()) };
        let ConnectionSlot { connection, socket, wire: Wire::Secure(secure), shut, .. } = served
        else {
            return Ok(());
        };
        let mut sent_in_turn = 0;
        while let Some(sealed) = secure.seal(connection) {
            let mut sent = 0;
            if sent_in_turn < TURN_BYTES {
                sent = send_now(socket, &[IoSlice::new(&sealed)]);
                sent_in_turn += sent;
            }
            if sent == sealed.len() {
                secure.sent(connection);
            } else {
                let from = vec![Buffer::from_slice(&sealed[sent..]).whole()];
                let send = Operation::Send { socket: socket.clone(), from };
                self.io.submit(id << KIND_BITS | SEND, send)?;
            }
        }
        if connection.is_drained() && secure.is_drained() && !*shut {
            *shut = true;
            send_now(socket, &[IoSlice::new(&secure.close())]);
            let _ = rustix::net::shutdown(&*socket, rustix::net::Shutdown::Write);
        }
        Ok(())
    }

    /// Receives what the connection wants. Says whether it may have more to send at once, by TLS.
    fn receive(&mut self, id: ConnectionId) -> Result<bool, SubmitError> {
        let Some(served) = self.connections.get_mut(&id) else { return Ok(false) };
        let mut came = false;
        let receive = match &mut served.wire {
            Wire::Secure(secure) => {
                match secure.deliver(&mut served.connection) {
                    Ok(any) => came = any,
                    Err(_) => {
                        if !secure.is_established() {
                            add(&self.counters.tls_refused, 1);
                        }
                        // An alert says why.
                        send_now(&served.socket, &[IoSlice::new(&secure.close())]);
                        served.connection.close();
                    }
                }
                secure.room().map(|into| (into, false))
            }
            Wire::Undecided | Wire::Clear => served.connection.receive(),
        };
        served.connection.count_memory();
        if let Some((into, all)) = receive {
            let receive = Operation::Receive { socket: served.socket.clone(), into, all };
            self.io.submit(id << KIND_BITS | RECEIVE, receive)?;
        }
        Ok(came)
    }
}

/// Sends what the socket takes without waiting, and says how much that was. An error is left for the ring to meet.
fn send_now(socket: &Descriptor, parts: &[IoSlice<'_>]) -> usize {
    let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
    let sent = match parts {
        [only] => rustix::net::send(socket, only, flags),
        several => {
            rustix::net::sendmsg(socket, several, &mut SendAncillaryBuffer::default(), flags)
        }
    };
    sent.unwrap_or(0)
}
