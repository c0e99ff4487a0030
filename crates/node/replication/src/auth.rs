//! DH-HMAC-CHAP between a follower and a primary, as between a host and a node.

use crate::error::{ReplicationError, Result};
use crate::message::Message;
use crate::wire::Wire;
use esker_base::Entropy;
use esker_initiator::chap;
use esker_nvme::Nqn;
use esker_nvme::auth::Secret;
use esker_nvme::auth::message::Message as Chap;
use esker_target::{AuthResult, Authenticator, HostAccess};
use std::time::Duration;

/// How long each message may take.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);

/// The number of the only exchange of a connection.
const TRANSACTION: u16 = 0;

fn failed(why: impl Into<String>) -> ReplicationError {
    ReplicationError::Authentication { why: why.into() }
}

/// Has the follower prove that it is `access.host`.
pub(crate) fn demand(
    wire: &mut Wire,
    access: &HostAccess,
    subsystem: &Nqn,
    entropy: &dyn Entropy,
) -> Result<()> {
    let Some(secret) = access.secret.clone() else { return Ok(()) };
    let (proof, host) = (access.controller_secret.clone(), access.host.clone());
    let mut state = Authenticator::new(secret, proof, host, subsystem.clone());
    let refused = || failed("the follower does not have the secret of its host");
    loop {
        let data = match wire.receive(PATIENCE)? {
            Message::Auth(data) => data,
            other => return Err(wire.unexpected(&other, "Auth")),
        };
        match state.take(&data, entropy) {
            AuthResult::Computes(step) => state.computed(step.compute()),
            AuthResult::Pending => {}
            AuthResult::Proved => return Ok(()),
            AuthResult::Refused => return Err(refused()),
        }
        let Some((message, verdict)) = state.fetch() else { continue };
        wire.send(&Message::Auth(message))?;
        match verdict {
            AuthResult::Proved => return Ok(()),
            AuthResult::Refused => return Err(refused()),
            AuthResult::Pending | AuthResult::Computes(_) => {}
        }
    }
}

/// Proves to the primary that this is `host`, and has it prove itself if `node` is its secret.
pub(crate) fn prove(
    wire: &mut Wire,
    host: &Nqn,
    secret: &Secret,
    node: Option<&Secret>,
    subsystem: &Nqn,
    entropy: &dyn Entropy,
) -> Result<()> {
    send(wire, Chap::Negotiate(chap::offer(TRANSACTION)))?;
    let challenge = match fetch(wire)? {
        Chap::Challenge(challenge) if challenge.transaction == TRANSACTION => challenge,
        _ => return Err(failed("the primary did not ask a challenge")),
    };
    let (reply, proof) = chap::answer(host, secret, node, subsystem, &challenge, entropy)
        .map_err(|error| failed(error.to_string()))?;
    send(wire, Chap::Reply(reply))?;
    let success = match fetch(wire)? {
        Chap::Success1(success) => success,
        _ => return Err(failed("the primary does not accept this host's secret")),
    };
    let Some(proof) = proof else { return Ok(()) };
    if !success.response.is_some_and(|response| proof.matches(&response)) {
        return Err(failed("the primary does not know the secret that it must know"));
    }
    send(wire, Chap::Success2(TRANSACTION))
}

fn send(wire: &mut Wire, message: Chap) -> Result<()> {
    wire.send(&Message::Auth(message.encode()))
}

fn fetch(wire: &mut Wire) -> Result<Chap> {
    match wire.receive(PATIENCE)? {
        Message::Auth(data) => {
            Chap::parse(&data).map_err(|_| failed("the primary sent a message that can't be read"))
        }
        other => Err(wire.unexpected(&other, "Auth")),
    }
}
