//! The transactions, as terminals ask for them.

use super::Options;
use super::acknowledged::{Acknowledged, Kind};
use super::delivery::Delivery;
use super::new_order::NewOrder;
use super::options::DISTRICTS;
use super::order_status::OrderStatus;
use super::payment::Payment;
use super::random::{Constants, between, shuffle};
use super::session::Session;
use super::stock_level::StockLevel;
use super::tables::{DistrictId, Tables};
use crate::attempts::{Ending, attempt};
use crate::worker::share_of;
use crate::{OperationKind, Step, Transactions, Worker, Workload};
use esker_api::{Ordered, Transactional};
use esker_base::{Clock, Result, Rng};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// A card of the deck that a terminal draws from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Card {
    NewOrder,
    Payment,
    OrderStatus,
    Delivery,
    StockLevel,
}

/// How many of each are in a deck, clause 5.2.4.2: 43.5%, 43.5%, and 4.3% of each other.
const DECK: [(Card, usize); 5] = [
    (Card::NewOrder, 10),
    (Card::Payment, 10),
    (Card::OrderStatus, 1),
    (Card::Delivery, 1),
    (Card::StockLevel, 1),
];

impl Card {
    fn kind(self) -> OperationKind {
        OperationKind::Named(match self {
            Card::NewOrder => "new_order",
            Card::Payment => "payment",
            Card::OrderStatus => "order_status",
            Card::Delivery => "delivery",
            Card::StockLevel => "stock_level",
        })
    }
}

impl Card {
    /// Clause 5.2.5.2.
    fn keying_time(self) -> Duration {
        Duration::from_secs(match self {
            Card::NewOrder => 18,
            Card::Payment => 3,
            Card::OrderStatus | Card::Delivery | Card::StockLevel => 2,
        })
    }

    /// Clause 5.2.5.7.
    fn mean_think_time(self) -> Duration {
        Duration::from_secs(match self {
            Card::NewOrder | Card::Payment => 12,
            Card::OrderStatus => 10,
            Card::Delivery | Card::StockLevel => 5,
        })
    }
}

/// Transactions on a company that [`Load`](super::Load) has set up.
pub struct Terminals<'s> {
    store: &'s dyn Transactional,
    tables: Tables,
    options: Options,
    constants: Constants,
    /// Dates are counted. Those of the load are below.
    date: AtomicU64,
    /// What was acknowledged, by client.
    acknowledged: Vec<Mutex<Vec<Kind>>>,
    /// What lets pass the time that clients type and think, if they do.
    clock: Option<&'s dyn Clock>,
    /// Who is notified of each acknowledgement at once, if anybody.
    witness: Option<&'s Witness>,
}

/// Who is notified what a client was acknowledged, before the client goes on. An error ends the client.
pub type Witness = dyn Fn(Acknowledged) -> Result<()> + Sync;

/// The first date after the load's.
const OPENING: u64 = 1_000;

impl<'s> Terminals<'s> {
    /// The transactions of `options` on the company in `store`.
    pub fn new(options: &Options, store: &'s dyn Transactional) -> Result<Self> {
        options.check()?;
        Ok(Terminals {
            store,
            tables: Tables::of(store)?,
            constants: Constants::new(options.seed),
            date: AtomicU64::new(OPENING),
            acknowledged: (0..options.clients).map(|_| Mutex::default()).collect(),
            options: options.clone(),
            clock: None,
            witness: None,
        })
    }

    /// Reports to `witness` what is acknowledged, in addition to keeping it: for one that outlives this process.
    pub fn with_witness(mut self, witness: &'s Witness) -> Self {
        self.witness = Some(witness);
        self
    }

    /// Lets clients type and think as long as specified (clauses 5.2.5.2 and 5.2.5.4): on average they do a
    /// transaction in about 23 seconds.
    pub fn with_think_times(mut self, clock: &'s dyn Clock) -> Self {
        self.clock = Some(clock);
        self
    }

    /// What was acknowledged to all clients since they began.
    pub fn acknowledged(&self) -> Vec<Acknowledged> {
        let mut all = Vec::new();
        for client in &self.acknowledged {
            let client = client.lock().unwrap_or_else(PoisonError::into_inner);
            all.extend(client.iter().copied().map(Acknowledged));
        }
        all
    }
}

impl Workload for Terminals<'_> {
    fn worker<'a>(
        &'a self,
        _store: &'a dyn Ordered,
        thread: usize,
        rng: Rng,
    ) -> Result<Box<dyn Worker + 'a>> {
        Ok(Box::new(Terminal {
            company: self,
            client: thread % self.options.clients,
            home: home(&self.options, thread),
            rng,
            deck: Vec::new(),
            thinks: Duration::ZERO,
        }))
    }

    fn operations(&self) -> u64 {
        self.share(0)
    }

    fn share(&self, thread: usize) -> u64 {
        share_of(self.options.transactions, self.options.clients, thread)
    }

    fn endless(&self) -> bool {
        true
    }

    fn looks_up(&self) -> bool {
        false
    }

    fn writes(&self) -> bool {
        true
    }

    fn figure(&self) -> Option<(OperationKind, &'static str)> {
        let name = if self.clock.is_some() { "tpmc" } else { "new_orders_per_minute" };
        Some((Card::NewOrder.kind(), name))
    }
}

/// Where a client's terminal is.
fn home(options: &Options, client: usize) -> DistrictId {
    let warehouses = options.warehouses as usize;
    let district = client / warehouses % usize::from(DISTRICTS);
    DistrictId { warehouse: (client % warehouses) as u32 + 1, district: district as u8 + 1 }
}

struct Terminal<'a> {
    company: &'a Terminals<'a>,
    client: usize,
    home: DistrictId,
    rng: Rng,
    deck: Vec<Card>,
    /// How long what the last transaction showed is thought about.
    thinks: Duration,
}

impl Terminal<'_> {
    /// The next card. A deck that is used up is shuffled anew.
    fn draw(&mut self) -> Card {
        loop {
            if let Some(card) = self.deck.pop() {
                return card;
            }
            let cards = DECK.into_iter().flat_map(|(card, count)| std::iter::repeat_n(card, count));
            self.deck.extend(cards);
            shuffle(&mut self.deck, &mut self.rng);
        }
    }

    /// Thinks about the last transaction and types the next. How long that took.
    fn wait(&mut self, card: Card) -> Duration {
        let Some(clock) = self.company.clock else { return Duration::ZERO };
        let start = clock.now();
        clock.sleep(std::mem::take(&mut self.thinks) + card.keying_time());
        // Clause 5.2.5.4: a negative exponential distribution, cut off at ten times its mean.
        let drawn = -(1.0 - self.rng.unit()).ln();
        self.thinks = card.mean_think_time().mul_f64(drawn.min(10.0));
        clock.now().saturating_sub(start)
    }

    fn date(&self) -> u64 {
        self.company.date.fetch_add(1, Relaxed)
    }

    fn run(&mut self, card: Card, counted: &mut Transactions) -> Result<()> {
        let Terminals { options, constants, .. } = self.company;
        let (warehouse, date) = (self.home.warehouse, self.date());
        let rng = &mut self.rng;
        match card {
            Card::NewOrder => {
                let input = NewOrder::draw(options, constants, warehouse, date, rng);
                let done = self.attempt(counted, |session| input.run(session))?;
                self.note(done)?;
            }
            Card::Payment => {
                let input = Payment::draw(options, constants, warehouse, date, rng);
                let done = self.attempt(counted, |session| input.run(session))?;
                self.note(Some(done))?;
            }
            Card::OrderStatus => {
                let input = OrderStatus::draw(options, constants, warehouse, rng);
                self.attempt(counted, |session| input.run(session))?;
            }
            Card::Delivery => {
                let carrier = between(rng, 1, 10) as u32;
                for district in 1..=DISTRICTS {
                    let at = DistrictId { warehouse, district };
                    let input = Delivery { at, carrier, date };
                    let done = self.attempt(counted, |session| input.run(session))?;
                    self.note(done)?;
                }
            }
            Card::StockLevel => {
                let input = StockLevel::draw(self.home, rng);
                self.attempt(counted, |session| input.run(session))?;
            }
        }
        Ok(())
    }

    fn attempt<T>(
        &self,
        counted: &mut Transactions,
        mut body: impl FnMut(&mut Session<'_, '_>) -> Result<(Ending, T)>,
    ) -> Result<T> {
        let Terminals { store, tables, options, .. } = self.company;
        attempt(*store, &options.transaction(), counted, |transaction| {
            body(&mut Session::new(transaction, tables))
        })
    }

    /// Remembers what has just been acknowledged.
    fn note(&self, done: Option<Kind>) -> Result<()> {
        if let (Some(witness), Some(kind)) = (self.company.witness, done) {
            witness(Acknowledged(kind))?;
        }
        let log = &self.company.acknowledged[self.client];
        log.lock().unwrap_or_else(PoisonError::into_inner).extend(done);
        Ok(())
    }
}

impl Worker for Terminal<'_> {
    fn step(&mut self) -> Result<Step> {
        let card = self.draw();
        let waited = self.wait(card);
        let mut step = Step { kind: card.kind(), operations: 1, waited, ..Step::END };
        self.run(card, &mut step.transactions)?;
        Ok(step)
    }
}

#[cfg(test)]
mod tests {
    use super::super::Load;
    use super::*;
    use crate::model::{Model, TransactionalModel};

    #[test]
    fn clients_spread_over_warehouses_first_and_districts_then() {
        let options = Options { warehouses: 2, ..Options::default() };
        let homes: Vec<_> = (0..22).map(|client| home(&options, client)).collect();
        assert_eq!((homes[0].warehouse, homes[0].district), (1, 1));
        assert_eq!((homes[1].warehouse, homes[1].district), (2, 1));
        assert_eq!((homes[2].warehouse, homes[2].district), (1, 2));
        assert_eq!((homes[19].warehouse, homes[19].district), (2, 10));
        assert_eq!(homes[20], homes[0]);
    }

    #[test]
    fn a_deck_has_the_least_of_each_transaction_that_is_specified() {
        let cards: usize = DECK.iter().map(|(_, count)| count).sum();
        let share = |at: usize| DECK[at].1 as f64 / cards as f64;
        // Clause 5.2.3.
        assert!(share(1) >= 0.43 && (2..5).all(|at| share(at) >= 0.04));
    }

    /// Time that sleepers move on.
    #[derive(Default)]
    struct Moved(Mutex<Duration>);

    impl Clock for Moved {
        fn now(&self) -> Duration {
            *self.0.lock().unwrap()
        }
        fn sleep(&self, duration: Duration) {
            *self.0.lock().unwrap() += duration;
        }
    }

    #[test]
    fn clients_that_think_take_their_time_and_say_how_long() {
        let options = Options { items: 20, customers: 10, clients: 1, ..Options::default() };
        let (model, unused, clock) = (TransactionalModel::new(), Model::new(), Moved::default());
        let load = Load::new(&options, &model).unwrap();
        let mut loader = load.worker(&unused, 0, Rng::new(1)).unwrap();
        while loader.step().unwrap().operations > 0 {}
        let terminals = Terminals::new(&options, &model).unwrap();
        assert_eq!(terminals.figure().unwrap().1, "new_orders_per_minute");
        let terminals = terminals.with_think_times(&clock);
        assert_eq!(terminals.figure().unwrap().1, "tpmc");
        let mut terminal = terminals.worker(&unused, 0, Rng::new(1)).unwrap();
        let waited: Duration = (0..2_300).map(|_| terminal.step().unwrap().waited).sum();
        assert_eq!(waited, clock.now());
        // A deck has 180 + 30 + 6 seconds of typing, and 120 + 120 + 20 of thinking on average.
        let deck = waited.as_secs_f64() / 100.0;
        assert!((450.0..505.0).contains(&deck), "{deck}");
    }
}
