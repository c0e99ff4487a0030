//! Tables and their keys.
//!
//! | keyspace | key |
//! |---|---|
//! | `warehouse` | w |
//! | `district` | w, d |
//! | `customer` | w, d, c |
//! | `customer_by_name` | w, d, last name, 0, first name, 0, c |
//! | `history` | w, d, c of the customer, number of the payment |
//! | `orders` | w, d, o |
//! | `orders_by_customer` | w, d, c, !o |
//! | `new_order` | w, d, o |
//! | `order_line` | w, d, o, number of the line |
//! | `item` | i |
//! | `stock` | w, i |
//!
//! Numbers are big-endian, districts and lines one byte and all others four, so that keys are ordered as
//! numbers are; `!o` is the complement, so that a customer's newest order comes first. The two indexes
//! have empty values.
//!
//! The history has no primary key (clause 1.3). Its rows are distinguished by how many payments the customer
//! had made, which the payment counts while it holds the customer locked.

use esker_api::{KeyspaceRef, Transactional};
use esker_base::Result;

/// A table or an index.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Table {
    Warehouse,
    District,
    Customer,
    CustomerByName,
    History,
    Order,
    OrderByCustomer,
    NewOrder,
    OrderLine,
    Item,
    Stock,
}

impl Table {
    /// All, in the order of their numbers.
    const ALL: [Table; 11] = [
        Table::Warehouse,
        Table::District,
        Table::Customer,
        Table::CustomerByName,
        Table::History,
        Table::Order,
        Table::OrderByCustomer,
        Table::NewOrder,
        Table::OrderLine,
        Table::Item,
        Table::Stock,
    ];

    /// The name of its keyspace.
    pub(super) fn name(self) -> &'static str {
        match self {
            Table::Warehouse => "warehouse",
            Table::District => "district",
            Table::Customer => "customer",
            Table::CustomerByName => "customer_by_name",
            Table::History => "history",
            Table::Order => "orders",
            Table::OrderByCustomer => "orders_by_customer",
            Table::NewOrder => "new_order",
            Table::OrderLine => "order_line",
            Table::Item => "item",
            Table::Stock => "stock",
        }
    }
}

/// The keyspaces of a store.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tables([KeyspaceRef; Table::ALL.len()]);

impl Tables {
    /// Those of `store`, made if need be.
    pub(super) fn of(store: &dyn Transactional) -> Result<Self> {
        let mut ids = [KeyspaceRef::DEFAULT; Table::ALL.len()];
        for table in Table::ALL {
            ids[table as usize] = store.keyspace(table.name())?;
        }
        Ok(Tables(ids))
    }

    pub(super) fn id(&self, table: Table) -> KeyspaceRef {
        self.0[table as usize]
    }
}

/// The bytes of a [`District`]'s key: what the keys of all that belongs to it begin with.
pub(super) const DISTRICT_BYTES: usize = 5;

/// A district, or what belongs to it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct DistrictId {
    pub(super) warehouse: u32,
    pub(super) district: u8,
}

impl std::fmt::Display for DistrictId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "district {} of warehouse {}", self.district, self.warehouse)
    }
}

impl DistrictId {
    pub(super) fn key(self) -> [u8; DISTRICT_BYTES] {
        let [a, b, c, d] = self.warehouse.to_be_bytes();
        [a, b, c, d, self.district]
    }

    /// The district whose key this is the beginning of.
    pub(super) fn of_key(key: &[u8]) -> Option<Self> {
        let (warehouse, rest) = key.split_first_chunk::<4>()?;
        let district = *rest.first()?;
        Some(DistrictId { warehouse: u32::from_be_bytes(*warehouse), district })
    }

    /// The key of an order, of a new order or of a customer: a number of this district.
    pub(super) fn numbered(self, number: u32) -> [u8; 9] {
        let mut key = [0; 9];
        key[..5].copy_from_slice(&self.key());
        key[5..].copy_from_slice(&number.to_be_bytes());
        key
    }

    pub(super) fn line(self, order: u32, line: u8) -> [u8; 10] {
        let mut key = [0; 10];
        key[..9].copy_from_slice(&self.numbered(order));
        key[9] = line;
        key
    }

    pub(super) fn order_of_customer(self, customer: u32, order: u32) -> [u8; 13] {
        let mut key = [0; 13];
        key[..9].copy_from_slice(&self.numbered(customer));
        key[9..].copy_from_slice(&(!order).to_be_bytes());
        key
    }

    pub(super) fn payment(self, customer: u32, number: u32) -> [u8; 13] {
        let mut key = [0; 13];
        key[..9].copy_from_slice(&self.numbered(customer));
        key[9..].copy_from_slice(&number.to_be_bytes());
        key
    }

    /// What the keys of all customers of this last name begin with.
    pub(super) fn last_name(self, last: &str) -> Vec<u8> {
        [&self.key()[..], last.as_bytes(), b"\0"].concat()
    }

    pub(super) fn name(self, last: &str, first: &str, customer: u32) -> Vec<u8> {
        let number = customer.to_be_bytes();
        [&self.key()[..], last.as_bytes(), b"\0", first.as_bytes(), b"\0", &number].concat()
    }
}

pub(super) fn warehouse_key(warehouse: u32) -> [u8; 4] {
    warehouse.to_be_bytes()
}

pub(super) fn item_key(item: u32) -> [u8; 4] {
    item.to_be_bytes()
}

pub(super) fn stock_key(warehouse: u32, item: u32) -> [u8; 8] {
    ((u64::from(warehouse) << 32) | u64::from(item)).to_be_bytes()
}

/// The number that ends a key.
pub(super) fn last_number(key: &[u8]) -> u32 {
    key.last_chunk::<4>().map_or(0, |bytes| u32::from_be_bytes(*bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT: DistrictId = DistrictId { warehouse: 258, district: 3 };

    #[test]
    fn keys_are_ordered_as_their_numbers_are() {
        assert_eq!(AT.key(), [0, 0, 1, 2, 3]);
        assert_eq!(DistrictId::of_key(&AT.line(7, 2)), Some(AT));
        assert!(AT.line(7, 15) < AT.line(8, 1));
        assert!(AT.numbered(255) < AT.numbered(256));
        assert!(AT.order_of_customer(4, 9) < AT.order_of_customer(4, 8));
        assert!(stock_key(1, u32::MAX) < stock_key(2, 0));
        assert_eq!(last_number(&AT.payment(4, 77)), 77);
    }

    #[test]
    fn a_name_that_begins_another_is_not_taken_for_it() {
        assert!(AT.name("BAR", "x", 1).starts_with(&AT.last_name("BAR")));
        assert!(!AT.name("BARBAR", "x", 1).starts_with(&AT.last_name("BAR")));
        assert!(AT.name("BAR", "a", 9) < AT.name("BAR", "aa", 1));
    }

    #[test]
    fn every_table_is_at_its_number() {
        assert!(Table::ALL.iter().enumerate().all(|(at, &table)| table as usize == at));
    }
}
