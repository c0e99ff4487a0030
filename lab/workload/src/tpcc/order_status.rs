//! The Order-Status transaction, clause 2.6.

use super::Options;
use super::customers::Customers;
use super::options::DISTRICTS;
use super::random::{Constants, between};
use super::rows::{Customer, Order, OrderLine};
use super::session::Session;
use super::tables::{DistrictId, Table, last_number};
use crate::attempts::Ending;
use esker_base::{Result, Rng};

/// What a terminal enters, clause 2.6.1.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct OrderStatus {
    pub(super) at: DistrictId,
    pub(super) customer: Customers,
}

/// What it is shown of a customer's newest order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Status {
    pub(super) order: u32,
    pub(super) lines: u32,
}

impl OrderStatus {
    pub(super) fn draw(
        options: &Options,
        constants: &Constants,
        warehouse: u32,
        rng: &mut Rng,
    ) -> Self {
        let at = DistrictId { warehouse, district: between(rng, 1, DISTRICTS.into()) as u8 };
        OrderStatus { at, customer: Customers::draw(options, constants, rng) }
    }

    /// Clause 2.6.2.2. `None` if the customer has no order.
    pub(super) fn run(&self, session: &mut Session<'_, '_>) -> Result<(Ending, Option<Status>)> {
        let at = self.at;
        let number = self.customer.number(session, at)?;
        let customer: Customer = session.read(&at.numbered(number))?;
        std::hint::black_box(customer.balance);
        let newest = session.keys(Table::OrderByCustomer, &at.numbered(number), 1)?;
        let Some(newest) = newest.first() else { return Ok((Ending::Nothing, None)) };
        let order = !last_number(newest);
        let row: Order = session.read(&at.numbered(order))?;
        let mut lines = 0;
        session.scan(&at.line(order, 0), &at.line(order + 1, 0), |_, line: OrderLine| {
            std::hint::black_box(&line);
            lines += 1;
        })?;
        debug_assert_eq!(lines, row.lines);
        Ok((Ending::Nothing, Some(Status { order, lines })))
    }
}
