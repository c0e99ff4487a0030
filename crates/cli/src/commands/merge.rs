//! `esker merge`: one operand.

use crate::failure::{Failure, Outcome};
use crate::form::Form;
use crate::limits;
use crate::options::KeyspaceOptions;
use crate::output::show;
use crate::place::Place;
use esker::Settings;
use serde_json::json;
use std::ffi::OsString;

/// Merge an operand into the value of a key
///
/// Creates the keyspace with --merge if need be. Otherwise the keyspace has its merge operator already. The operand
/// survives power loss once this returns.
#[derive(clap::Args)]
pub struct Merge {
    #[command(flatten)]
    place: Place,
    /// The key
    key: OsString,
    /// The operand
    #[arg(allow_negative_numbers = true)]
    operand: OsString,
    /// The operand is a decimal integer, as the operator add_i64 takes it
    #[arg(long)]
    i64: bool,
    #[command(flatten)]
    form: Form,
    #[command(flatten)]
    options: KeyspaceOptions,
}

impl Merge {
    pub fn run(self) -> Outcome {
        let key = self.form.key().parse(self.key)?;
        let keyspace_settings = self.options.settings(&self.place.keyspace)?;
        let settings = Settings::default();
        let operand = match self.i64 {
            true => {
                let text = self.operand.to_string_lossy();
                let number: Result<i64, _> = text.parse();
                let wrong = |_| Failure::Usage(format!("{text:?} is not a decimal integer"));
                number.map_err(wrong)?.to_le_bytes().to_vec()
            }
            false => self.form.value().parse(self.operand)?,
        };
        limits::check_pair(&settings, &key, &operand)?;
        let db = self.place.home.open_existing(settings)?;
        let keyspace = self.options.open(&db, &self.place.keyspace, keyspace_settings)?;
        let mut batch = db.batch();
        batch.merge(&keyspace, &key, &operand);
        batch.set_sync(true);
        db.write(&batch)?;
        self.place.home.close(db)?;
        show(|| json!({ "keyspace": self.place.keyspace, "merges": 1 }), String::new)
    }
}
