//! Which database a pool belongs to: two words, the second with every bit of the first inverted.

use super::Pool;
use super::report::word;
use crate::format::{OWNER_AT, OWNER_COMPLEMENT_AT};
use esker_base::Result;

impl Pool {
    /// Returns the id of the database that the pool belongs to, or `None`.
    pub fn owner(&self) -> Option<u64> {
        *self.owner.lock()
    }

    /// Whether the pool belongs to `database`. False if it belongs to none.
    ///
    /// # Errors
    /// [`Error::PoolRefused`](esker_base::Error::PoolRefused) if it belongs to another database.
    pub fn belongs_to(&self, database: u64) -> Result<bool> {
        match self.owner() {
            Some(found) if found == database => Ok(true),
            Some(found) => Err(self.refused(format!(
                "it belongs to another database, {found:016x}, whose newest writes may be in it; this \
                 one is {database:016x}: give each database a pool of its own. If the other one was \
                 deleted, remove the file and make a new pool with `esker pmem create`"
            ))),
            None => Ok(false),
        }
    }

    /// Assigns the pool to `database` durably, unless it belongs to it already.
    ///
    /// # Errors
    /// [`Error::PoolRefused`](esker_base::Error::PoolRefused) if the pool belongs to another
    /// database, [`Error::ReadOnly`](esker_base::Error::ReadOnly) if it is not writable.
    ///
    /// # Panics
    /// If `database` is zero.
    pub fn claim(&self, database: u64) -> Result<()> {
        assert!(database != 0, "a database's identity is not zero");
        if self.belongs_to(database)? {
            return Ok(());
        }
        self.check_writable()?;
        let mut owner = self.owner.lock();
        self.store_word(OWNER_COMPLEMENT_AT, !database);
        self.fence();
        self.store_word(OWNER_AT, database);
        self.fence();
        *owner = Some(database);
        Ok(())
    }

    /// Presumes that the pool belongs to `database` if its owner is damaged and one of its two
    /// words names that database.
    ///
    /// Returns whether the pool belongs to `database`.
    pub fn presume_owner(&self, database: u64) -> bool {
        let mut owner = self.owner.lock();
        let at = |at| word(&*self.region, at);
        // Without an owner there is nothing to presume: a claim that was cut off left its complement.
        let names =
            at(OWNER_AT) == database || (at(OWNER_AT) != 0 && at(OWNER_COMPLEMENT_AT) == !database);
        if owner.is_none() && names {
            *owner = Some(database);
        }
        *owner == Some(database)
    }
}
