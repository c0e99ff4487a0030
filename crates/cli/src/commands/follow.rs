//! `esker follow`: a copy of a database of another machine, which goes on as that one is written to.

use super::nvme::{NODE, host_of, parse_address, parse_nqn, secrets, tls_key};
use crate::database_options::{DatabaseOptions, SyncOptions};
use crate::failure::{Failure, Outcome};
use crate::interrupt::Interrupt;
use crate::machine::host_name;
use crate::output::{is_json, raw_stdout, stdout};
use crate::place::Home;
use crate::units::{self, counted};
use crate::{output, session};
use esker_base::{Clock, SystemClock};
use esker_replication::{Follower, FollowerSettings, FollowerStats};
use serde_json::{Value as Json, json};
use std::io::Write;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

/// How often it is looked how the follower fares.
const LOOK: Duration = Duration::from_millis(100);

/// The longest name that is made for a follower.
const NAME_CHARS: usize = 120;

/// For so long a follower that had all writes is said to have them: there is always one on its way.
const GRACE: Duration = Duration::from_secs(2);

/// Follow the database of `esker serve --followers` into a directory
///
/// The first call copies the database, and each call goes on from there until Ctrl-C: every write is applied with its
/// sequence number. The directory can be read meanwhile, by commands such as `esker get`, and by programs with
/// `Db::open_follower`. `esker promote` makes it a database that can be written to.
#[derive(clap::Args)]
pub struct Follow {
    /// The address and port of the primary
    #[arg(value_name = "HOST:PORT", value_parser = parse_address)]
    primary: SocketAddr,
    #[command(flatten)]
    home: Home,
    /// The name of the follower, by which the primary keeps logs for it. Default: this host and the directory
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Stop once it has all writes that the primary had at some time since the start
    #[arg(long)]
    once: bool,
    /// The name of the primary's subsystem
    #[arg(long, value_name = "NQN", default_value = NODE)]
    nqn: String,
    /// This host's name; by default the one in /etc/nvme/hostnqn, if there is one
    #[arg(long, value_name = "NQN")]
    host: Option<String>,
    /// A file with this host's DHHC-1 secret and, to authenticate the primary, that one's after it
    #[arg(long, value_name = "FILE")]
    secret: Option<PathBuf>,
    /// A file with this host's TLS key (NVMeTLSkey-1:...), to connect by TLS 1.3. Needs a program built
    /// with `--features tls`
    #[arg(long, value_name = "FILE")]
    tls_key: Option<PathBuf>,
    #[command(flatten)]
    sync: SyncOptions,
    #[command(flatten)]
    database: DatabaseOptions,
}

impl Follow {
    pub fn run(self) -> Outcome {
        session::expect_none("to follow another database")?;
        let interrupt =
            Interrupt::listen().map_err(|error| Failure::io("listen for", "interrupts", error))?;
        let follower = Follower::start(&self.home.db, self.settings()?)?;
        let clock = SystemClock::new();
        let mut said = None;
        loop {
            let stats = follower.stats();
            let now = State::of(&stats);
            let news = Some((now, stats.error.as_ref().map(ToString::to_string)));
            if said != news {
                say(&stats, now)?;
                said = news;
            }
            if let (true, Some(error)) = (stats.has_ended, stats.error) {
                return Err(error.into());
            }
            if interrupt.is_set() || self.once && now == State::HasAll {
                break;
            }
            clock.sleep(LOOK);
        }
        follower.stop();
        Ok(())
    }

    fn settings(&self) -> Outcome<FollowerSettings> {
        let name = match &self.name {
            Some(name) => name.clone(),
            None => self.default_name()?,
        };
        let mut settings = FollowerSettings::new(self.primary, name)
            .database(self.database.settings_with(&self.home, &self.sync)?)
            .host(host_of(self.host.as_deref())?)
            .subsystem(parse_nqn(&self.nqn)?);
        if let Some(file) = &self.secret {
            (settings.secret, settings.controller_secret) = secrets(file)?;
        }
        settings.tls_key = self.tls_key.as_deref().map(tls_key).transpose()?;
        Ok(settings)
    }

    /// The same each time for the same directory.
    fn default_name(&self) -> Outcome<String> {
        let dir = std::path::absolute(&self.home.db)
            .map_err(|error| Failure::io("find", self.home.db.display().to_string(), error))?;
        let name = format!("{}:{}", host_name(), dir.display());
        // The end of a directory distinguishes it from others. The primary adds the name of this host.
        let start = name.char_indices().rev().map(|(at, _)| at).nth(NAME_CHARS - 1).unwrap_or(0);
        Ok(name[start..].to_owned())
    }
}

/// What is worth a line when it changes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Disconnected,
    GetsBase,
    CatchesUp,
    HasAll,
}

impl State {
    fn of(stats: &FollowerStats) -> State {
        match stats.is_connected {
            false => State::Disconnected,
            true if stats.is_in_base => State::GetsBase,
            true if stats.behind_time.is_some_and(|it| stats.behind == 0 || it < GRACE) => {
                State::HasAll
            }
            true => State::CatchesUp,
        }
    }

    fn word(self) -> &'static str {
        match self {
            State::Disconnected => "disconnected",
            State::GetsBase => "base",
            State::CatchesUp => "catching-up",
            State::HasAll => "current",
        }
    }
}

fn say(stats: &FollowerStats, state: State) -> Outcome {
    match is_json() {
        true => {
            let mut out = raw_stdout();
            output::put_json(&mut out, &facts(stats, state))?;
            Ok(out.flush()?)
        }
        false => {
            let mut out = stdout();
            writeln!(out, "{}", text(stats, state))?;
            Ok(out.flush()?)
        }
    }
}

fn facts(stats: &FollowerStats, state: State) -> Json {
    json!({
        "state": state.word(),
        "applied": stats.applied,
        "primary": stats.primary,
        "behind": stats.behind,
        "bytes": stats.bytes,
        "bases": stats.bases,
        "error": stats.error.as_ref().map(ToString::to_string),
    })
}

fn text(stats: &FollowerStats, state: State) -> String {
    let FollowerStats { applied, behind, .. } = stats;
    match (state, &stats.error) {
        (State::Disconnected, Some(error)) => format!("not connected: {error}"),
        (State::Disconnected, None) => "connecting".to_owned(),
        (State::GetsBase, _) => "copying the database".to_owned(),
        (State::CatchesUp, _) => {
            format!("catching up: at seqno {applied}, {} behind", counted(*behind, "write"))
        }
        (State::HasAll, _) => {
            let bytes = units::bytes(stats.bytes);
            format!("has all writes up to seqno {applied}; received {bytes}")
        }
    }
}
