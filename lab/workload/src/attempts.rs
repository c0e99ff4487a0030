//! Transactions that are run again when others got in their way.

use crate::Transactions;
use esker_api::{Transaction, TransactionOptions, Transactional};
use esker_base::Result;

/// How often a transaction is begun before its last error is passed on. A hundred clients that all want
/// one key can each lose to all others in turn, and that a few times over; more means that no transaction succeeds.
pub(crate) const TRIES: u32 = 1_000;

/// How a transaction is to end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Ending {
    /// What it wrote is installed.
    Commit,
    /// Without, as the workload wants it.
    Rollback,
    /// It wrote nothing.
    Nothing,
}

/// Runs `body` in a transaction, again from the start after every transient error, and ends it as `body`
/// says. `counted` is notified how it went.
pub(crate) fn attempt<T>(
    store: &dyn Transactional,
    options: &TransactionOptions,
    counted: &mut Transactions,
    mut body: impl FnMut(&mut (dyn Transaction + '_)) -> Result<(Ending, T)>,
) -> Result<T> {
    let mut tries = 1;
    loop {
        match once(store, options, counted, &mut body) {
            Err(error) if error.is_transient() && tries < TRIES => {
                tries += 1;
                counted.retries += 1;
            }
            ended => return ended,
        }
    }
}

fn once<T>(
    store: &dyn Transactional,
    options: &TransactionOptions,
    counted: &mut Transactions,
    body: &mut impl FnMut(&mut (dyn Transaction + '_)) -> Result<(Ending, T)>,
) -> Result<T> {
    let mut transaction = store.begin(options)?;
    let (ending, result) = body(&mut *transaction)?;
    match ending {
        Ending::Commit => {
            transaction.commit()?;
            counted.commits += 1;
        }
        Ending::Rollback => {
            transaction.rollback()?;
            counted.rollbacks += 1;
        }
        Ending::Nothing => transaction.rollback()?,
    }
    Ok(result)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::TransactionalModel;
    use esker_base::Error;

    fn run(fails: u32, ending: Ending) -> (Result<()>, Transactions) {
        let model = TransactionalModel::new();
        let mut counted = Transactions::NONE;
        let mut left = fails;
        let ended = attempt(&model, &TransactionOptions::default(), &mut counted, |_| {
            if left > 0 {
                left -= 1;
                return Err(Error::Conflict { key: "k".into() });
            }
            Ok((ending, ()))
        });
        (ended, counted)
    }

    #[test]
    fn a_transaction_is_run_again_until_nobody_is_in_its_way() {
        let (ended, counted) = run(3, Ending::Commit);
        ended.unwrap();
        assert_eq!(counted, Transactions { commits: 1, rollbacks: 0, retries: 3 });
        let (_, counted) = run(0, Ending::Rollback);
        assert_eq!(counted, Transactions { commits: 0, rollbacks: 1, retries: 0 });
        assert_eq!(run(0, Ending::Nothing).1, Transactions::NONE);
    }

    #[test]
    fn one_that_never_gets_through_ends_with_its_error() {
        let (ended, counted) = run(u32::MAX, Ending::Commit);
        assert!(matches!(ended, Err(Error::Conflict { .. })));
        assert_eq!(counted.retries, u64::from(TRIES) - 1);
    }
}
