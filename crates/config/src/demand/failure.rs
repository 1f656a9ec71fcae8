//! Why a contract is not admitted, and which would be.

use core::fmt;

use engine::stream::{CounterOffers, LatencyOffers, Span, Violation};
use input::{size_text, time_text};
use units::{Bytes, Duration, Instant};

use crate::plan::Bus;

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
    /// The bus of the disk, if it shares one.
    pub bus: Option<Bus>,
    /// Whether the contract that does not fit is a bounded latency.
    pub is_latency: bool,
    /// Counter-offers for a bounded latency; none for a stream or a reserve.
    pub latency_offers: LatencyOffers,
}

/// A contract whose command blocks a deadline.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockingContract {
    /// The volume; `None` for the best-effort server, and for the pool's own contracts.
    pub volume: Option<String>,
    /// Whether it is a contract of the pool itself, for metadata, relocation or rebuilding.
    pub pool: bool,
    /// Whether it is the longest command of any volume without a stream: the disk has reserves.
    pub reserves: bool,
    /// The bytes of a block, if it is a stream.
    pub block: Option<Bytes>,
    /// Whether it is a bounded latency.
    pub is_latency: bool,
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

/// A rate of at least one in an hour as the config has it, rounded down to three digits.
fn rate_text(interval: Duration) -> String {
    // The quotient of a tenth or less is written in thousandths.
    let millihertz = 1_000_000_000_000 / interval.as_nanos().max(1);
    let mut step = 1;
    while millihertz / step >= 1_000 {
        step *= 10;
    }
    let millihertz = millihertz / step * step;
    let text = format!("{}.{:03}", millihertz / 1_000, millihertz % 1_000);
    format!("{}/s", text.trim_end_matches('0').trim_end_matches('.'))
}

impl AdmissionFailure {
    /// What would fit in place of a bounded latency, as the config has it: `within`, `requests`,
    /// `burst` and `size`, each beside the requested values of the others.
    pub fn latency_offers(&self) -> [Option<String>; 4] {
        let LatencyOffers { within, interval, burst, size } = self.latency_offers;
        let rate = interval.map(rate_text).filter(|rate| rate != "0/s");
        let (within, burst) = (within.map(time_text), burst.map(|burst| burst.to_string()));
        [within, rate, burst, size.map(|size| size_text(size.bytes()))]
    }
}

/// What would fit in place of a bounded latency.
fn latency_offers(f: &mut fmt::Formatter<'_>, failure: &AdmissionFailure) -> fmt::Result {
    let keys = ["within", "requests", "burst", "size"].into_iter();
    let offers = keys.zip(failure.latency_offers());
    let offers: Vec<_> =
        offers.filter_map(|(key, offer)| Some(format!("{key} = {}", offer?))).collect();
    if offers.is_empty() {
        return Ok(());
    }
    write!(f, "; {} would fit", offers.join(", or "))
}

impl fmt::Display for AdmissionFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.violation {
            Violation::Blocked { interval, short, .. } => {
                write!(f, "at L = {interval}, ")?;
                match &self.beside {
                    None if self.is_latency => f.write_str("beside its own requests")?,
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
        if let Some(Bus { name, bandwidth, disks, .. }) = &self.bus {
            let bandwidth = decimal(*bandwidth);
            write!(f, ", with the bus \"{name}\" of {bandwidth}/s for {disks} disks at once")?;
        }
        let block = self.offers.block.map(|block| format!("blocks of {}", decimal(block)));
        let bandwidth = self.offers.bandwidth.map(|bytes| format!("{}/s", decimal(bytes)));
        match (block, bandwidth) {
            (None, None) => latency_offers(f, self),
            (Some(one), None) | (None, Some(one)) => write!(f, "; {one} would fit"),
            (Some(block), Some(bandwidth)) => write!(f, "; {block} would fit, or {bandwidth}"),
        }
    }
}

impl fmt::Display for BlockingContract {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.volume, self.block) {
            (Some(name), _) if self.is_latency => write!(f, "the latency of {name}"),
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
