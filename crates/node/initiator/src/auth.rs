//! DH-HMAC-CHAP, the host's part: see [`esker_nvme::auth`].

use crate::sync_connection::SyncConnection;
use crate::{RemoteError, Settings};
use esker_base::Entropy;
use esker_nvme::Nqn;
use esker_nvme::auth::message::{Challenge, Message, Negotiate, Reply};
use esker_nvme::auth::{Digest, Group, Hash, KeyPair, Role, Secret, Transaction};
use esker_nvme::command::fabrics::{AUTH_REQUIRED, FabricsCommand};

/// The longest message fetched.
const MESSAGE_BYTES: u32 = 4096;

fn failed(why: &'static str) -> RemoteError {
    RemoteError::Authentication { why }
}

/// Authenticates a queue if `word`, Connect's answer, asks for that. Fails if it does not and the node must prove itself.
pub(crate) fn authenticate_if_asked(
    word: u32,
    link: &mut SyncConnection,
    settings: &Settings,
    subsystem: &Nqn,
    queue: u16,
    entropy: &dyn Entropy,
) -> Result<(), RemoteError> {
    if word & AUTH_REQUIRED != 0 {
        return authenticate(link, settings, subsystem, queue, entropy);
    }
    match settings.controller_secret {
        None => Ok(()),
        Some(_) => {
            Err(failed("the node does not ask for authentication, and so proves nothing either"))
        }
    }
}

/// Proves on `link` who this host is, and lets the node prove itself if a secret says what it must know.
fn authenticate(
    link: &mut SyncConnection,
    settings: &Settings,
    subsystem: &Nqn,
    queue: u16,
    entropy: &dyn Entropy,
) -> Result<(), RemoteError> {
    let secret = settings.secret.as_ref();
    let secret = secret.ok_or(failed("the node asks for a secret, and none was given"))?;
    send(link, &Message::Negotiate(offer(queue)))?;
    let challenge = match fetch(link)? {
        Message::Challenge(challenge) if challenge.transaction == queue => challenge,
        _ => return Err(failed("the node did not ask a challenge")),
    };
    let node = settings.controller_secret.as_ref();
    let (reply, proof) = answer(&settings.host, secret, node, subsystem, &challenge, entropy)?;
    send(link, &Message::Reply(reply))?;
    let success = match fetch(link)? {
        Message::Success1(success) => success,
        _ => return Err(failed("the node does not accept this host's secret")),
    };
    let Some(proof) = proof else { return Ok(()) };
    if !success.response.is_some_and(|response| proof.matches(&response)) {
        return Err(failed("the node does not know the secret that it must know"));
    }
    send(link, &Message::Success2(queue))
}

/// What a host offers.
pub fn offer(transaction: u16) -> Negotiate {
    Negotiate {
        transaction,
        channel: 0,
        hashes: vec![Hash::Sha512, Hash::Sha384, Hash::Sha256],
        groups: vec![Group::Ffdhe2048, Group::Ffdhe3072, Group::Ffdhe4096, Group::Null],
    }
}

/// The reply, and what the node must answer to the challenge in it, if it must have the secret `node`.
pub fn answer(
    host: &Nqn,
    secret: &Secret,
    node: Option<&Secret>,
    subsystem: &Nqn,
    challenge: &Challenge,
    entropy: &dyn Entropy,
) -> Result<(Reply, Option<Digest>), RemoteError> {
    let (mut private, mut sequence) = ([0; Group::PRIVATE_BYTES], [0; 4]);
    let mut own = vec![0; challenge.hash.bytes()];
    for bytes in [&mut private[..], &mut sequence[..], &mut own[..]] {
        entropy.fill(bytes).map_err(|_| failed("no random bytes were available"))?;
    }
    let pair = KeyPair::new(challenge.group, &private);
    let session = pair.session(&challenge.public);
    if session.is_none() && challenge.group != Group::Null {
        return Err(failed("the node's public key is none"));
    }
    let transaction = Transaction {
        hash: challenge.hash,
        id: challenge.transaction,
        channel: 0,
        host,
        subsystem,
        session: session.as_deref(),
    };
    let response =
        transaction.response(Role::Host, secret, &challenge.challenge, challenge.sequence);
    let sequence = u32::from_le_bytes(sequence).max(1);
    let proof = node.map(|node| transaction.response(Role::Controller, node, &own, sequence));
    let reply = Reply {
        transaction: challenge.transaction,
        sequence: if proof.is_some() { sequence } else { 0 },
        response: response.as_bytes().to_vec(),
        challenge: proof.is_some().then_some(own),
        public: pair.public,
    };
    Ok((reply, proof))
}

fn send(link: &mut SyncConnection, message: &Message) -> Result<(), RemoteError> {
    let data = message.encode();
    let sqe = FabricsCommand::AuthSend { bytes: data.len() as u32 }.encode();
    link.call("authenticate", sqe, &data, 0).map(drop)
}

fn fetch(link: &mut SyncConnection) -> Result<Message, RemoteError> {
    let sqe = FabricsCommand::AuthReceive { bytes: MESSAGE_BYTES }.encode();
    let (_, data) = link.call("authenticate", sqe, &[], MESSAGE_BYTES)?;
    Message::parse(&data).map_err(|_| failed("the node sent a message that can't be read"))
}
