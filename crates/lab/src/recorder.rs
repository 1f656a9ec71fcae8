//! `spindle-lab recorder`: cameras, a playback, deletes and a scrub on one emulated drive, live
//! over NBD.
//!
//! The config is `examples/recorder.toml`, which can be simulated and served as well. A block is
//! released when it is sent, or one period after the release of the block before it, whichever
//! is later. Its deadline is one period after its release, as for a camera with two buffers, one of
//! which fills while the other is written. A block whose lateness exceeds the largest lateness of
//! the emulated drive itself counts as a dropped frame.

use std::path::Path;
use std::sync::mpsc;
use std::thread::JoinHandle;

use anyhow::Context;
use clap::Args;
use config::{Access, Arrival, Plan, Requests, Workload};
use console::{ExitStatus, LatenessUs, bad_input, eprintln, print, println, table};
use daemon::{Clock, Daemon};
use engine::{Contract, PolicyName};
use nbd::Address;
use nbd::client::{Client, Receiver, Sender};
use serde::Serialize;
use sim::{Generator, SeededRng};
use stats::SCHEMA;
use units::{Bytes, Duration, Extent, Instant, Lba, Op, Operation, Sectors};

use loadgen::Load;

const PLAN: &str = include_str!("../../../examples/recorder.toml");
/// The volume whose oldest part is deleted.
const ARCHIVE: &str = "archive";
/// The length of one delete.
const DELETE_LENGTH: Sectors = Sectors(1 << 17);
/// The interval between two deletes.
const DELETE_EVERY: Duration = Duration::from_secs(1);

/// The arguments of `spindle-lab recorder`.
#[derive(Debug, Args)]
pub(crate) struct Recorder {
    /// The duration of the run, in seconds.
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u64).range(2..=3600))]
    seconds: u64,
    /// The scheduling policy, in place of the recorder's own: fcfs, utilization, edf, lst, delta-l,
    /// delta-star or spindle.
    #[arg(long, value_parser = policy)]
    policy: Option<PolicyName>,
}

fn policy(text: &str) -> Result<PolicyName, String> {
    let known = PolicyName::ALL.into_iter().filter(|p| !p.has_nominal_rate());
    let names: Vec<_> = known.map(PolicyName::as_str).collect();
    let policy = text.parse().ok().filter(|p: &PolicyName| !p.has_nominal_rate());
    policy.ok_or_else(|| format!("expected one of {}", names.join(", ")))
}

#[derive(Debug, Serialize)]
struct Shown {
    schema: u32,
    policy: String,
    duration_s: f64,
    streams: Vec<StreamShown>,
    blocks: usize,
    late: usize,
    worst_lateness_ms: f64,
    frames_dropped: usize,
    scrubbed_bytes: u64,
    deleted_bytes: u64,
    holds: bool,
    lateness_us: LatenessUs,
}

#[derive(Debug, Serialize)]
struct StreamShown {
    name: String,
    period_ms: f64,
    blocks: usize,
    on_time: usize,
    /// The largest lateness of a block; negative if all blocks were early.
    worst_lateness_ms: f64,
    frames_dropped: usize,
}

/// The lateness of each block of one stream: the time from its deadline to its reply, in ms,
/// negative if the reply was early.
struct Played {
    name: String,
    period: Duration,
    lateness_ms: Vec<f64>,
}

pub(crate) fn run(args: &Recorder, json: bool) -> anyhow::Result<ExitStatus> {
    let mut plan = Plan::parse(PLAN, "the recorder's config", Path::new("")).map_err(bad_input)?;
    set_policy(&mut plan, args.policy);
    let dir = tempfile::tempdir().context("cannot create a directory for the socket")?;
    let address = Address::Unix(dir.path().join("nbd.sock"));
    let daemon = Daemon::start(&plan, &[address]).map_err(bad_input)?;
    let address = daemon.addresses()[0].clone();
    announce(&plan);
    let (mut loads, mut players) = (Vec::new(), Vec::new());
    for (stream, workload) in (0..).zip(&plan.workloads) {
        let volume = workload.volume.single().expect("its config has no pool");
        let name = &plan.volumes[volume.0].name;
        let rng = SeededRng::new(plan.seed, stream);
        if is_stream(workload) {
            players.push(Player::start(&address, name, workload, rng)?);
        } else {
            loads.push(Load::start(&address, name, workload, rng)?);
        }
    }
    let from = daemon.now();
    let deleted = delete(&daemon, &address, Duration::from_secs(args.seconds))?;
    let played = players.into_iter().map(Player::stop).collect::<anyhow::Result<Vec<_>>>()?;
    let length = daemon.now().since(from);
    loads.into_iter().try_for_each(Load::stop)?;
    let status = daemon.stop().context("cannot stop the daemon")?;
    let archive = status.volumes.iter().find(|volume| volume.name == ARCHIVE);
    let scrubbed = archive.map_or(0, |archive| archive.account.sectors.bytes().0);
    let lateness_us = LatenessUs::of(&status);
    let mut shown = judge(&played, lateness_us);
    (shown.policy, shown.duration_s) = (plan.disks[0].policy.to_string(), length.as_secs_f64());
    (shown.scrubbed_bytes, shown.deleted_bytes) = (scrubbed, deleted.bytes().0);
    if json {
        println!("{}", serde_json::to_string(&shown)?);
    } else {
        print(&shown);
    }
    Ok(shown.holds.into())
}

/// Replaces the disk's policy. Under a policy that keeps no streams they become best effort.
fn set_policy(plan: &mut Plan, policy: Option<PolicyName>) {
    let Some(policy) = policy else { return };
    plan.disks[0].set_policy(policy);
    if policy.keeps_streams() {
        return;
    }
    plan.disks[0].best_effort = None;
    for volume in &mut plan.volumes {
        let reserve = volume.contract.reserve;
        (volume.stream, volume.contract) = (None, Contract::reserve(reserve));
    }
}

fn announce(plan: &Plan) {
    let disk = &plan.disks[0];
    let streams = plan.workloads.iter().filter(|workload| is_stream(workload)).count();
    eprintln!("{streams} streams, a database, a scrub and a delete on one {}", disk.drive.name);
    match plan.admission_headroom(config::DiskIndex(0), Instant::ZERO) {
        Some(headroom) => {
            let tenths = headroom.utilization_ppb.div_ceil(1_000_000);
            eprintln!(
                "admitted under {}: {}.{} % worst-case utilisation, slack ΔL {}",
                disk.policy,
                tenths / 10,
                tenths % 10,
                headroom.slack
            );
        }
        None => eprintln!("{} gives no guarantees", disk.policy),
    }
}

fn is_stream(workload: &Workload) -> bool {
    let Requests::Synthetic(requests) = &workload.requests else { return false };
    matches!(requests.access, Access::Within { .. })
}

/// Deletes old recordings for `length` and returns the number of deleted sectors.
fn delete(daemon: &Daemon, address: &Address, length: Duration) -> anyhow::Result<Sectors> {
    let mut client = Client::connect(address)?;
    let archive = client.go(ARCHIVE)?.size.sectors_floor();
    let end = daemon.now() + length;
    let mut deleted = Sectors::ZERO;
    loop {
        let next = (daemon.now() + DELETE_EVERY).min(end);
        pause(next.saturating_since(daemon.now()));
        if daemon.now() >= end {
            client.disconnect()?;
            return Ok(deleted);
        }
        let extent = Extent::new(Lba(deleted.0 % archive.0), DELETE_LENGTH);
        client.perform(Operation { op: Op::Trim, extent, fua: false }, &[])?;
        deleted += DELETE_LENGTH;
    }
}

/// Sleeps until the next delete.
#[expect(
    clippy::disallowed_methods,
    reason = "the interval between deletes, not a synchronisation"
)]
fn pause(length: Duration) {
    std::thread::sleep(std::time::Duration::from_nanos(length.as_nanos()));
}

/// A client of one stream: one thread sends blocks, another receives the replies.
struct Player {
    name: String,
    period: Duration,
    stop: mpsc::Sender<()>,
    sending: JoinHandle<anyhow::Result<Sender>>,
    receiving: JoinHandle<anyhow::Result<Vec<f64>>>,
}

impl Player {
    fn start(
        address: &Address,
        name: &str,
        workload: &Workload,
        rng: SeededRng,
    ) -> anyhow::Result<Self> {
        let mut client = Client::connect(address).with_context(|| format!("{address}"))?;
        let size = client.go(name).with_context(|| format!("export {name}"))?.size;
        let Requests::Synthetic(synthetic) = &workload.requests else {
            anyhow::bail!("the workload is not a stream")
        };
        let Arrival::Open { interval: period } = synthetic.arrival else {
            anyhow::bail!("a stream has a rate")
        };
        let generator = Generator::new(synthetic, size.sectors_floor(), rng);
        let (sender, receiver) = client.split();
        let (stop, stopped) = mpsc::channel();
        let (sent, in_flight) = mpsc::channel();
        let (clock, first) = (Clock::start(), workload.start);
        let thread = || std::thread::Builder::new().name(name.to_owned());
        let send = move || send(sender, generator, (clock, first, period), (&sent, &stopped));
        let sending = thread().spawn(send)?;
        let receiving = thread().spawn(move || receive(receiver, clock, &in_flight))?;
        Ok(Self { name: name.to_owned(), period, stop, sending, receiving })
    }

    /// Stops sending, waits for the requests in flight, and returns the lateness of each block.
    fn stop(self) -> anyhow::Result<Played> {
        // The send fails if the client has failed; the join below returns the client's error.
        let _ = self.stop.send(());
        let sender = self.sending.join().expect("a client does not panic");
        let lateness_ms = self.receiving.join().expect("a client does not panic")?;
        sender?.disconnect().context("cannot disconnect")?;
        Ok(Played { name: self.name, period: self.period, lateness_ms })
    }
}

/// Sends one block every `period`, the first one `first` from now, until `stopped` receives a
/// message. The cookie of a block's request is its deadline in nanoseconds.
fn send(
    mut sender: Sender,
    mut generator: Generator,
    (clock, first, period): (Clock, Duration, Duration),
    (sent, stopped): (&mpsc::Sender<()>, &mpsc::Receiver<()>),
) -> anyhow::Result<Sender> {
    let mut next = clock.now() + first;
    let mut expected = Instant::ZERO;
    loop {
        let left = std::time::Duration::from_nanos(next.saturating_since(clock.now()).as_nanos());
        if stopped.recv_timeout(left) != Err(mpsc::RecvTimeoutError::Timeout) {
            return Ok(sender);
        }
        let operation = generator.operation();
        let payload = match operation.op {
            Op::Write => vec![0; operation.extent.len.bytes_usize()],
            _ => Vec::new(),
        };
        expected = expected.max(clock.now()) + period;
        sender.send(expected.as_nanos(), operation, &payload)?;
        sent.send(()).context("the receiving thread has ended")?;
        next += period;
    }
}

/// Receives one reply for each block that was sent and returns the lateness of each, in ms.
fn receive(
    mut receiver: Receiver,
    clock: Clock,
    in_flight: &mpsc::Receiver<()>,
) -> anyhow::Result<Vec<f64>> {
    let mut lateness = Vec::new();
    while in_flight.recv().is_ok() {
        let completion = receiver.receive()?;
        completion.result.map_err(|error| anyhow::anyhow!("a block failed: {error}"))?;
        let (now, due) = (clock.now(), Instant::from_nanos(completion.cookie));
        let (late, early) = (now.saturating_since(due), due.saturating_since(now));
        lateness.push(late.as_millis_f64() - early.as_millis_f64());
    }
    Ok(lateness)
}

fn judge(played: &[Played], lateness_us: LatenessUs) -> Shown {
    let allowed = lateness_us.max / 1e3;
    let streams: Vec<StreamShown> = played
        .iter()
        .map(|stream| {
            let late = |by: f64| stream.lateness_ms.iter().filter(|ms| **ms > by).count();
            StreamShown {
                name: stream.name.clone(),
                period_ms: stream.period.as_millis_f64(),
                blocks: stream.lateness_ms.len(),
                on_time: stream.lateness_ms.len() - late(0.0),
                worst_lateness_ms: stream.lateness_ms.iter().copied().fold(f64::MIN, f64::max),
                frames_dropped: late(allowed),
            }
        })
        .collect();
    let blocks = streams.iter().map(|stream| stream.blocks).sum();
    let frames_dropped = streams.iter().map(|stream| stream.frames_dropped).sum();
    let worst = streams.iter().map(|stream| stream.worst_lateness_ms).fold(f64::MIN, f64::max);
    let (policy, duration_s, scrubbed_bytes, deleted_bytes) = (String::new(), 0.0, 0, 0);
    Shown {
        schema: SCHEMA,
        policy,
        duration_s,
        late: streams.iter().map(|stream| stream.blocks - stream.on_time).sum(),
        blocks,
        worst_lateness_ms: worst,
        frames_dropped,
        scrubbed_bytes,
        deleted_bytes,
        holds: frames_dropped == 0,
        lateness_us,
        streams,
    }
}

fn print(shown: &Shown) {
    let head = ["stream", "period ms", "blocks", "on time", "worst lateness ms", "dropped"];
    let row = |stream: &StreamShown| {
        vec![
            stream.name.clone(),
            format!("{:.0}", stream.period_ms),
            stream.blocks.to_string(),
            stream.on_time.to_string(),
            format!("{:.1}", stream.worst_lateness_ms),
            stream.frames_dropped.to_string(),
        ]
    };
    print!("{}", table::text(&head, &shown.streams.iter().map(row).collect::<Vec<_>>()));
    let (scrubbed, deleted) = (Bytes(shown.scrubbed_bytes), Bytes(shown.deleted_bytes));
    println!("beside the streams, {scrubbed} were scrubbed and {deleted} deleted");
    let late = &shown.lateness_us;
    println!("{late}");
    println!("frames dropped: {}", shown.frames_dropped);
}
