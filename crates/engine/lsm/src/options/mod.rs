//! Settings, and the sizes that follow from them.
//!
//! [`settings`]: the settings of a database and of a keyspace, and `setters`, their builder methods.
//! [`space_policy`]: how obsolete versions are removed. [`sizes`]: target sizes of tables and levels.
//! `memory` divides the memory budget. `shape`: how tables are arranged in levels. `slow_call`: the
//! limit for slow calls. [`write_rate`]: the rate limit of background writes. [`change`]: changes while
//! a database is open. `by_name`: settings as text.
//!
//! Settings name the resources that databases share (`resources`) and use no other module, so
//! every module may use them.

mod by_name;
pub mod change;
pub(crate) mod memory;
pub(crate) mod separation;
mod setters;
pub mod settings;
mod shape;
pub mod sizes;
pub(crate) mod slow_call;
pub mod space_policy;
pub(crate) mod table_limits;
mod time_text;
pub mod write_rate;

pub use crate::resources::Resources;
pub use change::{CurrentSetting, KeyspaceChange, SettingChange};
pub use settings::{Recovery, Shape};
pub use space_policy::{Dedup, Ratio};
pub use write_rate::BackgroundWriteRate;
