//! Each condition catches a row that was changed by hand, and names it.

use super::super::rows::{Customer, District, History, Order, OrderLine, Row, Warehouse};
use super::super::tables::{DistrictId, Table, Tables, warehouse_key};
use super::*;
use esker_api::{Transactional, WriteBatch};

const AT: DistrictId = DistrictId { warehouse: 2, district: 3 };

/// A loaded company with 20 customers a district, of whose 20 orders the first 14 are delivered.
struct Company(TransactionalModel);

impl Company {
    fn new() -> Self {
        Company(loaded(&options()))
    }

    fn change<R: Row>(&self, key: &[u8], change: impl FnOnce(&mut R)) {
        let keyspace = Tables::of(&self.0).unwrap().id(R::TABLE);
        let mut row = R::decode(&self.0.get(keyspace, key).unwrap().unwrap()).unwrap();
        change(&mut row);
        let (mut batch, mut value) = (WriteBatch::new(), Vec::new());
        row.encode(&mut value);
        batch.put(keyspace, key, &value);
        self.0.write(&batch).unwrap();
    }

    fn delete(&self, table: Table, key: &[u8]) {
        let keyspace = Tables::of(&self.0).unwrap().id(table);
        assert!(self.0.get(keyspace, key).unwrap().is_some());
        let mut batch = WriteBatch::new();
        batch.delete(keyspace, key);
        self.0.write(&batch).unwrap();
    }

    /// Expects these conditions to fail, each with this much of its text, and no others.
    #[track_caller]
    fn expect(&self, expected: &[&str]) {
        let found = check(&self.0, &options()).unwrap();
        for expected in expected {
            let is_told = found.first().iter().any(|told| told.starts_with(expected));
            assert!(is_told, "{expected}:\n{found}");
        }
        assert_eq!(found.count(), expected.len() as u64, "{found}");
    }
}

#[test]
fn condition_1_compares_a_warehouse_with_its_districts() {
    let company = Company::new();
    company.change(&AT.key(), |row: &mut District| row.ytd += 1);
    company.expect(&[
        "condition 1: W_YTD of warehouse 2, the sum of D_YTD: 200001 was expected, 200000",
        "condition 9: D_YTD of district 3 of warehouse 2",
    ]);
}

#[test]
fn condition_2_compares_the_next_order_with_the_last() {
    let company = Company::new();
    company.change(&AT.key(), |row: &mut District| row.next_order += 1);
    company.expect(&[
        "condition 2: D_NEXT_O_ID - 1 of district 3 of warehouse 2, the last O_ID: 20 was",
        "condition 2: D_NEXT_O_ID - 1 of district 3 of warehouse 2, the last NO_O_ID: 20 was",
    ]);
}

#[test]
fn condition_3_finds_a_gap_in_the_new_orders() {
    let company = Company::new();
    company.delete(Table::NewOrder, &AT.numbered(17));
    company.expect(&[
        "condition 3: rows of NEW-ORDER of district 3 of warehouse 2",
        "condition 5: whether order 17 of district 3 of warehouse 2 has a carrier",
        "condition 11: rows of ORDER of district 3 of warehouse 2",
    ]);
}

#[test]
fn condition_4_counts_the_lines_of_a_district() {
    let company = Company::new();
    company.delete(Table::OrderLine, &AT.line(3, 2));
    company.expect(&[
        "condition 4: rows of ORDER-LINE of district 3 of warehouse 2",
        "condition 6: lines of order 3 of district 3 of warehouse 2",
    ]);
}

#[test]
fn condition_5_wants_a_carrier_for_orders_that_are_not_new_only() {
    let company = Company::new();
    company.change(&AT.numbered(18), |row: &mut Order| row.carrier = 4);
    company.expect(&[
        "condition 5: whether order 18 of district 3 of warehouse 2 has a carrier: false was",
        "condition 7: lines of order 18",
    ]);
}

#[test]
fn condition_6_counts_the_lines_of_an_order() {
    let company = Company::new();
    // Two that make up for each other.
    company.change(&AT.numbered(5), |row: &mut Order| row.lines += 1);
    company.change(&AT.numbered(6), |row: &mut Order| row.lines -= 1);
    company.expect(&[
        "condition 6: lines of order 5 of district 3 of warehouse 2",
        "condition 6: lines of order 6 of district 3 of warehouse 2",
    ]);
}

#[test]
fn condition_7_wants_a_date_on_the_lines_of_what_is_delivered() {
    let company = Company::new();
    company.change(&AT.line(3, 2), |row: &mut OrderLine| row.delivery_date = 0);
    company.expect(&["condition 7: lines of order 3 of district 3 of warehouse 2"]);
}

#[test]
fn condition_8_compares_a_warehouse_with_its_payments() {
    let company = Company::new();
    company.change(&warehouse_key(1), |row: &mut Warehouse| row.ytd -= 1);
    company.expect(&["condition 1: W_YTD of warehouse 1", "condition 8: W_YTD of warehouse 1"]);
}

#[test]
fn condition_9_compares_a_district_with_its_payments() {
    let company = Company::new();
    company.change(&AT.payment(7, 1), |row: &mut History| row.amount += 5);
    company.expect(&[
        "condition 8: W_YTD of warehouse 2, the sum of H_AMOUNT: 200005 was expected, 200000",
        "condition 9: D_YTD of district 3 of warehouse 2, the sum of H_AMOUNT: 20005 was",
        "condition 10: C_BALANCE of customer 7 of district 3 of warehouse 2",
    ]);
}

#[test]
fn condition_10_compares_a_balance_with_deliveries_and_payments() {
    let company = Company::new();
    company.change(&AT.numbered(7), |row: &mut Customer| {
        row.balance += 5;
        row.ytd_payment -= 5;
    });
    company.expect(&["condition 10: C_BALANCE of customer 7 of district 3 of warehouse 2"]);
}

#[test]
fn condition_11_compares_orders_with_new_orders_and_deliveries() {
    let company = Company::new();
    company.change(&AT.numbered(7), |row: &mut Customer| row.deliveries += 1);
    company.expect(&["condition 11: rows of ORDER of district 3 of warehouse 2"]);
}

#[test]
fn condition_12_compares_what_a_customer_paid_with_the_balance() {
    let company = Company::new();
    company.change(&AT.numbered(7), |row: &mut Customer| row.ytd_payment += 1);
    company.expect(&["condition 12: C_BALANCE and C_YTD_PAYMENT of customer 7 of district 3"]);
}

#[test]
fn an_order_that_the_index_misses_is_found() {
    let company = Company::new();
    let keyspace = Tables::of(&company.0).unwrap().id(Table::OrderByCustomer);
    let (key, _) = company.0.pairs(keyspace).unwrap().swap_remove(30);
    company.delete(Table::OrderByCustomer, &key);
    company.expect(&["index: order "]);
}

#[test]
fn lines_and_new_orders_without_an_order_are_found() {
    let company = Company::new();
    company.delete(Table::Order, &AT.numbered(20));
    let found = check(&company.0, &options()).unwrap().to_string();
    assert!(found.contains("condition 5: new order 20 of district 3"), "{found}");
    assert!(found.contains("condition 6: lines of order 20 of district 3"), "{found}");
    assert!(found.contains("condition 2: "), "{found}");
}
