//! `esker delete`: keys, or a range of them.

use crate::database_options::DatabaseOptions;
use crate::failure::{Failure, Outcome};
use crate::form::KeyForm;
use crate::output::show;
use crate::place::{Place, Stretch};
use serde_json::json;
use std::ffi::OsString;

/// Remove keys, or all keys of a range
///
/// A range without --from starts at the first key, and one without --to ends at the last.
///
/// Removes all of them or none. A key that does not exist is not a failure. The removal survives power
/// loss once this returns.
#[derive(clap::Args)]
pub struct Delete {
    #[command(flatten)]
    place: Place,
    /// The keys
    keys: Vec<OsString>,
    #[command(flatten)]
    stretch: Stretch,
    /// Every key of the keyspace
    #[arg(long, conflicts_with_all = ["from", "to", "prefix", "keys"])]
    all: bool,
    #[command(flatten)]
    form: KeyForm,
    #[command(flatten)]
    database: DatabaseOptions,
}

impl Delete {
    pub fn run(self) -> Outcome {
        let form = self.form.key();
        self.stretch.expect_no_empty_bound()?;
        let keys: Vec<_> =
            self.keys.into_iter().map(|key| form.parse(key)).collect::<Outcome<_>>()?;
        let range = match self.stretch.is_given() || self.all {
            true => Some(self.stretch.range(form)?),
            false => None,
        };
        if keys.is_empty() && range.is_none() {
            let what = "say what to delete: keys, --prefix, --from, --to, or --all";
            return Err(Failure::Usage(what.into()));
        }
        let db = self.place.home.open_existing(self.database.settings(&self.place.home)?)?;
        let keyspace = db.open_keyspace(&self.place.keyspace)?;
        let (deletes, range_deletes) = (keys.len(), u64::from(range.is_some()));
        let mut batch = db.batch();
        for key in &keys {
            batch.delete(&keyspace, key);
        }
        if let Some(range) = range {
            batch.delete_range(&keyspace, range);
        }
        batch.set_sync(true);
        db.write(&batch)?;
        self.place.home.close(db)?;
        let keyspace = self.place.keyspace;
        let facts =
            json!({ "keyspace": keyspace, "deletes": deletes, "range_deletes": range_deletes });
        show(|| facts, String::new)
    }
}
