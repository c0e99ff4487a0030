//! Followers of a database over loopback connections.
#![expect(
    clippy::disallowed_methods,
    reason = "the peers of what is tested have threads of their own"
)]

mod authentication;
mod bases;
mod cuts;
mod damage;
mod encrypted;
mod following;
mod killed;
mod model;
mod peers;
mod promotion;
mod promotion_crashes;
mod proxy;
mod support;
