//! Streams on a mirror that loses a disk: as many as are admitted, beside a reserve and best
//! effort. Each disk has admitted the time for all reads of its copies, so that no block is late
//! that is read after the loss.

use std::fmt::Write as _;
use std::path::Path;

use config::{DiskIndex, Plan};
use spindle_sim::{RecordedRequest, Simulation};
use units::{Duration, Instant};

/// A block of 1 MiB at 4 MB/s.
const PERIOD: Duration = Duration::from_nanos((1 << 20) * 250);
const LOSS: Instant = Instant::from_nanos(4_000_000_000);
const END: Instant = Instant::from_nanos(40_000_000_000);
const STREAMS_MAX: usize = 64;

/// A mirror of this number of disks and copies.
#[derive(Clone, Copy, Debug)]
struct Mirror {
    disks: usize,
    copies: usize,
    op: &'static str,
    /// Of each disk's time, for the pool's metadata.
    metadata: &'static str,
}

impl Mirror {
    /// The pool with this number of streams.
    fn plan(self, streams: usize) -> Option<Plan> {
        let Self { disks, copies, op, metadata } = self;
        let layout = format!("layout = \"mirror\"\ncopies = {copies}");
        let names: Vec<String> = (0..disks).map(|disk| format!("d{disk}")).collect();
        let mut text = "duration = \"40s\"\n".to_owned();
        for name in &names {
            writeln!(text, "[[disk]]\nname = \"{name}\"\ndrive = \"hgst-7k8\"").unwrap();
        }
        writeln!(text, "[pool]\nmetadata_share = \"{metadata}\"\ndisks = {names:?}").unwrap();
        writeln!(text, "[[pool.volume]]\nname = \"rest\"").unwrap();
        writeln!(text, "size = \"256MiB\"\n{layout}\nreserve = \"10%\"").unwrap();
        for stream in 0..streams {
            writeln!(text, "[[pool.volume]]\nname = \"s{stream}\"\nsize = \"256MiB\"").unwrap();
            writeln!(text, "{layout}\nstream = {{ bandwidth = \"4MB/s\", block = \"1MiB\" }}")
                .unwrap();
        }
        let rest = "op = \"read\"\naccess = \"random\"\nblock = \"64KiB\"\noutstanding = 16";
        writeln!(text, "[[workload]]\nvolume = \"rest\"\n{rest}").unwrap();
        for stream in 0..streams {
            writeln!(text, "[[workload]]\nvolume = \"s{stream}\"\nop = \"{op}\"").unwrap();
            writeln!(text, "access = \"stream\"").unwrap();
        }
        let plan = Plan::parse(&text, "plan.toml", Path::new(""));
        plan.and_then(Plan::for_sim).ok()
    }

    /// The blocks of the streams, as many as are admitted, of a run in which a disk is lost.
    fn blocks(self) -> (usize, Vec<RecordedRequest>) {
        let plans = (1..=STREAMS_MAX).map_while(|streams| self.plan(streams));
        let (streams, plan) = (1..).zip(plans).last().expect("one is admitted");
        assert!(streams < STREAMS_MAX, "no more are admitted");
        let mut simulation = Simulation::new(&plan);
        simulation.record_requests();
        simulation.run_until(LOSS);
        simulation.fail_disk(DiskIndex(0));
        simulation.run_until(END);
        assert_eq!(simulation.failed(), 0, "every request is answered by another copy");
        let (requests, left_out) = simulation.take_requests();
        assert_eq!(left_out, 0);
        let is_block = |one: &RecordedRequest| one.operation.extent.len.0 == 2_048;
        (streams, requests.into_iter().filter(is_block).collect())
    }
}

/// The blocks that were answered after their deadline.
fn late(blocks: &[&RecordedRequest]) -> usize {
    blocks.iter().filter(|one| one.answered.since(one.sent) > PERIOD).count()
}

/// A block that is written may wait for the record of what the disk misses, which has the share of
/// the metadata.
#[test]
fn no_block_is_late_after_a_disk_was_lost_if_it_is_read_or_metadata_have_a_share_for_it() {
    for (disks, copies) in [(2, 2), (3, 2), (3, 3)] {
        for (op, metadata) in [("read", "1%"), ("write", "1%"), ("write", "5%")] {
            check(Mirror { disks, copies, op, metadata });
        }
    }
}

fn check(mirror: Mirror) {
    let (streams, blocks) = mirror.blocks();
    let of = |is_of: fn(&&RecordedRequest) -> bool| blocks.iter().filter(is_of).collect::<Vec<_>>();
    let before = of(|one| one.answered < LOSS);
    let in_flight = of(|one| one.sent < LOSS && one.answered >= LOSS);
    let after = of(|one| one.sent >= LOSS);
    let longest = blocks.iter().map(|one| one.answered.since(one.sent)).max();
    println!(
        "{mirror:?}: {streams} streams; late are {} of {} blocks before the loss, {} of {} in \
         flight, {} of {} after it; the longest took {} of {PERIOD}",
        late(&before),
        before.len(),
        late(&in_flight),
        in_flight.len(),
        late(&after),
        after.len(),
        longest.expect("there are blocks")
    );
    assert!(after.len() > 100 * streams, "{mirror:?}: {} blocks", after.len());
    assert_eq!(late(&before), 0, "{mirror:?}");
    let is_short_of_metadata = mirror.op == "write" && mirror.metadata == "1%";
    assert!(is_short_of_metadata || late(&after) == 0, "{mirror:?}");
}
