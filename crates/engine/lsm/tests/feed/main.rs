//! The change feed: what it yields, replayed into an empty map, is the database at every seqno.

mod barriers;
mod consumers;
mod crashes;
mod lost_writes;
mod model;
mod starts;
mod support;
mod threads;
