//! What is asked of a server, by fio.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, bail};
use serde::Deserialize;
use units::{Bytes, Duration};

use super::servers::Server;

/// The size of each server's disk. All of it is written before a measurement, because servers do
/// not send holes.
pub(super) const SIZE: Bytes = Bytes(256 << 20);
const KIB: u64 = 1 << 10;
/// Requests outstanding on each connection of a sequential load: enough that neither side waits for
/// the other's answer.
const DEPTH_SEQUENTIAL: u32 = 8;

/// One kind of load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    pub(crate) connections: u32,
    /// As fio calls it.
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

    /// Whether its name has one of these parts; without parts every shape is selected.
    pub(crate) fn is_selected(&self, parts: &[String]) -> bool {
        let name = self.name();
        parts.is_empty() || parts.iter().any(|part| name.contains(part.as_str()))
    }

    pub(crate) fn name(&self) -> String {
        let Self { connections, pattern, block, depth } = self;
        format!("{pattern}-{}k-d{depth}-c{connections}", block.0 / KIB)
    }

    /// Has fio ask for this, for so long.
    pub(crate) fn ask(&self, asked: &Asked<'_>, seconds: u64) -> anyhow::Result<Job> {
        let job = ask(
            asked,
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
            bail!("{}: not one request was answered in {seconds} s", asked.server);
        }
        Ok(job)
    }
}

/// The server that fio loads, and how fio reaches it.
#[derive(Clone, Debug)]
pub(crate) struct Asked<'a> {
    pub(crate) server: &'static str,
    pub(crate) options: Vec<String>,
    pub(crate) size: Bytes,
    /// Where it may leave things.
    pub(crate) directory: &'a Path,
}

impl<'a> Asked<'a> {
    fn server(server: &'a Server) -> Self {
        let options = vec!["--ioengine=nbd".to_owned(), format!("--uri={}", server.uri)];
        Self { server: server.name, options, size: SIZE, directory: server.directory() }
    }
}

/// One measurement.
#[derive(Clone, Copy, Debug)]
pub(super) struct Run {
    pub(super) requests_per_s: f64,
    requests: u64,
    /// Of the server.
    processor: Duration,
}

impl Run {
    #[expect(clippy::cast_precision_loss, reason = "shown, never computed with")]
    pub(super) fn processor_us_per_request(&self) -> f64 {
        self.processor.as_nanos() as f64 / 1_000.0 / self.requests as f64
    }
}

/// What is wanted of what fio reports.
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
    ask(&Asked::server(server), &["--rw=write", "--bs=1m", "--iodepth=4"]).map(drop)
}

pub(super) fn run(server: &Server, shape: &Shape, seconds: u64) -> anyhow::Result<Run> {
    let before = server.processor()?;
    let job = shape.ask(&Asked::server(server), seconds)?;
    let processor = server.processor()?.saturating_sub(before);
    Ok(Run { requests_per_s: job.per_s(), requests: job.requests(), processor })
}

/// Has fio ask as these options say.
pub(crate) fn ask(asked: &Asked<'_>, options: &[&str]) -> anyhow::Result<Job> {
    let mut command = Command::new("fio");
    command.args(["--name=bench", "--thread", "--output-format=json"]).args(&asked.options);
    command.arg(format!("--size={}", asked.size.0));
    command.args(options).current_dir(asked.directory).stdin(Stdio::null());
    let output = command.output().context("cannot start fio")?;
    let said = String::from_utf8_lossy(&output.stdout);
    let failed = || {
        let complaint = String::from_utf8_lossy(&output.stderr);
        format!("fio with {}: {}: {}", asked.server, output.status, complaint.trim())
    };
    // Notes may stand before the report.
    let start = said.find('{').with_context(failed)?;
    let report: Report = serde_json::from_str(&said[start..]).with_context(failed)?;
    match report.jobs.into_iter().next() {
        Some(job) if output.status.success() && job.error == 0 => Ok(job),
        _ => bail!(failed()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rows_are_those_of_the_promise() {
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
