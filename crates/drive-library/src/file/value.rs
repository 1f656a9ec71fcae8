//! Quantities with units, as drive files write them.

use core::fmt;
use core::str::FromStr;

use serde::{Deserialize, Deserializer};
use units::{Bytes, Duration, Sectors};

/// A quantity with its unit.
#[derive(Clone, Copy)]
pub(super) struct Written<T>(pub(super) T);

impl<'de, T: FromStr<Err: fmt::Display>> Deserialize<'de> for Written<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        text.parse().map(Self).map_err(serde::de::Error::custom)
    }
}

pub(super) type Time = Written<Duration>;

/// A size in whole sectors.
#[derive(Clone, Copy)]
pub(super) struct Size(pub(super) Sectors);

impl<'de> Deserialize<'de> for Size {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let Written(bytes) = Written::<Bytes>::deserialize(from)?;
        let whole = || serde::de::Error::custom(format!("is {bytes}, expected a multiple of 512B"));
        bytes.sectors_exact().map(Self).ok_or_else(whole)
    }
}
