//! The Stock-Level transaction, clause 2.8.

use super::random::between;
use super::rows::{District, OrderLine, Stock};
use super::session::Session;
use super::tables::{DistrictId, stock_key};
use crate::attempts::Ending;
use esker_base::{Result, Rng};

/// Orders that are inspected, clause 2.8.2.2.
const ORDERS: u32 = 20;

/// What a terminal enters, clause 2.8.1.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct StockLevel {
    pub(super) at: DistrictId,
    pub(super) threshold: i64,
}

impl StockLevel {
    /// A terminal asks for its own district, always.
    pub(super) fn draw(at: DistrictId, rng: &mut Rng) -> Self {
        StockLevel { at, threshold: between(rng, 10, 20) as i64 }
    }

    /// How many of the items of the last orders are low on stock.
    pub(super) fn run(&self, session: &mut Session<'_, '_>) -> Result<(Ending, u64)> {
        let at = self.at;
        let district: District = session.read(&at.key())?;
        let (first, end) = (district.next_order.saturating_sub(ORDERS), district.next_order);
        let mut items = Vec::new();
        session.scan(&at.line(first, 0), &at.line(end, 0), |_, line: OrderLine| {
            items.push(line.item);
        })?;
        items.sort_unstable();
        items.dedup();
        let mut low = 0;
        for item in items {
            let stock: Stock = session.read(&stock_key(at.warehouse, item))?;
            low += u64::from(stock.quantity < self.threshold);
        }
        Ok((Ending::Nothing, low))
    }
}
