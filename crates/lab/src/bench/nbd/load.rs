//! The loads that fio puts on a server.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, bail};
use serde::Deserialize;
use units::{Bytes, Duration};

use super::servers::Server;

/// The size of each server's disk. The benchmark writes all of it before a measurement, because
/// servers answer reads of holes without sending data.
pub(super) const SIZE: Bytes = Bytes(256 << 20);
const KIB: u64 = 1 << 10;
/// Requests outstanding per connection of a sequential load. The depth keeps client and server busy
/// at the same time.
const DEPTH_SEQUENTIAL: u32 = 8;

/// One kind of load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    pub(crate) connections: u32,
    /// The access pattern in fio's notation.
    pub(crate) pattern: &'static str,
    pub(crate) block: Bytes,
    /// Requests outstanding on each connection.
    pub(crate) depth: u32,
}

impl Shape {
    pub(super) fn all(connections: &[u32]) -> impl Iterator<Item = Self> {
        let random = ["randread", "randwrite"];
        let random =
            random.into_iter().flat_map(|pattern| [1, 32].map(|depth| (pattern, 4, depth)));
        let sequential = [128, 1_024]
            .into_iter()
            .flat_map(|kib| ["read", "write"].map(|pattern| (pattern, kib, DEPTH_SEQUENTIAL)));
        let shapes: Vec<_> = random.chain(sequential).collect();
        connections.iter().flat_map(move |&connections| {
            shapes.clone().into_iter().map(move |(pattern, kib, depth)| {
                let block = Bytes(kib * KIB);
                Self { connections, pattern, block, depth }
            })
        })
    }

    /// Whether the name contains one of `parts`. Without parts every shape is selected.
    pub(crate) fn is_selected(&self, parts: &[String]) -> bool {
        let name = self.name();
        parts.is_empty() || parts.iter().any(|part| name.contains(part.as_str()))
    }

    pub(crate) fn name(&self) -> String {
        let Self { connections, pattern, block, depth } = self;
        format!("{pattern}-{}k-d{depth}-c{connections}", block.0 / KIB)
    }

    /// Runs fio with this load for `seconds`.
    pub(crate) fn run(&self, target: &Target<'_>, seconds: u64) -> anyhow::Result<Job> {
        let job = run_fio(
            target,
            &[
                &format!("--rw={}", self.pattern),
                &format!("--bs={}", self.block.0),
                &format!("--iodepth={}", self.depth),
                &format!("--numjobs={}", self.connections),
                &format!("--runtime={seconds}"),
                "--time_based",
                "--norandommap",
                "--group_reporting",
            ],
        )?;
        if job.requests() == 0 {
            bail!("{}: no request completed in {seconds} s", target.server);
        }
        Ok(job)
    }
}

/// The server that fio loads, and how fio reaches it.
#[derive(Clone, Debug)]
pub(crate) struct Target<'a> {
    pub(crate) server: &'a str,
    pub(crate) options: Vec<String>,
    pub(crate) size: Bytes,
    /// fio's working directory, for its temporary files.
    pub(crate) directory: &'a Path,
}

impl<'a> Target<'a> {
    fn server(server: &'a Server) -> Self {
        let options = vec!["--ioengine=nbd".to_owned(), format!("--uri={}", server.uri)];
        Self { server: server.name, options, size: SIZE, directory: server.directory() }
    }
}

/// The result of one measurement.
#[derive(Clone, Copy, Debug)]
pub(super) struct Run {
    pub(super) requests_per_s: f64,
    requests: u64,
    /// The CPU time of the server.
    processor_time: Duration,
}

impl Run {
    #[expect(clippy::cast_precision_loss, reason = "shown, never computed with")]
    pub(super) fn processor_us_per_request(&self) -> f64 {
        self.processor_time.as_nanos() as f64 / 1_000.0 / self.requests as f64
    }
}

/// The part of fio's report that is in use.
#[derive(Debug, Deserialize)]
struct Report {
    jobs: Vec<Job>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Job {
    error: i64,
    read: Direction,
    write: Direction,
}

#[derive(Debug, Deserialize)]
struct Direction {
    iops: f64,
    total_ios: u64,
}

impl Job {
    pub(crate) fn per_s(&self) -> f64 {
        self.read.iops + self.write.iops
    }

    fn requests(&self) -> u64 {
        self.read.total_ios + self.write.total_ios
    }
}

/// Writes every sector once.
pub(super) fn fill(server: &Server) -> anyhow::Result<()> {
    run_fio(&Target::server(server), &["--rw=write", "--bs=1m", "--iodepth=4"]).map(drop)
}

pub(super) fn run(server: &Server, shape: &Shape, seconds: u64) -> anyhow::Result<Run> {
    let before = server.processor_time()?;
    let job = shape.run(&Target::server(server), seconds)?;
    let processor_time = server.processor_time()?.saturating_sub(before);
    Ok(Run { requests_per_s: job.per_s(), requests: job.requests(), processor_time })
}

/// Runs fio against `target` with these further options.
pub(crate) fn run_fio(target: &Target<'_>, options: &[&str]) -> anyhow::Result<Job> {
    let mut command = Command::new("fio");
    command.args(["--name=bench", "--thread", "--output-format=json"]).args(&target.options);
    command.arg(format!("--size={}", target.size.0));
    command.args(options).current_dir(target.directory).stdin(Stdio::null());
    let output = command.output().context("cannot start fio")?;
    let text = String::from_utf8_lossy(&output.stdout);
    let failed = || {
        let errors = String::from_utf8_lossy(&output.stderr);
        format!("fio with {}: {}: {}", target.server, output.status, errors.trim())
    };
    // fio may print notes before the JSON report.
    let start = text.find('{').with_context(failed)?;
    let report: Report = serde_json::from_str(&text[start..]).with_context(failed)?;
    match report.jobs.into_iter().next() {
        Some(job) if output.status.success() && job.error == 0 => Ok(job),
        _ => bail!(failed()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rows_have_two_depths_and_two_connection_counts() {
        let names: Vec<_> = Shape::all(&[1, 4]).map(|shape| shape.name()).collect();
        assert_eq!(names.len(), 16);
        for name in
            ["randread-4k-d1-c1", "randwrite-4k-d32-c4", "read-128k-d8-c1", "write-1024k-d8-c4"]
        {
            assert!(names.iter().any(|known| known == name), "{name} of {names:?}");
        }
    }

    #[test]
    fn a_report_of_fio_is_read() {
        let text = r#"{"jobs": [{"error": 0, "read": {"iops": 2.5, "total_ios": 5, "bw": 1},
            "write": {"iops": 0.0, "total_ios": 0}, "usr_cpu": 1.0}]}"#;
        let report: Report = serde_json::from_str(text).expect("a report");
        assert_eq!(report.jobs[0].read.total_ios, 5);
    }
}
