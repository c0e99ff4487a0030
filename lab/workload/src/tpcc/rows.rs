//! Rows as bytes: the fields of each table in the order of clause 1.3, without those that the key holds.
//!
//! Counts and dates are varints; money, in cents, and stock, which can pass below zero, are zigzag
//! varints; texts have their length before them. Rates are in ten-thousandths. A date of zero is none, a
//! carrier of zero is none.

use super::tables::Table;
use esker_base::coding::{put_bytes, put_varint64, take_bytes, take_varint64};

/// A field of a row.
trait Field: Sized {
    fn put(&self, out: &mut Vec<u8>);
    fn take(from: &mut &[u8]) -> Option<Self>;
}

impl Field for u64 {
    fn put(&self, out: &mut Vec<u8>) {
        put_varint64(out, *self);
    }
    fn take(from: &mut &[u8]) -> Option<Self> {
        take_varint64(from)
    }
}

impl Field for u32 {
    fn put(&self, out: &mut Vec<u8>) {
        put_varint64(out, (*self).into());
    }
    fn take(from: &mut &[u8]) -> Option<Self> {
        u32::try_from(take_varint64(from)?).ok()
    }
}

impl Field for i64 {
    fn put(&self, out: &mut Vec<u8>) {
        put_varint64(out, ((self << 1) ^ (self >> 63)) as u64);
    }
    fn take(from: &mut &[u8]) -> Option<Self> {
        let coded = take_varint64(from)?;
        Some((coded >> 1) as i64 ^ -((coded & 1) as i64))
    }
}

impl Field for String {
    fn put(&self, out: &mut Vec<u8>) {
        put_bytes(out, self.as_bytes());
    }
    fn take(from: &mut &[u8]) -> Option<Self> {
        String::from_utf8(take_bytes(from)?.to_vec()).ok()
    }
}

/// A row of a table.
pub(super) trait Row: Sized {
    /// The table.
    const TABLE: Table;

    /// Replaces `out` by the row's bytes.
    fn encode(&self, out: &mut Vec<u8>);

    /// The row that has these bytes.
    fn decode(value: &[u8]) -> Option<Self>;
}

/// Makes a row of fields, and its encoding.
macro_rules! row {
    ($(#[$about:meta])* $name:ident of $table:ident { $($field:ident: $kind:ty),* $(,)? }) => {
        $(#[$about])*
        #[derive(Clone, PartialEq, Eq, Debug, Default)]
        pub(super) struct $name { $(pub(super) $field: $kind),* }

        impl Row for $name {
            const TABLE: Table = Table::$table;

            fn encode(&self, out: &mut Vec<u8>) {
                out.clear();
                $(self.$field.put(out);)*
            }

            fn decode(mut value: &[u8]) -> Option<Self> {
                let row = $name { $($field: Field::take(&mut value)?),* };
                value.is_empty().then_some(row)
            }
        }
    };
}

row! {
    Warehouse of Warehouse {
        name: String, street_1: String, street_2: String, city: String, state: String, zip: String,
        tax: u32, ytd: i64,
    }
}

row! {
    District of District {
        name: String, street_1: String, street_2: String, city: String, state: String, zip: String,
        tax: u32, ytd: i64, next_order: u32,
    }
}

row! {
    Customer of Customer {
        first: String, middle: String, last: String,
        street_1: String, street_2: String, city: String, state: String, zip: String,
        phone: String, since: u64, credit: String, credit_limit: i64, discount: u32,
        balance: i64, ytd_payment: i64, payments: u32, deliveries: u32, data: String,
    }
}

row! {
    /// A payment: where it was made, when, how much.
    History of History {
        warehouse: u32, district: u32, date: u64, amount: i64, data: String,
    }
}

row! {
    Order of Order {
        customer: u32, entry_date: u64, carrier: u32, lines: u32, all_local: u32,
    }
}

row! {
    OrderLine of OrderLine {
        item: u32, supply_warehouse: u32, delivery_date: u64, quantity: u32, amount: i64,
        district_info: String,
    }
}

row! {
    Item of Item {
        image: u32, name: String, price: i64, data: String,
    }
}

row! {
    /// `district_info` is that of all districts, [`DISTRICT_INFO`] bytes each.
    Stock of Stock {
        quantity: i64, district_info: String, ytd: u64, orders: u32, remote_orders: u32, data: String,
    }
}

/// The bytes of `S_DIST_xx`, of which a stock has one for each district.
pub(super) const DISTRICT_INFO: usize = 24;

impl Stock {
    pub(super) fn info_of(&self, district: u8) -> &str {
        let start = usize::from(district - 1) * DISTRICT_INFO;
        &self.district_info[start..start + DISTRICT_INFO]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_come_back_as_they_went_in() {
        let customer = Customer {
            last: "BARBARBAR".into(),
            balance: -1_000,
            ytd_payment: i64::MAX,
            data: "x".repeat(500),
            ..Customer::default()
        };
        let mut bytes = Vec::new();
        customer.encode(&mut bytes);
        assert_eq!(Customer::decode(&bytes), Some(customer));
        assert_eq!(Customer::decode(&bytes[..bytes.len() - 1]), None, "cut short");
        bytes.push(0);
        assert_eq!(Customer::decode(&bytes), None, "too long");
    }

    #[test]
    fn money_below_nothing_is_money_too() {
        for amount in [0, 1, -1, i64::MAX, i64::MIN] {
            let mut bytes = Vec::new();
            amount.put(&mut bytes);
            assert_eq!(i64::take(&mut &bytes[..]), Some(amount));
        }
    }
}
