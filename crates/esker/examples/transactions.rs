//! Money that moves between accounts: a transaction that is run again if it conflicts with another.
//!
//! cargo run -p esker --example transactions

use esker::{Db, Error, Keyspace, KeyspaceSettings, Settings, Value};

const ACCOUNTS: u8 = 4;
const START: u8 = 100;

/// Moves `amount` from one account to another, if there is enough.
fn transfer(db: &Db, accounts: &Keyspace, from: u8, to: u8, amount: u8) -> Result<bool, Error> {
    let balance = |value: Option<Value>| value.map_or(0, |value| value[0]);
    // After a conflict, a deadlock or a lock timeout, the closure runs again from its start.
    db.transact(|tx| {
        let source = balance(tx.get_for_update(accounts, [from])?);
        let target = balance(tx.get_for_update(accounts, [to])?);
        let (Some(less), Some(more)) = (source.checked_sub(amount), target.checked_add(amount))
        else {
            return Ok(false);
        };
        tx.put(accounts, [from], [less])?;
        tx.put(accounts, [to], [more])?;
        Ok(true)
    })
}

/// Runs the example in a temporary directory.
pub fn main() -> Result<(), Box<dyn std::error::Error>> {
    let dir = tempfile::tempdir()?;
    let db = Db::open(dir.path().join("data"), Settings::default())?;
    let accounts = db.keyspace("accounts", KeyspaceSettings::default())?;
    for account in 0..ACCOUNTS {
        accounts.put([account], [START])?;
    }

    std::thread::scope(|scope| {
        let (db, accounts) = (&db, &accounts);
        let clerks: Vec<_> = (0..ACCOUNTS)
            .map(|clerk| {
                scope.spawn(move || {
                    for step in 0..50 {
                        transfer(db, accounts, clerk, (clerk + 1 + step % 3) % ACCOUNTS, 7)?;
                    }
                    Ok::<_, Error>(())
                })
            })
            .collect();
        clerks.into_iter().try_for_each(|clerk| clerk.join().expect("a clerk panicked"))
    })?;

    let mut sum = 0;
    for account in 0..ACCOUNTS {
        sum += u32::from(accounts.get([account])?.expect("it was set up")[0]);
    }
    assert_eq!(sum, u32::from(ACCOUNTS) * u32::from(START), "no money was made or lost");
    Ok(())
}
