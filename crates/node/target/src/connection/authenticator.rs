//! DH-HMAC-CHAP on a queue, the controller's part: Negotiate → Challenge → Reply → Success1 → (Success2).
//!
//! A state machine: messages and results of computations go in, messages and steps to compute come out.

use crate::dh_step::{self, DhResult};
use esker_base::Entropy;
use esker_nvme::Nqn;
use esker_nvme::auth::message::{Challenge, Failure, Message, Negotiate, Reply, Success1};
use esker_nvme::auth::{Group, Hash, KeyPair, Role, Secret, Transaction};

/// Hashes and groups, the best first.
const HASHES: [Hash; 3] = [Hash::Sha512, Hash::Sha384, Hash::Sha256];
const GROUPS: [Group; 4] = [Group::Ffdhe2048, Group::Ffdhe3072, Group::Ffdhe4096, Group::Null];

/// The controller's part of an exchange.
pub struct Authenticator {
    // Constant after construction.
    secret: Secret,
    controller_secret: Option<Secret>,
    host: Nqn,
    subsystem: Nqn,

    step: Step,
    /// The message that the host is to fetch.
    outbox: Option<Message>,
}

enum Step {
    AwaitsNegotiate,
    /// The challenge, but for its key pair.
    AwaitsPair(Box<Challenge>),
    AwaitsReply(Box<PendingChallenge>),
    /// The session key, to check the reply.
    AwaitsSession(Box<(PendingChallenge, Reply)>),
    /// Success1 was prepared, with the controller's proof: the host says whether it believes it.
    AwaitsSuccess2 {
        transaction: u16,
    },
    /// The host is who it says; Success1 is yet to be fetched.
    Succeeded,
    Failed,
}

struct PendingChallenge {
    transaction: u16,
    hash: Hash,
    /// Until the session key is computed.
    pair: Option<Box<KeyPair>>,
    group: Group,
    challenge: Vec<u8>,
    sequence: u32,
}

/// What is left to do after a message.
pub enum AuthResult {
    /// Another message is to be fetched or taken.
    Pending,
    /// This is to be computed first.
    Computes(dh_step::Step),
    /// The host is who it says.
    Proved,
    /// It is not, or ended the exchange.
    Refused,
}

impl Authenticator {
    /// Awaits the first message of `host`, which must prove that it has `secret`.
    pub fn new(
        secret: Secret,
        controller_secret: Option<Secret>,
        host: Nqn,
        subsystem: Nqn,
    ) -> Self {
        let step = Step::AwaitsNegotiate;
        Authenticator { secret, controller_secret, host, subsystem, step, outbox: None }
    }

    /// A message from the host.
    pub fn take(&mut self, data: &[u8], entropy: &dyn Entropy) -> AuthResult {
        let transaction = self.transaction().unwrap_or(0);
        let outcome = match (Message::parse(data), &self.step) {
            (Ok(Message::Negotiate(offer)), Step::AwaitsNegotiate) => {
                let begun = self.negotiate(&offer, entropy);
                begun.map_err(|why| (offer.transaction, why))
            }
            (Ok(Message::Reply(reply)), Step::AwaitsReply(_)) => {
                self.replied(reply).map_err(|why| (transaction, why))
            }
            (Ok(Message::Success2(id)), Step::AwaitsSuccess2 { transaction })
                if id == *transaction =>
            {
                self.step = Step::Succeeded;
                return AuthResult::Proved;
            }
            (Ok(Message::Failure2(..)), _) => {
                self.step = Step::Failed;
                return AuthResult::Refused;
            }
            (Ok(_), _) => Err((transaction, Failure::Message)),
            (Err(why), _) => Err((transaction, why)),
        };
        outcome.map_or_else(|why| self.failed(why), AuthResult::Computes)
    }

    fn failed(&mut self, (transaction, why): (u16, Failure)) -> AuthResult {
        self.step = Step::Failed;
        self.outbox = Some(Message::Failure1(transaction, why));
        AuthResult::Pending
    }

    /// What was to be computed is there.
    pub fn computed(&mut self, computed: DhResult) {
        let transaction = self.transaction().unwrap_or(0);
        match (std::mem::replace(&mut self.step, Step::Failed), computed) {
            (Step::AwaitsPair(challenge), DhResult::Pair(pair)) => self.challenge(*challenge, pair),
            (Step::AwaitsSession(waiting), DhResult::Session(session)) => {
                let (challenged, reply) = *waiting;
                if let Err(why) = self.check(&challenged, &reply, session.as_deref()) {
                    self.failed((transaction, why));
                }
            }
            // A message that was out of order came meanwhile.
            (step, _) => self.step = step,
        }
    }

    fn transaction(&self) -> Option<u16> {
        match &self.step {
            Step::AwaitsPair(challenge) => Some(challenge.transaction),
            Step::AwaitsReply(challenged) => Some(challenged.transaction),
            Step::AwaitsSession(waiting) => Some(waiting.0.transaction),
            Step::AwaitsSuccess2 { transaction } => Some(*transaction),
            _ => None,
        }
    }

    fn negotiate(
        &mut self,
        offer: &Negotiate,
        entropy: &dyn Entropy,
    ) -> Result<dh_step::Step, Failure> {
        if offer.channel != 0 {
            return Err(Failure::Channel);
        }
        let hash = HASHES.into_iter().find(|hash| offer.hashes.contains(hash));
        let hash = hash.ok_or(Failure::NoHash)?;
        let group = GROUPS.into_iter().find(|group| offer.groups.contains(group));
        let group = group.ok_or(Failure::NoGroup)?;
        let (mut private, mut sequence) = (Box::new([0; Group::PRIVATE_BYTES]), [0; 4]);
        let mut challenge = vec![0; hash.bytes()];
        for bytes in [&mut private[..], &mut sequence[..], &mut challenge[..]] {
            entropy.fill(bytes).map_err(|_| Failure::Failed)?;
        }
        self.step = Step::AwaitsPair(Box::new(Challenge {
            transaction: offer.transaction,
            hash,
            group,
            // Zero is what a side that asks for no proof sends.
            sequence: u32::from_le_bytes(sequence).max(1),
            challenge,
            public: Vec::new(),
        }));
        Ok(dh_step::Step::Pair { group, private })
    }

    fn challenge(&mut self, mut challenge: Challenge, pair: Box<KeyPair>) {
        challenge.public.clone_from(&pair.public);
        self.step = Step::AwaitsReply(Box::new(PendingChallenge {
            transaction: challenge.transaction,
            hash: challenge.hash,
            pair: Some(pair),
            group: challenge.group,
            challenge: challenge.challenge.clone(),
            sequence: challenge.sequence,
        }));
        self.outbox = Some(Message::Challenge(challenge));
    }

    fn replied(&mut self, reply: Reply) -> Result<dh_step::Step, Failure> {
        let step = std::mem::replace(&mut self.step, Step::Failed);
        let Step::AwaitsReply(mut challenged) = step else { return Err(Failure::Message) };
        if reply.transaction != challenged.transaction
            || challenged.group == Group::Null && !reply.public.is_empty()
        {
            return Err(Failure::Payload);
        }
        let (pair, theirs) = (challenged.pair.take(), reply.public.clone());
        let pair = pair.ok_or(Failure::Failed)?;
        self.step = Step::AwaitsSession(Box::new((*challenged, reply)));
        Ok(dh_step::Step::Session { pair, theirs })
    }

    fn check(
        &mut self,
        challenged: &PendingChallenge,
        reply: &Reply,
        session: Option<&[u8]>,
    ) -> Result<(), Failure> {
        if session.is_none() && challenged.group != Group::Null {
            return Err(Failure::Payload);
        }
        let transaction = Transaction {
            hash: challenged.hash,
            id: challenged.transaction,
            channel: 0,
            host: &self.host,
            subsystem: &self.subsystem,
            session,
        };
        let expected = transaction.response(
            Role::Host,
            &self.secret,
            &challenged.challenge,
            challenged.sequence,
        );
        if !expected.matches(&reply.response) {
            return Err(Failure::Failed);
        }
        // A host that sends back our own challenge wants us to compute its answer.
        if reply.challenge.as_ref() == Some(&challenged.challenge) {
            return Err(Failure::Failed);
        }
        let proof = reply.challenge.as_ref().zip(self.controller_secret.as_ref());
        let proof = proof.map(|(challenge, secret)| {
            transaction.response(Role::Controller, secret, challenge, reply.sequence)
        });
        self.step = match proof {
            Some(_) => Step::AwaitsSuccess2 { transaction: challenged.transaction },
            None => Step::Succeeded,
        };
        self.outbox = Some(Message::Success1(Success1 {
            transaction: challenged.transaction,
            hash_bytes: challenged.hash.bytes() as u8,
            response: proof.map(|proof| proof.as_bytes().to_vec()),
        }));
        Ok(())
    }

    /// The message for the host, and what follows once it has it.
    pub fn fetch(&mut self) -> Option<(Vec<u8>, AuthResult)> {
        let message = self.outbox.take()?;
        let verdict = match &self.step {
            Step::Succeeded => AuthResult::Proved,
            Step::Failed => AuthResult::Refused,
            _ => AuthResult::Pending,
        };
        Some((message.encode(), verdict))
    }
}
