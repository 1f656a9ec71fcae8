//! `spindle-lab bench attack`: two loaded volumes while other clients violate the protocol or take
//! all connections. The volumes' shares and the daemon's memory must not change.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use anyhow::Context;
use config::Plan;
use console::{ExitStatus, LatenessUs, bad_input, eprintln, print, println, table};
use daemon::Status;
use serde::Serialize;
use stats::SCHEMA;
use units::Duration;

use super::live::{self, Job, Live};
use crate::args;

/// `seq` and `rand` are loaded and measured. The attackers use `vol`, so that their valid requests
/// reach the disk. The measured volumes have a limit equal to their reserve, so that disk time that
/// the attackers leave unused does not change their shares.
const PLAN: &str = r#"
[nbd]
connections = 256

[[disk]]
name = "d0"
drive = "deskstar-34gxp"
backing = "disk.img"
policy = "utilization"

[[volume]]
name = "seq"
disk = "d0"
size = "4GiB"
reserve = "50%"
limit = "50%"

[[volume]]
name = "rand"
disk = "d0"
size = "4GiB"
reserve = "25%"
limit = "25%"

[[volume]]
name = "vol"
disk = "d0"
size = "1GiB"
reserve = "25%"
"#;
/// fio's pattern for each of the measured volumes.
const WORKING: [&str; 2] = ["read", "randread"];
const RAMP_SECONDS: u64 = 3;
/// Excluded at the start of each attack.
const SETTLE_SECONDS: u64 = 2;
const TAIL_SECONDS: u64 = 4;
const MOVED_MAX_POINTS: f64 = 1.0;
/// The largest growth of resident memory from the end of the first attack to the end of the last.
/// It is not zero because the daemon recycles buffers instead of releasing them.
const GROWTH_MAX_MIB: f64 = 64.0;
/// The time-out of the attackers' reads and writes.
const IO_TIMEOUT: std::time::Duration = std::time::Duration::from_millis(100);
/// The number of connections that [`slow`] holds open; [`full`] tries twice as many.
const HELD_CONNECTIONS: usize = 128;
const HELLO: [u8; 4] = 3_u32.to_be_bytes();

/// The behaviour of the attackers. A run goes through all variants in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Attack {
    None,
    Malformed,
    Slow,
    Flood,
    Full,
}

impl Attack {
    const ALL: [Self; 5] = [Self::None, Self::Malformed, Self::Slow, Self::Flood, Self::Full];

    const fn words(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Malformed => "malformed handshakes and requests",
            Self::Slow => "a byte at a time, replies not read",
            Self::Flood => "connects and leaves",
            Self::Full => "all connections taken, further ones attempted",
        }
    }
}

#[derive(Debug, Serialize)]
struct Row {
    attack: &'static str,
    /// The number of connections that the attackers opened.
    connections: u64,
    /// The disk-time shares of the two measured volumes.
    shares: [f64; 2],
    /// The fraction of the time for which each measured volume had requests in flight. A client
    /// that is kept from sending cannot use its share.
    loaded: [f64; 2],
    /// The larger of the two deviations from the share without an attack.
    moved_points: f64,
    /// Resident memory of the whole process, attackers included, at the end of the attack.
    resident_mib: f64,
    holds: bool,
}

#[derive(Debug, Serialize)]
struct Shown {
    schema: u32,
    seconds: u64,
    rows: Vec<Row>,
    grown_mib: f64,
    lateness_us: LatenessUs,
    /// The machine's load average over one minute: what else ran during the measurement.
    load_average: Option<f64>,
    holds: bool,
}

pub(crate) fn attack(args: &args::Attack, json: bool) -> anyhow::Result<ExitStatus> {
    live::installed()?;
    // The disk is a file, so that data written by attackers does not count as daemon memory.
    let scratch = tempfile::tempdir().context("cannot create a directory for the disk")?;
    let plan = Plan::parse(PLAN, "the bench's config", scratch.path()).map_err(bad_input)?;
    let phase = SETTLE_SECONDS + args.seconds + TAIL_SECONDS;
    let length = RAMP_SECONDS + phase * Attack::ALL.len() as u64;
    let jobs = [0, 1].map(|volume| Job::new(volume, WORKING[volume], length));
    // A TCP connect can time out. A connect to a Unix socket blocks while the backlog is full.
    let also = "127.0.0.1:0".parse().expect("an address");
    let live = Live::start_on(&plan, &jobs, &[also])?;
    let socket = live.addresses()[1].to_string().parse().context("a TCP address")?;
    live::pause(Duration::from_secs(RAMP_SECONDS));
    let mut rows: Vec<Row> = Vec::new();
    for attack in Attack::ALL {
        eprintln!("{}", attack.words());
        let attackers = Attackers::start(attack, socket)?;
        live::pause(Duration::from_secs(SETTLE_SECONDS));
        let first = live.status();
        live::pause(Duration::from_secs(args.seconds));
        let last = live.status();
        let connections = attackers.stop();
        let elapsed = last.disks[0].at.since(first.disks[0].at);
        let share = |volume: usize| {
            let before = &first.volumes[volume];
            last.volumes[volume].report_since(Some(before), elapsed).disk_time_share
        };
        let busy =
            |status: &Status, volume: usize| status.volumes[volume].traffic.busy.as_secs_f64();
        let loaded = |volume| (busy(&last, volume) - busy(&first, volume)) / elapsed.as_secs_f64();
        let (shares, loaded) = ([share(0), share(1)], [loaded(0), loaded(1)]);
        let baseline = rows.first().map_or(shares, |row| row.shares);
        let moved =
            baseline.iter().zip(shares).map(|(baseline, share)| (baseline - share).abs() * 100.0);
        let moved_points = moved.fold(0.0, f64::max);
        let holds = moved_points <= MOVED_MAX_POINTS;
        let resident_mib = resident_mib()?;
        rows.push(Row {
            attack: attack.words(),
            connections,
            shares,
            loaded,
            moved_points,
            resident_mib,
            holds,
        });
    }
    let load_average = live::load_average();
    let end = live.leave()?;
    let grown_mib = rows[rows.len() - 1].resident_mib - rows[1].resident_mib;
    let shown = Shown {
        schema: SCHEMA,
        seconds: args.seconds,
        holds: rows.iter().all(|row| row.holds) && grown_mib <= GROWTH_MAX_MIB,
        rows,
        grown_mib,
        lateness_us: LatenessUs::of(&end),
        load_average,
    };
    if json {
        println!("{}", serde_json::to_string(&shown)?);
    } else {
        print(&shown);
    }
    Ok(shown.holds.into())
}

fn resident_mib() -> anyhow::Result<f64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<f64>().ok());
    Ok(kib.context("/proc/self/status has no VmRSS")? / 1024.0)
}

/// The threads that carry out one attack.
struct Attackers {
    stop: Arc<AtomicBool>,
    opened: Arc<AtomicU64>,
    threads: Vec<std::thread::JoinHandle<()>>,
}

impl Attackers {
    fn start(attack: Attack, socket: SocketAddr) -> anyhow::Result<Self> {
        let (stop, opened) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let mut threads = Vec::new();
        let work: Option<fn(&Attacker)> = match attack {
            Attack::None => None,
            Attack::Malformed => Some(malformed),
            Attack::Slow => Some(slow),
            Attack::Flood => Some(flood),
            Attack::Full => Some(full),
        };
        if let Some(work) = work {
            let (stop, opened) = (stop.clone(), opened.clone());
            let attacker = Attacker { stop, opened, socket };
            threads.push(std::thread::Builder::new().spawn(move || work(&attacker))?);
        }
        Ok(Self { stop, opened, threads })
    }

    /// Ends the attack and returns the number of connections that it opened.
    fn stop(self) -> u64 {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads {
            thread.join().expect("an attacker does not panic");
        }
        self.opened.load(Ordering::Relaxed)
    }
}

struct Attacker {
    stop: Arc<AtomicBool>,
    opened: Arc<AtomicU64>,
    socket: SocketAddr,
}

impl Attacker {
    fn is_running(&self) -> bool {
        !self.stop.load(Ordering::Relaxed)
    }

    fn connect(&self) -> Option<TcpStream> {
        let stream = TcpStream::connect_timeout(&self.socket, IO_TIMEOUT).ok()?;
        stream.set_read_timeout(Some(IO_TIMEOUT)).ok()?;
        stream.set_write_timeout(Some(IO_TIMEOUT)).ok()?;
        self.opened.fetch_add(1, Ordering::Relaxed);
        Some(stream)
    }
}

/// Sends one stream of the fuzzer per connection and reads part of the reply.
fn malformed(attacker: &Attacker) {
    let mut into = vec![0; 64 << 10];
    for seed in 0.. {
        if !attacker.is_running() {
            return;
        }
        let Some(mut stream) = attacker.connect() else { continue };
        // A connection that fails is replaced by the next.
        let _ = stream.write_all(&nbd::fuzz::stream(seed));
        let _ = stream.read(&mut into);
    }
}

/// One third of the connections never complete the handshake. One third announce a write of 32 MiB
/// and send it a byte at a time. One third send reads and do not read the replies.
fn slow(attacker: &Attacker) {
    let mut held: Vec<_> = (0..HELD_CONNECTIONS)
        .filter_map(|number| Some((number, open(attacker, number)?)))
        .collect();
    while attacker.is_running() {
        held.retain_mut(|(number, stream)| match *number % 3 {
            2 => true,
            _ => stream.write(&[0]).is_ok_and(|sent| sent > 0),
        });
        live::pause(Duration::from_millis(100));
    }
}

/// Opens a slow connection; `number` modulo 3 selects its kind.
fn open(attacker: &Attacker, number: usize) -> Option<TcpStream> {
    let mut stream = attacker.connect()?;
    stream.write_all(&HELLO).ok()?;
    if number.is_multiple_of(3) {
        return Some(stream);
    }
    let option = [b"IHAVEOPT", &1_u32.to_be_bytes()[..], &3_u32.to_be_bytes(), b"vol"].concat();
    stream.write_all(&option).ok()?;
    let request = |command: u16, offset: u64, length: u32| {
        let head = [&0x2560_9513_u32.to_be_bytes()[..], &[0; 2], &command.to_be_bytes()].concat();
        [&head[..], &offset.to_be_bytes(), &offset.to_be_bytes(), &length.to_be_bytes()].concat()
    };
    let requests: Vec<u8> = match number % 3 {
        1 => request(1, 0, 32 << 20),
        _ => (0..8).flat_map(|place| request(0, place << 20, 64 << 10)).collect(),
    };
    stream.write_all(&requests).ok()?;
    Some(stream)
}

/// Opens connections and closes them without sending anything.
fn flood(attacker: &Attacker) {
    while attacker.is_running() {
        drop(attacker.connect());
    }
}

/// Takes all connections and tries further ones; dropped connections are replaced.
fn full(attacker: &Attacker) {
    let mut held: Vec<TcpStream> = Vec::new();
    while attacker.is_running() {
        while held.len() < 2 * HELD_CONNECTIONS && attacker.is_running() {
            held.extend(attacker.connect());
        }
        live::pause(Duration::from_millis(10));
        held.retain_mut(|stream| {
            let nonblocking = stream.set_nonblocking(true);
            let received = stream.read(&mut [0; 64]);
            nonblocking.is_ok()
                && received.map_or_else(
                    |error| error.kind() == ErrorKind::WouldBlock,
                    |received| received > 0,
                )
        });
    }
}

fn print(shown: &Shown) {
    let percent = |part: f64| format!("{:.2} %", part * 100.0);
    let row = |row: &Row| {
        vec![
            row.attack.to_owned(),
            row.connections.to_string(),
            percent(row.shares[0]),
            percent(row.shares[1]),
            format!("{:.1} %", row.loaded[0].min(row.loaded[1]) * 100.0),
            format!("{:.2} points", row.moved_points),
            format!("{:.1}", row.resident_mib),
            if row.holds { "holds" } else { "MISSED" }.into(),
        ]
    };
    let head = ["attack", "connections", "seq, 50 %", "rand, 25 %", "loaded", "moved", "MiB", ""];
    print!("{}", table::text(&head, &shown.rows.iter().map(row).collect::<Vec<_>>()));
    println!(
        "resident memory after the last attack less that after the first: {:+.1} MiB (at most \
         {GROWTH_MAX_MIB})",
        shown.grown_mib
    );
    live::print_machine(&shown.lateness_us, shown.load_average);
}
