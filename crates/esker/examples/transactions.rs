//! Money that moves between accounts: a transaction that is run again if it conflicts with another.
//!
//! cargo run -p esker --example transactions

use esker::{Db, Error, Settings, TransactionDb, TransactionOptions, Transactional};

const ACCOUNTS: u8 = 4;
const START: u8 = 100;

/// Moves `amount` from one account to another, if there is enough.
fn transfer(bank: &TransactionDb<Db>, from: u8, to: u8, amount: u8) -> Result<bool, Error> {
    let accounts = bank.keyspace("accounts")?;
    let attempt = || -> Result<bool, Error> {
        let mut transaction = bank.begin(&TransactionOptions::default())?;
        let balance = |value: Option<esker::Value>| value.map_or(0, |value| value[0]);
        let source = balance(transaction.get_for_update(accounts, &[from])?);
        let target = balance(transaction.get_for_update(accounts, &[to])?);
        let (Some(less), Some(more)) = (source.checked_sub(amount), target.checked_add(amount))
        else {
            return Ok(false);
        };
        transaction.put(accounts, &[from], &[less])?;
        transaction.put(accounts, &[to], &[more])?;
        transaction.commit()?;
        Ok(true)
    };
    loop {
        match attempt() {
            // A conflict, a deadlock or a lock that took too long: the whole transaction runs again.
            Err(error) if error.is_transient() => {}
            done => return done,
        }
    }
}

/// Runs the example in a temporary directory.
pub fn main() -> Result<(), Box<dyn std::error::Error>> {
    let dir = tempfile::tempdir()?;
    let bank = TransactionDb::new(Db::open(dir.path().join("data"), Settings::default())?);
    let accounts = bank.keyspace("accounts")?;
    let mut setup = bank.begin(&TransactionOptions::default())?;
    for account in 0..ACCOUNTS {
        setup.put(accounts, &[account], &[START])?;
    }
    setup.commit()?;
    drop(setup);

    std::thread::scope(|scope| {
        let bank = &bank;
        let clerks: Vec<_> = (0..ACCOUNTS)
            .map(|clerk| {
                scope.spawn(move || {
                    for step in 0..50 {
                        transfer(bank, clerk, (clerk + 1 + step % 3) % ACCOUNTS, 7)?;
                    }
                    Ok::<_, Error>(())
                })
            })
            .collect();
        clerks.into_iter().try_for_each(|clerk| clerk.join().expect("a clerk panicked"))
    })?;

    let mut sum = 0;
    for account in 0..ACCOUNTS {
        sum += u32::from(bank.get(accounts, &[account])?.expect("it was set up")[0]);
    }
    assert_eq!(sum, u32::from(ACCOUNTS) * u32::from(START), "no money was made or lost");
    Ok(())
}
