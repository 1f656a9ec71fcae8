//! Reserve admission (RTAS 2008 §2.3): reserves add, and any set of them up to the whole is feasible.

use core::fmt;

use units::Share;

use crate::Contract;
use crate::stream::Violation;

/// What one disk has promised so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Admission {
    reserved: Share,
    unreserved: Share,
}

/// Why a contract was refused. Nothing was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The reserves would add up to more than the disk. Cure: ask for at most `left`, or free some.
    OverReserved {
        /// What was asked for.
        asked: Share,
        /// What the disk has left.
        left: Share,
    },
    /// A limit under the reserve would break the promise it caps. Cure: a limit of at least the reserve.
    LimitUnderReserve {
        /// The reserve asked for.
        reserve: Share,
        /// The limit asked for.
        limit: Share,
    },
    /// A limit of nothing would let no request ever finish. Cure: a limit above 0 %.
    LimitOfNothing,
    /// Somebody's deadline could be missed with it. Cure: see [`Violation`].
    Deadlines(Violation),
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OverReserved { asked, left } => {
                write!(f, "a reserve of {asked} does not fit: {left} of the disk's time is left")
            }
            Self::LimitUnderReserve { reserve, limit } => {
                write!(
                    f,
                    "a limit of {limit} is under the reserve of {reserve}: expected at least {reserve}"
                )
            }
            Self::LimitOfNothing => {
                f.write_str("a limit of 0% lets no request through: expected above 0%")
            }
            Self::Deadlines(violation) => write!(f, "it does not fit: {violation}"),
        }
    }
}

impl std::error::Error for Refusal {}

impl Admission {
    /// A disk of which so much is never promised: room for what taking turns costs (RTAS 2008 §2.2).
    pub fn keeping(unreserved: Share) -> Self {
        Self { reserved: Share::NONE, unreserved }
    }

    /// What may still be reserved.
    pub fn left(&self) -> Share {
        Share::ALL.saturating_sub(self.unreserved).saturating_sub(self.reserved)
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
            return Err(Refusal::LimitOfNothing);
        }
        if limit < reserve {
            return Err(Refusal::LimitUnderReserve { reserve, limit });
        }
        if reserve > self.left() {
            return Err(Refusal::OverReserved { asked: reserve, left: self.left() });
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
        let (asked, left) = (Share::from_percent(31), Share::from_percent(30));
        assert_eq!(refusal, Refusal::OverReserved { asked, left });
        assert_eq!(disk.reserved(), Share::from_percent(70));
        disk.admit(Contract::reserve(left)).expect("exactly what is left fits");
        assert_eq!(disk.left(), Share::NONE);
    }

    #[test]
    fn what_is_kept_back_is_promised_to_nobody() {
        let mut disk = Admission::keeping(Share::from_percent(5));
        assert_eq!(disk.left(), Share::from_percent(95));
        assert!(disk.admit(Contract::reserve(Share::from_percent(96))).is_err());
        disk.admit(Contract::reserve(Share::from_percent(95))).expect("all that there is");
        assert_eq!((disk.left(), disk.reserved()), (Share::NONE, Share::from_percent(95)));
    }

    #[test]
    fn a_limit_that_breaks_the_promise_is_refused() {
        let mut disk = Admission::default();
        let contract = Contract {
            limit: Share::from_percent(40),
            ..Contract::reserve(Share::from_percent(50))
        };
        assert!(matches!(disk.admit(contract), Err(Refusal::LimitUnderReserve { .. })));
        let nothing = Contract { limit: Share::NONE, ..Contract::BEST_EFFORT };
        assert_eq!(disk.admit(nothing), Err(Refusal::LimitOfNothing));
    }
}
