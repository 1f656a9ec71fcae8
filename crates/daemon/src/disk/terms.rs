//! What a volume is guaranteed on one disk.

use engine::stream::Span;
use engine::{Contract, Priority, RateContract};

/// A volume's contract on one disk, with everything that the disk's thread keeps beside it. It has
/// passed admission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct VolumeTerms {
    pub(crate) contract: Contract,
    /// The time span in which the contract's stream is in force.
    pub(crate) span: Span,
    /// The rate from which the reserve was derived, if it was derived from one.
    pub(crate) declared: Option<RateContract>,
    pub(crate) priority: Priority,
}

impl VolumeTerms {
    /// The terms of a configured volume that lies on one disk.
    pub(crate) fn of(volume: &config::Volume) -> Self {
        let &config::Volume { contract, declared, priority, .. } = volume;
        Self { contract, span: volume.span(), declared, priority }
    }

    /// Terms without a time span, a declared rate or a priority.
    pub(crate) fn always(contract: Contract) -> Self {
        Self { contract, span: Span::ALWAYS, declared: None, priority: Priority::Normal }
    }
}
