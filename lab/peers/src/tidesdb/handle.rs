//! The database with what borrows from it: the one column family, snapshots, and scans.

use tidesdb::{
    ColumnFamily, ColumnFamilyConfig, Config, Iterator as Scanner, Result, Snapshot, TidesDB,
    Transaction,
};

const FAMILY: &str = "default";

/// A snapshot. It is dropped before its [`Family`].
pub(super) type Moment = Snapshot<'static>;

/// The column family and its database. Fields are dropped in this order: what borrows goes first.
pub(super) struct Family {
    family: ColumnFamily<'static>,
    database: Box<TidesDB>,
}

impl Family {
    pub(super) fn open(config: Config, family: ColumnFamilyConfig) -> Result<Family> {
        let database = Box::new(TidesDB::open(config)?);
        if !database.list_column_families()?.iter().any(|name| name == FAMILY) {
            database.create_column_family(FAMILY, family)?;
        }
        // SAFETY: the database is on the heap, where it stays when the box moves, and the family is
        // dropped before it.
        let borrowed: &'static TidesDB = unsafe { &*std::ptr::from_ref(&*database) };
        Ok(Family { family: borrowed.get_column_family(FAMILY)?, database })
    }

    pub(super) fn database(&self) -> &TidesDB {
        &self.database
    }

    pub(super) fn family(&self) -> &ColumnFamily<'static> {
        &self.family
    }

    pub(super) fn moment(&self) -> Result<Moment> {
        // SAFETY: a store keeps its snapshots in a field before its family, and a cursor borrows the
        // store: all of them end before the database does.
        let database: &'static TidesDB = unsafe { &*std::ptr::from_ref(&*self.database) };
        database.snapshot()
    }

    pub(super) fn begin_at<'a>(&'a self, moment: &'a Moment) -> Result<Transaction<'a>> {
        self.database.begin_transaction_at_snapshot(moment)
    }

    /// A scan at `moment`, which may be dropped before the scan: the transaction holds its versions.
    pub(super) fn scan(&self, moment: &Moment) -> Result<Scan<'_>> {
        // SAFETY: as in `open`; the scan borrows this value, too.
        let database: &'static TidesDB = unsafe { &*std::ptr::from_ref(&*self.database) };
        let txn = Box::new(database.begin_transaction_at_seq(moment.seq())?);
        // SAFETY: the transaction is on the heap, and the iterator is dropped before it.
        let borrowed: &'static Transaction<'static> = unsafe { &*std::ptr::from_ref(&*txn) };
        let iterator = borrowed.new_iterator(&self.family)?;
        Ok(Scan { iterator, _txn: txn, _family: self })
    }
}

/// A transaction with an iterator over all keys. Fields are dropped in this order.
pub(super) struct Scan<'a> {
    pub(super) iterator: Scanner<'static>,
    _txn: Box<Transaction<'static>>,
    _family: &'a Family,
}
