//! The New-Order transaction, clause 2.4.

use super::Options;
use super::acknowledged::Kind;
use super::options::DISTRICTS;
use super::random::{Constants, ORIGINAL, between, percent};
use super::rows::{Customer, District, Item, Order, OrderLine, Stock, Warehouse};
use super::session::Session;
use super::tables::{DistrictId, Table, item_key, stock_key, warehouse_key};
use crate::attempts::Ending;
use esker_base::{Result, Rng};

/// What a terminal enters, clause 2.4.1.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct NewOrder {
    pub(super) at: DistrictId,
    pub(super) customer: u32,
    /// In the order of warehouses and items, so that transactions lock stocks in one order.
    pub(super) lines: Vec<Line>,
    pub(super) date: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Line {
    pub(super) supply_warehouse: u32,
    pub(super) item: u32,
    pub(super) quantity: u32,
}

impl NewOrder {
    pub(super) fn draw(
        options: &Options,
        constants: &Constants,
        warehouse: u32,
        date: u64,
        rng: &mut Rng,
    ) -> Self {
        let at = DistrictId { warehouse, district: between(rng, 1, DISTRICTS.into()) as u8 };
        let mut lines: Vec<_> = (0..between(rng, 5, 15))
            .map(|_| Line {
                supply_warehouse: supplier(options, warehouse, rng),
                item: constants.item(options, rng),
                quantity: between(rng, 1, 10) as u32,
            })
            .collect();
        lines.sort_unstable();
        // Clause 2.4.1.4: one in a hundred has a last item that nobody sells.
        if percent(rng, 1)
            && let Some(last) = lines.last_mut()
        {
            last.item = options.items + 1;
        }
        NewOrder { at, customer: constants.customer(options, rng), lines, date }
    }

    /// Clause 2.4.2.2. It is rolled back, without an order, if it comes to an item that does not exist.
    pub(super) fn run(&self, session: &mut Session<'_, '_>) -> Result<(Ending, Option<Kind>)> {
        let at = self.at;
        // First what others want as well: where the first read sets the moment, what the lock was waited
        // for is then no conflict.
        let mut district: District = session.lock(&at.key())?;
        let warehouse: Warehouse = session.read(&warehouse_key(at.warehouse))?;
        let customer: Customer = session.read(&at.numbered(self.customer))?;
        let order = district.next_order;
        district.next_order += 1;
        session.write(&at.key(), &district)?;

        let all_local = self.lines.iter().all(|line| line.supply_warehouse == at.warehouse);
        let row = Order {
            customer: self.customer,
            entry_date: self.date,
            carrier: 0,
            lines: self.lines.len() as u32,
            all_local: all_local.into(),
        };
        session.write(&at.numbered(order), &row)?;
        session.write_entry(Table::OrderByCustomer, &at.order_of_customer(self.customer, order))?;
        session.write_entry(Table::NewOrder, &at.numbered(order))?;
        let mut total = 0;
        for (number, line) in (1..).zip(&self.lines) {
            match self.add_line(session, order, number, line)? {
                Some(amount) => total += amount,
                None => return Ok((Ending::Rollback, None)),
            }
        }
        // What the terminal would show.
        let (tax, discount) = (warehouse.tax + district.tax, customer.discount);
        let total = total as f64 * (1.0 + f64::from(tax) / 1e4) * (1.0 - f64::from(discount) / 1e4);
        std::hint::black_box(total);
        Ok((Ending::Commit, Some(Kind::NewOrder { at, order, date: self.date })))
    }

    /// Adds a line and takes it from the stock. Gives the amount, or `None` if there is no such item.
    fn add_line(
        &self,
        session: &mut Session<'_, '_>,
        order: u32,
        number: u8,
        line: &Line,
    ) -> Result<Option<i64>> {
        let Some(item) = session.find::<Item>(&item_key(line.item))? else { return Ok(None) };
        let key = stock_key(line.supply_warehouse, line.item);
        let mut stock: Stock = session.lock(&key)?;
        take_from(&mut stock, line.quantity, line.supply_warehouse != self.at.warehouse);
        session.write(&key, &stock)?;
        // Also shown: whether it is of a brand.
        std::hint::black_box(item.data.contains(ORIGINAL) && stock.data.contains(ORIGINAL));
        let amount = i64::from(line.quantity) * item.price;
        let row = OrderLine {
            item: line.item,
            supply_warehouse: line.supply_warehouse,
            delivery_date: 0,
            quantity: line.quantity,
            amount,
            district_info: stock.info_of(self.at.district).to_owned(),
        };
        session.write(&self.at.line(order, number), &row)?;
        Ok(Some(amount))
    }
}

/// Clause 2.4.1.5: one line in a hundred comes from another warehouse, if there is one.
fn supplier(options: &Options, home: u32, rng: &mut Rng) -> u32 {
    if options.warehouses > 1 && percent(rng, 1) {
        other_warehouse(options, home, rng)
    } else {
        home
    }
}

/// Any warehouse but `home`.
pub(super) fn other_warehouse(options: &Options, home: u32, rng: &mut Rng) -> u32 {
    let drawn = between(rng, 1, u64::from(options.warehouses) - 1) as u32;
    drawn + u32::from(drawn >= home)
}

/// Takes from a stock, which is filled up before it falls below ten.
fn take_from(stock: &mut Stock, quantity: u32, is_remote: bool) {
    let quantity = i64::from(quantity);
    let refill = if stock.quantity >= quantity + 10 { 0 } else { 91 };
    stock.quantity += refill - quantity;
    stock.ytd += quantity as u64;
    stock.orders += 1;
    stock.remote_orders += u32::from(is_remote);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stock_is_filled_up_before_it_falls_below_ten() {
        for (before, quantity, after) in [(20, 10, 10), (19, 10, 100), (10, 1, 100), (11, 1, 10)] {
            let mut stock = Stock { quantity: before, ..Stock::default() };
            take_from(&mut stock, quantity, true);
            assert_eq!(stock.quantity, after, "{before} - {quantity}");
            assert_eq!((stock.ytd, stock.orders, stock.remote_orders), (quantity.into(), 1, 1));
        }
    }

    #[test]
    fn orders_are_drawn_as_specified() {
        let options = Options { warehouses: 4, ..Options::default() };
        let (constants, mut rng) = (Constants::new(1), Rng::new(1));
        let orders: Vec<_> =
            (0..20_000).map(|_| NewOrder::draw(&options, &constants, 2, 1, &mut rng)).collect();
        let share = |count: usize, of: usize| count as f64 / of as f64;
        let unsold = |order: &&NewOrder| order.lines.last().unwrap().item > options.items;
        let rolled_back = share(orders.iter().filter(unsold).count(), orders.len());
        assert!((0.008..0.012).contains(&rolled_back), "{rolled_back}");
        let lines: Vec<_> = orders.iter().flat_map(|order| &order.lines).collect();
        let remote = lines.iter().filter(|line| line.supply_warehouse != 2).count();
        assert!((0.008..0.012).contains(&share(remote, lines.len())), "{remote}");
        assert!((9.9..10.1).contains(&share(lines.len(), orders.len())));
        assert!(lines.iter().all(|line| (1..=10).contains(&line.quantity)));
        assert!(orders.iter().all(|order| (1..=10).contains(&order.at.district)));
        assert!(lines.iter().all(|line| (1..=4).contains(&line.supply_warehouse)));
    }
}
