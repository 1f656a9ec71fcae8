//! Validation of a drive model: replays a trace of measured requests and compares service times.
//!
//! The replay is DiskSim's. One request is in flight at a time. Each is sent after the modelled
//! completion of the one before, with the delay of the trace, so that the disk rotates between them
//! as it did in the measurement. The drive begins at rest over the first track. The measured
//! service times are used for the comparison only.
//!
//! The demerit is the r.m.s. horizontal distance between the two distributions of service times. It
//! does not show errors of single requests that cancel out in the distribution, so the r.m.s. error
//! per request and the means by class of request are reported too.

mod trace;

use std::collections::BTreeMap;
use std::sync::Arc;

use drive::{Device, Done, Model, Tag};
use plot::{Line, Plot};
use serde::Serialize;
use stats::SCHEMA;
use units::{Duration, Instant, Op};

pub(crate) use trace::MeasuredTrace;

/// The largest number of points of a plotted curve.
const POINTS_MAX: usize = 400;

/// The result of a replay, in the shape of `spindle-lab validate --json`. Times are in
/// milliseconds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Validation {
    /// [`stats::SCHEMA`].
    pub(crate) schema: u32,
    /// All requests.
    pub(crate) all: Comparison,
    /// Reads alone; `None` if the trace has none.
    pub(crate) reads: Option<Comparison>,
    /// Writes alone; `None` if the trace has none.
    pub(crate) writes: Option<Comparison>,
    /// The comparison by class of request.
    pub(crate) classes: Vec<Class>,
    #[serde(skip)]
    curves: Vec<(&'static str, Vec<f64>, Vec<f64>)>,
}

/// Measured and modelled service times.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct Comparison {
    /// The number of requests.
    pub(crate) requests: usize,
    /// The mean of the measured times.
    pub(crate) measured_mean_ms: f64,
    /// The mean of the modelled times.
    pub(crate) modelled_mean_ms: f64,
    /// The r.m.s. horizontal distance of the two distributions.
    pub(crate) demerit_ms: f64,
    /// The r.m.s. error of each request.
    pub(crate) request_error_ms: f64,
}

/// The requests of one class.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Class {
    /// The operation, where the model served it (media or buffer), and the operation before it.
    pub(crate) name: String,
    /// Measured and modelled service times.
    #[serde(flatten)]
    pub(crate) comparison: Comparison,
}

/// A request's measured and modelled service time, in milliseconds.
type Pair = (f64, f64);

impl Comparison {
    #[expect(clippy::cast_precision_loss, reason = "shown, never computed with")]
    fn of(pairs: &[Pair]) -> Option<Self> {
        let count = pairs.len() as f64;
        let mean = |of: fn(&Pair) -> f64| pairs.iter().map(of).sum::<f64>() / count;
        let square = |(a, b): (f64, f64)| (a - b) * (a - b);
        let (measured, modelled) = (sorted(pairs, |p| p.0), sorted(pairs, |p| p.1));
        let demerit_sum: f64 = measured.into_iter().zip(modelled).map(square).sum();
        let each: f64 = pairs.iter().copied().map(square).sum();
        (!pairs.is_empty()).then(|| Self {
            requests: pairs.len(),
            measured_mean_ms: mean(|pair| pair.0),
            modelled_mean_ms: mean(|pair| pair.1),
            demerit_ms: (demerit_sum / count).sqrt(),
            request_error_ms: (each / count).sqrt(),
        })
    }
}

fn sorted(pairs: &[Pair], of: fn(&Pair) -> f64) -> Vec<f64> {
    let mut all: Vec<f64> = pairs.iter().map(of).collect();
    all.sort_by(f64::total_cmp);
    all
}

/// Replays the trace against the drive.
///
/// # Panics
/// If a request is not on the disk, which [`MeasuredTrace::read`] rules out.
pub(crate) fn validate(model: &Arc<Model>, trace: &MeasuredTrace) -> Validation {
    let mut device = Device::new(Arc::clone(model));
    let mut now = Instant::ZERO;
    let (mut all, mut reads, mut writes) = (Vec::new(), Vec::new(), Vec::new());
    let mut classes: BTreeMap<String, Vec<Pair>> = BTreeMap::new();
    let mut before: Option<units::Operation> = None;
    for (tag, request) in (0..).zip(trace.requests()) {
        device.submit(now, Tag(tag), request.operation);
        let at = device.next_completion().expect("one is in service");
        let done = device.complete(at).expect("it is done");
        let pair = (request.takes.as_millis_f64(), done.parts.sum().as_millis_f64());
        all.push(pair);
        let one = if request.operation.op == Op::Read { &mut reads } else { &mut writes };
        one.push(pair);
        classes.entry(class(request.operation, before, &done)).or_default().push(pair);
        before = Some(request.operation);
        now = at + request.think;
    }
    let named = |(name, pairs): (String, Vec<Pair>)| {
        Comparison::of(&pairs).map(|comparison| Class { name, comparison })
    };
    let curve = |name, pairs: &[Pair]| (name, sorted(pairs, |p| p.0), sorted(pairs, |p| p.1));
    Validation {
        schema: SCHEMA,
        all: Comparison::of(&all).expect("a trace has requests"),
        reads: Comparison::of(&reads),
        writes: Comparison::of(&writes),
        classes: classes.into_iter().filter_map(named).collect(),
        curves: vec![curve("reads", &reads), curve("writes", &writes)],
    }
}

/// The name of a request's class, such as `read media after write, next`.
fn class(operation: units::Operation, before: Option<units::Operation>, done: &Done) -> String {
    let moved = done.parts.seek + done.parts.rotation > Duration::ZERO;
    let place = if moved { "media" } else { "buffer" };
    let after =
        before.map_or("nothing", |before| if before.op == Op::Read { "read" } else { "write" });
    let next = before.is_some_and(|before| before.extent.end() == operation.extent.start);
    let next = if next { ", next" } else { "" };
    format!("{} {place} after {after}{next}", operation.op)
}

impl Validation {
    /// The cumulative distributions of measured and modelled service times.
    pub(crate) fn plot(&self, caption: &str) -> Plot {
        let drawn = self.curves.iter().filter(|(_, measured, _)| !measured.is_empty());
        let lines = drawn.flat_map(|(name, measured, modelled)| {
            let line = |what, times: &[f64], dashed| Line {
                name: format!("{name}, {what}"),
                points: distribution(times),
                dashed,
            };
            [line("measured", measured, false), line("modelled", modelled, true)]
        });
        Plot {
            caption: caption.to_owned(),
            x: "service time, ms".to_owned(),
            y: "share of requests".to_owned(),
            lines: lines.collect(),
            ..Plot::default()
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "drawn, never computed with")]
fn distribution(times: &[f64]) -> Vec<(f64, f64)> {
    let step = times.len().div_ceil(POINTS_MAX).max(1);
    let last = times.len().saturating_sub(1);
    let shown = times.iter().enumerate().filter(|(n, _)| n % step == 0 || *n == last);
    shown.map(|(n, time)| (*time, (n + 1) as f64 / times.len() as f64)).collect()
}

#[cfg(test)]
mod tests;
#[cfg(test)]
mod variations;
