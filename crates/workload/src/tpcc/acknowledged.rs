//! What was acknowledged to clients, and whether a store has all of it.

use super::rows::{History, Order, OrderLine, Row};
use super::session::decode;
use super::tables::{DistrictId, Table, Tables};
use crate::Differences;
use esker_api::{KeyRange, Transactional};
use esker_base::Result;

/// A transaction whose commit was acknowledged, so that it must be there after any crash that the store
/// promises to survive.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Acknowledged(pub(super) Kind);

/// The three kinds that write.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    NewOrder { at: DistrictId, order: u32 },
    Payment { of: DistrictId, customer: u32, payment: u32 },
    Delivery { at: DistrictId, order: u32 },
}

/// Looks for every one of `acknowledged` in `store`, and tells which are missing. Transactions that were
/// not acknowledged may be there or not.
pub fn verify(
    store: &dyn Transactional,
    acknowledged: impl IntoIterator<Item = Acknowledged>,
) -> Result<Differences> {
    let look = Look { store, tables: Tables::of(store)? };
    let mut found = Differences::default();
    for Acknowledged(kind) in acknowledged {
        if let Some(missing) = look.missing(kind)? {
            found.add(missing);
        }
    }
    Ok(found)
}

struct Look<'a> {
    store: &'a dyn Transactional,
    tables: Tables,
}

impl Look<'_> {
    fn row<R: Row>(&self, key: &[u8]) -> Result<Option<R>> {
        let value = self.store.get(self.tables.id(R::TABLE), key)?;
        value.map(|value| decode(key, &value)).transpose()
    }

    /// What is missing of a transaction, if anything is.
    fn missing(&self, kind: Kind) -> Result<Option<String>> {
        Ok(match kind {
            Kind::NewOrder { at, order } => match self.row::<Order>(&at.numbered(order))? {
                None => Some(format!("order {order} of {at} was acknowledged and is missing")),
                Some(row) => {
                    let lines = self.lines(at, order)?;
                    (lines != row.lines).then(|| {
                        let all = row.lines;
                        format!("order {order} of {at} was acknowledged; {lines} of {all} lines are there")
                    })
                }
            },
            Kind::Payment { of, customer, payment } => {
                let row = self.row::<History>(&of.payment(customer, payment))?;
                row.is_none().then(|| {
                    let whose = format!("payment {payment} of customer {customer}");
                    format!("{whose} of {of} was acknowledged and is missing")
                })
            }
            Kind::Delivery { at, order } => {
                let key = at.numbered(order);
                let waits = self.store.get(self.tables.id(Table::NewOrder), &key)?.is_some();
                let carried = self.row::<Order>(&key)?.is_some_and(|row| row.carrier > 0);
                (waits || !carried).then(|| {
                    format!("the delivery of order {order} of {at} was acknowledged and is missing")
                })
            }
        })
    }

    fn lines(&self, at: DistrictId, order: u32) -> Result<u32> {
        let range = KeyRange::prefix(&at.numbered(order));
        let mut cursor = self.store.cursor(self.tables.id(OrderLine::TABLE), range)?;
        cursor.seek_first()?;
        let mut lines = 0;
        while cursor.current().is_some() {
            lines += 1;
            cursor.next()?;
        }
        Ok(lines)
    }
}
