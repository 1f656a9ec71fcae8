//! What is known of the slack between two decisions: the rest of ΔL, a lower bound of the dynamic
//! slack, and the volume to whose block the arm would have to return.

use units::{DiskTime, Instant};

use super::dynamic_slack::DemandForecast;
use crate::VolumeId;

/// Best-effort commands for which a burst of real-time requests ends: with one, the seeks there and
/// back cost the service of three more; with many, the first waits for the slack of the last. Of 1,
/// 2, 3, 4, 8, 16 and all that wait, 4 had the least mean latency beside the busiest streams of
/// `clockwise-fig3`.
pub(in crate::policy) const BURST_COMMANDS: usize = 4;

/// The slack of a disk, as far as it is known.
#[derive(Debug)]
pub(in crate::policy) struct SlackBound {
    /// The cost of a preemption.
    preemption: DiskTime,
    /// ΔL, and the rest of it since no request was real time.
    static_slack: DiskTime,
    left: DiskTime,
    /// A lower bound of the dynamic slack, and when it was computed.
    known: Option<(Instant, DiskTime)>,
    /// The volume of the last command: the arm is where that ended.
    last_served: Option<VolumeId>,
    forecast: DemandForecast,
}

impl SlackBound {
    /// No slack, on a disk where a preemption costs `preemption`.
    pub(in crate::policy) fn new(preemption: DiskTime) -> Self {
        assert!(preemption >= DiskTime::ZERO, "a positioning takes time");
        Self {
            preemption,
            static_slack: DiskTime::ZERO,
            left: DiskTime::ZERO,
            known: None,
            last_served: None,
            forecast: DemandForecast::default(),
        }
    }

    pub(in crate::policy) fn preemption(&self) -> DiskTime {
        debug_assert!(self.preemption >= DiskTime::ZERO, "a positioning takes time");
        self.preemption
    }

    /// A preemption costs `preemption` from now on. No request is real time.
    pub(in crate::policy) fn set_preemption(&mut self, preemption: DiskTime) {
        assert!(preemption >= DiskTime::ZERO, "a positioning takes time");
        (self.preemption, self.known) = (preemption, None);
    }

    /// The rest of ΔL since no request was real time.
    pub(in crate::policy) fn left(&self) -> DiskTime {
        debug_assert!(self.static_slack >= DiskTime::ZERO, "slack is not negative");
        self.left
    }

    /// ΔL is another from now on. The rest of it is the smaller until it starts again.
    pub(in crate::policy) fn set_static(&mut self, slack: DiskTime) {
        assert!(slack >= DiskTime::ZERO, "slack is not negative");
        self.static_slack = slack;
        self.left = self.left.min(slack);
        self.known = None;
    }

    /// No request is real time, and the drive is idle: ΔL starts again.
    pub(in crate::policy) fn restart(&mut self) {
        assert!(self.static_slack >= DiskTime::ZERO, "slack is not negative");
        self.left = self.static_slack;
    }

    /// A command that is not real time takes `amount` of ΔL; a negative one is given back.
    pub(in crate::policy) fn spend(&mut self, amount: DiskTime) {
        self.left -= amount;
        debug_assert!(self.static_slack >= DiskTime::ZERO, "slack is not negative");
    }

    /// The disk idles before real-time requests: the rest of ΔL is that of one that does not.
    pub(in crate::policy) fn idle(&mut self) {
        self.left = DiskTime::ZERO;
        debug_assert!(self.static_slack >= self.left, "the rest is at most the whole");
    }

    /// The guarantees have changed: the known bound is not theirs.
    pub(in crate::policy) fn forget(&mut self) {
        self.known = None;
        debug_assert!(self.static_slack >= DiskTime::ZERO, "slack is not negative");
    }

    /// The cost of a command beyond its own service time: the positioning back to a request that it
    /// interrupts, if that of the last volume `is_begun`.
    pub(in crate::policy) fn preemption_cost(
        &self,
        is_begun: impl FnOnce(VolumeId) -> bool,
    ) -> DiskTime {
        debug_assert!(self.preemption >= DiskTime::ZERO, "a positioning takes time");
        if self.last_served.is_some_and(is_begun) { self.preemption } else { DiskTime::ZERO }
    }

    /// Notes that `volume` is served. A request that is begun and does not continue now will need
    /// positioning again: `interrupts` says whether there is one on the volume served before.
    pub(in crate::policy) fn served(
        &mut self,
        volume: VolumeId,
        interrupts: impl FnOnce(VolumeId) -> bool,
    ) {
        let before = self.last_served.replace(volume).filter(|before| *before != volume);
        if before.is_some_and(interrupts)
            && let Some((_, known)) = &mut self.known
        {
            *known -= self.preemption;
        }
        debug_assert_eq!(self.last_served, Some(volume), "the head is where that command ends");
    }

    /// The demand that `collect` finds from now on.
    pub(in crate::policy) fn look_ahead(
        &mut self,
        collect: impl FnOnce(&mut DemandForecast),
    ) -> &mut DemandForecast {
        self.forecast.clear();
        collect(&mut self.forecast);
        &mut self.forecast
    }

    /// The dynamic slack, or a lower bound: enough to decide whether `wanted` is available. The
    /// demand is collected if the known bound does not suffice.
    pub(in crate::policy) fn dynamic(
        &mut self,
        wanted: DiskTime,
        now: Instant,
        collect: impl FnOnce(&mut DemandForecast),
    ) -> DiskTime {
        debug_assert!(wanted >= DiskTime::ZERO, "a command takes time: {wanted}");
        let since = |then: Instant| DiskTime::from(now.since(then));
        let known = self.known.map_or(self.left, |(then, slack)| slack - since(then));
        let known = known.max(self.left);
        if known >= wanted {
            return known;
        }
        let slack = self.look_ahead(collect).slack(now).max(self.left);
        self.known = Some((now, slack));
        slack
    }
}

#[cfg(test)]
mod tests {
    use units::Duration;

    use super::super::dynamic_slack::{Rate, Releases};
    use super::*;

    const fn ms(millis: i64) -> DiskTime {
        DiskTime::from_millis(millis)
    }

    /// A request of 4 ms that is due at 20 ms.
    fn one_due(forecast: &mut DemandForecast) {
        forecast.add_pending(Instant::ZERO + Duration::from_millis(20), ms(4));
        let (first, period) = (Instant::FAR_FUTURE, Duration::from_secs(1));
        let (cost, rate) = (DiskTime::ZERO, Rate::of(DiskTime::ZERO, period));
        let releases = Releases { at_once: 0, first, period, deadline: period, cost, rate };
        forecast.add_releases(releases, Instant::ZERO);
    }

    #[test]
    fn demand_is_collected_only_if_the_known_bound_does_not_suffice() {
        let mut slack = SlackBound::new(ms(1));
        slack.set_static(ms(3));
        slack.restart();
        let unexpected = |_: &mut DemandForecast| panic!("3 ms are known to be there");
        assert_eq!(slack.dynamic(ms(3), Instant::ZERO, unexpected), ms(3));
        assert_eq!(slack.dynamic(ms(5), Instant::ZERO, one_due), ms(16));
        let later = Instant::ZERO + Duration::from_millis(6);
        assert_eq!(slack.dynamic(ms(10), later, unexpected), ms(10));
        // A block that is interrupted needs positioning again.
        slack.served(VolumeId(0), |_| false);
        slack.served(VolumeId(1), |volume| volume == VolumeId(0));
        assert_eq!(slack.dynamic(ms(9), later, unexpected), ms(9));
        slack.spend(ms(2));
        assert_eq!((slack.left(), slack.preemption_cost(|_| true)), (ms(1), ms(1)));
        slack.restart();
        assert_eq!(slack.left(), ms(3));
    }
}
