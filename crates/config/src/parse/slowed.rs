//! `slowed` of a `[[disk]]` table: a drive model at a share of its speed.

use core::str::FromStr;

use units::{ParseError, Share};

use crate::limits::SLOWED_MIN;
use input::{InputError, Table};

/// A share as a number, or with its unit.
struct Factor(Share);

impl FromStr for Factor {
    type Err = ParseError;
    fn from_str(text: &str) -> Result<Self, ParseError> {
        Share::from_factor(text).map(Self)
    }
}

/// The share of its speed at which the table's drive runs.
pub(crate) fn check(table: &Table<'_>) -> Result<Share, InputError> {
    let Some(value) = table.value("slowed") else { return Ok(Share::ALL) };
    let least = SLOWED_MIN.as_f64();
    let expected = format!("a factor from {least:.2} to 1, or \"{SLOWED_MIN}\" to \"100%\"");
    let Factor(share) = value.factor(&expected)?;
    if share < SLOWED_MIN { Err(value.refuse(expected)) } else { Ok(share) }
}
