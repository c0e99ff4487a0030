//! `esker prepared`: transactions of two-phase commits that are not decided.

use crate::database_options::DatabaseOptions;
use crate::failure::Outcome;
use crate::form::{KeyForm, Notation};
use crate::output::show;
use crate::place::Home;
use crate::units::{bytes, counted};
use esker::transaction::PreparedTransaction;
use serde_json::{Map, Value as Json, json};
use std::ffi::OsString;

/// List the prepared transactions, or decide one
///
/// A prepared transaction is the first half of a two-phase commit: it is durable and keeps its locks,
/// also over restarts, until it is committed or rolled back. The coordinator of the transaction knows
/// what it decided. A decision survives power loss once this returns.
#[derive(clap::Args)]
pub struct Prepared {
    #[command(flatten)]
    home: Home,
    /// Commit the transaction with this id
    #[arg(long, value_name = "ID")]
    commit: Option<OsString>,
    /// Roll back the transaction with this id
    #[arg(long, value_name = "ID", conflicts_with = "commit")]
    rollback: Option<OsString>,
    #[command(flatten)]
    form: KeyForm,
    #[command(flatten)]
    database: DatabaseOptions,
}

impl Prepared {
    pub fn run(self) -> Outcome {
        let form = self.form.key();
        let (id, commits) = match (self.commit, self.rollback) {
            (None, None) => {
                let prepared = self.home.open_for_reading()?.prepared()?;
                return show(|| json(&prepared, form), || text(&prepared, form));
            }
            (Some(id), _) => (form.parse(id)?, true),
            (None, Some(id)) => (form.parse(id)?, false),
        };
        let db = self.home.open_existing(self.database.settings(&self.home)?)?;
        match commits {
            true => db.commit_prepared(&id)?,
            false => db.rollback_prepared(&id)?,
        }
        self.home.close(db)?;
        let mut decided = Map::new();
        form.insert(&mut decided, if commits { "committed" } else { "rolled_back" }, &id);
        show(|| decided.into(), String::new)
    }
}

fn json(prepared: &[PreparedTransaction], form: Notation) -> Json {
    let object = |one: &PreparedTransaction| {
        let mut object = Map::new();
        form.insert(&mut object, "id", &one.id);
        object.insert("writes".into(), one.writes.into());
        object.insert("bytes".into(), one.bytes.into());
        object.insert("locks".into(), one.locks.into());
        object.insert("damaged".into(), one.is_damaged.into());
        Json::from(object)
    };
    json!({ "prepared": prepared.iter().map(object).collect::<Vec<_>>() })
}

fn text(prepared: &[PreparedTransaction], form: Notation) -> String {
    let line = |one: &PreparedTransaction| {
        let (writes, locks) = (counted(one.writes as u64, "write"), one.locks as u64);
        let (id, size) = (form.print(&one.id), bytes(one.bytes as u64));
        match one.is_damaged {
            true => format!("{id}\tdamaged: it can only be rolled back\n"),
            false => format!("{id}\t{writes}, {size}, {} locked\n", counted(locks, "key")),
        }
    };
    prepared.iter().map(line).collect()
}
