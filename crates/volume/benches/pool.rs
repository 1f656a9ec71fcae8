//! What a pool costs: `cargo bench -p spindle-volume --bench pool`.
//!
//! A lookup in maps of a thousand to a million extents, row by row and at rows drawn beforehand,
//! other ones in each round; beside it what a read takes that has to be waited for, at drawn places
//! of as much memory, since a map of a million extents has 16 MB. And opening a pool of 100 TB on
//! four disks with a thousand volumes of a thousand extents each, from memory: reading it from
//! disks takes what 60 MB take of each.
//!
//! Of some rounds the least disturbed counts. It fails if a lookup among a million takes 50 ns or
//! more, in order or drawn, or if opening takes 1 s. Where one read of memory takes longer than 50
//! ns the drawn one is missed, whatever the map does. `-- --json` prints one JSON object. Mapping
//! as a test it only looks whether it runs: a debug build's figures say nothing.

#![expect(clippy::disallowed_methods, reason = "it measures itself by the wall clock")]
#![expect(clippy::cast_possible_truncation, reason = "numbers of rows are under 2³²")]

use std::collections::BTreeMap;
use std::hint::black_box;
use std::process::ExitCode;
use std::time::Instant;

use rng::SplitMix64;
use spindle_volume::DiskId;
use spindle_volume::pool::format::Geometry;
use spindle_volume::pool::{
    Action, Blocks, DiskUid, Layout, Media, NewVolume, Operation, Pool, PoolOutput, PoolUid, State,
    Unreadable, Volume, VolumeBlock, Zone, find,
};
use units::{Extent, Sectors};

/// Few enough that some rounds pass without the machine doing something else.
const LOOKUPS: usize = 5_000;
const ROUNDS: usize = 201;
const OPENINGS: usize = 7;
const LOOKUP_NANOS_MAX: u128 = 50;
const OPEN_MILLIS_MAX: u128 = 1_000;
/// Four disks of 25 TB.
const DISKS: u8 = 4;
const DISK_BLOCKS: u32 = 23_841_858;

/// A disk of which the units that hold metadata are kept.
struct Memory {
    size: Sectors,
    units: BTreeMap<u64, Vec<u8>>,
}

impl Media for Memory {
    fn size(&self) -> Sectors {
        self.size
    }

    fn read(&self, extent: Extent) -> Result<Vec<u8>, Unreadable> {
        let mut bytes = vec![0; extent.len.bytes_usize()];
        for (at, unit) in self.units.range(extent.start.0..extent.end().0) {
            let at = usize::try_from(at - extent.start.0).expect("in memory") * 512;
            bytes[at..at + unit.len()].copy_from_slice(unit);
        }
        Ok(bytes)
    }
}

fn settle(pool: &mut Pool, disks: &mut [Memory]) {
    while let Some(output) = pool.poll() {
        match output {
            PoolOutput::Finished(ticket, end) => {
                end.expect("memory does not fail");
                pool.release(ticket);
            }
            PoolOutput::Do(id, action) => {
                if let Action::Write { disk, extent, bytes, .. } = action {
                    let units = bytes.chunks(4_096).map(<[u8]>::to_vec);
                    disks[disk.0 as usize].units.extend((extent.start.0..).step_by(8).zip(units));
                }
                pool.done(id, true);
            }
        }
    }
}

/// A pool of 100 TB with `volumes` volumes of `extents` extents each, at random.
fn pool(volumes: u32, extents: u32) -> (Pool, Vec<Memory>) {
    let memory = |_| Memory { size: Blocks(DISK_BLOCKS).sectors(), units: BTreeMap::new() };
    let mut disks: Vec<Memory> = (0..DISKS).map(memory).collect();
    let uids: Vec<_> = (0..DISKS).map(|disk| (DiskUid([disk; 16]), DISK_BLOCKS)).collect();
    let geometry = Geometry::suited(DISK_BLOCKS);
    let mut pool = Pool::create(PoolUid([1; 16]), geometry, &uids).expect("four disks");
    settle(&mut pool, &mut disks);
    let on: Vec<DiskId> = pool.state().disks().map(|(id, _)| id).collect();
    for number in 0..volumes {
        let (name, size, seed) = (format!("v{number}"), Blocks(extents), u64::from(number));
        let (layout, zone, thin, disks_of) = (Layout::Random, Zone::Any, false, on.clone());
        let volume =
            NewVolume { name, size, layout, zone, thin, has_sums: true, seed, disks: disks_of };
        pool.begin(&Operation::Create(volume)).expect("there is room");
        settle(&mut pool, &mut disks);
    }
    (pool, disks)
}

/// What the least disturbed of some rounds takes, in nanoseconds.
fn least(rounds: usize, mut run: impl FnMut(usize)) -> u128 {
    let taken = (0..rounds).map(|round| {
        let begun = Instant::now();
        run(round);
        begun.elapsed().as_nanos()
    });
    taken.min().expect("there is a round")
}

/// The time of a lookup in a map of `extents` extents, in tenths of a nanosecond.
struct Lookup {
    extents: usize,
    in_order: u128,
    drawn: u128,
    /// A read of memory at a place that the read before it says.
    memory: u128,
}

fn lookup(volume: &Volume, lookups: usize) -> Lookup {
    let mut rng = SplitMix64::new(1);
    let total = lookups * ROUNDS;
    let size = volume.size.0;
    let all = |blocks: Vec<VolumeBlock>| {
        let nanos = least(ROUNDS, |round| {
            for block in &blocks[round * lookups..][..lookups] {
                black_box(volume.locate(*block));
            }
        });
        nanos * 10 / lookups as u128
    };
    let in_order = all((0..total).map(|n| VolumeBlock((n % size as usize) as u32)).collect());
    let drawn = all((0..total).map(|_| VolumeBlock(rng.below(size))).collect());
    let memory: Vec<[u32; 4]> = (0..size).map(|_| [rng.below(size); 4]).collect();
    let mut at = 0;
    let nanos = least(ROUNDS, |round| {
        for n in 0..lookups {
            at = (memory[at as usize][0] ^ (n ^ round) as u32) % size;
        }
        black_box(at);
    });
    Lookup { extents: volume.extents(), in_order, drawn, memory: nanos * 10 / lookups as u128 }
}

fn only(state: &State) -> &Volume {
    state.volumes().next().expect("there is one").1
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().collect();
    let real = arguments.iter().any(|argument| argument == "--bench");
    let json = arguments.iter().any(|argument| argument == "--json");
    let (sizes, volumes, extents): (&[u32], u32, u32) =
        if real { (&[1_000, 10_000, 100_000, 1_000_000], 1_000, 1_000) } else { (&[100], 10, 10) };
    let lookups = if real { LOOKUPS } else { 100 };
    let mut figures = Vec::new();
    for size in sizes {
        let (pool, _) = pool(1, *size);
        let figure = lookup(only(pool.state()), lookups);
        if !json {
            let Lookup { extents, in_order, drawn, memory } = figure;
            let show = |tenths: u128| format!("{}.{} ns", tenths / 10, tenths % 10);
            println!(
                "lookup in {extents:>7} extents: in order {}, drawn {}; a read of memory {}",
                show(in_order),
                show(drawn),
                show(memory)
            );
        }
        figures.push(figure);
    }
    let (pool, disks) = pool(volumes, extents);
    let media: Vec<&dyn Media> = disks.iter().map(|disk| disk as &dyn Media).collect();
    let millis = least(OPENINGS, |_| {
        let found = find(&media).expect("it is a pool");
        assert_eq!(found.state.volumes().count(), volumes as usize);
        black_box(Pool::open(found));
    }) / 1_000_000;
    let (count, bytes) = (pool.state().extents(), pool.state().image_bytes());
    if json {
        let row = |figure: &Lookup| {
            let Lookup { extents, in_order, drawn, memory } = figure;
            format!(
                "{{\"extents\":{extents},\"in_order_tenth_ns\":{in_order},\
                 \"drawn_tenth_ns\":{drawn},\"memory_tenth_ns\":{memory}}}"
            )
        };
        let rows: Vec<String> = figures.iter().map(row).collect();
        let rows = rows.join(",");
        println!(
            "{{\"schema\":1,\"lookup\":[{rows}],\"open\":{{\"volumes\":{volumes},\
             \"extents\":{count},\"image_bytes\":{bytes},\"milliseconds\":{millis}}}}}"
        );
    } else {
        println!(
            "open {volumes} volumes of {count} extents in all, an image of {bytes} bytes: \
             {millis} ms"
        );
    }
    let slow = figures.last().is_some_and(|last| {
        let bound = LOOKUP_NANOS_MAX * 10;
        last.in_order >= bound || last.drawn >= bound
    });
    if real && (slow || millis >= OPEN_MILLIS_MAX) {
        eprintln!(
            "a lookup is to take less than {LOOKUP_NANOS_MAX} ns, and opening less than \
             {OPEN_MILLIS_MAX} ms"
        );
        return ExitCode::from(1);
    }
    ExitCode::SUCCESS
}
