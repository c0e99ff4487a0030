//! The conditions on one district.

use super::super::Options;
use super::super::rows::{Customer, District, History, Order, OrderLine};
use super::super::session::decode;
use super::super::tables::{DistrictId, last_number};
use crate::Differences;
use esker_base::Result;
use std::collections::{BTreeMap, BTreeSet};

/// What is needed of a customer.
#[derive(Clone, Copy, Default)]
struct CustomerSums {
    balance: i64,
    ytd_payment: i64,
    paid: i64,
    delivered: i64,
}

/// What is needed of an order.
#[derive(Clone, Copy, Default)]
struct OrderSums {
    /// `None` if there are lines alone.
    customer: Option<u32>,
    carried: bool,
    wanted_lines: u32,
    lines: u32,
    delivered_lines: u32,
    delivered: i64,
}

/// Takes in all rows of a district and judges them.
pub(super) struct DistrictCheck {
    at: DistrictId,
    customers: BTreeMap<u32, CustomerSums>,
    deliveries: u64,
    orders: BTreeMap<u32, OrderSums>,
    by_customer: BTreeSet<(u32, u32)>,
    new_orders: BTreeSet<u32>,
}

impl DistrictCheck {
    pub(super) fn new(at: DistrictId) -> Self {
        DistrictCheck {
            at,
            customers: BTreeMap::new(),
            deliveries: 0,
            orders: BTreeMap::new(),
            by_customer: BTreeSet::new(),
            new_orders: BTreeSet::new(),
        }
    }

    pub(super) fn customer(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        let row: Customer = decode(key, value)?;
        let sums = self.customers.entry(last_number(key)).or_default();
        (sums.balance, sums.ytd_payment) = (row.balance, row.ytd_payment);
        self.deliveries += u64::from(row.deliveries);
        Ok(())
    }

    pub(super) fn payment(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        let row: History = decode(key, value)?;
        self.customers.entry(last_number(&key[..4])).or_default().paid += row.amount;
        Ok(())
    }

    pub(super) fn order(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        let row: Order = decode(key, value)?;
        let sums = self.orders.entry(last_number(key)).or_default();
        sums.customer = Some(row.customer);
        sums.carried = row.carrier > 0;
        sums.wanted_lines = row.lines;
        Ok(())
    }

    pub(super) fn order_by_customer(&mut self, key: &[u8]) -> Result<()> {
        self.by_customer.insert((last_number(&key[..4]), !last_number(key)));
        Ok(())
    }

    pub(super) fn new_order(&mut self, key: &[u8]) -> Result<()> {
        self.new_orders.insert(last_number(key));
        Ok(())
    }

    pub(super) fn line(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        let row: OrderLine = decode(key, value)?;
        let sums = self.orders.entry(last_number(&key[..4])).or_default();
        sums.lines += 1;
        if row.delivery_date > 0 {
            sums.delivered_lines += 1;
            sums.delivered += row.amount;
        }
        Ok(())
    }

    /// Judges, once all rows are in. `paid` is the sum of the payments made in this district.
    pub(super) fn end(
        mut self,
        district: &District,
        paid: i64,
        options: &Options,
        found: &mut Differences,
    ) {
        self.numbers(district, found);
        self.each_order(found);
        self.counts(options, found);
        found.expect(paid, district.ytd, || {
            format!("condition 9: D_YTD of {}, the sum of H_AMOUNT", self.at)
        });
        self.each_customer(found);
        self.indexes(found);
    }

    fn rows(&self) -> impl Iterator<Item = (u32, &OrderSums)> {
        let rows = self.orders.iter().filter(|(_, order)| order.customer.is_some());
        rows.map(|(&number, order)| (number, order))
    }

    /// Conditions 2 and 3. A district whose orders are all delivered has no new order to number.
    fn numbers(&self, district: &District, found: &mut Differences) {
        let at = self.at;
        let last = district.next_order - 1;
        let last_order = self.rows().map(|(number, _)| number).max().unwrap_or(0);
        found.expect(last_order, last, || {
            format!("condition 2: D_NEXT_O_ID - 1 of {at}, the last O_ID")
        });
        let (Some(&first_new), Some(&last_new)) = (self.new_orders.first(), self.new_orders.last())
        else {
            return;
        };
        found.expect(last_new, last, || {
            format!("condition 2: D_NEXT_O_ID - 1 of {at}, the last NO_O_ID")
        });
        let count = self.new_orders.len() as u32;
        found.expect(last_new - first_new + 1, count, || {
            format!("condition 3: rows of NEW-ORDER of {at}, from the first to the last")
        });
    }

    /// Conditions 5, 6 and 7.
    fn each_order(&self, found: &mut Differences) {
        let at = self.at;
        for (&number, order) in &self.orders {
            let is_new = self.new_orders.contains(&number);
            if order.customer.is_some() {
                found.expect(!is_new, order.carried, || {
                    format!("condition 5: whether order {number} of {at} has a carrier")
                });
            }
            found.expect(order.wanted_lines, order.lines, || {
                format!("condition 6: lines of order {number} of {at}, O_OL_CNT")
            });
            let dated = if order.carried { order.lines } else { 0 };
            found.expect(dated, order.delivered_lines, || {
                format!("condition 7: lines of order {number} of {at} that have a delivery date")
            });
        }
        for number in self.new_orders.iter().filter(|number| !self.has_order(**number)) {
            found.add(format!("condition 5: new order {number} of {at} has no row of ORDER"));
        }
    }

    fn has_order(&self, number: u32) -> bool {
        self.orders.get(&number).is_some_and(|order| order.customer.is_some())
    }

    /// Conditions 4 and 11.
    fn counts(&self, options: &Options, found: &mut Differences) {
        let at = self.at;
        let wanted: u64 = self.rows().map(|(_, order)| u64::from(order.wanted_lines)).sum();
        let lines: u64 = self.orders.values().map(|order| u64::from(order.lines)).sum();
        found.expect(wanted, lines, || {
            format!("condition 4: rows of ORDER-LINE of {at}, the sum of O_OL_CNT")
        });
        let orders = self.rows().count() as i64;
        let delivered = u64::from(options.delivered()) + self.deliveries;
        found.expect(delivered as i64, orders - self.new_orders.len() as i64, || {
            format!("condition 11: rows of ORDER of {at} without those of NEW-ORDER")
        });
    }

    /// Conditions 10 and 12.
    fn each_customer(&mut self, found: &mut Differences) {
        for order in self.orders.values() {
            if let Some(customer) = order.customer {
                self.customers.entry(customer).or_default().delivered += order.delivered;
            }
        }
        let at = self.at;
        for (number, sums) in &self.customers {
            found.expect(sums.delivered - sums.paid, sums.balance, || {
                format!(
                    "condition 10: C_BALANCE of customer {number} of {at}, what was delivered less \
                     what was paid"
                )
            });
            found.expect(sums.delivered, sums.balance + sums.ytd_payment, || {
                format!(
                    "condition 12: C_BALANCE and C_YTD_PAYMENT of customer {number} of {at}, what was \
                     delivered"
                )
            });
        }
    }

    /// The index of orders by customer has each order once.
    fn indexes(&self, found: &mut Differences) {
        let orders: BTreeSet<_> =
            self.rows().filter_map(|(number, order)| Some((order.customer?, number))).collect();
        for (customer, number) in orders.symmetric_difference(&self.by_customer) {
            let at = self.at;
            found.add(format!(
                "index: order {number} of customer {customer} of {at} is in only one of ORDER and its \
                 index"
            ));
        }
    }
}
