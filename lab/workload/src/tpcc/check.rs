//! The consistency conditions, clause 3.3.2, numbered as there, and some of our own: a thirteenth for the
//! indexes, a fourteenth for the stocks, which must have given what the lines of orders took, and a fifteenth
//! for the tables whose number of rows never changes.
//!
//! All tables are streamed side by side, a district at a time; of a district, what is needed of each
//! customer and order is held, a few numbers. The fourteenth holds two for each stock that an order since the
//! load took.
//!
//! Condition 11 as written, that a district has 2,100 orders more than new orders, holds before the first
//! delivery. Here deliveries since then are added, as the customers have them counted, so that it can be
//! tested at any time; and at another scale it starts with seven tenths of the customers.

mod district;

use super::Options;
use super::options::DISTRICTS;
use super::rows::{District, History, OrderLine, Row, Stock, Warehouse};
use super::session::decode;
use super::tables::{DISTRICT_BYTES, DistrictId, Table, Tables, last_number};
use crate::Differences;
use crate::groups::{Groups, next_prefix};
use district::DistrictCheck;
use esker_api::{KeyRange, Transactional};
use esker_base::Result;
use std::collections::{BTreeMap, BTreeSet};

/// Tests the conditions on the company of `options` in `store`. No client may write meanwhile. A difference
/// names its condition.
pub fn check(store: &dyn Transactional, options: &Options) -> Result<Differences> {
    let tables = Tables::of(store)?;
    let (by_district, by_warehouse) = payments(store, &tables)?;
    let mut found = Differences::default();
    let mut ytd_of_districts: BTreeMap<u32, i64> = BTreeMap::new();

    let groups = |table| Groups::new(store, tables.id(table), DISTRICT_BYTES);
    let mut districts = groups(Table::District)?;
    let mut parts = [
        groups(Table::Customer)?,
        groups(Table::History)?,
        groups(Table::Order)?,
        groups(Table::OrderByCustomer)?,
        groups(Table::NewOrder)?,
        groups(Table::OrderLine)?,
    ];
    loop {
        let [customers, history, orders, by_customer, new_orders, lines] = &mut parts;
        let all = [&districts, customers, history, orders, by_customer, new_orders, lines];
        let Some(prefix) = next_prefix(&all) else { break };
        let at = DistrictId::of_key(&prefix).expect("a group's key is that of a district");
        let mut check = DistrictCheck::new(at);
        customers.visit(&prefix, |key, value| check.customer(key, value))?;
        history.visit(&prefix, |key, value| check.payment(key, value))?;
        orders.visit(&prefix, |key, value| check.order(key, value))?;
        by_customer.visit(&prefix, |key, _| check.order_by_customer(key))?;
        new_orders.visit(&prefix, |key, _| check.new_order(key))?;
        lines.visit(&prefix, |key, value| check.line(key, value))?;
        match districts.take(&prefix)?.first() {
            None => found.add(format!("conditions 2 to 12: {at} has no row")),
            Some((_, value)) => {
                let district: District = decode(&prefix, value)?;
                *ytd_of_districts.entry(at.warehouse).or_default() += district.ytd;
                let paid = by_district.get(&at).copied().unwrap_or(0);
                check.end(&district, paid, options, &mut found);
            }
        }
    }
    let sums = [&ytd_of_districts, &by_warehouse];
    warehouses(store, &tables, options, sums, &mut found)?;
    stocks(store, &tables, options, &mut found)?;
    fixed_tables(store, &tables, options, &mut found)?;
    Ok(found)
}

type PaymentsByDistrict = BTreeMap<DistrictId, i64>;
type PaymentsByWarehouse = BTreeMap<u32, i64>;

/// The sums of all payments, by where they were made.
fn payments(
    store: &dyn Transactional,
    tables: &Tables,
) -> Result<(PaymentsByDistrict, PaymentsByWarehouse)> {
    let (mut by_district, mut by_warehouse) = (BTreeMap::new(), BTreeMap::new());
    each_row(store, tables, |_, row: History| {
        let (warehouse, district) = (row.warehouse, row.district as u8);
        *by_district.entry(DistrictId { warehouse, district }).or_default() += row.amount;
        *by_warehouse.entry(warehouse).or_default() += row.amount;
    })?;
    Ok((by_district, by_warehouse))
}

/// Conditions 1 and 8, of the sums of D_YTD and of H_AMOUNT.
fn warehouses(
    store: &dyn Transactional,
    tables: &Tables,
    options: &Options,
    [ytd_of_districts, paid]: [&BTreeMap<u32, i64>; 2],
    found: &mut Differences,
) -> Result<()> {
    let mut seen = BTreeSet::new();
    each_row(store, tables, |key, row: Warehouse| {
        let number = last_number(key);
        seen.insert(number);
        let of = |sums: &BTreeMap<u32, i64>| sums.get(&number).copied().unwrap_or(0);
        found.expect(of(ytd_of_districts), row.ytd, || {
            format!("condition 1: W_YTD of warehouse {number}, the sum of D_YTD")
        });
        found.expect(of(paid), row.ytd, || {
            format!("condition 8: W_YTD of warehouse {number}, the sum of H_AMOUNT")
        });
    })?;
    for number in (1..=options.warehouses).filter(|number| !seen.contains(number)) {
        found.add(format!("conditions 1 and 8: warehouse {number} has no row"));
    }
    Ok(())
}

/// Condition 14: what stocks gave is what the lines of orders took that were not loaded.
fn stocks(
    store: &dyn Transactional,
    tables: &Tables,
    options: &Options,
    found: &mut Differences,
) -> Result<()> {
    let mut taken: BTreeMap<(u32, u32), (u64, u32)> = BTreeMap::new();
    each_row(store, tables, |key, line: OrderLine| {
        // Each district is loaded with an order a customer.
        if last_number(&key[DISTRICT_BYTES..DISTRICT_BYTES + 4]) > options.customers {
            let (quantity, orders) = taken.entry((line.supply_warehouse, line.item)).or_default();
            *quantity += u64::from(line.quantity);
            *orders += 1;
        }
    })?;
    each_row(store, tables, |key, stock: Stock| {
        let (warehouse, item) = (last_number(&key[..4]), last_number(key));
        let expected = taken.remove(&(warehouse, item)).unwrap_or_default();
        found.expect(expected, (stock.ytd, stock.orders), || {
            format!("condition 14: S_YTD and S_ORDER_CNT of item {item} in warehouse {warehouse}")
        });
    })?;
    for (warehouse, item) in taken.into_keys() {
        found.add(format!("condition 14: item {item} in warehouse {warehouse} has no stock"));
    }
    Ok(())
}

/// Condition 15: no transaction adds rows to these tables, or removes any.
fn fixed_tables(
    store: &dyn Transactional,
    tables: &Tables,
    options: &Options,
    found: &mut Differences,
) -> Result<()> {
    let (items, warehouses) = (u64::from(options.items), u64::from(options.warehouses));
    let customers = u64::from(options.customers) * u64::from(DISTRICTS) * warehouses;
    let fixed = [
        (Table::Item, items),
        (Table::Stock, items * warehouses),
        (Table::CustomerByName, customers),
    ];
    for (table, expected) in fixed {
        let mut cursor = store.cursor(tables.id(table), KeyRange::all())?;
        cursor.seek_first()?;
        let mut rows = 0u64;
        while cursor.current().is_some() {
            rows += 1;
            cursor.next()?;
        }
        found.expect(expected, rows, || format!("condition 15: rows of {}", table.name()));
    }
    Ok(())
}

fn each_row<R: Row>(
    store: &dyn Transactional,
    tables: &Tables,
    mut visit: impl FnMut(&[u8], R),
) -> Result<()> {
    let mut cursor = store.cursor(tables.id(R::TABLE), KeyRange::all())?;
    cursor.seek_first()?;
    while let Some((key, value)) = cursor.current() {
        visit(key, decode(key, value)?);
        cursor.next()?;
    }
    Ok(())
}
