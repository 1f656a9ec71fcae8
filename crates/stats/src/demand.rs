//! The worth of a live volume's reserve, estimated without a second disk.
//!
//! Over a time T the requests of a volume with the reserve u demanded the service times S, and for
//! Z its client had none outstanding. Alone on the disk slowed to u the same requests take S ÷ u,
//! one after the other, and the client pauses as long. So the worth is about
//!
//! ```text
//! (S ÷ u + Z) ÷ T
//! ```
//!
//! It is exact for a client that has one request outstanding, or sends bursts, or never pauses, as
//! far as its own service times are known. Several requests whose pauses overlap are taken as if
//! they did not.

use engine::ServiceDemand;
use units::{Duration, Instant, Share};

/// The shortest time over which a worth is estimated.
pub const WORTH_WINDOW: Duration = Duration::from_secs(10);
/// The fewest requests from which it is estimated.
pub const WORTH_REQUESTS_MIN: u64 = 20;

/// What a volume's requests had demanded at an instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DemandSample {
    /// The instant.
    pub at: Instant,
    /// The number of answered requests.
    pub requests: u64,
    /// Their demand.
    pub demand: ServiceDemand,
}

impl DemandSample {
    /// The worth of `reserve` since an earlier sample; `None` without a reserve, without time or
    /// with too few requests.
    pub fn worth_since(&self, earlier: &Self, reserve: Share) -> Option<f64> {
        let elapsed = self.at.saturating_since(earlier.at);
        let requests = self.requests.saturating_sub(earlier.requests);
        if reserve.is_none() || elapsed == Duration::ZERO || requests < WORTH_REQUESTS_MIN {
            return None;
        }
        let service = (self.demand.service - earlier.demand.service).as_secs_f64();
        let think = self.demand.think.saturating_sub(earlier.demand.think).as_secs_f64();
        Some((service / reserve.as_f64() + think) / elapsed.as_secs_f64())
    }
}

/// The samples of one volume: the worth is that of the last one to two [`WORTH_WINDOW`]s.
#[derive(Clone, Copy, Debug, Default)]
pub struct DemandWindow {
    before: Option<DemandSample>,
    last: Option<DemandSample>,
}

impl DemandWindow {
    /// Begins the next window.
    pub fn rotate(&mut self, sample: DemandSample) {
        self.before = self.last.replace(sample);
    }

    /// The worth of `reserve` up to `now`; `None` until a window has passed.
    pub fn worth(&self, now: &DemandSample, reserve: Share) -> Option<f64> {
        let from = self.before.or(self.last)?;
        let elapsed = now.at.saturating_since(from.at);
        (elapsed >= WORTH_WINDOW).then(|| now.worth_since(&from, reserve)).flatten()
    }
}

#[cfg(test)]
mod tests {
    use units::DiskTime;

    use super::*;

    fn sample(seconds: u64, requests: u64, service_ms: i64, think_ms: u64) -> DemandSample {
        let service = DiskTime::from_millis(service_ms);
        let think = Duration::from_millis(think_ms);
        let at = Instant::ZERO + Duration::from_secs(seconds);
        DemandSample { at, requests, demand: ServiceDemand { service, think } }
    }

    #[test]
    fn half_of_the_service_time_that_a_backlogged_client_was_due_is_half_the_worth() {
        let from = sample(5, 100, 1_000, 0);
        // 10 s at a reserve of 40 %: 4 s are due.
        let to = sample(15, 300, 3_000, 0);
        let worth = to.worth_since(&from, Share::from_percent(40)).expect("enough");
        assert!((worth - 0.5).abs() < 1e-9, "{worth}");
    }

    #[test]
    fn pauses_of_the_client_are_not_its_loss() {
        let from = sample(0, 0, 0, 0);
        // 100 requests of 10 ms at 50 %, and 8 s of pauses: as on a disk at half the speed.
        let to = sample(10, 100, 1_000, 8_000);
        let worth = to.worth_since(&from, Share::from_percent(50)).expect("enough");
        assert!((worth - 1.0).abs() < 1e-9, "{worth}");
    }

    #[test]
    fn without_a_reserve_or_with_few_requests_there_is_no_worth() {
        let from = sample(0, 0, 0, 0);
        assert_eq!(sample(10, 100, 1_000, 0).worth_since(&from, Share::NONE), None);
        let few = sample(10, WORTH_REQUESTS_MIN - 1, 1_000, 0);
        assert_eq!(few.worth_since(&from, Share::ALL), None);
    }

    #[test]
    fn a_window_reaches_one_to_two_lengths_back() {
        let mut window = DemandWindow::default();
        window.rotate(sample(0, 0, 0, 0));
        assert_eq!(window.worth(&sample(5, 50, 500, 0), Share::ALL), None, "too early");
        assert!(window.worth(&sample(10, 100, 1_000, 0), Share::ALL).is_some());
        window.rotate(sample(10, 100, 1_000, 0));
        window.rotate(sample(20, 100, 1_000, 10_000));
        let now = sample(25, 200, 6_000, 10_000);
        let worth = window.worth(&now, Share::ALL).expect("15 s");
        assert!((worth - 1.0).abs() < 1e-9, "the first ten seconds have passed: {worth}");
    }
}
