//! `[[disk]]` tables.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use drive::AnyModel;
use engine::{EstimatorName, PolicyName};
use units::{Duration, Rate, Sectors, Share};

use crate::deadlines;
use crate::drives;
use crate::error::ConfigError;
use crate::execution;
use crate::faults;
use crate::file::read_at_most;
use crate::limits::{
    DEPTH_MAX, ESTIMATE_MIN, INTERVAL_MIN, LINGER_MAX, PATH_BYTES_MAX, PERIOD_MAX, PERIOD_MIN,
};
use crate::measured;
use crate::memory;
use crate::names::Names;
use crate::plan::{Backing, Disk, DriveRef, ProfileRef, Real};
use crate::real;
use crate::settings::measured_worst_case;
use crate::table::{Table, Value, listed, time};

pub(crate) const KEYS: &[&str] = &[
    "name",
    "drive",
    "profile",
    real::KEYS[0],
    real::KEYS[1],
    real::KEYS[2],
    real::KEYS[3],
    memory::KEY,
    "backing",
    "policy",
    "depth",
    "period",
    "batch",
    "linger",
    "estimate_sequential",
    "estimate_random",
    execution::KEYS[0],
    execution::KEYS[1],
    execution::KEYS[2],
    execution::KEYS[3],
    execution::KEYS[4],
    execution::KEYS[5],
    execution::KEYS[6],
    execution::KEYS[7],
    "estimate",
    "nominal_rate",
    "unreserved",
    deadlines::KEYS[0],
    deadlines::KEYS[1],
    deadlines::KEYS[2],
    faults::KEY,
];

const PERIOD_DEFAULT: Duration = Duration::from_secs(1);
const BATCH_DEFAULT: Duration = Duration::from_millis(250);
const LINGER_DEFAULT: Duration = Duration::from_millis(2);
const ESTIMATE_SEQUENTIAL_DEFAULT: Duration = Duration::from_micros(300);
const ESTIMATE_RANDOM_DEFAULT: Duration = Duration::from_millis(20);
/// The estimates of a flash drive's requests. It has no arm: nothing is won by keeping it for a run, and its
/// batches and lingering are nothing.
const ESTIMATE_FLASH_DEFAULT: Duration = Duration::from_micros(100);

/// The command whose worst case makes the nominal rate: 4 KiB, as in the paper.
const NOMINAL_COMMAND: Sectors = Sectors(8);

/// Checks the tables, in the file's order.
pub(crate) fn check(
    tables: &[Table<'_>],
    base_dir: &Path,
    known: &[Disk],
) -> Result<Vec<Disk>, ConfigError> {
    let mut names = Names::default();
    let loaded = known.iter().map(|disk| (disk.drive.name.clone(), disk.drive.model.clone()));
    let mut models = loaded.collect();
    let mut files = BTreeMap::new();
    let mut disks = Vec::new();
    for table in tables {
        let name = names.add(table)?.to_owned();
        if let Some((drive, backing)) = memory::check(table)? {
            disks.push(disk(table, name, (drive, None), backing)?);
            continue;
        }
        let real = real::check(table, base_dir, known)?;
        let drive = match &real {
            Some(asked) => real::drive(table, base_dir, asked)?,
            None => drive(table, base_dir, &mut models)?,
        };
        let backing = backing(table, base_dir, real.map(|asked| asked.real), &mut files)?;
        disks.push(disk(table, name, drive, backing)?);
    }
    Ok(disks)
}

fn disk(
    table: &Table<'_>,
    name: String,
    (drive, profile): (DriveRef, Option<ProfileRef>),
    backing: Backing,
) -> Result<Disk, ConfigError> {
    let depth = depth(table, &drive.model)?;
    let execution = execution::check(table, &drive)?;
    let period = table.duration("period", PERIOD_MIN..=PERIOD_MAX, "", PERIOD_DEFAULT)?;
    let up_to_period = " (the period)";
    let batches = Duration::ZERO..=period;
    let (batch, linger, sequential, random) = match drive.model {
        _ if drive.model.rotational() => {
            let (sequential, random) = (ESTIMATE_SEQUENTIAL_DEFAULT, ESTIMATE_RANDOM_DEFAULT);
            (BATCH_DEFAULT.min(period), LINGER_DEFAULT, sequential, random)
        }
        _ => {
            let estimate = ESTIMATE_FLASH_DEFAULT;
            (Duration::ZERO, Duration::ZERO, estimate, estimate)
        }
    };
    let batch = table.duration("batch", batches, up_to_period, batch)?;
    let linger = table.duration("linger", Duration::ZERO..=LINGER_MAX, "", linger)?;
    // A request dearer than a period could never be paid for: no bucket holds more than a period's worth.
    let estimate = |key, default| table.duration(key, ESTIMATE_MIN..=period, up_to_period, default);
    let worst = match &profile {
        Some(measured) => Some(measured_worst_case(&measured.profile, NOMINAL_COMMAND)),
        None => drive.model.mechanical().map(|model| model.worst_case(NOMINAL_COMMAND)),
    };
    let nominal = nominal(table, worst, policy(table)?, period)?;
    let by = estimator(table, &drive.model)?;
    let faults = faults::check(table, matches!(backing, Backing::Real(_)))?;
    let (host_lateness, best_effort, slack_range) = deadlines::check(table, policy(table)?)?;
    let disk = Disk {
        name,
        drive,
        profile,
        backing,
        policy: policy(table)?,
        depth,
        period,
        batch,
        linger,
        estimate_sequential: estimate("estimate_sequential", sequential)?,
        estimate_random: estimate("estimate_random", random)?,
        execution,
        estimate: by,
        unreserved: table.value("unreserved").map_or(Ok(Share::NONE), |value| value.share())?,
        nominal,
        host_lateness,
        best_effort,
        slack_range,
        faults,
        line: table.line(),
    };
    deadlines::bounded(table, &disk)?;
    Ok(disk)
}

/// Commands inside the drive at once: no more than its own queue holds.
fn depth(table: &Table<'_>, model: &AnyModel) -> Result<u32, ConfigError> {
    let Some(value) = table.value("depth") else { return Ok(1) };
    let (depth_max, note) = match model.queue_depth_max() {
        few @ 1..DEPTH_MAX => (few, " (the queue of the drive)"),
        _ => (DEPTH_MAX, ""),
    };
    let depth = value.integer(1..=depth_max.into(), note)?;
    Ok(u32::try_from(depth).expect("within its range"))
}

fn policy(table: &Table<'_>) -> Result<PolicyName, ConfigError> {
    let Some(value) = table.value("policy") else { return Ok(PolicyName::Utilization) };
    value.quantity(format_args!("one of the policies {}", listed(PolicyName::ALL.iter(), '"')))
}

fn estimator(table: &Table<'_>, model: &AnyModel) -> Result<EstimatorName, ConfigError> {
    let Some(value) = table.value("estimate") else { return Ok(EstimatorName::Constants) };
    let known = listed(EstimatorName::ALL.iter(), '"');
    let by = value.quantity(format_args!("one of the estimators {known}"))?;
    if by == EstimatorName::Profile && real::is_unmeasured(model) {
        return Err(value.refuse(format_args!("another estimator, or {}", real::CURE)));
    }
    if by == EstimatorName::Profile && model.mechanical().is_none() {
        return Err(value.refuse("another estimator: the profile is of an arm and turning disks"));
    }
    Ok(by)
}

/// What the disk is taken to serve under `throughput`: what is given, or what the drive can do at its worst.
fn nominal(
    table: &Table<'_>,
    worst: Option<Duration>,
    policy: PolicyName,
    period: Duration,
) -> Result<Rate, ConfigError> {
    let Some(value) = table.value("nominal_rate") else {
        if worst.is_none() && policy.has_nominal_rate() {
            let expected = "a rate: nobody knows the worst case of this drive";
            return Err(table.missing("nominal_rate", expected));
        }
        // Whatever the period is or will be: a bucket holds a nominal command.
        return Ok(Rate { interval: worst.unwrap_or(PERIOD_MIN).min(PERIOD_MIN) });
    };
    if !policy.has_nominal_rate() {
        return Err(value.refuse("no such field, or policy = \"throughput\""));
    }
    let rate: Rate = value.quantity("a rate above zero such as 60/s")?;
    if !(INTERVAL_MIN..=period).contains(&rate.interval) {
        let (high, low) = (time(INTERVAL_MIN), time(period));
        return Err(
            value.refuse(format_args!("a rate from one in {low} (the period) to one in {high}"))
        );
    }
    Ok(rate)
}

/// The drive that the table names, or that its profile makes, and the profile. `models` are those that were loaded before.
fn drive(
    table: &Table<'_>,
    base_dir: &Path,
    models: &mut BTreeMap<String, AnyModel>,
) -> Result<(DriveRef, Option<ProfileRef>), ConfigError> {
    let measured = measured::read(table, base_dir)?;
    let drive = match &measured {
        Some((value, name, measured)) if table.value("drive").is_none() => {
            measured::drive(value, name, measured)?
        }
        _ => named(table, base_dir, models)?,
    };
    let profile = measured
        .map(|(value, name, measured)| measured::profile(&value, name, &measured, &drive))
        .transpose()?
        .flatten();
    Ok((drive, profile))
}

/// The drive that the table names.
fn named(
    table: &Table<'_>,
    base_dir: &Path,
    models: &mut BTreeMap<String, AnyModel>,
) -> Result<DriveRef, ConfigError> {
    let expected = || {
        let library = listed(drives::names(), '"');
        format!(
            "a drive of the library ({library}), \"memory\" or \"null\", or the path of a drive file (*.toml)"
        )
    };
    let value = table.require("drive", expected())?;
    let name = value.text(expected())?;
    if let Some(model) = models.get(name) {
        return Ok(DriveRef { name: name.to_owned(), model: model.clone() });
    }
    let is_path =
        name.contains('/') || Path::new(name).extension().is_some_and(|end| end == "toml");
    let spec = match drives::library_any(name) {
        Some(spec) => spec,
        None if is_path => drive_file(&value, name, base_dir)?,
        None => return Err(value.refuse(expected())),
    };
    let model = spec.check().map_err(|error| unusable(&value, "a drive file", error))?;
    models.insert(name.to_owned(), model.clone());
    Ok(DriveRef { name: name.to_owned(), model })
}

fn drive_file(
    value: &Value<'_>,
    name: &str,
    base_dir: &Path,
) -> Result<drive::AnySpec, ConfigError> {
    let path = path(value, name, base_dir)?;
    let bytes_max = drives::DRIVE_FILE_BYTES_MAX;
    let bytes = read_at_most(&path, bytes_max as u64)
        .map_err(|error| unusable(value, "a drive file", error))?;
    let bytes = bytes
        .ok_or_else(|| value.refuse(format_args!("a drive file of at most {bytes_max} bytes")))?;
    let text = String::from_utf8(bytes).map_err(|error| unusable(value, "a drive file", error))?;
    drives::parse_any(&text, &path.display().to_string())
        .map_err(|error| unusable(value, "a drive file", error))
}

/// A file with a fault of its own: its message is part of ours, on the same line.
pub(crate) fn unusable(
    value: &Value<'_>,
    what: &str,
    error: impl std::fmt::Display,
) -> ConfigError {
    let error = error.to_string();
    let error = error.trim().lines().collect::<Vec<_>>().join(", ").replace(char::is_control, " ");
    value.refuse(format_args!("{what} that can be used ({error})"))
}

/// Where the disk's data lives. `files` are the places that other disks took, with their lines.
fn backing(
    table: &Table<'_>,
    base_dir: &Path,
    real: Option<Real>,
    files: &mut BTreeMap<PathBuf, usize>,
) -> Result<Backing, ConfigError> {
    if let Some(real) = real {
        let value = table.value("path").expect("a real disk has one");
        if let Some(line) = files.insert(same_file(&real.path), value.line()) {
            return Err(
                value.refuse(format_args!("a disk of its own (line {line} has this one already)"))
            );
        }
        return Ok(Backing::Real(real));
    }
    let Some(value) = table.value("backing") else { return Ok(Backing::Ram) };
    let text = value.text("\"ram\" or a file's path")?;
    if text == "ram" {
        return Ok(Backing::Ram);
    }
    let path = path(&value, text, base_dir)?;
    if let Some(line) = files.insert(same_file(&path), value.line()) {
        return Err(
            value.refuse(format_args!("a file of its own (line {line} has this one already)"))
        );
    }
    Ok(Backing::File(path))
}

/// The path as the working directory sees it.
pub(crate) fn path(value: &Value<'_>, text: &str, base_dir: &Path) -> Result<PathBuf, ConfigError> {
    let path = base_dir.join(text);
    if text.is_empty() || text.contains('\0') || path.as_os_str().len() > PATH_BYTES_MAX {
        return Err(
            value.refuse(format_args!("a path of 1 to {PATH_BYTES_MAX} bytes, none of them zero"))
        );
    }
    Ok(path)
}

/// One path for all paths of a file, so that two disks do not overwrite each other through a link or a
/// `./`. A file that is yet to be created is told by its directory; where that is missing too, by its text.
fn same_file(path: &Path) -> PathBuf {
    let in_directory = || {
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        let directory = parent.unwrap_or(Path::new(".")).canonicalize().ok()?;
        Some(directory.join(path.file_name()?))
    };
    path.canonicalize().ok().or_else(in_directory).unwrap_or_else(|| path.components().collect())
}
