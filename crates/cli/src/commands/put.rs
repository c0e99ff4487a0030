//! `esker put`: one entry.

use crate::database_options::DatabaseOptions;
use crate::failure::Outcome;
use crate::form::{Form, Notation};
use crate::limits;
use crate::options::{KeyspaceOptions, parse_ttl, with_default};
use crate::output::show;
use crate::place::Place;
use crate::session;
use serde_json::json;
use std::ffi::OsString;
use std::time::Duration;

/// Set a key to a value
///
/// Creates the keyspace if it is missing, and with --create the database. The key survives power loss
/// once this returns.
#[derive(clap::Args)]
pub struct Put {
    #[command(flatten)]
    place: Place,
    /// The key
    key: OsString,
    /// The value; - is the bytes of standard input, unless --escaped is given
    value: OsString,
    #[command(flatten)]
    form: Form,
    /// How long the key has the value, such as 500ms, 30s, 10m, 12h or 7d [default: until it is changed]
    #[arg(long, value_name = "TIME", value_parser = parse_ttl)]
    ttl: Option<Duration>,
    /// Create the database if it is missing
    #[arg(long)]
    create: bool,
    #[command(flatten)]
    database: DatabaseOptions,
    #[command(flatten)]
    options: KeyspaceOptions,
}

impl Put {
    pub fn run(self) -> Outcome {
        let key = self.form.key().parse(self.key)?;
        let keyspace_settings = self.options.settings(&self.place.keyspace)?;
        let settings = self.database.settings(&self.place.home)?;
        let settings = with_default(settings, &self.place.keyspace, keyspace_settings);
        let is_input = self.value == "-" && self.form.value() != Notation::Escaped;
        if is_input {
            session::expect_none("its standard input")?;
        }
        limits::check_key(&key)?;
        let (form, limit) = (self.form.value(), settings.max_entry_bytes());
        let value = match (self.ttl, is_input) {
            // It may be of any size.
            (None, true) => None,
            (None, false) => Some(form.parse(self.value)?),
            (Some(_), _) => {
                let value = limits::value(self.value, form, limit, "a quarter of a log segment")?;
                limits::check_pair(&settings, &key, &value)?;
                Some(value)
            }
        };
        let db = match self.create {
            true => self.place.home.open(settings)?,
            false => self.place.home.open_existing_or_advise(settings)?,
        };
        let keyspace = self.options.open(&db, &self.place.keyspace, keyspace_settings)?;
        match value {
            Some(value) => {
                let mut batch = db.batch();
                match self.ttl {
                    Some(ttl) => batch.put_with_ttl(&keyspace, &key, &value, ttl),
                    None => batch.put(&keyspace, &key, &value),
                }
                batch.set_sync(true);
                db.write(&batch)?;
            }
            None => {
                db.put_reader(&keyspace, &key, std::io::stdin().lock())?;
                db.sync()?;
            }
        }
        self.place.home.close(db)?;
        show(|| json!({ "keyspace": self.place.keyspace, "puts": 1 }), String::new)
    }
}
