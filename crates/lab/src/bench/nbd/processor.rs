//! Processor time of processes, as the kernel tells it under `/proc`.

use std::fs;

use anyhow::Context;
use units::Duration;

/// The unit of times in `/proc/PID/stat`: on Linux a hundredth of a second to programs, whatever
/// the kernel's own is.
const TICK: Duration = Duration::from_millis(10);

/// One process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Process {
    parent: u32,
    /// In user and system mode, of all its threads.
    own: u64,
    /// The same of its children that it has waited for.
    waited: u64,
}

impl Process {
    /// What a `stat` file says.
    fn parse(stat: &str) -> Option<Self> {
        // The name of the program, in parentheses, may hold anything.
        let (_, rest) = stat.rsplit_once(')')?;
        let field = |index: usize| rest.split_whitespace().nth(index)?.parse::<u64>().ok();
        let parent = u32::try_from(field(1)?).ok()?;
        Some(Self { parent, own: field(11)? + field(12)?, waited: field(13)? + field(14)? })
    }

    fn of(pid: u32) -> Option<Self> {
        Self::parse(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
    }
}

/// What a process has taken of processors so far, and its children, where it has any that serve.
pub(super) fn time(pid: u32, with_children: bool) -> anyhow::Result<Duration> {
    let process = Process::of(pid).with_context(|| format!("process {pid} has ended"))?;
    if !with_children {
        return Ok(TICK * process.own);
    }
    let pids =
        fs::read_dir("/proc")?.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    let children = pids.filter_map(Process::of).filter(|other| other.parent == pid);
    let children: u64 = children.map(|child| child.own).sum();
    Ok(TICK * (process.own + process.waited + children))
}

/// The mean over the last minute of how many processes ran or wanted to.
pub(crate) fn load_average() -> anyhow::Result<f64> {
    let text = fs::read_to_string("/proc/loadavg").context("/proc/loadavg")?;
    let first = text.split_whitespace().next().context("/proc/loadavg is empty")?;
    first.parse().context("/proc/loadavg")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stat_line_is_read_whatever_the_program_is_called() {
        let line = "42 (a) b (c) S 7 42 42 0 -1 4194560 1 2 3 4 11 22 33 44 20 0 1 0 5 6 7";
        assert_eq!(Process::parse(line), Some(Process { parent: 7, own: 33, waited: 77 }));
        assert_eq!(Process::parse("42 (a) S 7"), None);
    }
}
