//! What each side computes (Base 8.3.4.5.5): R = HMAC(Kt, Ca ‖ sequence ‖ transaction ‖ channel ‖ text ‖ own name ‖
//! 0 ‖ the other's name). Ca is the challenge, hashed with the session key if there is one.

use super::hash::{Digest, Hash};
use super::secret::Secret;
use crate::Nqn;

/// Whose response it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Role {
    /// The host answers the controller's challenge.
    Host,
    /// The controller answers the host's.
    Controller,
}

/// What a response is computed from, besides the secret and the challenge.
#[derive(Clone, Copy, Debug)]
pub struct Transaction<'a> {
    /// The hash that was agreed on.
    pub hash: Hash,
    /// T_ID: the transaction's number, chosen by the host.
    pub id: u16,
    /// SC_C of Negotiate.
    pub channel: u8,
    /// The host's name.
    pub host: &'a Nqn,
    /// The subsystem's name.
    pub subsystem: &'a Nqn,
    /// The Diffie-Hellman session key, if a group was agreed on.
    pub session: Option<&'a [u8]>,
}

impl Transaction<'_> {
    /// `role`'s response to `challenge` with sequence number `sequence`.
    pub fn response(&self, role: Role, secret: &Secret, challenge: &[u8], sequence: u32) -> Digest {
        let (own, other, text): (&Nqn, &Nqn, &[u8]) = match role {
            Role::Host => (self.host, self.subsystem, b"HostHost"),
            Role::Controller => (self.subsystem, self.host, b"Controller"),
        };
        let augmented = self.session.map(|session| self.augment(session, challenge));
        let challenge = augmented.as_ref().map_or(challenge, Digest::as_bytes);
        let parts: [&[u8]; 8] = [
            challenge,
            &sequence.to_le_bytes(),
            &self.id.to_le_bytes(),
            &[self.channel],
            text,
            own.as_str().as_bytes(),
            &[0],
            other.as_str().as_bytes(),
        ];
        self.hash.hmac(secret.transformed(own).as_bytes(), &parts)
    }

    fn augment(&self, session: &[u8], challenge: &[u8]) -> Digest {
        let key = self.hash.digest(session);
        self.hash.hmac(key.as_bytes(), &[challenge])
    }
}
