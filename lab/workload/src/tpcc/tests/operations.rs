//! Each transaction by itself, and what is found missing of it.

use super::super::acknowledged::Kind;
use super::super::customers::Customers;
use super::super::delivery::Delivery;
use super::super::new_order::{Line, NewOrder};
use super::super::order_status::{OrderStatus, Status};
use super::super::payment::Payment;
use super::super::rows::{Customer, District, History, Order, OrderLine, Row, Stock, Warehouse};
use super::super::session::Session;
use super::super::stock_level::StockLevel;
use super::super::tables::{DistrictId, Table, Tables, stock_key, warehouse_key};
use super::*;
use crate::Transactions;
use crate::attempts::{Ending, attempt};
use crate::model::interrupted::Interrupted;
use esker_api::{Isolation, TransactionOptions, Transactional, WriteBatch};
use esker_base::Result;

const AT: DistrictId = DistrictId { warehouse: 1, district: 2 };

fn transact<T>(
    store: &dyn Transactional,
    mut body: impl FnMut(&mut Session<'_, '_>) -> Result<(Ending, T)>,
) -> T {
    let tables = Tables::of(store).unwrap();
    let mut counted = Transactions::NONE;
    // The weakest level there is: what is right under it is right under all.
    let isolation = Isolation::ReadCommitted;
    let options = TransactionOptions::default().isolation(isolation);
    attempt(store, &options, &mut counted, |transaction| {
        body(&mut Session::new(transaction, &tables))
    })
    .unwrap()
}

fn find<R: Row>(model: &TransactionalModel, key: &[u8]) -> Option<R> {
    let keyspace = Tables::of(model).unwrap().id(R::TABLE);
    model.get(keyspace, key).unwrap().map(|value| R::decode(&value).unwrap())
}

fn row<R: Row>(model: &TransactionalModel, key: &[u8]) -> R {
    find(model, key).unwrap()
}

fn delete(model: &TransactionalModel, table: Table, key: &[u8]) {
    let mut batch = WriteBatch::new();
    batch.delete(Tables::of(model).unwrap().id(table), key);
    model.write(&batch).unwrap();
}

fn content(model: &TransactionalModel) -> Vec<Vec<(Vec<u8>, Vec<u8>)>> {
    (0..11).map(|id| model.pairs(esker_base::KeyspaceId(id)).unwrap()).collect()
}

fn new_order(customer: u32, last_item: u32) -> NewOrder {
    let line = |supply_warehouse, item| Line { supply_warehouse, item, quantity: 5 };
    NewOrder { at: AT, customer, lines: vec![line(1, 7), line(1, 9), line(2, last_item)], date: 77 }
}

#[test]
fn a_new_order_takes_the_next_number_and_its_lines_from_the_stock() {
    let model = loaded(&options());
    let before: Stock = row(&model, &stock_key(2, 11));
    let done = transact(&model, |session| new_order(4, 11).run(session));
    assert_eq!(done, Some(Kind::NewOrder { at: AT, order: 21, date: 77 }));
    assert_eq!(row::<District>(&model, &AT.key()).next_order, 22);
    let order: Order = row(&model, &AT.numbered(21));
    assert_eq!((order.customer, order.lines, order.all_local, order.carrier), (4, 3, 0, 0));
    let line: OrderLine = row(&model, &AT.line(21, 3));
    assert_eq!((line.item, line.supply_warehouse, line.quantity), (11, 2, 5));
    assert_eq!(line.district_info, before.info_of(2));
    let stock: Stock = row(&model, &stock_key(2, 11));
    assert_eq!((stock.ytd, stock.orders, stock.remote_orders), (5, 1, 1));
    let own: Stock = row(&model, &stock_key(1, 7));
    assert_eq!((own.orders, own.remote_orders), (1, 0));
    expect_consistent(&model, &options());
}

#[test]
fn a_new_order_of_an_item_that_nobody_sells_leaves_nothing() {
    let model = loaded(&options());
    let before = content(&model);
    assert_eq!(transact(&model, |session| new_order(4, 51).run(session)), None);
    assert_eq!(content(&model), before);
}

fn payment(customer: Customers) -> Payment {
    let customer_of = DistrictId { warehouse: 2, district: 9 };
    Payment { at: AT, customer_of, customer, amount: 1_234, date: 78 }
}

#[test]
fn a_payment_is_booked_where_it_is_made_and_on_the_customer() {
    let model = loaded(&options());
    let done = transact(&model, |session| payment(Customers::Number(3)).run(session));
    let of = DistrictId { warehouse: 2, district: 9 };
    assert_eq!(done, Kind::Payment { of, customer: 3, payment: 2, date: 78 });
    assert_eq!(row::<Warehouse>(&model, &warehouse_key(1)).ytd, 201_234);
    assert_eq!(row::<District>(&model, &AT.key()).ytd, 21_234);
    let customer: Customer = row(&model, &of.numbered(3));
    assert_eq!((customer.balance, customer.ytd_payment, customer.payments), (-2_234, 2_234, 2));
    let history: History = row(&model, &of.payment(3, 2));
    assert_eq!((history.warehouse, history.district, history.amount), (1, 2, 1_234));
    expect_consistent(&model, &options());
}

#[test]
fn bad_credit_is_noted_first_in_the_customers_data() {
    let options = options();
    let model = loaded(&options);
    let of = DistrictId { warehouse: 2, district: 9 };
    let of_credit = |credit| {
        let is = |&number: &u32| row::<Customer>(&model, &of.numbered(number)).credit == credit;
        (1..=options.customers).find(is).unwrap()
    };
    for (credit, noted) in [("BC", true), ("GC", false)] {
        let number = of_credit(credit);
        transact(&model, |session| payment(Customers::Number(number)).run(session));
        let data = row::<Customer>(&model, &of.numbered(number)).data;
        assert_eq!(data.starts_with(&format!("{number} 9 2 2 1 1234|")), noted);
        assert!(data.len() <= 500);
    }
}

#[test]
fn of_customers_with_one_name_the_middle_one_pays() {
    let model = loaded(&options());
    let tables = Tables::of(&model).unwrap();
    let of = DistrictId { warehouse: 2, district: 9 };
    let mut batch = WriteBatch::new();
    for (first, number) in [("d", 4), ("b", 2), ("a", 9), ("c", 5)] {
        batch.put(tables.id(Table::CustomerByName), of.name("NOBODY", first, number), b"");
    }
    model.write(&batch).unwrap();
    let asked = Customers::LastName("NOBODY".into());
    let done = transact(&model, |session| payment(asked.clone()).run(session));
    // By first name they are 9, 2, 5, 4; four halved is the second.
    assert_eq!(done, Kind::Payment { of, customer: 2, payment: 2, date: 78 });
}

#[test]
fn a_delivery_takes_the_oldest_new_order_of_the_district() {
    let model = loaded(&options());
    let delivery = Delivery { at: AT, carrier: 6, date: 99 };
    let customer = row::<Order>(&model, &AT.numbered(15)).customer;
    let done = transact(&model, |session| delivery.run(session));
    assert_eq!(done, Some(Kind::Delivery { at: AT, order: 15, date: 99 }));
    assert_eq!(row::<Order>(&model, &AT.numbered(15)).carrier, 6);
    let lines = row::<Order>(&model, &AT.numbered(15)).lines;
    let amounts = (1..=lines as u8).map(|line| {
        let line: OrderLine = row(&model, &AT.line(15, line));
        assert_eq!(line.delivery_date, 99);
        line.amount
    });
    let customer: Customer = row(&model, &AT.numbered(customer));
    assert_eq!((customer.balance, customer.deliveries), (amounts.sum::<i64>() - 1_000, 1));
    expect_consistent(&model, &options());
    (0..5).for_each(|_| assert!(transact(&model, |session| delivery.run(session)).is_some()));
    assert_eq!(transact(&model, |session| delivery.run(session)), None, "none is left");
    expect_consistent(&model, &options());
}

#[test]
fn an_order_status_shows_the_newest_order_of_the_customer() {
    let model = loaded(&options());
    transact(&model, |session| new_order(4, 11).run(session));
    let before = content(&model);
    let status = OrderStatus { at: AT, customer: Customers::Number(4) };
    let shown = transact(&model, |session| status.run(session));
    assert_eq!(shown, Some(Status { order: 21, lines: 3 }));
    assert_eq!(content(&model), before);
}

#[test]
fn a_stock_level_counts_items_that_are_low() {
    let model = loaded(&options());
    let level =
        |threshold| transact(&model, |session| StockLevel { at: AT, threshold }.run(session));
    let mut items: Vec<u32> = (1..=20)
        .flat_map(|order| (1..=15).map(move |line| (order, line)))
        .filter_map(|(order, line)| find::<OrderLine>(&model, &AT.line(order, line)))
        .map(|line| line.item)
        .collect();
    items.sort_unstable();
    items.dedup();
    let low = |threshold| {
        let is = |item: &&u32| row::<Stock>(&model, &stock_key(1, **item)).quantity < threshold;
        items.iter().filter(is).count() as u64
    };
    assert_eq!([level(10), level(60), level(200)], [0, low(60), items.len() as u64]);
    assert!(low(60) > 0);
}

#[test]
fn what_was_acknowledged_and_is_missing_is_named() {
    let model = loaded(&options());
    let mut done = vec![
        transact(&model, |session| new_order(4, 11).run(session)).unwrap(),
        transact(&model, |session| payment(Customers::Number(3)).run(session)),
    ];
    done.extend(transact(&model, |session| Delivery { at: AT, carrier: 6, date: 99 }.run(session)));
    let acknowledged: Vec<_> = done.into_iter().map(Acknowledged).collect();
    let missing = || verify(&model, acknowledged.iter().copied()).unwrap();
    assert!(missing().is_empty());

    delete(&model, Table::OrderLine, &AT.line(21, 2));
    assert!(missing().first()[0].contains("order 21 of district 2"), "{}", missing());
    assert!(missing().first()[0].contains("2 of 3 lines"), "{}", missing());
    delete(&model, Table::Order, &AT.numbered(21));
    assert!(missing().first()[0].ends_with("was acknowledged and is missing"));
    let of = DistrictId { warehouse: 2, district: 9 };
    delete(&model, Table::History, &of.payment(3, 2));
    assert!(missing().first()[1].starts_with("payment 2 of customer 3"), "{}", missing());
    delete(&model, Table::Order, &AT.numbered(15));
    assert!(missing().first()[2].starts_with("the delivery of order 15"), "{}", missing());
}

#[test]
fn what_was_acknowledged_and_has_given_way_to_another_is_missing() {
    let model = loaded(&options());
    let district: District = row(&model, &AT.key());
    let of = DistrictId { warehouse: 2, district: 9 };
    let customer: Customer = row(&model, &of.numbered(3));
    let mut done: Vec<_> = Vec::new();
    for date in [77, 78] {
        // As if the second had not seen the first.
        let mut batch = WriteBatch::new();
        let tables = Tables::of(&model).unwrap();
        let (mut before, mut payer) = (Vec::new(), Vec::new());
        district.encode(&mut before);
        customer.encode(&mut payer);
        batch.put(tables.id(Table::District), AT.key(), &before);
        batch.put(tables.id(Table::Customer), of.numbered(3), &payer);
        model.write(&batch).unwrap();
        let (order, pays) = (new_order(4, 11), payment(Customers::Number(3)));
        let (order, pays) = (NewOrder { date, ..order }, Payment { date, ..pays });
        done.extend(transact(&model, |session| order.run(session)));
        done.push(transact(&model, |session| pays.run(session)));
    }
    let acknowledged: Vec<_> = done.into_iter().map(Acknowledged).collect();
    assert_eq!(verify(&model, acknowledged[..2].iter().copied()).unwrap().count(), 2);
    assert!(verify(&model, acknowledged[2..].iter().copied()).unwrap().is_empty());
}

/// Runs `one` and, after its read number `after`, `two`. Whether it came so far.
fn interrupt(after: usize, one: fn(&dyn Transactional), two: fn(&dyn Transactional)) -> bool {
    let model = loaded(&options());
    let store = Interrupted::new(&model, after, || two(&model));
    one(&store);
    let differences = check(&model, &options()).unwrap();
    assert!(differences.is_empty(), "after read {after}: {differences}");
    store.has_come()
}

#[test]
fn the_company_stays_consistent_whatever_comes_between_two_reads() {
    let changes: [fn(&dyn Transactional); 3] = [
        |store| {
            transact(store, |session| new_order(4, 11).run(session)).unwrap();
        },
        |store| {
            let customer_of = AT;
            let payment = Payment { customer_of, ..payment(Customers::Number(4)) };
            transact(store, |session| payment.run(session));
        },
        |store| {
            let delivery = Delivery { at: AT, carrier: 6, date: 99 };
            transact(store, |session| delivery.run(session)).unwrap();
        },
    ];
    for one in changes {
        for two in changes {
            let points = (0..).take_while(|&after| interrupt(after, one, two)).count();
            assert!((3..=9).contains(&points), "{points} reads");
        }
    }
}
