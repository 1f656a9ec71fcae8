//! A daemon with an emulated disk, fio as its clients, and looks at both.

use std::path::Path;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, bail};
use config::{Document, Plan};
use console::{LatenessUs, bad_input, println, uri};
use daemon::{Daemon, Operator, Status};
use nbd::Address;
use tempfile::TempDir;
use units::{Duration, Instant, Share};

/// Enough that no queue runs dry while the machine is busy with something else.
pub(super) const DEPTH: u32 = 64;

/// What one of fio's clients does.
#[derive(Clone, Copy, Debug)]
pub(super) struct Job {
    /// By its number in the plan.
    pub(super) volume: usize,
    /// As fio's options have it.
    pub(super) rw: &'static str,
    pub(super) block: &'static str,
    /// Requests outstanding.
    pub(super) depth: u32,
    /// In seconds from fio's start.
    pub(super) start: u64,
    pub(super) seconds: u64,
    /// Further options.
    pub(super) more: &'static [&'static str],
}

impl Job {
    /// Requests of 4 KiB, [`DEPTH`] outstanding, from the start on.
    pub(super) const fn new(volume: usize, rw: &'static str, seconds: u64) -> Self {
        Self { volume, rw, block: "4k", depth: DEPTH, start: 0, seconds, more: &[] }
    }
}

/// fio, if it is there.
pub(super) fn installed() -> anyhow::Result<()> {
    match Command::new("fio").arg("--version").stdout(Stdio::null()).status() {
        Ok(_) => Ok(()),
        Err(_) => Err(bad_input("fio is not installed: this measures with fio and its nbd engine")),
    }
}

/// The volume of this number, those of the pool behind the others: its name and its size.
pub(super) fn volume(plan: &Plan, number: usize) -> (&str, units::Bytes) {
    if let Some(volume) = plan.volumes.get(number) {
        return (&volume.name, volume.size);
    }
    let pool = plan.pool.as_ref().expect("the plan has a volume of this number");
    let volume = &pool.volumes[number - plan.volumes.len()];
    (&volume.name, volume.size)
}

/// The plan with these reserves for its volumes, in their order, and no limits.
pub(super) fn with_reserves(plan: &Plan, reserves: &[Share]) -> Plan {
    let mut plan = plan.clone();
    for (volume, reserve) in plan.volumes.iter_mut().zip(reserves) {
        volume.contract = engine::Contract::reserve(*reserve);
    }
    plan
}

/// A run under way.
pub(super) struct Live {
    daemon: Daemon,
    fio: Child,
    dir: TempDir,
}

impl Live {
    /// Serves `plan` and starts fio's `jobs`. When this returns, those that start at once have had
    /// an answer.
    pub(super) fn start(plan: &Plan, jobs: &[Job]) -> anyhow::Result<Self> {
        Self::start_on(plan, jobs, &[])
    }

    /// The same, listening on further addresses too.
    pub(super) fn start_on(plan: &Plan, jobs: &[Job], also: &[Address]) -> anyhow::Result<Self> {
        let dir = tempfile::tempdir().context("no place for a socket")?;
        let address = Address::Unix(dir.path().join("nbd.sock"));
        let addresses = [&[address], also].concat();
        let daemon = Daemon::start(plan, &addresses).map_err(bad_input)?;
        let fio = fio(plan, &daemon.addresses()[0], jobs, dir.path())?;
        let mut live = Self { daemon, fio, dir };
        let first = || jobs.iter().filter(|job| job.start == 0);
        while first().any(|job| live.status().volumes[job.volume].account.requests == 0) {
            if let Some(code) = live.fio.try_wait()? {
                bail!("fio ended with {code} before it had sent anything: {}", live.said()?);
            }
            pause(Duration::from_millis(20));
        }
        Ok(live)
    }

    /// The operator of the daemon, which changes it as `document` says.
    pub(super) fn operator(&self, document: Document) -> Operator {
        self.daemon.operator(document)
    }

    /// Where it listens: on a socket of its own, and on what else was asked for.
    pub(super) fn addresses(&self) -> &[Address] {
        self.daemon.addresses()
    }

    pub(super) fn status(&self) -> Status {
        self.daemon.status()
    }

    /// How things stand now, and every `step` until `length` has gone by.
    pub(super) fn watch(&self, step: Duration, length: Duration) -> Vec<(Instant, Status)> {
        let mut samples: Vec<(Instant, Status)> = Vec::new();
        loop {
            let status = self.status();
            let at = status.disks[0].at;
            samples.push((at, status));
            // By the first, so that no delay adds to the next.
            let next = samples[0].0 + step * samples.len() as u64;
            if next > samples[0].0 + length {
                return samples;
            }
            pause(next.saturating_since(self.daemon.now()));
        }
    }

    /// Waits until fio has ended, and stops.
    pub(super) fn end(mut self) -> anyhow::Result<Status> {
        let fio = self.fio_ends();
        let end = self.daemon.stop().context("the sockets")?;
        fio.map(|()| end)
    }

    /// The same without a stop, which waits for all that was asked for, by clients that have left
    /// too: the daemon ends with the program.
    pub(super) fn leave(mut self) -> anyhow::Result<Status> {
        self.fio_ends().map(|()| self.status())
    }

    fn fio_ends(&mut self) -> anyhow::Result<()> {
        let code = self.fio.wait()?;
        if !code.success() {
            bail!("fio ended with {code}: {}", self.said()?);
        }
        Ok(())
    }

    /// What fio printed.
    fn said(&self) -> std::io::Result<String> {
        std::fs::read_to_string(self.dir.path().join("fio.txt"))
    }
}

fn fio(plan: &Plan, address: &Address, jobs: &[Job], dir: &Path) -> anyhow::Result<Child> {
    let output = std::fs::File::create(dir.join("fio.txt"))?;
    let mut command = Command::new("fio");
    command.args(["--ioengine=nbd", "--time_based", "--thread", "--norandommap"]);
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

/// A measurement lasts as long as it was asked to.
#[expect(clippy::disallowed_methods, reason = "a measurement's length, not a synchronisation")]
pub(super) fn pause(length: Duration) {
    std::thread::sleep(std::time::Duration::from_nanos(length.as_nanos()));
}

/// The machine's own load, of a minute: what else ran beside a measurement.
pub(super) fn load_average() -> Option<f64> {
    let load = std::fs::read_to_string("/proc/loadavg").ok();
    load.and_then(|text| text.split(' ').next()?.parse().ok())
}

/// How far the machine itself got in the way, for people.
pub(super) fn print_machine(late: &LatenessUs, load_average: Option<f64>) {
    println!(
        "the drive was late by p50 {:.0} µs, p99 {:.0} µs, max {:.0} µs",
        late.p50, late.p99, late.max
    );
    if let Some(load) = load_average {
        println!("the machine's load was {load}");
    }
}
