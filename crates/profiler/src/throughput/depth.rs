//! The drive's own queue: random reads per second at rising queue depths, and the latency of a
//! random read during a sequential stream. Firmware that always serves the nearest request starves
//! it.

use units::{Duration, Extent, Lba, Operation, Sectors};

use crate::bench::StopReason;
use crate::estimate::number::{instant_ns, ns, real, round};
use crate::mechanics::prober::Prober;
use crate::target::Tag;
use drive_profile::findings::{DepthPoint, Starvation};

/// The queue depths of random reads.
const DEPTHS: [u32; 7] = [1, 2, 4, 8, 16, 32, 64];
/// The queue depths of the starvation test.
const STARVING: [u32; 5] = [1, 2, 4, 8, 32];
/// The time of random reads at one depth.
const TIME: Duration = Duration::from_millis(1_200);
/// The time of the starvation test at one depth.
const STARVATION: Duration = Duration::from_millis(5_000);
/// The same two in a quick profile.
const QUICK: (Duration, Duration) = (Duration::from_millis(120), Duration::from_millis(700));
/// The greatest depth in a quick profile.
const QUICK_DEEPEST: u32 = 4;
/// A read that waits this long starves.
pub const STARVATION_WAIT: Duration = Duration::from_millis(500);
/// The length of a random read: 4 KiB.
const RANDOM: Sectors = Sectors(8);
/// The length of the stream's commands: 128 KiB.
const STREAM: Sectors = Sectors(256);

/// Random reads per second.
pub(crate) fn random(prober: &mut Prober<'_, '_>) -> Result<Vec<DepthPoint>, StopReason> {
    let mut points = Vec::new();
    let deepest = prober.bench.depth_max();
    let time = if prober.bench.budget().quick { QUICK.0 } else { TIME };
    prober.clear_head_position();
    for depth in DEPTHS.into_iter().filter(|depth| *depth <= deepest) {
        let len = Sectors(RANDOM.0.max(prober.block().0));
        let began = instant_ns(prober.bench.now());
        let mut done = 0_u32;
        let mut counted = began;
        while prober.bench.outstanding() > 0 || instant_ns(prober.bench.now()) - began < ns(time) {
            let open = instant_ns(prober.bench.now()) - began < ns(time);
            while open && prober.bench.outstanding() < depth {
                let extent = prober.random_extent(len);
                prober.bench.submit(Operation::read(extent)).inspect_err(|_| ())?;
            }
            prober.bench.complete();
            if open {
                done += 1;
                counted = instant_ns(prober.bench.now());
            }
        }
        let per_1000_s = round(f64::from(done) * 1e12 / (counted - began).max(1.0));
        points.push(DepthPoint { depth, per_1000_s, samples: done });
    }
    Ok(points)
}

/// A stream and one random read at a time.
struct MixedLoad {
    stream: u64,
    random: Option<(Tag, f64)>,
    longest: f64,
    reads: u32,
}

impl MixedLoad {
    fn feed(&mut self, prober: &mut Prober<'_, '_>, depth: u32) -> Result<(), StopReason> {
        // At depth 1 the two alternate.
        let alone = depth == 1 && self.reads % 2 == 1;
        if self.random.is_none() && (depth > 1 || !alone) && prober.bench.outstanding() < depth {
            let len = Sectors(RANDOM.0.max(prober.block().0));
            let extent = prober.random_extent(len);
            let (tag, submitted) = prober.bench.submit(Operation::read(extent))?;
            self.random = Some((tag, instant_ns(submitted)));
        }
        while prober.bench.outstanding() < depth {
            if self.stream + STREAM.0 > prober.profile.capacity().0 {
                self.stream = 0;
            }
            let extent = Extent::new(Lba(self.stream), STREAM);
            prober.bench.submit(Operation::read(extent))?;
            self.stream += STREAM.0;
        }
        Ok(())
    }

    /// Runs for `time`, and until the last random read completes.
    fn run(
        &mut self,
        prober: &mut Prober<'_, '_>,
        depth: u32,
        time: Duration,
    ) -> Result<(), StopReason> {
        let end = instant_ns(prober.bench.now()) + ns(time);
        loop {
            let over = instant_ns(prober.bench.now()) >= end;
            if over && self.random.is_none() {
                return Ok(());
            }
            self.feed(prober, depth)?;
            let completion = prober.bench.complete();
            if let Some((tag, submitted)) = self.random
                && tag == completion.tag
            {
                self.longest = self.longest.max(instant_ns(completion.completed) - submitted);
                self.random = None;
            }
            self.reads += 1;
        }
    }
}

/// The latency of a random read at rising depths, itself included.
pub(crate) fn starvation(prober: &mut Prober<'_, '_>) -> Result<Starvation, StopReason> {
    let mut found = Starvation { waits: Vec::new(), safe_depth: 0 };
    let deepest = prober.bench.depth_max();
    let quick = prober.bench.budget().quick;
    let deepest = if quick { deepest.min(QUICK_DEEPEST) } else { deepest };
    let time = if quick { QUICK.1 } else { STARVATION };
    prober.clear_head_position();
    let mut safe = true;
    let start = round(real(prober.profile.capacity().0) / 3.0) / STREAM.0 * STREAM.0;
    for depth in STARVING.into_iter().filter(|depth| *depth <= deepest) {
        let mut beside = MixedLoad { stream: start, random: None, longest: 0.0, reads: 0 };
        let time = if depth == 1 { time / 4 } else { time };
        let ended = beside.run(prober, depth, time);
        prober.bench.drain();
        ended?;
        let longest = crate::estimate::number::duration(beside.longest);
        found.waits.push((depth, longest));
        safe &= longest < STARVATION_WAIT;
        if safe {
            found.safe_depth = depth;
        }
    }
    Ok(found)
}
