//! What Connect makes of a connection.

use super::authenticator::Authenticator;
use super::feature_values::Features;
use crate::controller::Controller;
use esker_nvme::event::Event;
use std::sync::Arc;

pub(super) struct Queue {
    /// 0 is the admin queue.
    pub(super) id: u16,
    pub(super) controller: Arc<Controller>,
    /// None once the host has proved who it is, or need not.
    pub(super) auth: Option<Authenticator>,
    /// Whether the host had, or has, to prove who it is.
    pub(super) has_secret: bool,
    /// How many entries it has.
    pub(super) entries: u16,
    /// Commands taken, modulo `entries`: SQHD. None without flow control.
    pub(super) head: Option<u16>,
    /// What the host has set, on an admin queue.
    pub(super) features: Features,
    /// How many failures the host was notified of, by an event.
    pub(super) failures_told: u64,
    /// It was, and has not read the log since: till then it is notified of no more.
    pub(super) is_health_unread: bool,
}

impl Queue {
    /// What a completion says of the queue: SQHD and SQID. Without flow control SQHD is FFFFh, which in Connect's
    /// completion is how the controller agrees to that (Base 6.3).
    pub(super) fn place(&self) -> (u16, u16) {
        (self.head.unwrap_or(u16::MAX), self.id)
    }

    /// One more command was taken.
    pub(super) fn advance(&mut self) {
        if let Some(head) = &mut self.head {
            *head = (*head + 1) % self.entries;
        }
    }

    /// Whether its host may be notified of failures now.
    pub(super) fn reports_health_events(&self) -> bool {
        self.is_admin()
            && self.auth.is_none()
            && self.features.events & Event::ReliabilityDegraded.mask() != 0
            && !self.is_health_unread
            && self.controller.is_ready()
    }

    pub(super) fn is_admin(&self) -> bool {
        self.id == 0
    }
}
