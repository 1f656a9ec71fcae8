//! Reserve admission (RTAS 2008 §2.3): reserves add, and any set of them up to the whole is feasible.

use core::fmt;

use units::Share;

use crate::Contract;
use crate::stream::Violation;

/// What one disk has promised so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Admission {
    reserved: Share,
    headroom: Share,
}

/// Why a contract was refused. Nothing was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The reserves would add up to more than the disk. Cure: ask for at most `available`, or free some.
    OverReserved {
        /// What was asked for.
        requested: Share,
        /// What the disk has left.
        available: Share,
    },
    /// A limit under the reserve would break the promise it caps. Cure: a limit of at least the reserve.
    LimitBelowReserve {
        /// The reserve asked for.
        reserve: Share,
        /// The limit asked for.
        limit: Share,
    },
    /// A limit of nothing would let no request ever finish. Cure: a limit above 0 %.
    ZeroLimit,
    /// Somebody's deadline could be missed with it. Cure: see [`Violation`].
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
                    "a limit of {limit} is under the reserve of {reserve}: expected at least {reserve}"
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
    /// A disk of which so much is never promised: room for what taking turns costs (RTAS 2008 §2.2).
    pub fn with_headroom(headroom: Share) -> Self {
        Self { reserved: Share::NONE, headroom }
    }

    /// What may still be reserved.
    pub fn available(&self) -> Share {
        Share::ALL.saturating_sub(self.headroom).saturating_sub(self.reserved)
    }

    /// The sum of the admitted reserves.
    pub fn reserved(&self) -> Share {
        self.reserved
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
        self.reserved = self.reserved.checked_add(reserve).expect("it is left");
        Ok(())
    }

    /// Gives `contract`'s reserve back.
    ///
    /// # Panics
    /// If it was never admitted.
    pub fn release(&mut self, contract: Contract) {
        assert!(contract.reserve <= self.reserved, "released more than was admitted");
        self.reserved = self.reserved.saturating_sub(contract.reserve);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refused_contract_changes_nothing_and_says_what_is_left() {
        let mut disk = Admission::default();
        disk.admit(Contract::reserve(Share::from_percent(70))).expect("fits");
        let refusal =
            disk.admit(Contract::reserve(Share::from_percent(31))).expect_err("does not fit");
        let (requested, available) = (Share::from_percent(31), Share::from_percent(30));
        assert_eq!(refusal, Refusal::OverReserved { requested, available });
        assert_eq!(disk.reserved(), Share::from_percent(70));
        disk.admit(Contract::reserve(available)).expect("exactly what is left fits");
        assert_eq!(disk.available(), Share::NONE);
    }

    #[test]
    fn what_is_kept_back_is_promised_to_nobody() {
        let mut disk = Admission::with_headroom(Share::from_percent(5));
        assert_eq!(disk.available(), Share::from_percent(95));
        assert!(disk.admit(Contract::reserve(Share::from_percent(96))).is_err());
        disk.admit(Contract::reserve(Share::from_percent(95))).expect("all that there is");
        assert_eq!((disk.available(), disk.reserved()), (Share::NONE, Share::from_percent(95)));
    }

    #[test]
    fn a_limit_that_breaks_the_promise_is_refused() {
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
