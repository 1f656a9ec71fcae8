//! The terms of mClock's clients, and the options of the scheduler.

use core::num::NonZeroU32;

use engine::Weight;
use units::{Bytes, Duration, Sectors};

/// Requests of the reference size a second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RequestRate(NonZeroU32);

impl RequestRate {
    /// `rate` requests a second.
    ///
    /// # Panics
    /// On zero: no rate is the absence of one.
    pub(crate) const fn per_second(rate: u32) -> Self {
        Self(NonZeroU32::new(rate).expect("a rate is above zero"))
    }

    /// Requests a second.
    pub(crate) const fn get(self) -> u32 {
        self.0.get()
    }
}

/// The terms of one client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Terms {
    /// The least that it has while it asks for it; `None`: nothing.
    pub(crate) reservation: Option<RequestRate>,
    /// The most that it has; `None`: all.
    pub(crate) limit: Option<RequestRate>,
    /// Its part of what no reservation needs, beside other clients.
    pub(crate) weight: Weight,
    /// Requests by which the first P tag after a pause lies before the present.
    pub(crate) idle_credit: u32,
}

/// A request of S bytes is 1 + S ÷ (`positioning` × `rate`) requests of no size, as a disk spends
/// a mechanical delay on each and transfers at its peak rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Normalisation {
    /// The mechanical delay of a request, `Tm`.
    pub(crate) positioning: Duration,
    /// The peak rate `Bpeak`, a second.
    pub(crate) rate: Bytes,
}

/// Requests of one client that are close to each other go together, whatever the tags of others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LocalityBatch {
    /// How far a request may lie from the end of the one before.
    pub(crate) within: Sectors,
    /// The most requests of a batch.
    pub(crate) requests_max: u32,
}

/// The options of the scheduler.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Options {
    /// `None`: each request counts as one.
    pub(crate) normalisation: Option<Normalisation>,
    /// `None`: the tags alone decide.
    pub(crate) batch: Option<LocalityBatch>,
}

impl Normalisation {
    /// OSDI 2010's typical values: 5 ms and 60 MB/s.
    pub(crate) const TYPICAL: Self =
        Self { positioning: Duration::from_millis(5), rate: Bytes(60_000_000) };
}

impl LocalityBatch {
    /// OSDI 2010's: up to eight requests within 4 MB.
    pub(crate) const TYPICAL: Self = Self { within: Sectors(8_192), requests_max: 8 };
}
