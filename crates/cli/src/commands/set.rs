//! `esker set`: settings of a database that is there, and perhaps open elsewhere.

use crate::database_options::DatabaseOptions;
use crate::failure::{Failure, Outcome};
use crate::interrupt::Interrupt;
use crate::output::show;
use crate::place::Home;
use crate::session;
use esker::Db;
use esker::checkpoint::Requested;
use esker::options::{CurrentSetting, SettingChange};
use serde_json::json;

/// Change settings of the database, or list them
///
/// A setting of a keyspace, KEYSPACE.NAME=VALUE, is stored in the database: compression, dedup and
/// filter_bits apply to tables that are written from then on. Other settings last until the process
/// that has the database open closes it. If another process has the database open, that one makes the
/// change: `esker serve` and the commands of this program that write do, and any program that has
/// `Settings::answers_requests` on. Without changes, lists the settings of the database.
#[derive(clap::Args)]
pub struct Set {
    #[command(flatten)]
    home: Home,
    /// What to change, such as users.compression=zstd or background_write_rate=20MiB
    #[arg(value_name = "NAME=VALUE")]
    changes: Vec<SettingChange>,
    #[command(flatten)]
    database: DatabaseOptions,
}

impl Set {
    pub fn run(self) -> Outcome {
        if self.changes.is_empty() {
            return list(&self.home.open_for_reading()?);
        }
        let opened = self.home.try_open_existing(self.database.settings(&self.home)?)?;
        match opened {
            Ok(db) => self.change(db)?,
            // On a device of chunks there is no place for a request.
            Err(esker::Error::Locked { .. }) if !self.home.is_on_flash() => self.request()?,
            Err(error) => return Err(error.into()),
        }
        let texts: Vec<String> = self.changes.iter().map(SettingChange::to_string).collect();
        show(|| json!({ "set": texts }), String::new)
    }

    fn change(&self, db: Db) -> Outcome {
        let lasts = self.changes.iter().find(|change| !change.is_persisted());
        if let Some(change) = lasts.filter(|_| session::get().is_none()) {
            let _ = self.home.close(db);
            return Err(Failure::Usage(format!(
                "{change} lasts until the database closes, and no process has it open"
            )));
        }
        self.changes.iter().try_for_each(|change| db.set(change))?;
        self.home.close(db)
    }

    /// Has the process that has the database open make the changes.
    fn request(&self) -> Outcome {
        let interrupt =
            Interrupt::listen().map_err(|error| Failure::io("listen for", "interrupts", error))?;
        for change in &self.changes {
            let goes_on = || !interrupt.is_set();
            match esker::checkpoint::request_change(&self.home.db, change, goes_on)? {
                Requested::Done => {}
                Requested::NotOpen => {
                    let what =
                        format!("the process that had the database open closed it before {change}");
                    return Err(Failure::Usage(what));
                }
                Requested::Abandoned => {
                    let what = format!("interrupted; the process may still set {change}");
                    return Err(Failure::Interrupted(what));
                }
            }
        }
        Ok(())
    }
}

fn list(db: &Db) -> Outcome {
    let mut settings = db.settings()?;
    if session::get().is_none() {
        // The others are of this process, which is about to end.
        settings.retain(|setting| setting.is_persisted);
    }
    let object = |CurrentSetting { name, value, is_persisted, .. }: &CurrentSetting| json!({ "name": name, "value": value, "is_persisted": is_persisted });
    let lasts = |setting: &CurrentSetting| match setting.is_persisted {
        true => "",
        false => "  (until the database closes)",
    };
    let line = |setting: &CurrentSetting| {
        format!("{}={}{}\n", setting.name, setting.value, lasts(setting))
    };
    show(
        || json!({ "settings": settings.iter().map(object).collect::<Vec<_>>() }),
        || settings.iter().map(line).collect(),
    )
}
