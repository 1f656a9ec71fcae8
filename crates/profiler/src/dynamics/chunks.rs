//! Throughput of a sequential stream against the length of its commands (FAST 2003, figures 3, 5 and 6), and the range
//! of lengths that are as good as any.
//!
//! A host that notices completions late goes on late, and what it measures is slower than the drive wherever commands
//! are the bottleneck. So two figures are kept: what this host saw, and what the drive would do for one that is
//! never late. Of the latter the range is made.

use units::{Bytes, Duration, Extent, Lba, Operation, SECTOR_BYTES, Sectors};

use super::findings::{ChunkPoint, Chunks};
use super::num::{at, mean, part, whole};
use super::prober::Prober;
use crate::Halt;

/// The lengths, in sectors: from 8 on each is a third or half as long again as the one before, from 512 on twice.
pub const STEPS: [u64; 17] =
    [2, 4, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 1_024, 2_048];
/// From which part of the best on a chunk is an optimal one.
pub const OPTIMAL: f64 = 0.95;
/// What of normal noise with a deviation of one is above zero, on the mean: who sees completions early cannot go on
/// early, who sees them late does.
const LATE: f64 = 0.4;
/// How long a length is measured.
const TIME: Duration = Duration::from_millis(800);
/// The same at a glance.
const TIME_QUICK: Duration = Duration::from_millis(80);
/// In so many parts.
const PARTS: u64 = 5;
/// Commands of each part at least.
const COMMANDS: u64 = 2;
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
    let quick = prober.bench.budget().quick;
    let every = if quick { 2 } else { 1 };
    let steps = STEPS.into_iter().skip(every - 1).step_by(every);
    let steps: Vec<u64> = steps.filter(|step| step % block == 0).collect();
    let mut stream = Stream { next: 0, end: prober.profile.capacity().0, writes };
    // What fits memory is taken at the speed of the bus; twice as much is in it no more.
    let most = *steps.last().unwrap_or(&block);
    let fill = if writes { (2 * buffer.0).min(FILLED_MAX) } else { 2 * most };
    let mut filled = 0;
    while filled < fill {
        filled += stream.go(prober, most)?;
    }
    let mut seen = Vec::new();
    // From the longest down: memory stays full.
    let time = super::num::ns(if quick { TIME_QUICK } else { TIME });
    for step in steps.iter().rev() {
        // Of a stream of which most lengths are known, those that are left are the short ones that nobody wants.
        match stream.rate(prober, *step, time) {
            Err(Halt::OutOfTime) if seen.len() > steps.len() / 2 => break,
            rate => seen.push(rate?),
        }
    }
    seen.reverse();
    // And the way to the drive and back, where it is known.
    let late = LATE * prober.spindle.noise() + prober.path.middle();
    Ok(of(&seen, late))
}

struct Stream {
    next: u64,
    end: u64,
    writes: bool,
}

impl Stream {
    /// So many commands of a length as there is time for, in some parts that tell how much they differ.
    fn rate(&mut self, prober: &mut Prober<'_, '_>, chunk: u64, time: f64) -> Result<Seen, Halt> {
        let mut rates = Vec::new();
        for _ in 0..PARTS {
            let began = at(prober.bench.now());
            let (mut sectors, mut commands) = (0, 0);
            while commands < COMMANDS || at(prober.bench.now()) - began < time / part(PARTS) {
                sectors += self.go(prober, chunk)?;
                commands += 1;
            }
            rates.push(part(sectors) / (at(prober.bench.now()) - began));
        }
        let (rate, error) = mean(&rates);
        Ok(Seen { chunk, rate, error })
    }

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

/// How fast commands of one length were.
#[derive(Clone, Copy, Debug)]
struct Seen {
    chunk: u64,
    /// In sectors a ns, and its standard error.
    rate: f64,
    error: f64,
}

/// The points and the range, from sectors a ns at each length and what the host is late for each command.
fn of(seen: &[Seen], late: f64) -> Chunks {
    // The best of many is lucky: what it is at least counts.
    let best = seen.iter().map(|seen| seen.rate - seen.error).fold(0.0, f64::max);
    let rates: Vec<(Seen, f64)> = seen
        .iter()
        .map(|seen| {
            // Where the media are the bottleneck a late command changes nothing, and nothing is faster than they.
            let cycle = part(seen.chunk) / seen.rate;
            let punctual = part(seen.chunk) / (cycle - late).max(cycle / 4.0);
            (*seen, punctual.min(best))
        })
        .collect();
    let optimal = |(_, rate): &(Seen, f64)| *rate >= OPTIMAL * best;
    // The longest run of them, the first of several: one that was lucky is none.
    let (mut first, mut last, mut begun, mut longest) = (0, 0, 0, 0);
    for (nth, rate) in rates.iter().enumerate() {
        if !optimal(rate) {
            begun = nth + 1;
        } else if nth + 1 - begun > longest {
            (first, last, longest) = (begun, nth, nth + 1 - begun);
        }
    }
    let bytes = |rate: f64| Bytes(whole(rate * part(SECTOR_BYTES) * 1e9));
    let chunk = |nth: usize| rates.get(nth).map_or(Sectors::ZERO, |(seen, _)| Sectors(seen.chunk));
    let point = |(seen, rate): &(Seen, f64)| ChunkPoint {
        chunk: Sectors(seen.chunk),
        seen: bytes(seen.rate),
        drive: bytes(*rate),
    };
    Chunks { optimal: (chunk(first), chunk(last)), points: rates.iter().map(point).collect() }
}
