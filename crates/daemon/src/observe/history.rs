//! The volumes that a disk has served recently.
//!
//! It is bounded: the volumes of old intervals are forgotten. Their lengths are in the requests'
//! own sums.

use std::collections::VecDeque;

use engine::VolumeId;
use units::{Duration, Instant};

/// The number of spans stored: with spans of a millisecond, the last four seconds.
pub(super) const SPANS_MAX: usize = 4_096;

#[derive(Clone, Copy, Debug)]
struct Span {
    from: Instant,
    until: Instant,
    volume: VolumeId,
    /// Its part of the time, if several volumes were served concurrently.
    time: Duration,
}

/// Spans in the order of their ends. Each ends after its start.
#[derive(Debug, Default)]
pub(super) struct History(VecDeque<Span>);

impl History {
    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    /// Records that the disk served these volumes from `from` until `until`, in equal parts. A
    /// volume that is named twice has two parts.
    pub(super) fn served(
        &mut self,
        (from, until): (Instant, Instant),
        volumes: impl ExactSizeIterator<Item = VolumeId>,
    ) {
        let (time, count) = (until.since(from), volumes.len() as u64);
        assert!(time > Duration::ZERO && count > 0, "a span has a length and a volume");
        let first = self.0.len();
        for volume in volumes {
            let part = time / count;
            let group = self.0.iter_mut().skip(first);
            let mut same = group.filter(|span| span.volume == volume);
            match same.next() {
                Some(span) => span.time += part,
                None => self.0.push_back(Span { from, until, volume, time: part }),
            }
        }
        // The remainder of the division is added to the first volume's part.
        if let Some(span) = self.0.get_mut(first) {
            span.time += time.saturating_sub(time / count * count);
        }
        self.merge(first);
        while self.0.len() > SPANS_MAX {
            self.0.pop_front();
        }
    }

    /// Merges the new span with the one before, if a single volume is served in both.
    fn merge(&mut self, first: usize) {
        if self.0.len() != first + 1 || first == 0 {
            return;
        }
        let (before, now) = (self.0[first - 1], self.0[first]);
        let alone = before.time == before.until.since(before.from);
        if alone && before.volume == now.volume && before.until == now.from {
            self.0.pop_back();
            let span = &mut self.0[first - 1];
            span.until = now.until;
            span.time += now.time;
        }
    }

    /// Adds up the service times by volume from `from` until `until`.
    pub(super) fn add_up(
        &self,
        (from, until): (Instant, Instant),
        sums: &mut Vec<(VolumeId, Duration)>,
    ) {
        let start = self.0.partition_point(|span| span.until <= from);
        for span in self.0.iter().skip(start).take_while(|span| span.from < until) {
            let within = span.until.min(until).saturating_since(span.from.max(from));
            let whole = span.until.since(span.from);
            let time = if within == whole {
                span.time
            } else {
                let part = u128::from(span.time.as_nanos()) * u128::from(within.as_nanos());
                let part = part / u128::from(whole.as_nanos());
                Duration::from_nanos(u64::try_from(part).expect("at most the span's time"))
            };
            match sums.iter_mut().find(|(volume, _)| *volume == span.volume) {
                Some((_, sum)) => *sum += time,
                None => sums.push((span.volume, time)),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(millis)
    }

    fn sums(history: &History, from: u64, until: u64) -> Vec<(u32, u64)> {
        let mut sums = Vec::new();
        history.add_up((at(from), at(until)), &mut sums);
        sums.iter().map(|(volume, time)| (volume.0, time.as_micros())).collect()
    }

    #[test]
    fn each_volume_served_in_an_interval_is_reported_with_its_part() {
        let mut history = History::default();
        let of = |volumes: &[u32]| volumes.iter().copied().map(VolumeId).collect::<Vec<_>>();
        history.served((at(0), at(10)), of(&[1]).into_iter());
        history.served((at(10), at(20)), of(&[1]).into_iter());
        history.served((at(30), at(40)), of(&[2, 1, 2]).into_iter());
        assert_eq!(history.0.len(), 3, "adjacent spans of one volume are merged");
        assert_eq!(sums(&history, 5, 15), [(1, 10_000)]);
        assert_eq!(sums(&history, 15, 40), [(1, 8_333), (2, 6_666)]);
        assert_eq!(sums(&history, 35, 40), [(2, 3_333), (1, 1_666)]);
        assert_eq!(sums(&history, 20, 30), []);
    }

    #[test]
    fn the_number_of_spans_is_bounded() {
        let mut history = History::default();
        for nth in 0..3 * SPANS_MAX as u64 {
            let volume = VolumeId(u32::try_from(nth % 2).expect("0 or 1"));
            history.served((at(nth), at(nth + 1)), [volume].into_iter());
        }
        assert_eq!(history.0.len(), SPANS_MAX);
    }
}
