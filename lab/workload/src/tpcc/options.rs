//! How large the company is, and how many work for it.

use crate::worker::check_threads;
use esker_api::{Isolation, TransactionOptions};
use esker_base::{Error, Result};

/// Districts of a warehouse, clause 1.2.1.
pub(super) const DISTRICTS: u8 = 10;

/// Clause 1.2.1: a warehouse stocks all of the company's items.
pub const ITEMS: u32 = 100_000;

/// Clause 1.2.1: customers of a district, each with one order to begin with.
pub const CUSTOMERS: u32 = 3_000;

/// A company and its clients.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Options {
    /// Warehouses, of ten districts each.
    pub warehouses: u32,
    /// Items that each warehouse stocks: 100,000 as specified, fewer for quick tests.
    pub items: u32,
    /// Customers of a district: 3,000 as specified, fewer for quick tests.
    pub customers: u32,
    /// Transactions that all clients together are to do.
    pub transactions: u64,
    /// Clients, and as many threads. Client 0 is at the first district of the first warehouse, client 1 of
    /// the second; once each has one, it goes on with the second districts, and round again.
    pub clients: usize,
    /// What transactions see of each other.
    pub isolation: Isolation,
    /// What the content and the transactions follow from.
    pub seed: u64,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            warehouses: 1,
            items: ITEMS,
            customers: CUSTOMERS,
            transactions: 10_000,
            clients: 10,
            isolation: Isolation::Snapshot,
            seed: 1,
        }
    }
}

impl Options {
    /// Refuses what can't be run.
    pub fn check(&self) -> Result<()> {
        let within = |setting, value: u64, least: u64, most: u64| {
            if (least..=most).contains(&value) {
                return Ok(());
            }
            let reason = format!("it is from {least} to {most}");
            Err(Error::InvalidSetting { setting, value: value.to_string(), reason })
        };
        within("warehouses", self.warehouses.into(), 1, 1_000_000)?;
        // An order has up to 15 items, of which one may be no item at all.
        within("items", self.items.into(), 20, ITEMS.into())?;
        within("customers", self.customers.into(), 10, CUSTOMERS.into())?;
        check_threads("clients", self.clients)
    }

    /// Whether the tables are as large as specified: results of others can't be compared.
    pub fn is_full_size(&self) -> bool {
        (self.items, self.customers) == (ITEMS, CUSTOMERS)
    }

    /// Orders of a district that are delivered to begin with: seven tenths, clause 4.3.3.1.
    pub(super) fn delivered(&self) -> u32 {
        self.customers * 7 / 10
    }

    /// Last names that some customer has, of a thousand: clause 4.3.2.3 and 4.3.3.1.
    pub(super) fn last_names(&self) -> u32 {
        self.customers.min(1_000)
    }

    pub(super) fn transaction(&self) -> TransactionOptions {
        TransactionOptions::default().isolation(self.isolation)
    }
}
