//! Warns of clients that ask their streams for more than the contracts cover, with what would fit.
//!
//! A thread looks at the streams every ten seconds, and once more when the daemon stops. A volume
//! is warned of once a minute at most. It says too when a mirror's stream is no longer kept,
//! because its blocks are read from disks that do without it, and when it is kept again.

use std::collections::{BTreeMap, BTreeSet};
use std::thread;

use config::{Plan, decimal_text};
use engine::StreamBytes;
use engine::stream::RequestedStream;
use nbd::ExportId;
use units::{Bytes, Duration, Instant, Sectors};

use super::operator::Operator;
use crate::disk::message::StatsDetail;
use crate::pool::view::PoolView;

/// The interval in which the rate of a client is measured.
const INTERVAL: Duration = Duration::from_secs(10);
/// The shortest time between two warnings of one volume.
const QUIET: Duration = Duration::from_secs(60);

/// A stream when it was last looked at, and when its volume was last warned of.
#[derive(Clone, Copy, Debug)]
struct Seen {
    at: Instant,
    asked: Sectors,
    /// The most that its client asked for in an interval since `said`, in bytes a second.
    peak: Bytes,
    /// The counts at the last warning, or before the last quiet time.
    said: StreamBytes,
    since: Instant,
    warned: Option<Instant>,
}

/// The streams of a daemon.
#[derive(Debug, Default)]
struct StreamWatch {
    seen: BTreeMap<ExportId, Seen>,
    /// The volumes whose streams are not kept.
    unkept: BTreeSet<String>,
}

/// Spawns the thread, which runs until the daemon stops.
pub(crate) fn spawn(operator: Operator) -> std::io::Result<thread::JoinHandle<()>> {
    thread::Builder::new().name("streams".to_owned()).spawn(move || {
        let mut watch = StreamWatch::default();
        let stop = &operator.state.stop_stream_watch;
        loop {
            let is_last = stop.is_stopped();
            let document = operator.document();
            if has_streams(document.plan()) {
                let pool = operator.pool();
                let unkept = pool.iter().flat_map(PoolView::unkept_streams);
                for change in watch.note_unkept(unkept.map(|volume| volume.name.clone()).collect())
                {
                    eprintln!("{change}");
                }
                let status = operator.state.status(StatsDetail::Streams);
                let streams = status.volumes.iter();
                let streams =
                    streams.map(|volume| (volume.export, volume.name.as_str(), volume.kept.bytes));
                for warning in watch.look(document.plan(), streams, operator.now()) {
                    eprintln!("{warning}");
                }
            }
            if is_last {
                return;
            }
            stop.wait(std::time::Duration::from_nanos(INTERVAL.as_nanos()));
        }
    })
}

fn has_streams(plan: &Plan) -> bool {
    let pooled = plan.pool.iter().flat_map(|pool| &pool.volumes);
    plan.volumes.iter().any(|volume| volume.stream.is_some())
        || pooled.into_iter().any(|volume| volume.stream.is_some())
}

/// The stream of the volume of this name.
fn requested(plan: &Plan, name: &str) -> Option<RequestedStream> {
    let own = plan.volumes.iter().find(|volume| volume.name == name);
    let pooled = plan.pool.as_ref().and_then(|pool| pool.volume(name));
    let own = own.and_then(|volume| volume.stream).map(|stream| stream.requested);
    own.or_else(|| pooled?.stream.map(|stream| stream.requested))
}

/// The bytes a second of `asked` in `time`.
fn rate(asked: Sectors, time: Duration) -> Bytes {
    let bytes = u128::from(asked.bytes().0) * 1_000_000_000;
    let per_second = bytes / u128::from(time.as_nanos().max(1));
    Bytes(u64::try_from(per_second).unwrap_or(u64::MAX))
}

impl StreamWatch {
    /// What has changed, if these volumes' streams are not kept now.
    fn note_unkept(&mut self, unkept: BTreeSet<String>) -> Vec<String> {
        let ends = unkept.difference(&self.unkept).map(|name| {
            format!(
                "volume {name}: its stream is best effort from now on: it is read from disks that \
                 do not keep it"
            )
        });
        let begins = self.unkept.difference(&unkept);
        let begins = begins.map(|name| format!("volume {name}: its stream is kept again"));
        let changes = ends.chain(begins).collect();
        self.unkept = unkept;
        changes
    }

    /// The warnings about the volumes with streams and the bytes of these as they are now.
    fn look<'a>(
        &mut self,
        plan: &Plan,
        streams: impl Iterator<Item = (ExportId, &'a str, StreamBytes)>,
        now: Instant,
    ) -> Vec<String> {
        let mut before = core::mem::take(&mut self.seen);
        let mut warnings = Vec::new();
        for (export, name, bytes) in streams {
            let Some(requested) = requested(plan, name) else { continue };
            let mut seen = before.remove(&export).unwrap_or(Seen {
                at: now,
                asked: bytes.asked,
                peak: Bytes::ZERO,
                said: StreamBytes::default(),
                since: now,
                warned: None,
            });
            let more = Sectors(bytes.asked.0.saturating_sub(seen.asked.0));
            let elapsed = now.saturating_since(seen.at);
            // A shorter time, at the end, says little of a rate.
            if elapsed >= INTERVAL {
                seen.peak = seen.peak.max(rate(more, elapsed));
            }
            (seen.at, seen.asked) = (now, bytes.asked);
            let is_due = seen.warned.is_none_or(|last| now.saturating_since(last) >= QUIET);
            let is_over = now.saturating_since(seen.since) >= QUIET;
            let counted = counted(&bytes, &seen.said).filter(|_| is_due);
            let is_warned = counted.is_some();
            warnings.extend(counted.map(|counted| {
                let bandwidth = decimal_text(requested.bandwidth);
                let offer = would_fit(plan, (name, requested), seen.peak);
                format!(
                    "volume {name}: its stream of {bandwidth}/s has bytes that are not real time: \
                     {counted}{offer}"
                )
            }));
            if is_warned {
                seen.warned = Some(now);
            }
            if is_warned || is_due && is_over {
                (seen.said, seen.since, seen.peak) = (bytes, now, Bytes::ZERO);
            }
            self.seen.insert(export, seen);
        }
        warnings
    }
}

/// What was late or beyond the contract since the counts were `before`, if anything was.
fn counted(now: &StreamBytes, before: &StreamBytes) -> Option<String> {
    let since = |of: fn(&StreamBytes) -> Sectors| Sectors(of(now).0.saturating_sub(of(before).0));
    let counted = [
        ("beyond its bandwidth", since(|bytes| bytes.beyond_rate)),
        ("out of order", since(|bytes| bytes.out_of_order)),
        ("outside of its range, of a disk's span, or of its disks", since(|bytes| bytes.outside)),
        ("answered late", since(|bytes| bytes.missed)),
    ];
    let some = counted.into_iter().filter(|(_, sectors)| *sectors > Sectors::ZERO);
    let some = some.map(|(what, sectors)| format!("{} {what}", decimal_text(sectors.bytes())));
    let some: Vec<String> = some.collect();
    (!some.is_empty()).then(|| some.join(", "))
}

/// What would fit of `peak` bytes a second for a client that asks for that much.
fn would_fit(plan: &Plan, (name, requested): (&str, RequestedStream), peak: Bytes) -> String {
    if peak <= requested.bandwidth {
        return String::new();
    }
    let asked = decimal_text(peak);
    match plan.stream_offer(name, peak) {
        Some(fits) if fits == peak => format!("; its client asks for {asked}/s, which would fit"),
        Some(fits) => {
            let fits = decimal_text(fits);
            format!("; its client asks for {asked}/s, of which {fits}/s would fit")
        }
        None => format!("; its client asks for {asked}/s, and no larger stream would fit"),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    const CONFIG: &str = r#"
[[disk]]
name = "d0"
drive = "hgst-7k8"

[[volume]]
name = "cam"
disk = "d0"
size = "10GiB"
stream = { bandwidth = "1MB/s", block = "1MB" }

[[volume]]
name = "late"
disk = "d0"
size = "10GiB"
stream = { bandwidth = "1MB/s", block = "1MB" }
"#;

    fn at(seconds: u64) -> Instant {
        Instant::ZERO + Duration::from_secs(seconds)
    }

    /// The warnings at `seconds`, when the first volume's client has asked for `asked` sectors, of
    /// which `beyond` were beyond its bandwidth.
    fn look(watch: &mut StreamWatch, seconds: u64, asked: u64, beyond: u64) -> Vec<String> {
        let plan = Plan::parse(CONFIG, "plan.toml", Path::new("")).expect("a sound config");
        let (asked, beyond_rate) = (Sectors(asked), Sectors(beyond));
        let bytes = StreamBytes { asked, beyond_rate, ..StreamBytes::default() };
        let streams = [
            (ExportId(0), "cam", bytes),
            (ExportId(1), "late", StreamBytes::default()),
            (ExportId(2), "none", bytes),
        ];
        watch.look(&plan, streams.into_iter(), at(seconds))
    }

    #[test]
    fn a_client_that_asks_for_more_is_warned_of_once_a_minute_with_what_would_fit() {
        let mut watch = StreamWatch::default();
        assert!(look(&mut watch, 0, 0, 0).is_empty());
        // 20 MB in 10 s.
        let warnings = look(&mut watch, 10, 40_000, 10_000);
        let expected = "volume cam: its stream of 1MB/s has bytes that are not real time: 5.12MB \
                        beyond its bandwidth; its client asks for 2.048MB/s, which would fit";
        assert_eq!(warnings, [expected]);
        for (seconds, asked) in [(20, 80_000), (40, 160_000), (60, 240_000)] {
            assert!(look(&mut watch, seconds, asked, asked / 4).is_empty(), "at {seconds} s");
        }
        // 400 MB in 10 s are more than the disk can do.
        let warnings = look(&mut watch, 70, 1_040_000, 260_000);
        let [warning] = &warnings[..] else { panic!("one: {warnings:?}") };
        assert!(warning.contains("its client asks for 40.96MB/s, of which "), "{warning}");
        assert!(look(&mut watch, 200, 1_040_000, 260_000).is_empty(), "it has ended");
    }

    #[test]
    fn a_stream_that_is_no_longer_kept_is_told_once_and_once_more_when_it_is() {
        let mut watch = StreamWatch::default();
        let both = || ["film", "clip"].map(str::to_owned).into();
        assert_eq!(watch.note_unkept(BTreeSet::new()), Vec::<String>::new());
        assert_eq!(watch.note_unkept(both()).len(), 2, "it ends");
        assert_eq!(watch.note_unkept(both()).len(), 0, "it was told");
        let left = ["clip".to_owned()].into();
        assert_eq!(watch.note_unkept(left), ["volume film: its stream is kept again"]);
    }

    #[test]
    fn the_last_look_before_ten_seconds_have_passed_says_nothing_of_the_rate() {
        let mut watch = StreamWatch::default();
        look(&mut watch, 0, 0, 0);
        let warnings = look(&mut watch, 5, 8, 8);
        let expected = "volume cam: its stream of 1MB/s has bytes that are not real time: 4.096kB \
                        beyond its bandwidth";
        assert_eq!(warnings, [expected]);
    }
}
