//! Which customer a transaction is about.

use super::Options;
use super::random::{Constants, last_name, percent};
use super::session::Session;
use super::tables::{DistrictId, Table, last_number};
use esker_base::{Error, Result, Rng};

/// A customer of a district, as asked for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Customers {
    Number(u32),
    LastName(String),
}

impl Customers {
    /// Clauses 2.5.1.2 and 2.6.1.2: by last name in 60% of the cases.
    pub(super) fn draw(options: &Options, constants: &Constants, rng: &mut Rng) -> Self {
        if percent(rng, 60) {
            Customers::LastName(last_name(constants.last_name(options, rng)))
        } else {
            Customers::Number(constants.customer(options, rng))
        }
    }

    /// The customer's number. Of several with one last name it is the middle one by first name, rounded up
    /// (clause 2.5.2.2).
    pub(super) fn number(&self, session: &mut Session<'_, '_>, at: DistrictId) -> Result<u32> {
        let last = match self {
            Customers::Number(number) => return Ok(*number),
            Customers::LastName(last) => last,
        };
        let namesakes = session.keys(Table::CustomerByName, &at.last_name(last), usize::MAX)?;
        let middle = namesakes.get(namesakes.len().saturating_sub(1) / 2);
        middle.map(|key| last_number(key)).ok_or_else(|| Error::WrongAnswer {
            key: last.clone(),
            what: format!("no customer of {at} has this last name"),
        })
    }
}
