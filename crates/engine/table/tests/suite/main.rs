//! Tables: what they hold, in every version of the format, and damaged.

mod cold;
mod cold_seeks;
mod damage;
mod freed;
mod golden;
mod ingested;
mod model;
mod parts;
mod parts_cold;
mod parts_damage;
mod sketches;
mod support;
mod table;
