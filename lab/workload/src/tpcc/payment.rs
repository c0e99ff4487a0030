//! The Payment transaction, clause 2.5.

use super::Options;
use super::acknowledged::Kind;
use super::customers::Customers;
use super::new_order::other_warehouse;
use super::options::DISTRICTS;
use super::random::{Constants, between, percent};
use super::rows::{Customer, District, History, Warehouse};
use super::session::Session;
use super::tables::{DistrictId, warehouse_key};
use crate::attempts::Ending;
use esker_base::{Result, Rng};

/// The longest `C_DATA`.
const DATA: usize = 500;

/// What a terminal enters, clause 2.5.1.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Payment {
    /// Where it is made.
    pub(super) at: DistrictId,
    /// Whose customer makes it.
    pub(super) customer_of: DistrictId,
    pub(super) customer: Customers,
    pub(super) amount: i64,
    pub(super) date: u64,
}

impl Payment {
    pub(super) fn draw(
        options: &Options,
        constants: &Constants,
        warehouse: u32,
        date: u64,
        rng: &mut Rng,
    ) -> Self {
        let district = |rng: &mut Rng| between(rng, 1, DISTRICTS.into()) as u8;
        let at = DistrictId { warehouse, district: district(rng) };
        // Clause 2.5.1.2: 15% of the customers are those of another warehouse, if there is one.
        let customer_of = if options.warehouses > 1 && percent(rng, 15) {
            DistrictId {
                warehouse: other_warehouse(options, warehouse, rng),
                district: district(rng),
            }
        } else {
            at
        };
        let customer = Customers::draw(options, constants, rng);
        Payment { at, customer_of, customer, amount: between(rng, 100, 500_000) as i64, date }
    }

    /// Clause 2.5.2.2: warehouse, district and customer are locked in that order, by all transactions.
    pub(super) fn run(&self, session: &mut Session<'_, '_>) -> Result<(Ending, Kind)> {
        let (at, of) = (self.at, self.customer_of);
        let mut warehouse: Warehouse = session.lock(&warehouse_key(at.warehouse))?;
        warehouse.ytd += self.amount;
        session.write(&warehouse_key(at.warehouse), &warehouse)?;
        let mut district: District = session.lock(&at.key())?;
        district.ytd += self.amount;
        session.write(&at.key(), &district)?;

        let number = self.customer.number(session, of)?;
        let mut customer: Customer = session.lock(&of.numbered(number))?;
        customer.balance -= self.amount;
        customer.ytd_payment += self.amount;
        customer.payments += 1;
        if customer.credit == "BC" {
            self.note_on(&mut customer, number);
        }
        session.write(&of.numbered(number), &customer)?;

        let history = History {
            warehouse: at.warehouse,
            district: at.district.into(),
            date: self.date,
            amount: self.amount,
            data: format!("{}    {}", warehouse.name, district.name),
        };
        session.write(&of.payment(number, customer.payments), &history)?;
        let (payment, date) = (customer.payments, self.date);
        Ok((Ending::Commit, Kind::Payment { of, customer: number, payment, date }))
    }

    /// What is kept of payments of those with bad credit.
    fn note_on(&self, customer: &mut Customer, number: u32) {
        let Payment { at, customer_of: of, amount, .. } = self;
        let note = format!(
            "{number} {} {} {} {} {amount}|",
            of.district, of.warehouse, at.district, at.warehouse
        );
        customer.data.insert_str(0, &note);
        customer.data.truncate(DATA);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn payments_are_drawn_as_specified() {
        let options = Options { warehouses: 3, ..Options::default() };
        let (constants, mut rng) = (Constants::new(1), Rng::new(1));
        let payments: Vec<_> =
            (0..40_000).map(|_| Payment::draw(&options, &constants, 2, 1, &mut rng)).collect();
        let share = |is: &dyn Fn(&Payment) -> bool| {
            payments.iter().filter(|payment| is(payment)).count() as f64 / 40_000.0
        };
        let remote = share(&|payment| payment.customer_of.warehouse != 2);
        assert!((0.14..0.16).contains(&remote), "{remote}");
        let by_name = share(&|payment| matches!(payment.customer, Customers::LastName(_)));
        assert!((0.59..0.61).contains(&by_name), "{by_name}");
        assert!(payments.iter().all(|payment| (100..=500_000).contains(&payment.amount)));
    }

    #[test]
    fn alone_in_the_company_a_warehouse_has_all_its_payments_from_its_own() {
        let (options, constants) = (Options::default(), Constants::new(1));
        let mut rng = Rng::new(1);
        let own = |_| {
            let payment = Payment::draw(&options, &constants, 1, 1, &mut rng);
            payment.customer_of == payment.at
        };
        assert!((0..1_000).all(own));
    }
}
