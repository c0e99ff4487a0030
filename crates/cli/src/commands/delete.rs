//! `esker delete`: keys, or a range of them.

use crate::failure::{Failure, Outcome};
use crate::options::DatabaseOptions;
use crate::place::{Place, Stretch};
use crate::text::Form;
use esker::KeyRange;
use std::ffi::OsString;
use std::ops::Bound;

/// Remove keys, or all keys of a range
///
/// All or nothing. A key that is not there is no failure. The removal survives power loss once this
/// returns.
#[derive(clap::Args)]
pub struct Delete {
    #[command(flatten)]
    place: Place,
    /// The keys
    keys: Vec<OsString>,
    #[command(flatten)]
    stretch: Stretch,
    #[command(flatten)]
    form: Form,
    #[command(flatten)]
    database: DatabaseOptions,
}

impl Delete {
    pub fn run(self) -> Outcome {
        let form = self.form;
        let keys: Vec<_> =
            self.keys.into_iter().map(|key| form.parse(key)).collect::<Outcome<_>>()?;
        let range =
            if self.stretch.is_given() { Some(bounds(self.stretch.range(form)?)?) } else { None };
        if keys.is_empty() && range.is_none() {
            let what = "say what to delete: keys, --prefix, or --from and --to";
            return Err(Failure::Usage(what.into()));
        }
        let db = self.place.home.open_existing(self.database.settings(&self.place.home)?)?;
        let keyspace = db.existing_keyspace(&self.place.keyspace)?;
        let mut batch = db.batch();
        for key in &keys {
            batch.delete(&keyspace, key);
        }
        if let Some((start, end)) = &range {
            batch.delete_range(&keyspace, start, end);
        }
        batch.sync();
        db.write(&batch)?;
        Ok(db.close()?)
    }
}

/// A range delete has two ends. Refusing an open one keeps a forgotten flag from costing everything.
fn bounds(range: KeyRange) -> Outcome<(Vec<u8>, Vec<u8>)> {
    match (range.start, range.end) {
        (Bound::Included(start), Bound::Excluded(end)) => Ok((start, end)),
        _ => Err(Failure::Usage(
            "a range to delete needs both --from and --to, or a --prefix that has an end".into(),
        )),
    }
}
