//! What was acknowledged to clients, and whether a store has all of it. As text it is a line, so that it
//! can be kept where a crash of the store does not reach.

use super::rows::{History, Order, OrderLine, Row};
use super::session::decode;
use super::tables::{DistrictId, Table, Tables};
use crate::Differences;
use esker_api::{KeyRange, Transactional};
use esker_base::{Error, Result};
use std::fmt;
use std::str::FromStr;

/// A transaction whose commit was acknowledged, so that it must be there after any crash that the store
/// promises to survive.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Acknowledged(pub(super) Kind);

/// The three kinds that write. The date distinguishes a transaction from another that took its place: dates are
/// counted, so that no two of a run have the same.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    NewOrder { at: DistrictId, order: u32, date: u64 },
    Payment { of: DistrictId, customer: u32, payment: u32, date: u64 },
    Delivery { at: DistrictId, order: u32, date: u64 },
}

impl fmt::Display for Acknowledged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (kind, DistrictId { warehouse, district }, numbers, date) = match self.0 {
            Kind::NewOrder { at, order, date } => ("new-order", at, order.to_string(), date),
            Kind::Payment { of, customer, payment, date } => {
                ("payment", of, format!("{customer} {payment}"), date)
            }
            Kind::Delivery { at, order, date } => ("delivery", at, order.to_string(), date),
        };
        write!(f, "{kind} {warehouse} {district} {numbers} {date}")
    }
}

impl FromStr for Acknowledged {
    type Err = Error;

    fn from_str(line: &str) -> Result<Self> {
        parse(line).map(Acknowledged).ok_or_else(|| Error::InvalidSetting {
            setting: "acknowledged",
            value: line.to_owned(),
            reason: "it is such as \"new-order 1 10 3001 1004\"".to_owned(),
        })
    }
}

fn parse(line: &str) -> Option<Kind> {
    let mut words = line.split(' ');
    let kind = words.next()?;
    let numbers: Vec<u64> = words.map(|word| word.parse().ok()).collect::<Option<_>>()?;
    let (&[warehouse, district], numbers) = numbers.split_first_chunk()?;
    let number = |number: u64| u32::try_from(number).ok();
    let at = DistrictId { warehouse: number(warehouse)?, district: u8::try_from(district).ok()? };
    Some(match (kind, numbers) {
        ("new-order", &[order, date]) => Kind::NewOrder { at, order: number(order)?, date },
        ("payment", &[customer, payment, date]) => {
            let (customer, payment) = (number(customer)?, number(payment)?);
            Kind::Payment { of: at, customer, payment, date }
        }
        ("delivery", &[order, date]) => Kind::Delivery { at, order: number(order)?, date },
        _ => return None,
    })
}

/// Looks for every one of `acknowledged` in `store`, and says which are missing. Transactions that were
/// not acknowledged may be there or not.
pub fn verify(
    store: &dyn Transactional,
    acknowledged: impl IntoIterator<Item = Acknowledged>,
) -> Result<Differences> {
    let look = Look { store, tables: Tables::of(store)? };
    let mut found = Differences::default();
    for Acknowledged(kind) in acknowledged {
        if let Some(missing) = look.missing(kind)? {
            found.add(missing);
        }
    }
    Ok(found)
}

struct Look<'a> {
    store: &'a dyn Transactional,
    tables: Tables,
}

impl Look<'_> {
    fn row<R: Row>(&self, key: &[u8]) -> Result<Option<R>> {
        let value = self.store.get(self.tables.id(R::TABLE), key)?;
        value.map(|value| decode(key, &value)).transpose()
    }

    /// What is missing of a transaction, if anything is.
    fn missing(&self, kind: Kind) -> Result<Option<String>> {
        match kind {
            Kind::NewOrder { at, order, date } => self.missing_order(at, order, date),
            Kind::Payment { of, customer, payment, date } => {
                let row = self.row::<History>(&of.payment(customer, payment))?;
                let is_there = row.is_some_and(|row| row.date == date);
                Ok((!is_there).then(|| {
                    let whose = format!("payment {payment} of customer {customer}");
                    format!("{whose} of {of} was acknowledged and is missing")
                }))
            }
            Kind::Delivery { at, order, date } => {
                let is_there = self.is_delivered(at, order, date)?;
                Ok((!is_there).then(|| {
                    format!("the delivery of order {order} of {at} was acknowledged and is missing")
                }))
            }
        }
    }

    fn missing_order(&self, at: DistrictId, order: u32, date: u64) -> Result<Option<String>> {
        let row = self.row::<Order>(&at.numbered(order))?;
        let Some(row) = row.filter(|row| row.entry_date == date) else {
            return Ok(Some(format!("order {order} of {at} was acknowledged and is missing")));
        };
        let (lines, all) = (self.lines(at, order)?.len(), row.lines as usize);
        Ok((lines != all).then(|| {
            format!("order {order} of {at} was acknowledged; {lines} of {all} lines are there")
        }))
    }

    fn is_delivered(&self, at: DistrictId, order: u32, date: u64) -> Result<bool> {
        let key = at.numbered(order);
        let waits = self.store.get(self.tables.id(Table::NewOrder), &key)?.is_some();
        let is_carried = self.row::<Order>(&key)?.is_some_and(|row| row.carrier > 0);
        let lines = self.lines(at, order)?;
        let is_dated = !lines.is_empty() && lines.iter().all(|line| line.delivery_date == date);
        Ok(!waits && is_carried && is_dated)
    }

    fn lines(&self, at: DistrictId, order: u32) -> Result<Vec<OrderLine>> {
        let range = KeyRange::prefix(at.numbered(order));
        let mut cursor = self.store.cursor(self.tables.id(OrderLine::TABLE), range)?;
        cursor.seek_first()?;
        let mut lines = Vec::new();
        while let Some((key, value)) = cursor.current() {
            lines.push(decode(key, value)?);
            cursor.next()?;
        }
        Ok(lines)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_gives_back_what_it_was_made_of_and_half_a_line_nothing() {
        let at = DistrictId { warehouse: 12, district: 10 };
        for kind in [
            Kind::NewOrder { at, order: 3001, date: 1 << 40 },
            Kind::Payment { of: at, customer: 7, payment: 2, date: 1004 },
            Kind::Delivery { at, order: 1, date: 1005 },
        ] {
            let line = Acknowledged(kind).to_string();
            assert_eq!(line.parse::<Acknowledged>().unwrap(), Acknowledged(kind));
            let half = line.rsplit_once(' ').unwrap().0;
            half.parse::<Acknowledged>().unwrap_err();
        }
        for wrong in ["", "payment", "refund 1 1 1", "delivery 1 300 1 1", "delivery 1 -1 1 1"] {
            wrong.parse::<Acknowledged>().unwrap_err();
        }
    }
}
