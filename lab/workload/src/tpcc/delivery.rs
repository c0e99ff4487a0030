//! The Delivery transaction, clause 2.7.
//!
//! The business transaction delivers the oldest order of each of the ten districts. Clause 2.7.1 leaves
//! open how many of them share a database transaction. Here each has its own: locks are held for a short
//! time, and two deliveries in one warehouse get in each other's way at one district only.

use super::acknowledged::Kind;
use super::rows::{Customer, Order, OrderLine};
use super::session::Session;
use super::tables::{DistrictId, Table, last_number};
use crate::attempts::Ending;
use esker_base::{Error, Result};

/// What a terminal enters, clause 2.7.1, for one district.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Delivery {
    pub(super) at: DistrictId,
    pub(super) carrier: u32,
    pub(super) date: u64,
}

impl Delivery {
    /// Clause 2.7.4.2. `None` if the district has no order to deliver.
    pub(super) fn run(&self, session: &mut Session<'_, '_>) -> Result<(Ending, Option<Kind>)> {
        let at = self.at;
        let oldest = session.keys(Table::NewOrder, &at.key(), 1)?;
        let Some(key) = oldest.first() else { return Ok((Ending::Nothing, None)) };
        if !session.lock_entry(Table::NewOrder, key)? {
            // Another delivery took it before this one had it locked.
            return Err(Error::Conflict { key: key.escape_ascii().to_string() });
        }
        session.delete(Table::NewOrder, key)?;
        let number = last_number(key);
        let mut order: Order = session.lock(&at.numbered(number))?;
        order.carrier = self.carrier;
        session.write(&at.numbered(number), &order)?;
        let amount = self.deliver_lines(session, number)?;

        let customer_key = at.numbered(order.customer);
        let mut customer: Customer = session.lock(&customer_key)?;
        customer.balance += amount;
        customer.deliveries += 1;
        session.write(&customer_key, &customer)?;
        Ok((Ending::Commit, Some(Kind::Delivery { at, order: number, date: self.date })))
    }

    /// Notes the date on every line. Gives the sum of their amounts.
    fn deliver_lines(&self, session: &mut Session<'_, '_>, order: u32) -> Result<i64> {
        let (first, end) = (self.at.line(order, 0), self.at.line(order + 1, 0));
        let mut lines: Vec<(Vec<u8>, OrderLine)> = Vec::new();
        session.scan(&first, &end, |key, line| lines.push((key.to_vec(), line)))?;
        let mut amount = 0;
        for (key, mut line) in lines {
            // Nobody else changes the lines of an order that is locked.
            line.delivery_date = self.date;
            amount += line.amount;
            session.write(&key, &line)?;
        }
        Ok(amount)
    }
}
