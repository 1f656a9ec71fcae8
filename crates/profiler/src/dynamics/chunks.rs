//! Throughput of a sequential stream against the length of its commands (FAST 2003, figures 3, 5 and 6), and the range
//! of lengths that are as good as any.
//!
//! A host that notices completions late goes on late, and what it measures is slower than the drive wherever commands
//! are the bottleneck. So two figures are kept: what this host saw, and what the drive would do for one that is
//! never late. Of the latter the range is made.

use units::{Bytes, Duration, Extent, Lba, Operation, SECTOR_BYTES, Sectors};

use super::findings::{ChunkPoint, Chunks};
use super::num::{at, part, whole};
use super::prober::Prober;
use crate::Halt;

/// The lengths, in sectors: each step is a quarter or a third of the one before.
pub const STEPS: [u64; 20] =
    [2, 4, 8, 12, 16, 24, 32, 40, 48, 56, 64, 80, 96, 128, 192, 256, 384, 512, 1_024, 2_048];
/// From which part of the best on a chunk is an optimal one.
pub const OPTIMAL: f64 = 0.95;
/// What of normal noise with a deviation of one is above zero, on the mean: who sees completions early cannot go on
/// early, who sees them late does.
const LATE: f64 = 0.4;
/// How long a length is measured.
const TIME: Duration = Duration::from_millis(350);
/// The same at a glance.
const TIME_QUICK: Duration = Duration::from_millis(80);
/// Commands of a length at least.
const COMMANDS: u64 = 12;
/// How much is written before a length is measured: until memory is full, and what comes is what the media take.
const FILLED_MAX: u64 = 1 << 19;

/// Reads in a row, or writes.
pub(crate) fn chunks(
    prober: &mut Prober<'_, '_>,
    writes: bool,
    buffer: Sectors,
) -> Result<Chunks, Halt> {
    prober.lose();
    let block = prober.block().0;
    let steps: Vec<u64> = STEPS.into_iter().filter(|step| step % block == 0).collect();
    let mut stream = Stream { next: 0, end: prober.profile.capacity().0, writes };
    let quick = prober.bench.budget().quick;
    // What fits memory is taken at the speed of the bus; twice as much is in it no more.
    let most = *steps.last().unwrap_or(&block);
    let fill = if writes { (2 * buffer.0).min(FILLED_MAX) } else { 2 * most };
    let mut filled = 0;
    while filled < fill {
        filled += stream.go(prober, most)?;
    }
    let mut seen = Vec::new();
    // From the longest down: memory stays full.
    for step in steps.iter().rev() {
        let began = at(prober.bench.now());
        let (mut sectors, mut commands) = (0, 0);
        let time = if quick { TIME_QUICK } else { TIME };
        while commands < COMMANDS || at(prober.bench.now()) - began < super::num::ns(time) {
            sectors += stream.go(prober, *step)?;
            commands += 1;
        }
        seen.push((*step, part(sectors) / (at(prober.bench.now()) - began)));
    }
    seen.reverse();
    Ok(of(&seen, LATE * prober.spindle.noise()))
}

struct Stream {
    next: u64,
    end: u64,
    writes: bool,
}

impl Stream {
    fn go(&mut self, prober: &mut Prober<'_, '_>, len: u64) -> Result<u64, Halt> {
        if self.next + len > self.end {
            self.next = 0;
        }
        let extent = Extent::new(Lba(self.next), Sectors(len));
        self.next += len;
        let operation =
            if self.writes { Operation::write(extent) } else { Operation::read(extent) };
        prober.bench.time(operation)?;
        Ok(len)
    }
}

/// The points and the range, from sectors a ns at each length and what the host is late for each command.
fn of(seen: &[(u64, f64)], late: f64) -> Chunks {
    let best = seen.iter().map(|(_, rate)| *rate).fold(0.0, f64::max);
    let rates: Vec<(u64, f64, f64)> = seen
        .iter()
        .map(|(step, rate)| {
            // Where the media are the bottleneck a late command changes nothing, and nothing is faster than they.
            let cycle = part(*step) / rate;
            let punctual = part(*step) / (cycle - late).max(cycle / 4.0);
            (*step, *rate, punctual.min(best))
        })
        .collect();
    let optimal = |rate: f64| rate >= OPTIMAL * best;
    let first = rates.iter().position(|(.., rate)| optimal(*rate)).unwrap_or(0);
    let behind = rates[first..].iter().position(|(.., rate)| !optimal(*rate));
    let last = behind.map_or(rates.len(), |behind| first + behind).saturating_sub(1);
    let bytes = |rate: f64| Bytes(whole(rate * part(SECTOR_BYTES) * 1e9));
    Chunks {
        optimal: rates
            .get(first)
            .map_or((Sectors(0), Sectors(0)), |rate| (Sectors(rate.0), Sectors(rates[last].0))),
        points: rates
            .into_iter()
            .map(|(step, seen, drive)| ChunkPoint {
                chunk: Sectors(step),
                seen: bytes(seen),
                drive: bytes(drive),
            })
            .collect(),
    }
}
