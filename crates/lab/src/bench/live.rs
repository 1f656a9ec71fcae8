//! A daemon with emulated disks, fio as its client, and samples of the daemon's status.

use std::path::Path;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, bail};
use config::{Document, Plan};
use console::{LatenessUs, bad_input, println, uri};
use daemon::{Daemon, Operator, Status};
use nbd::Address;
use tempfile::TempDir;
use units::{Duration, Instant, Share};

/// Requests outstanding per job. The depth keeps the queue non-empty while the machine is busy
/// with other processes.
pub(super) const DEPTH: u32 = 64;
/// The interval of the samples of a measurement.
pub(super) const SAMPLE: Duration = Duration::from_millis(500);
/// The mount point of a file system in memory.
const IN_MEMORY: &str = "/dev/shm";

/// One job of fio: the load of one client.
#[derive(Clone, Copy, Debug)]
pub(super) struct Job {
    /// The volume's number, as in [`volume`].
    pub(super) volume: usize,
    /// The access pattern in fio's notation, such as `randread`.
    pub(super) rw: &'static str,
    pub(super) block: &'static str,
    /// Requests outstanding.
    pub(super) depth: u32,
    /// The delay from fio's start, in seconds.
    pub(super) start: u64,
    pub(super) seconds: u64,
    /// Further options for fio.
    pub(super) more: &'static [&'static str],
}

impl Job {
    /// Requests of 4 KiB with [`DEPTH`] outstanding, without a start delay.
    pub(super) const fn new(volume: usize, rw: &'static str, seconds: u64) -> Self {
        Self { volume, rw, block: "4k", depth: DEPTH, start: 0, seconds, more: &[] }
    }
}

/// Checks that fio is installed.
pub(super) fn installed() -> anyhow::Result<()> {
    match Command::new("fio").arg("--version").stdout(Stdio::null()).status() {
        Ok(_) => Ok(()),
        Err(_) => {
            Err(bad_input("fio is not installed: this benchmark needs fio with its nbd engine"))
        }
    }
}

/// The name and size of the volume with this number. The pool's volumes follow those of the disks.
pub(super) fn volume(plan: &Plan, number: usize) -> (&str, units::Bytes) {
    if let Some(volume) = plan.volumes.get(number) {
        return (&volume.name, volume.size);
    }
    let pool = plan.pool.as_ref().expect("the plan has a volume of this number");
    let volume = &pool.volumes[number - plan.volumes.len()];
    (&volume.name, volume.size)
}

/// The plan with these reserves for its volumes, in order, and without limits.
pub(super) fn with_reserves(plan: &Plan, reserves: &[Share]) -> Plan {
    let mut plan = plan.clone();
    for (volume, reserve) in plan.volumes.iter_mut().zip(reserves) {
        volume.contract = engine::Contract::reserve(*reserve);
    }
    plan
}

/// A running daemon and the fio process that loads it.
pub(super) struct Live {
    daemon: Daemon,
    fio: Child,
    dir: TempDir,
}

impl Live {
    /// Serves `plan` and starts fio's `jobs`. Returns when each job without a start delay has
    /// received a reply.
    pub(super) fn start(plan: &Plan, jobs: &[Job]) -> anyhow::Result<Self> {
        Self::start_on(plan, jobs, &[])
    }

    /// As [`Live::start`], but also listens on the addresses `also`.
    pub(super) fn start_on(plan: &Plan, jobs: &[Job], also: &[Address]) -> anyhow::Result<Self> {
        let dir = tempfile::tempdir().context("cannot create a directory for the socket")?;
        let address = Address::Unix(dir.path().join("nbd.sock"));
        let addresses = [&[address], also].concat();
        let daemon = Daemon::start(plan, &addresses).map_err(bad_input)?;
        let fio = fio(plan, &daemon.addresses()[0], jobs, dir.path())?;
        let mut live = Self { daemon, fio, dir };
        let immediate = || jobs.iter().filter(|job| job.start == 0);
        while immediate().any(|job| live.status().volumes[job.volume].account.requests == 0) {
            if let Some(code) = live.fio.try_wait()? {
                bail!(
                    "fio ended with {code} before its immediate request: {}",
                    live.output_text()?
                );
            }
            pause(Duration::from_millis(20));
        }
        Ok(live)
    }

    /// An operator of the daemon, with `document` as the current config.
    pub(super) fn operator(&self, document: Document) -> Operator {
        self.daemon.operator(document)
    }

    /// The addresses that the daemon listens on: its own socket, then those given to
    /// [`Live::start_on`].
    pub(super) fn addresses(&self) -> &[Address] {
        self.daemon.addresses()
    }

    pub(super) fn status(&self) -> Status {
        self.daemon.status()
    }

    /// Samples the status now and every `step` until `length` has elapsed.
    pub(super) fn watch(&self, step: Duration, length: Duration) -> Vec<(Instant, Status)> {
        let mut samples: Vec<(Instant, Status)> = Vec::new();
        loop {
            let status = self.status();
            let at = status.disks[0].at;
            samples.push((at, status));
            // Relative to the immediate sample, so that delays do not accumulate.
            let next = samples[0].0 + step * samples.len() as u64;
            if next > samples[0].0 + length {
                return samples;
            }
            pause(next.saturating_since(self.daemon.now()));
        }
    }

    /// The disk time that each volume was charged so far, in seconds, now and every `step` until
    /// `length` has elapsed. Without latencies, which the disks' threads would copy each time.
    pub(super) fn watch_charged(&self, step: Duration, length: Duration) -> Vec<Vec<f64>> {
        let begin = self.daemon.now();
        let mut samples: Vec<Vec<f64>> = Vec::new();
        loop {
            let volumes = self.daemon.accounts().volumes;
            let charged = volumes.iter().map(|volume| volume.account.disk_time.as_secs_f64());
            samples.push(charged.collect());
            let next = begin + step * samples.len() as u64;
            if next > begin + length {
                return samples;
            }
            pause(next.saturating_since(self.daemon.now()));
        }
    }

    /// Waits for fio to end and stops the daemon.
    pub(super) fn end(self) -> anyhow::Result<Status> {
        self.end_with_flushes().map(|(end, _)| end)
    }

    /// As [`Live::end`]; also the 99th percentile of the flushes of fio's first job over its whole
    /// run, in milliseconds, if it sent any.
    pub(super) fn end_with_flushes(mut self) -> anyhow::Result<(Status, Option<f64>)> {
        let fio = self.wait_for_fio();
        let said = self.output_text();
        let end = self.daemon.stop().context("cannot stop the daemon")?;
        fio?;
        Ok((end, flush_p99_ms(&said?)?))
    }

    /// Waits for fio to end and returns the status without stopping the daemon. A stop would wait
    /// for all requests, including those of closed connections; the daemon ends with the process.
    pub(super) fn leave(mut self) -> anyhow::Result<Status> {
        self.wait_for_fio().map(|()| self.status())
    }

    fn wait_for_fio(&mut self) -> anyhow::Result<()> {
        let code = self.fio.wait()?;
        if !code.success() {
            bail!("fio ended with {code}: {}", self.output_text()?);
        }
        Ok(())
    }

    /// The output of fio.
    fn output_text(&self) -> std::io::Result<String> {
        std::fs::read_to_string(self.dir.path().join("fio.txt"))
    }
}

/// The 99th percentile of the flushes of the first job in what fio said, in milliseconds.
fn flush_p99_ms(said: &str) -> anyhow::Result<Option<f64>> {
    // Its NBD engine says in a line of its own that it is connected.
    let begin = said.find("\n{").map_or(0, |newline| newline + 1);
    let output: serde_json::Value =
        serde_json::from_str(&said[begin..]).with_context(|| format!("fio said: {said}"))?;
    let nanos = output.pointer("/jobs/0/sync/lat_ns/percentile/99.000000");
    Ok(nanos.and_then(serde_json::Value::as_f64).map(|nanos| nanos / 1e6))
}

fn fio(plan: &Plan, address: &Address, jobs: &[Job], dir: &Path) -> anyhow::Result<Child> {
    let output = std::fs::File::create(dir.join("fio.txt"))?;
    let mut command = Command::new("fio");
    command.args(["--ioengine=nbd", "--time_based", "--thread", "--norandommap"]);
    command.arg("--output-format=json");
    for (number, job) in jobs.iter().enumerate() {
        let (name, size) = volume(plan, job.volume);
        command
            .arg(format!("--name=job{number}"))
            .arg(format!("--uri={}", uri(address, name)))
            .arg(format!("--rw={}", job.rw))
            .arg(format!("--bs={}", job.block))
            .arg(format!("--iodepth={}", job.depth))
            .arg(format!("--startdelay={}", job.start))
            .arg(format!("--runtime={}", job.seconds))
            .arg(format!("--size={}", size.0))
            .args(job.more);
    }
    let output_again = output.try_clone()?;
    command.stdin(Stdio::null()).stdout(output).stderr(output_again);
    command.current_dir(dir).spawn().context("cannot start fio")
}

/// The throughput of a job that runs alone, in bytes per second over `seconds` that begin `ramp`
/// seconds after its start, and the final status.
#[expect(clippy::cast_precision_loss, reason = "a rate to be shown")]
pub(super) fn throughput(
    plan: &Plan,
    job: Job,
    (ramp, seconds): (u64, u64),
) -> anyhow::Result<(f64, Status)> {
    assert!(ramp + seconds < job.seconds, "the job outlasts the measurement");
    let live = Live::start(plan, &[job])?;
    pause(Duration::from_secs(ramp));
    let samples = live.watch(SAMPLE, Duration::from_secs(seconds));
    let end = live.end()?;
    let ((from, first), (to, last)) = (&samples[0], &samples[samples.len() - 1]);
    let sectors = |status: &Status| status.volumes[job.volume].account.sectors;
    let transferred = (sectors(last) - sectors(first)).bytes();
    Ok((transferred.0 as f64 / to.since(*from).as_secs_f64(), end))
}

/// A directory for the files of emulated drives, in memory. On the machine's disk, requests would
/// have that disk's delays: a forced write waits until the disk has all of the file that is not
/// written yet.
pub(super) fn in_memory() -> anyhow::Result<TempDir> {
    tempfile::tempdir_in(IN_MEMORY)
        .map_err(|error| bad_input(format!("cannot create a directory in {IN_MEMORY}: {error}")))
}

/// A config in a directory of its own, in memory, beside the files of its drives.
pub(super) fn document(text: &str) -> anyhow::Result<(TempDir, Document)> {
    let dir = in_memory()?;
    let path = dir.path().join("plan.toml");
    std::fs::write(&path, text)?;
    let document = Document::read(&path).map_err(bad_input)?;
    Ok((dir, document))
}

/// Sleeps for the length of a measurement.
#[expect(clippy::disallowed_methods, reason = "a measurement's length, not a synchronisation")]
pub(super) fn pause(length: Duration) {
    std::thread::sleep(std::time::Duration::from_nanos(length.as_nanos()));
}

/// The machine's load average over one minute: what else ran during a measurement.
pub(super) fn load_average() -> Option<f64> {
    let load = std::fs::read_to_string("/proc/loadavg").ok();
    load.and_then(|text| text.split(' ').next()?.parse().ok())
}

/// Prints the lateness of the emulated drives and the machine's load average.
pub(super) fn print_machine(late: &LatenessUs, load_average: Option<f64>) {
    println!("{late}");
    if let Some(load) = load_average {
        println!("load average: {load}");
    }
}
