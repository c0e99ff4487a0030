//! The initial population, clause 4.3.3.1, in plain batches.
//!
//! It is loaded in parts: the items; each warehouse with its stock; each district with its
//! customers and orders. A part's content depends only on the seed and its number, whichever thread
//! loads it.

use super::Options;
use super::options::DISTRICTS;
use super::random::{Constants, between, digits, last_name, original, percent, shuffle, text, zip};
use super::rows::{
    Customer, DISTRICT_INFO, District, History, Item, Order, OrderLine, Row, Stock, Warehouse,
};
use super::tables::{DistrictId, Table, Tables, item_key, stock_key, warehouse_key};
use crate::{OperationKind, Step, Worker, Workload, stream};
use esker_api::{Ordered, Transactional, WriteBatch};
use esker_base::{Result, Rng};

/// When a batch is written, in bytes: small enough for the smallest segments there are.
const BATCH_BYTES: usize = 8 << 10;

/// The date of all that is loaded.
const DATE: u64 = 1;

/// The load of a company into a store. Threads take turns at its parts.
pub struct Load<'s> {
    store: &'s dyn Transactional,
    tables: Tables,
    options: Options,
    constants: Constants,
}

/// A part of the load.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Part {
    Items,
    Warehouse(u32),
    District(DistrictId),
}

impl<'s> Load<'s> {
    /// The load of `options` into an empty `store`.
    pub fn new(options: &Options, store: &'s dyn Transactional) -> Result<Self> {
        options.check()?;
        let (tables, constants) = (Tables::of(store)?, Constants::new(options.seed));
        Ok(Load { store, tables, options: options.clone(), constants })
    }

    /// Part number `number` of [`Load::parts`].
    fn part(&self, number: u64) -> Part {
        let each = u64::from(DISTRICTS) + 1;
        let Some(after_items) = number.checked_sub(1) else { return Part::Items };
        let warehouse = (after_items / each) as u32 + 1;
        match after_items % each {
            0 => Part::Warehouse(warehouse),
            district => Part::District(DistrictId { warehouse, district: district as u8 }),
        }
    }

    fn parts(&self) -> u64 {
        1 + u64::from(self.options.warehouses) * (u64::from(DISTRICTS) + 1)
    }
}

impl Workload for Load<'_> {
    fn worker<'a>(
        &'a self,
        _store: &'a dyn Ordered,
        thread: usize,
        _rng: Rng,
    ) -> Result<Box<dyn Worker + 'a>> {
        Ok(Box::new(Loader { load: self, next: thread as u64 }))
    }

    fn operations(&self) -> u64 {
        self.share(0)
    }

    /// The operations are parts.
    fn share(&self, thread: usize) -> u64 {
        crate::worker::share_of(self.parts(), self.options.clients, thread)
    }

    fn endless(&self) -> bool {
        false
    }

    fn looks_up(&self) -> bool {
        false
    }

    fn writes(&self) -> bool {
        true
    }
}

struct Loader<'a> {
    load: &'a Load<'a>,
    next: u64,
}

impl Worker for Loader<'_> {
    fn step(&mut self) -> Result<Step> {
        if self.next >= self.load.parts() {
            return Ok(Step::END);
        }
        let number = self.next;
        self.next += self.load.options.clients as u64;
        let rng = stream(self.load.options.seed, "tpcc load", number);
        let mut writer = Writer { load: self.load, rng, batch: WriteBatch::new(), done: Step::END };
        match self.load.part(number) {
            Part::Items => writer.items()?,
            Part::Warehouse(warehouse) => writer.warehouse(warehouse)?,
            Part::District(at) => writer.district(at)?,
        }
        writer.flush()?;
        Ok(Step { kind: OperationKind::Named("load_parts"), operations: 1, ..writer.done })
    }
}

/// Writes one part.
struct Writer<'a> {
    load: &'a Load<'a>,
    rng: Rng,
    batch: WriteBatch,
    done: Step,
}

impl Writer<'_> {
    fn put<R: Row>(&mut self, key: &[u8], row: &R) -> Result<()> {
        let mut value = Vec::new();
        row.encode(&mut value);
        self.put_value(R::TABLE, key, &value)
    }

    fn put_value(&mut self, table: Table, key: &[u8], value: &[u8]) -> Result<()> {
        self.batch.put(self.load.tables.id(table), key, value);
        self.done.bytes += (key.len() + value.len()) as u64;
        if self.batch.encoded().len() >= BATCH_BYTES { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> Result<()> {
        if !self.batch.is_empty() {
            self.load.store.write(&self.batch)?;
            self.batch.clear();
            self.done.transactions.commits += 1;
        }
        Ok(())
    }

    fn items(&mut self) -> Result<()> {
        for number in 1..=self.load.options.items {
            let rng = &mut self.rng;
            let item = Item {
                image: between(rng, 1, 10_000) as u32,
                name: text(rng, 14, 24),
                price: between(rng, 100, 10_000) as i64,
                data: original(rng),
            };
            self.put(&item_key(number), &item)?;
        }
        Ok(())
    }

    fn warehouse(&mut self, number: u32) -> Result<()> {
        let customers = i64::from(self.load.options.customers) * i64::from(DISTRICTS);
        let rng = &mut self.rng;
        let warehouse = Warehouse {
            name: text(rng, 6, 10),
            street_1: text(rng, 10, 20),
            street_2: text(rng, 10, 20),
            city: text(rng, 10, 20),
            state: text(rng, 2, 2),
            zip: zip(rng),
            tax: between(rng, 0, 2_000) as u32,
            ytd: customers * FIRST_PAYMENT,
        };
        self.put(&warehouse_key(number), &warehouse)?;
        for item in 1..=self.load.options.items {
            let rng = &mut self.rng;
            let info = (DISTRICT_INFO * usize::from(DISTRICTS)) as u64;
            let stock = Stock {
                quantity: between(rng, 10, 100) as i64,
                district_info: text(rng, info, info),
                data: original(rng),
                ..Stock::default()
            };
            self.put(&stock_key(number, item), &stock)?;
        }
        Ok(())
    }

    fn district(&mut self, at: DistrictId) -> Result<()> {
        let customers = self.load.options.customers;
        let rng = &mut self.rng;
        let district = District {
            name: text(rng, 6, 10),
            street_1: text(rng, 10, 20),
            street_2: text(rng, 10, 20),
            city: text(rng, 10, 20),
            state: text(rng, 2, 2),
            zip: zip(rng),
            tax: between(rng, 0, 2_000) as u32,
            ytd: i64::from(customers) * FIRST_PAYMENT,
            next_order: customers + 1,
        };
        self.put(&at.key(), &district)?;
        (1..=customers).try_for_each(|number| self.customer(at, number))?;
        let mut order_of: Vec<u32> = (1..=customers).collect();
        shuffle(&mut order_of, &mut self.rng);
        for (number, customer) in (1..).zip(order_of) {
            self.order(at, number, customer)?;
        }
        Ok(())
    }

    fn customer(&mut self, at: DistrictId, number: u32) -> Result<()> {
        let options = &self.load.options;
        let rng = &mut self.rng;
        let name = if number <= options.last_names() {
            u64::from(number) - 1
        } else {
            self.load.constants.loaded_last_name(options, rng)
        };
        let customer = Customer {
            first: text(rng, 8, 16),
            middle: "OE".into(),
            last: last_name(name),
            street_1: text(rng, 10, 20),
            street_2: text(rng, 10, 20),
            city: text(rng, 10, 20),
            state: text(rng, 2, 2),
            zip: zip(rng),
            phone: digits(rng, 16),
            since: DATE,
            credit: if percent(rng, 10) { "BC" } else { "GC" }.into(),
            credit_limit: 5_000_000,
            discount: between(rng, 0, 5_000) as u32,
            balance: -FIRST_PAYMENT,
            ytd_payment: FIRST_PAYMENT,
            payments: 1,
            deliveries: 0,
            data: text(rng, 300, 500),
        };
        let history = History {
            warehouse: at.warehouse,
            district: at.district.into(),
            date: DATE,
            amount: FIRST_PAYMENT,
            data: text(rng, 12, 24),
        };
        self.put(&at.numbered(number), &customer)?;
        let name = at.name(&customer.last, &customer.first, number);
        self.put_value(Table::CustomerByName, &name, b"")?;
        self.put(&at.payment(number, 1), &history)
    }

    fn order(&mut self, at: DistrictId, number: u32, customer: u32) -> Result<()> {
        let delivered = number <= self.load.options.delivered();
        let order = Order {
            customer,
            entry_date: DATE,
            carrier: if delivered { between(&mut self.rng, 1, 10) as u32 } else { 0 },
            lines: between(&mut self.rng, 5, 15) as u32,
            all_local: 1,
        };
        self.put(&at.numbered(number), &order)?;
        let by_customer = at.order_of_customer(customer, number);
        self.put_value(Table::OrderByCustomer, &by_customer, b"")?;
        if !delivered {
            self.put_value(Table::NewOrder, &at.numbered(number), b"")?;
        }
        for line in 1..=order.lines {
            let rng = &mut self.rng;
            let row = OrderLine {
                item: between(rng, 1, self.load.options.items.into()) as u32,
                supply_warehouse: at.warehouse,
                delivery_date: if delivered { DATE } else { 0 },
                quantity: 5,
                amount: if delivered { 0 } else { between(rng, 1, 999_999) as i64 },
                district_info: text(rng, DISTRICT_INFO as u64, DISTRICT_INFO as u64),
            };
            self.put(&at.line(number, line as u8), &row)?;
        }
        Ok(())
    }
}

/// What each customer has paid to begin with, in cents: so districts and warehouses begin with as many
/// times that as they have customers, which is 30,000.00 and 300,000.00 as specified.
const FIRST_PAYMENT: i64 = 1_000;
