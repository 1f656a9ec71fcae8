//! Streams on a mirror that loses a disk: as many as are admitted, beside a reserve and best
//! effort. The disks that keep a stream have admitted the time for all reads of their copies, so
//! that no block is late that is read after the loss, if the stream survives it.

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
    /// How many losses a stream survives, if not all that its data do.
    survive: Option<usize>,
}

impl Mirror {
    /// The pool with this number of streams.
    fn plan(self, streams: usize) -> Option<Plan> {
        let Self { disks, copies, op, metadata, survive } = self;
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
            // The first of the disks keep a stream: others of each.
            let first = if survive.is_some() { stream } else { 0 };
            let order: Vec<_> = (0..disks).map(|disk| &names[(disk + first) % disks]).collect();
            let survive = survive.map_or_else(String::new, |one| format!(", survive = {one}"));
            writeln!(text, "{layout}\ndisks = {order:?}").unwrap();
            let stream = format!("bandwidth = \"4MB/s\", block = \"1MiB\"{survive}");
            writeln!(text, "stream = {{ {stream} }}").unwrap();
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

/// A block that is written waits for the commit that takes the disk out, if it is sent before that
/// has ended. None waits for a record later.
#[test]
fn no_block_is_late_after_a_disk_was_lost_but_for_two_if_metadata_have_little() {
    for (disks, copies) in [(2, 2), (3, 2), (3, 3)] {
        for (op, metadata) in [("read", "1%"), ("write", "1%"), ("write", "5%")] {
            check(Mirror { disks, copies, op, metadata, survive: None });
        }
    }
}

#[test]
fn a_stream_that_survives_one_disk_of_three_copies_has_no_late_block_after_the_loss() {
    let mirror = Mirror { disks: 3, copies: 3, op: "read", metadata: "1%", survive: Some(1) };
    let all = Mirror { survive: None, ..mirror };
    let (some, all) = (check(mirror), check(all));
    assert!(2 * some >= 3 * all, "two of three disks keep each: {some} streams, {all} without");
}

#[test]
fn a_stream_on_two_of_three_disks_has_a_copy_of_each_block_there_and_no_late_block() {
    let mirror = Mirror { disks: 3, copies: 2, op: "read", metadata: "1%", survive: Some(0) };
    let (all, _) = Mirror { survive: None, ..mirror }.blocks();
    let (streams, blocks) = mirror.blocks();
    assert!(2 * streams >= 3 * all, "{streams} streams, {all} with both copies");
    let before: Vec<_> = blocks.iter().filter(|one| one.answered < LOSS).collect();
    println!("{streams} streams, {all} if each disk admits them; {} blocks", before.len());
    assert_eq!(late(&before), 0, "{streams} streams");
}

/// Reads of the streams whose only disk is lost go on at the other one as best effort. No block of
/// the others is late.
#[test]
fn a_stream_that_survives_no_disk_costs_one_copy_and_goes_on_after_the_loss_as_best_effort() {
    let mirror = Mirror { disks: 2, copies: 2, op: "read", metadata: "1%", survive: Some(0) };
    let (all, _) = Mirror { survive: None, ..mirror }.blocks();
    let (streams, blocks) = mirror.blocks();
    assert!(streams >= 2 * all, "{streams} streams, {all} with both copies");
    // Volume 0 is no stream. The streams of volumes 1, 3, 5 … were kept by the disk that is lost.
    let is_kept = |one: &&RecordedRequest| one.volume.0.is_multiple_of(2);
    let before: Vec<_> = blocks.iter().filter(|one| one.answered < LOSS).collect();
    assert_eq!(late(&before), 0, "{streams} streams");
    let after = blocks.iter().filter(|one| one.sent >= LOSS);
    let (kept, others): (Vec<_>, Vec<_>) = after.partition(is_kept);
    println!(
        "{streams} streams, {all} if both copies admit them; {} blocks before the loss; after it \
         {} of {} are late that are kept, and {} of {} others",
        before.len(),
        late(&kept),
        kept.len(),
        late(&others),
        others.len()
    );
    assert!(kept.len() > 50 * streams, "{} blocks", kept.len());
    assert!(!others.is_empty(), "they go on");
    assert_eq!(late(&kept), 0, "{streams} streams");
}

/// Returns the number of streams that are admitted.
fn check(mirror: Mirror) -> usize {
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
    // Those that are sent before the loss is recorded may wait for their turn behind the metadata.
    let is_short_of_metadata = mirror.op == "write" && mirror.metadata == "1%";
    assert!(late(&after) <= if is_short_of_metadata { 2 } else { 0 }, "{mirror:?}");
    streams
}
