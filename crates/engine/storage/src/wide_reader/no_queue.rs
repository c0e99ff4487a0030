//! Systems without a reactor: callers read everything themselves.

use super::{ReadPath, ReadRequest};
use esker_base::Background;
use std::convert::Infallible;
use std::ops::Deref;
use std::sync::Arc;

pub(super) struct Queue(Infallible);
pub(super) struct Place(Infallible);
pub(super) struct Reply(Infallible);
pub(super) struct Filled(Infallible);

impl Deref for Filled {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        match self.0 {}
    }
}

impl Place {
    pub(super) fn of(_request: &ReadRequest<'_>) -> Option<Place> {
        None
    }
    pub(super) fn is_direct(_request: &ReadRequest<'_>) -> bool {
        false
    }
    pub(super) fn buffer_bytes(&self) -> usize {
        match self.0 {}
    }
}

impl Reply {
    pub(super) fn wait(self) -> Vec<Option<Filled>> {
        match self.0 {}
    }
}

impl Queue {
    pub(super) fn start(_background: &Arc<dyn Background>, _may_use_ring: bool) -> Option<Queue> {
        None
    }
    pub(super) fn path(&self) -> ReadPath {
        match self.0 {}
    }
    pub(super) fn push(&self, _places: Vec<Place>) -> Option<Reply> {
        match self.0 {}
    }
    pub(super) fn close(&self) {
        match self.0 {}
    }
}
