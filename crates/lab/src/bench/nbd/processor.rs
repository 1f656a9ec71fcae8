//! CPU time of processes, from `/proc/PID/stat`.

use std::fs;

use anyhow::Context;
use units::Duration;

/// The unit of times in `/proc/PID/stat`. User space sees 1/100 s on Linux, whatever the kernel's
/// `CONFIG_HZ` is.
const TICK: Duration = Duration::from_millis(10);

/// The fields of one `/proc/PID/stat` that are in use. Times are in ticks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Process {
    parent: u32,
    /// User and system time of all threads.
    own: u64,
    /// User and system time of terminated children that the process has waited for.
    waited: u64,
}

impl Process {
    /// Parses a `stat` file.
    fn parse(stat: &str) -> Option<Self> {
        // The program's name, in parentheses, may contain spaces and parentheses.
        let (_, rest) = stat.rsplit_once(')')?;
        let field = |index: usize| rest.split_whitespace().nth(index)?.parse::<u64>().ok();
        let parent = u32::try_from(field(1)?).ok()?;
        Some(Self { parent, own: field(11)? + field(12)?, waited: field(13)? + field(14)? })
    }

    fn of(pid: u32) -> Option<Self> {
        Self::parse(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
    }
}

/// The CPU time of a process so far, with that of its children if `with_children` is set.
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

/// The load average over one minute.
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
