//! Latencies: a histogram of constant size, and its summary.

use hdrhistogram::Histogram;
use serde::Serialize;
use units::Duration;

/// Longer latencies count as this one: an hour.
const LATENCY_MAX: Duration = Duration::from_secs(3_600);
const DIGITS: u8 = 3;

/// A histogram of latencies with three digits. It uses no memory until the first latency, and then
/// only the pages that hold counts.
#[derive(Clone, Debug, Default)]
pub struct Latency {
    histogram: Option<Box<Histogram<u64>>>,
    sum_nanos: u128,
}

/// The summary of latencies in a report, in milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct LatencyMs {
    /// The mean, exact.
    pub mean: f64,
    /// The median.
    pub p50: f64,
    /// The 99th percentile.
    pub p99: f64,
    /// The 99.9th percentile.
    pub p999: f64,
    /// The longest.
    pub max: f64,
}

/// The summary of estimation errors in a report, in milliseconds: |a − e| for each request (RTAS
/// 2008 §3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct ErrorMs {
    /// The mean.
    pub mean: f64,
    /// The 95th percentile.
    pub p95: f64,
}

impl Latency {
    /// Records one latency.
    pub fn record(&mut self, latency: Duration) {
        let histogram = self.histogram.get_or_insert_with(|| {
            let histogram = Histogram::new_with_bounds(1, LATENCY_MAX.as_nanos(), DIGITS);
            Box::new(histogram.expect("the bounds are sound"))
        });
        histogram.saturating_record(latency.as_nanos().max(1));
        self.sum_nanos += u128::from(latency.as_nanos());
    }

    /// Their number.
    pub fn count(&self) -> u64 {
        self.histogram.as_ref().map_or(0, |histogram| histogram.len())
    }

    /// The quantile `quantile`; zero without latencies.
    pub fn quantile(&self, quantile: f64) -> Duration {
        let value = self.histogram.as_ref().map(|histogram| histogram.value_at_quantile(quantile));
        Duration::from_nanos(value.unwrap_or(0))
    }

    /// The longest; zero without latencies.
    pub fn max(&self) -> Duration {
        Duration::from_nanos(self.histogram.as_ref().map_or(0, |histogram| histogram.max()))
    }

    /// Adds all of `other`.
    pub fn add(&mut self, other: &Self) {
        let Some(more) = &other.histogram else { return };
        match &mut self.histogram {
            Some(histogram) => histogram.add(more.as_ref()).expect("the bounds are the same"),
            None => self.histogram = Some(more.clone()),
        }
        self.sum_nanos += other.sum_nanos;
    }

    /// Their summary as estimation errors; `None` without any.
    pub fn error(&self) -> Option<ErrorMs> {
        (self.count() > 0)
            .then(|| ErrorMs { mean: self.millis().mean, p95: self.quantile(0.95).as_millis_f64() })
    }

    /// Their summary; zeroes without any.
    #[expect(clippy::cast_precision_loss, reason = "shown, never computed with")]
    pub fn millis(&self) -> LatencyMs {
        if self.count() == 0 {
            return LatencyMs::default();
        }
        let at = |quantile| self.quantile(quantile).as_millis_f64();
        LatencyMs {
            mean: self.sum_nanos as f64 / self.count() as f64 / 1e6,
            p50: at(0.5),
            p99: at(0.99),
            p999: at(0.999),
            max: self.max().as_millis_f64(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_hold_to_three_digits() {
        let mut latency = Latency::default();
        (1..=1_000).for_each(|ms| latency.record(Duration::from_millis(ms)));
        let told = latency.millis();
        let near = |a: f64, b: f64| (a - b).abs() <= b / 500.0;
        assert!((told.mean - 500.5).abs() < 1e-9);
        assert!(
            near(told.p50, 500.0) && near(told.p99, 990.0) && near(told.max, 1_000.0),
            "{told:?}"
        );
    }
}
