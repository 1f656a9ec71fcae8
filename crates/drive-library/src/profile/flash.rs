//! Findings about a device that does not rotate: `[found.flash]`.

use drive_profile::findings::{
    AccessPattern, Flash, FlushTime, LimitedQuantity, Rate, RateLimit, ReadsDuringWrites,
    RotationTest, RotationVerdict,
};
use drive_profile::findings::{Figure, Findings};
use units::{Duration, Op, Sectors, Share};

use super::form::{Form, Record};
use input::InputError;

const LIMITS_MAX: usize = 8;
const RATES_MAX: usize = 1_024;
const FLUSHES_MAX: usize = 64;

/// A figure without samples.
pub(super) const fn unknown<T>(value: T, spread: T) -> Figure<T> {
    Figure { value, spread, samples: 0, confidence: Share::NONE }
}

pub(super) const fn no_time() -> Figure<Duration> {
    unknown(Duration::ZERO, Duration::ZERO)
}

/// The table is absent if nothing is known.
pub(super) fn visit(findings: &mut Findings, form: &mut Form<'_>) -> Result<(), InputError> {
    let known = !findings.flash.is_empty();
    let mut flash = known.then(|| findings.flash.clone());
    form.table("flash", &mut flash)?;
    findings.flash = flash.unwrap_or_default();
    Ok(())
}

impl Record for Flash {
    fn blank() -> Self {
        Self::default()
    }

    fn visit(&mut self, form: &mut Form<'_>) -> Result<(), InputError> {
        form.figure("write_buffer", &mut self.write_buffer)?;
        form.table(("rotation_test", "random_reads"), &mut self.rotation_test)?;
        form.tables(("rate_limit", "limit"), &mut self.limits, LIMITS_MAX)?;
        form.table(("reads_during_writes", "read_beside_writes"), &mut self.reads_during_writes)?;
        form.tables("flush", &mut self.flushes, FLUSHES_MAX)?;
        form.tables("rate", &mut self.rates, RATES_MAX)
    }
}

impl Record for RotationTest {
    fn blank() -> Self {
        let (median, spread) = (Duration::ZERO, Duration::ZERO);
        Self { verdict: RotationVerdict::MayRotate, median, spread, samples: 0 }
    }

    fn visit(&mut self, form: &mut Form<'_>) -> Result<(), InputError> {
        form.field("verdict", &mut self.verdict)?;
        form.field("median", &mut self.median)?;
        form.field("spread", &mut self.spread)?;
        form.field("samples", &mut self.samples)
    }
}

impl Record for RateLimit {
    fn blank() -> Self {
        let (of, per_second, burst) = (LimitedQuantity::Commands, unknown(0, 0), unknown(0, 0));
        Self { of, per_second, burst }
    }

    fn visit(&mut self, form: &mut Form<'_>) -> Result<(), InputError> {
        form.field(("quantity", "of"), &mut self.of)?;
        form.known("per_second", &mut self.per_second)?;
        form.known("burst", &mut self.burst)
    }
}

impl Record for ReadsDuringWrites {
    fn blank() -> Self {
        let (p99, max) = (Duration::ZERO, Duration::ZERO);
        Self { alone: no_time(), mean: no_time(), p99, max }
    }

    fn visit(&mut self, form: &mut Form<'_>) -> Result<(), InputError> {
        form.known("alone", &mut self.alone)?;
        form.known(("mean", "beside"), &mut self.mean)?;
        form.field("p99", &mut self.p99)?;
        form.field("max", &mut self.max)
    }
}

impl Record for FlushTime {
    fn blank() -> Self {
        Self { writes: 0, time: no_time() }
    }

    fn visit(&mut self, form: &mut Form<'_>) -> Result<(), InputError> {
        form.field("writes", &mut self.writes)?;
        form.known("time", &mut self.time)
    }
}

impl Record for Rate {
    fn blank() -> Self {
        Self {
            op: Op::Read,
            access: AccessPattern::Random,
            len: Sectors::ZERO,
            depth: 0,
            interval: no_time(),
            latency: no_time(),
            latency_p99: Duration::ZERO,
            latency_max: Duration::ZERO,
        }
    }

    fn visit(&mut self, form: &mut Form<'_>) -> Result<(), InputError> {
        form.field("op", &mut self.op)?;
        form.field("access", &mut self.access)?;
        form.field("length", &mut self.len)?;
        form.field("depth", &mut self.depth)?;
        form.known("interval", &mut self.interval)?;
        form.known("latency", &mut self.latency)?;
        form.field("latency_p99", &mut self.latency_p99)?;
        form.field("latency_max", &mut self.latency_max)
    }
}
