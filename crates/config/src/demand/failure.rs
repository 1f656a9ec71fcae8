//! Why a contract is not admitted, and which would be.

use core::fmt;

use engine::stream::{CounterOffers, Span, Violation};
use input::size_text;
use units::{Bytes, Instant};

/// Why a stream, or a reserve beside streams, is not admitted, and which stream would be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdmissionFailure {
    /// The first span of time in which it does not fit.
    pub stretch: Span,
    /// The constraint that is violated.
    pub violation: Violation,
    /// The contract whose command blocks it.
    pub beside: Option<BlockingContract>,
    /// Counter-offers for a stream; none for a reserve.
    pub offers: CounterOffers,
}

/// A contract whose command blocks a deadline.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockingContract {
    /// The volume; `None` for the best-effort server, and for the pool's own contracts.
    pub volume: Option<String>,
    /// Whether it is a contract of the pool itself, for metadata or relocation.
    pub pool: bool,
    /// Whether it is the longest command of any volume without a stream: the disk has reserves.
    pub reserves: bool,
    /// The bytes of a block, if it is a stream.
    pub block: Option<Bytes>,
}

/// A size in decimal units: `12.5MB`.
pub fn decimal(bytes: Bytes) -> String {
    let units = [(1_000_000_000, "GB"), (1_000_000, "MB"), (1_000, "kB")];
    let unit =
        units.iter().find(|(unit, _)| bytes.0 >= *unit && bytes.0.is_multiple_of(unit / 1_000));
    let Some((unit, name)) = unit else { return size_text(bytes) };
    let text = format!("{}.{:03}", bytes.0 / unit, bytes.0 % unit / (unit / 1_000));
    format!("{}{name}", text.trim_end_matches('0').trim_end_matches('.'))
}

impl fmt::Display for AdmissionFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.violation {
            Violation::Blocked { interval, short, .. } => {
                write!(f, "at L = {interval}, ")?;
                match &self.beside {
                    None => f.write_str("beside its own blocks")?,
                    Some(blocker) => write!(f, "beside {blocker}")?,
                }
                write!(f, ": short by {short}")?;
            }
            Violation::Demand { interval, short } => {
                write!(f, "what may be due within {interval} is {short} more than that")?;
            }
            Violation::Utilization { asked, .. } => {
                let tenths = asked.ppb().div_ceil(1_000_000);
                write!(
                    f,
                    "{}.{}% of the disk's time would be asked for",
                    tenths / 10,
                    tenths % 10
                )?;
            }
            other => write!(f, "{other}")?,
        }
        if self.stretch != Span::ALWAYS {
            write!(f, ", from {}", self.stretch.start)?;
            if self.stretch.end < Instant::FAR_FUTURE {
                write!(f, " to {}", self.stretch.end)?;
            }
        }
        let block = self.offers.block.map(|block| format!("blocks of {}", decimal(block)));
        let bandwidth = self.offers.bandwidth.map(|bytes| format!("{}/s", decimal(bytes)));
        match (block, bandwidth) {
            (None, None) => Ok(()),
            (Some(one), None) | (None, Some(one)) => write!(f, "; {one} would fit"),
            (Some(block), Some(bandwidth)) => write!(f, "; {block} would fit, or {bandwidth}"),
        }
    }
}

impl fmt::Display for BlockingContract {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.volume, self.block) {
            (Some(name), Some(block)) => write!(f, "stream {name}'s {} blocks", decimal(block)),
            (Some(name), None) => write!(f, "the reserve of {name}"),
            (None, _) if self.reserves => {
                f.write_str("the longest command of volumes without a stream")
            }
            (None, _) if self.pool => f.write_str("the pool's own reserves"),
            (None, _) => f.write_str("the server of best effort"),
        }
    }
}
