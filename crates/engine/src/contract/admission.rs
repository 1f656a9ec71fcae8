//! Admission of reserves (Zygaria, RTAS 2008 §2.3): reserves add up, and any set of them up to the
//! whole is feasible.

use core::fmt;

use units::Share;

use crate::Contract;
use crate::stream::Violation;

/// The reserves of one disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Admission {
    reserved: Share,
    headroom: Share,
}

/// Why a contract was refused. Nothing was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The reserves would exceed the disk. Remedy: ask for at most `available`, or free some.
    OverReserved {
        /// The requested reserve.
        requested: Share,
        /// What the disk has available.
        available: Share,
    },
    /// A limit below the reserve contradicts it. Remedy: a limit of at least the reserve.
    LimitBelowReserve {
        /// The requested reserve.
        reserve: Share,
        /// The requested limit.
        limit: Share,
    },
    /// A limit of zero would let no request finish. Remedy: a limit above 0 %.
    ZeroLimit,
    /// A deadline could be missed with it. Remedy: see [`Violation`].
    Deadlines(Violation),
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OverReserved { requested, available } => {
                write!(
                    f,
                    "a reserve of {requested} does not fit: {available} of the disk's time is left"
                )
            }
            Self::LimitBelowReserve { reserve, limit } => {
                write!(
                    f,
                    "a limit of {limit} is below the reserve of {reserve}: \
                     expected at least {reserve}"
                )
            }
            Self::ZeroLimit => {
                f.write_str("a limit of 0% lets no request through: expected above 0%")
            }
            Self::Deadlines(violation) => write!(f, "it does not fit: {violation}"),
        }
    }
}

impl std::error::Error for Refusal {}

impl Admission {
    /// A disk of which the share `headroom` is never reserved: it covers switching costs (RTAS 2008
    /// §2.2).
    pub fn with_headroom(headroom: Share) -> Self {
        Self { reserved: Share::NONE, headroom }
    }

    /// The share that can still be reserved.
    pub fn available(&self) -> Share {
        let reservable = Share::ALL.saturating_sub(self.headroom);
        debug_assert!(self.reserved <= reservable, "reserves fit the disk");
        reservable.saturating_sub(self.reserved)
    }

    /// The sum of the admitted reserves.
    pub fn reserved(&self) -> Share {
        self.reserved
    }

    /// The share that streams cannot have: the admitted reserves and the headroom.
    pub fn promised(&self) -> Share {
        let promised = self.reserved.checked_add(self.headroom);
        debug_assert!(promised.is_some(), "reserves fit the disk beside the headroom");
        promised.unwrap_or(Share::ALL)
    }

    /// Admits `contract`, or changes nothing.
    ///
    /// # Errors
    /// See [`Refusal`].
    pub fn admit(&mut self, contract: Contract) -> Result<(), Refusal> {
        let Contract { reserve, limit, .. } = contract;
        if limit.is_none() {
            return Err(Refusal::ZeroLimit);
        }
        if limit < reserve {
            return Err(Refusal::LimitBelowReserve { reserve, limit });
        }
        if reserve > self.available() {
            return Err(Refusal::OverReserved { requested: reserve, available: self.available() });
        }
        let before = self.reserved;
        self.reserved = self.reserved.checked_add(reserve).expect("it is available");
        assert_eq!(self.reserved.saturating_sub(reserve), before, "the reserve is counted once");
        assert!(self.reserved <= Share::ALL.saturating_sub(self.headroom), "reserves fit the disk");
        Ok(())
    }

    /// Releases `contract`'s reserve.
    ///
    /// # Panics
    /// If it was never admitted.
    pub fn release(&mut self, contract: Contract) {
        assert!(contract.reserve <= self.reserved, "released more than was admitted");
        self.reserved = self.reserved.saturating_sub(contract.reserve);
        debug_assert!(self.available() >= contract.reserve, "what was released is available");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refused_contract_changes_nothing_and_says_what_is_available() {
        let mut disk = Admission::default();
        disk.admit(Contract::reserve(Share::from_percent(70))).expect("fits");
        let refusal =
            disk.admit(Contract::reserve(Share::from_percent(31))).expect_err("does not fit");
        let (requested, available) = (Share::from_percent(31), Share::from_percent(30));
        assert_eq!(refusal, Refusal::OverReserved { requested, available });
        assert_eq!(disk.reserved(), Share::from_percent(70));
        disk.admit(Contract::reserve(available)).expect("exactly what is available fits");
        assert_eq!(disk.available(), Share::NONE);
    }

    #[test]
    fn headroom_is_never_reserved() {
        let mut disk = Admission::with_headroom(Share::from_percent(5));
        assert_eq!(disk.available(), Share::from_percent(95));
        assert!(disk.admit(Contract::reserve(Share::from_percent(96))).is_err());
        disk.admit(Contract::reserve(Share::from_percent(95))).expect("all that there is");
        assert_eq!((disk.available(), disk.reserved()), (Share::NONE, Share::from_percent(95)));
    }

    #[test]
    fn a_limit_below_the_reserve_is_refused() {
        let mut disk = Admission::default();
        let contract = Contract {
            limit: Share::from_percent(40),
            ..Contract::reserve(Share::from_percent(50))
        };
        assert!(matches!(disk.admit(contract), Err(Refusal::LimitBelowReserve { .. })));
        let nothing = Contract { limit: Share::NONE, ..Contract::BEST_EFFORT };
        assert_eq!(disk.admit(nothing), Err(Refusal::ZeroLimit));
    }
}
