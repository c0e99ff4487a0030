//! `esker count`: the number of keys in a range.

use crate::failure::Outcome;
use crate::form::KeyForm;
use crate::output::show;
use crate::place::{Place, Stretch, for_each};
use serde_json::json;

/// Print the number of keys in a range
///
/// Reads them all, so this takes as long as a scan. `esker stats` has the number of entries in tables.
#[derive(clap::Args)]
pub struct Count {
    #[command(flatten)]
    place: Place,
    #[command(flatten)]
    stretch: Stretch,
    #[command(flatten)]
    form: KeyForm,
}

impl Count {
    pub fn run(self) -> Outcome {
        let range = self.stretch.range(self.form.key())?;
        let (db, keyspace) = self.place.open_for_reading()?;
        let mut pairs = 0u64;
        for_each(&db, &keyspace, range, false, |_, _| {
            pairs += 1;
            Ok(true)
        })?;
        let name = self.place.keyspace;
        show(|| json!({ "keyspace": name, "pairs": pairs }), || format!("{pairs}\n"))
    }
}
