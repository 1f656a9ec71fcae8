//! The keys of a `[[disk]]` table about deadlines, and the conditions under which a disk can meet
//! them.

use engine::limits::{PERIOD_MAX, SERVER_PERIOD_MIN};
use std::sync::Arc;

use drive::AnyModel;
use engine::stream::SlackRange;
use engine::{BestEffortServer, CommandBound, Execution, PolicyName, WorstCase};
use units::{DiskTime, Duration, SECTOR_BYTES};

use super::real;
use crate::defaults;
use crate::keys::{BEST_EFFORT, WORST_CASE};
use crate::limits::{HOST_LATENESS_MAX, WORST_COMMAND_MAX, WORST_COMMAND_MIN, WORST_RATE_MIN};
use crate::plan::Disk;
use input::{InputError, Table, size_text};

const KEYS: [&str; 3] = ["host_lateness", "best_effort", "slack_range"];

/// The host's lateness, the best-effort server, and the range of intervals of a table.
pub(crate) fn check(
    table: &Table<'_>,
    policy: PolicyName,
) -> Result<(Duration, Option<BestEffortServer>, SlackRange), InputError> {
    const EXPECTED: &str = "no such field, or a policy that keeps streams";
    let strange = KEYS.iter().find_map(|key| table.value(key));
    if let Some(value) = strange.filter(|_| !policy.keeps_streams()) {
        return Err(value.refuse(EXPECTED));
    }
    let most = Duration::ZERO..=HOST_LATENESS_MAX;
    let host_lateness = table.duration("host_lateness", most, "", defaults::HOST_LATENESS)?;
    Ok((host_lateness, best_effort(table)?, range(table, policy)?))
}

fn best_effort(table: &Table<'_>) -> Result<Option<BestEffortServer>, InputError> {
    let Some(value) = table.value("best_effort") else { return Ok(None) };
    let fields = value.table(&BEST_EFFORT)?;
    let share = fields.require("share", "a share such as 5%")?;
    let part = share.share()?;
    if part.is_none() {
        return Err(share.refuse("a share above 0%, or no `best_effort`"));
    }
    let period =
        fields.duration("period", SERVER_PERIOD_MIN..=PERIOD_MAX, "", defaults::SERVER_PERIOD)?;
    Ok(Some(BestEffortServer { share: part, period }))
}

fn range(table: &Table<'_>, policy: PolicyName) -> Result<SlackRange, InputError> {
    const EXPECTED: &str = "\"all\", or for experiments \"clockwise\"";
    let Some(value) = table.value("slack_range") else { return Ok(SlackRange::All) };
    if !policy.uses_static_slack() {
        return Err(value.refuse("no such field, or policy = \"delta-l\""));
    }
    match value.text(EXPECTED)? {
        "all" => Ok(SlackRange::All),
        "clockwise" | "paper" => Ok(SlackRange::Published),
        _ => Err(value.refuse(EXPECTED)),
    }
}

/// The worst case of a command as a table declares it, for a drive without a profile of an arm.
pub(crate) fn declared(
    table: &Table<'_>,
    model: &AnyModel,
    policy: PolicyName,
) -> Result<Option<CommandBound>, InputError> {
    let Some(value) = table.value("worst_case") else { return Ok(None) };
    if model.mechanical().is_some() {
        return Err(value.refuse("no such field: the profile of the drive bounds its commands"));
    }
    if policy.has_deadlines() || !policy.keeps_streams() {
        return Err(value.refuse("no such field, or policy = \"spindle\""));
    }
    let fields = value.table(&WORST_CASE)?;
    let command = fields.require("command", "a time such as 10ms")?;
    let positioning = command.duration(WORST_COMMAND_MIN..=WORST_COMMAND_MAX, "")?;
    let rate = fields.require("rate", "bytes a second such as 100MB/s")?;
    let bytes = rate.bytes_per_second()?;
    if bytes < WORST_RATE_MIN {
        let least = size_text(WORST_RATE_MIN);
        return Err(rate.refuse(format_args!("at least {least}/s")));
    }
    // Rounded up, so that the bound holds for each number of sectors.
    let sector = Duration::from_nanos((SECTOR_BYTES * 1_000_000_000).div_ceil(bytes.0));
    debug_assert!(sector > Duration::ZERO, "a transfer takes time");
    Ok(Some(CommandBound { positioning: positioning.into(), sector: DiskTime::from(sector) }))
}

/// The worst case of the commands of each disk whose policy keeps streams.
pub(crate) fn bounds(disks: &[Disk]) -> Vec<Option<WorstCase>> {
    let bound = |disk: &Disk| disk.worst_command().filter(|_| disk.policy.keeps_streams());
    disks.iter().map(bound).collect()
}

/// The reason why no stream can be kept on a disk whose policy keeps streams beside shares; `None`
/// if streams can be.
pub(crate) fn unbounded(disk: &Disk) -> Option<String> {
    if disk.worst_command().is_none() {
        let unmeasured = real::is_unmeasured(&disk.drive.model);
        let help = real::HELP_MEASURE_PROFILE;
        return Some(if unmeasured {
            format!("a disk with a profile ({help}) or a `worst_case`")
        } else {
            "a disk with an arm or a `worst_case`: nothing else bounds what erasing and collecting \
             cost a flash drive's commands"
                .to_owned()
        });
    }
    let Execution::Preemptible(how) = disk.execution else { return None };
    how.chunk.is_none().then(|| {
        "a disk whose `execution` has a `chunk` such as 256KiB: each chunk is taken to need a \
         positioning of its own"
            .to_owned()
    })
}

/// Rejects a disk whose policy has deadlines and whose commands have no worst case.
pub(crate) fn bounded(table: &Table<'_>, disk: &Disk) -> Result<(), InputError> {
    if !disk.policy.has_deadlines() {
        return Ok(());
    }
    let refused = |key, expected: &str| {
        let value = table.value(key);
        Err(value.map_or_else(|| table.missing(key, expected), |value| value.refuse(expected)))
    };
    let Some(profile) = disk.profile() else {
        if real::is_unmeasured(&disk.drive.model) {
            return refused(
                "profile",
                &format!("{}, or another policy", real::HELP_MEASURE_PROFILE),
            );
        }
        return refused(
            "drive",
            "a drive with an arm: nothing bounds what erasing and collecting cost a flash \
             drive's commands",
        );
    };
    if disk.depth > 1 {
        return refused(
            "depth",
            "1: the order inside the drive is the drive's, and knows no deadlines",
        );
    }
    if let Execution::Preemptible(how) = disk.execution
        && how.chunk.is_none()
    {
        return refused(
            "chunk",
            "a size such as 256KiB: streams are admitted by the worst case of a chunk",
        );
    }
    let least = disk.settings().longest_command(&WorstCase::Profile(Arc::new(profile)));
    let least = least.whole;
    if disk.best_effort.is_some_and(|server| server.share.of(server.period) < least) {
        return refused(
            "best_effort",
            &format!(
                "a share of a period of at least {least} (the longest command), and not all of it"
            ),
        );
    }
    Ok(())
}
