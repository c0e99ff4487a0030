//! A transfer between two databases that is done in both or in neither, whatever crashes: two-phase
//! commit. A third database, of the coordinator, records the decisions.
//!
//! cargo run -p esker --example two_databases

use esker::{Db, Error, Settings};
use std::path::Path;

/// The coordinator and the two banks.
struct System {
    decisions: Db,
    banks: [Db; 2],
}

impl System {
    /// Opens all three, and ends what a crash has left undecided.
    fn open(dir: &Path) -> Result<System, Error> {
        let open = |name: &str| Db::open(dir.join(name), Settings::default());
        let system =
            System { decisions: open("decisions")?, banks: [open("north")?, open("south")?] };
        for bank in &system.banks {
            for prepared in bank.prepared()? {
                system.decide(bank, &prepared.id)?;
            }
        }
        Ok(system)
    }

    /// Commits what the coordinator decided to commit, and rolls back the rest.
    fn decide(&self, bank: &Db, id: &[u8]) -> Result<(), Error> {
        match self.decisions.contains_key(&self.decisions.default_keyspace(), id)? {
            true => bank.commit_prepared(id),
            false => bank.rollback_prepared(id),
        }
    }

    /// Moves `amount` from the first bank to the second. `crash` ends it early.
    fn transfer(&self, id: &str, amount: u64, crash: Option<Crash>) -> Result<(), Error> {
        for (bank, is_payer) in self.banks.iter().zip([true, false]) {
            let account = bank.default_keyspace();
            let mut tx = bank.transaction()?;
            let before = balance(tx.get_for_update(&account, "balance")?);
            let after = if is_payer { before - amount } else { before + amount };
            tx.put(&account, "balance", after.to_be_bytes())?;
            tx.prepare(id)?;
            if is_payer && crash == Some(Crash::BetweenPrepares) {
                return Ok(());
            }
        }
        // All participants are prepared. This write is the decision.
        let mut decision = self.decisions.batch();
        decision.put(&self.decisions.default_keyspace(), id, "commit");
        decision.set_sync(true);
        self.decisions.write(&decision)?;
        for bank in &self.banks {
            bank.commit_prepared(id)?;
            if crash == Some(Crash::BetweenCommits) {
                return Ok(());
            }
        }
        Ok(())
    }

    fn balances(&self) -> Result<[u64; 2], Error> {
        let of = |bank: &Db| bank.get(&bank.default_keyspace(), "balance").map(balance);
        Ok([of(&self.banks[0])?, of(&self.banks[1])?])
    }
}

/// Where the process ends early.
#[derive(Clone, Copy, PartialEq)]
enum Crash {
    BetweenPrepares,
    BetweenCommits,
}

fn balance(value: Option<esker::Value>) -> u64 {
    let bytes = value.and_then(|value| value[..].try_into().ok());
    bytes.map_or(100, u64::from_be_bytes)
}

/// Runs the example in a temporary directory.
pub fn main() -> Result<(), Box<dyn std::error::Error>> {
    let dir = tempfile::tempdir()?;
    let system = System::open(dir.path())?;
    system.transfer("1", 30, None)?;
    assert_eq!(system.balances()?, [70, 130]);

    // Nothing was decided, so recovery rolls it back.
    system.transfer("2", 30, Some(Crash::BetweenPrepares))?;
    drop(system);
    let system = System::open(dir.path())?;
    assert_eq!(system.balances()?, [70, 130]);

    // It was decided, so recovery commits the rest.
    system.transfer("3", 30, Some(Crash::BetweenCommits))?;
    assert_eq!(system.balances()?, [40, 130]);
    drop(system);
    let system = System::open(dir.path())?;
    assert_eq!(system.balances()?, [40, 160]);
    Ok(())
}
