//! `[[disk]]` tables.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use drive::AnyModel;
use engine::{EstimatorName, PolicyName};
use units::{Duration, Rate, Sectors, Share};

use drive_library as drives;
use input::{InputError, Table, Value, list, read_at_most, time_text};

use super::bus::Buses;
use super::names::Names;
use super::path::{path, same_file, unusable};
use super::{
    chooser, deadlines, execution, faults, measured, memory, read_ahead, real, slowed, unkept,
    write_buffer, write_cache,
};
use crate::defaults;
use crate::demand::measured_worst_case;
use crate::limits::{
    DEPTH_MAX, DOMAIN_BYTES_MAX, ESTIMATE_MIN, INTERVAL_MIN, LINGER_MAX, PERIOD_MAX, PERIOD_MIN,
};
use crate::plan::{
    Backing, Bus, DepthSource, DepthTerms, Disk, DriveRef, ProfileRef, QueueDepth, RealDisk,
    WriteCache,
};

/// The command whose worst case is the nominal rate: 4 KiB, as in Zygaria (RTAS 2008).
const NOMINAL_COMMAND: Sectors = Sectors(8);

/// Checks the tables, in the file's order.
pub(crate) fn check(
    tables: &[Table<'_>],
    buses: &Buses<'_>,
    (base_dir, known): (&Path, &[Disk]),
) -> Result<Vec<Disk>, InputError> {
    let mut names = Names::default();
    let loaded = known.iter().map(|disk| (disk.drive.name.clone(), disk.drive.model.clone()));
    let mut models = loaded.collect();
    let mut files = BTreeMap::new();
    let mut disks = Vec::new();
    for table in tables {
        let name = names.add(table)?.to_owned();
        if let Some((drive, backing)) = memory::check(table)? {
            disks.push(disk(table, (name, base_dir, None), (drive, None), backing)?);
            continue;
        }
        let real = real::check(table, base_dir, known)?;
        let drive = match &real {
            Some(probed) => real::drive(table, base_dir, probed)?,
            None => drive(table, base_dir, &mut models)?,
        };
        memory::sized(table)?;
        let backing = backing(table, base_dir, real.map(|probed| probed.real), &mut files)?;
        let bus = buses.of(table)?;
        disks.push(disk(table, (name, base_dir, bus), drive, backing)?);
    }
    Ok(disks)
}

/// What the upper bound of a time is.
const UP_TO_PERIOD: &str = " (the period)";

fn disk(
    table: &Table<'_>,
    (name, base_dir, bus): (String, &Path, Option<Bus>),
    (drive, profile): (DriveRef, Option<ProfileRef>),
    backing: Backing,
) -> Result<Disk, InputError> {
    let slowed = slowed::check(table)?;
    let execution = execution::check(table, &drive)?;
    let chooser = chooser::check(table, policy(table)?, (&drive.model, execution))?;
    let period = table.duration("period", PERIOD_MIN..=PERIOD_MAX, "", defaults::PERIOD)?;
    let (batch, linger, sequential, random) = match drive.model {
        _ if drive.model.rotational() => {
            let (sequential, random) = (defaults::ESTIMATE_SEQUENTIAL, defaults::ESTIMATE_RANDOM);
            let thinking = policy(table)?.anticipates_think_times();
            let linger = if thinking { defaults::LINGER_THINKING } else { defaults::LINGER };
            (defaults::BATCH.min(period), linger, sequential, random)
        }
        _ => {
            let estimate = defaults::ESTIMATE_FLASH;
            (Duration::ZERO, Duration::ZERO, estimate, estimate)
        }
    };
    let batch = table.duration("batch", Duration::ZERO..=period, UP_TO_PERIOD, batch)?;
    let terms = DepthTerms::of((&drive.model, &backing), (policy(table)?, execution, batch));
    let QueueDepth { commands: depth, from: depth_source } = depth(table, terms)?;
    let linger = table.duration("linger", Duration::ZERO..=LINGER_MAX, "", linger)?;
    // No bucket holds more than one period's worth: a request with a larger estimate could never be
    // served.
    let time = |key, default| {
        let default = slowed.stretched(default).min(period);
        table.duration(key, ESTIMATE_MIN..=period, UP_TO_PERIOD, default)
    };
    let worst = nominal_worst_case(profile.as_ref(), &drive.model, (slowed, bus.as_ref()));
    let nominal = nominal(table, worst, policy(table)?, period)?;
    let faults = faults::check(table, backing.capabilities().is_real)?;
    let (host_lateness, best_effort, slack_range) = deadlines::check(table, policy(table)?)?;
    let worst_case = deadlines::declared(table, &drive.model, policy(table)?)?;
    let kind = (policy(table)?, drive.model.rotational());
    let (read_ahead, execution) = read_ahead::check(table, kind, &backing, execution)?;
    let write_buffer = write_buffer::of_disk(table, kind, &backing)?;
    let disk = Disk {
        estimate: estimator(table, &drive.model)?,
        name,
        drive,
        slowed,
        bus,
        profile,
        backing,
        domain: table.value("domain").map(|value| domain(&value)).transpose()?,
        spare: table.value("spare").map_or(Ok(false), |value| value.boolean())?,
        policy: policy(table)?,
        unkept_contracts: unkept::allowed(table)?,
        depth,
        depth_source,
        chooser,
        freeblock: chooser::freeblock(table, chooser)?,
        period,
        batch,
        linger,
        estimate_sequential: time("estimate_sequential", sequential)?,
        estimate_random: time("estimate_random", random)?,
        execution,
        reserve_headroom: headroom(table)?,
        nominal,
        worst_case,
        host_lateness,
        best_effort,
        slack_range,
        read_ahead,
        write_buffer,
        write_cache: WriteCache::Auto,
        write_buffer_log: write_buffer::log(table, base_dir)?,
        faults,
        line: table.line(),
    };
    deadlines::bounded(table, &disk)?;
    write_cache::checked(table, disk)
}

fn headroom(table: &Table<'_>) -> Result<Share, InputError> {
    table.value("reserve_headroom").map_or(Ok(Share::NONE), |value| value.share())
}

/// The name of a failure domain.
fn domain(value: &Value<'_>) -> Result<String, InputError> {
    let expected = format!("a name of 1 to {DOMAIN_BYTES_MAX} printable characters");
    let name = value.text(&expected)?;
    let is_visible = name.escape_debug().eq(name.chars()) && name.trim() == name;
    if name.is_empty() || name.len() > DOMAIN_BYTES_MAX || !is_visible {
        return Err(value.refuse(expected));
    }
    Ok(name.to_owned())
}

/// The worst case of a nominal command, as the profile or the drive has it.
fn nominal_worst_case(
    profile: Option<&ProfileRef>,
    model: &AnyModel,
    (slowed, bus): (Share, Option<&Bus>),
) -> Option<Duration> {
    let worst = match profile {
        Some(measured) => Some(measured_worst_case(&measured.profile, NOMINAL_COMMAND)),
        None => model.mechanical().map(|model| model.worst_case(NOMINAL_COMMAND)),
    };
    let crossing = bus.map_or(Duration::ZERO, |bus| bus.share().crossing(NOMINAL_COMMAND));
    worst.map(|worst| slowed.stretched(worst) + crossing)
}

/// Commands in flight inside the drive: at most its own queue.
fn depth(table: &Table<'_>, terms: DepthTerms<'_>) -> Result<QueueDepth, InputError> {
    let Some(value) = table.value("depth") else { return Ok(terms.auto()) };
    if value.text("").is_ok_and(|text| text == "auto") {
        return Ok(terms.auto());
    }
    let (depth_max, note) = match terms.model.queue_depth_max() {
        few @ 1..DEPTH_MAX => (few, " (the queue of the drive), or \"auto\""),
        _ => (DEPTH_MAX, ", or \"auto\""),
    };
    let depth = value.integer(1..=depth_max.into(), note)?;
    let commands = u32::try_from(depth).expect("within its range");
    Ok(QueueDepth { commands, from: DepthSource::Config })
}

fn policy(table: &Table<'_>) -> Result<PolicyName, InputError> {
    let Some(value) = table.value("policy") else { return Ok(PolicyName::DEFAULT) };
    value.quantity(format_args!("one of the policies {}", list(PolicyName::ALL.iter(), '"')))
}

fn estimator(table: &Table<'_>, model: &AnyModel) -> Result<EstimatorName, InputError> {
    let Some(value) = table.value("estimate") else { return Ok(EstimatorName::Constants) };
    let known = list(EstimatorName::ALL.iter(), '"');
    let by = value.quantity(format_args!("one of the estimators {known}"))?;
    if by == EstimatorName::Profile && real::is_unmeasured(model) {
        return Err(
            value.refuse(format_args!("another estimator, or {}", real::HELP_MEASURE_PROFILE))
        );
    }
    if by == EstimatorName::Profile && model.mechanical().is_none() {
        return Err(value.refuse("another estimator: the profile is of an arm and turning disks"));
    }
    Ok(by)
}

/// The nominal rate under `throughput`: as given, or what the drive does in its worst case.
fn nominal(
    table: &Table<'_>,
    worst: Option<Duration>,
    policy: PolicyName,
    period: Duration,
) -> Result<Rate, InputError> {
    let Some(value) = table.value("nominal_rate") else {
        if worst.is_none() && policy.has_nominal_rate() {
            let expected = "a rate: the worst case of this drive is unknown";
            return Err(table.missing("nominal_rate", expected));
        }
        // A bucket holds a nominal command, whatever the period is changed to.
        return Ok(Rate { interval: worst.unwrap_or(PERIOD_MIN).min(PERIOD_MIN) });
    };
    if !policy.has_nominal_rate() {
        return Err(value.refuse("no such field, or policy = \"throughput\""));
    }
    let rate: Rate = value.quantity("a rate above zero such as 60/s")?;
    if !(INTERVAL_MIN..=period).contains(&rate.interval) {
        let (high, low) = (time_text(INTERVAL_MIN), time_text(period));
        return Err(
            value.refuse(format_args!("a rate from one in {low} (the period) to one in {high}"))
        );
    }
    Ok(rate)
}

/// The drive that the table names, or that its profile describes, and the profile. `models` are the
/// drives that are loaded already.
fn drive(
    table: &Table<'_>,
    base_dir: &Path,
    models: &mut BTreeMap<String, AnyModel>,
) -> Result<(DriveRef, Option<ProfileRef>), InputError> {
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
) -> Result<DriveRef, InputError> {
    let expected = || {
        let library = list(drives::names(), '"');
        format!(
            "a drive of the library ({library}), \"memory\" or \"null\", or the path of a drive \
             file (*.toml)"
        )
    };
    let value = table.require("drive", expected())?;
    let name = value.text(expected())?;
    if let Some(model) = models.get(name) {
        return Ok(DriveRef { name: name.to_owned(), model: model.clone() });
    }
    let is_path =
        name.contains('/') || Path::new(name).extension().is_some_and(|end| end == "toml");
    let spec = match drives::find(name) {
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
) -> Result<drive::AnySpec, InputError> {
    let path = path(value, name, base_dir)?;
    let bytes_max = drives::DRIVE_FILE_BYTES_MAX;
    let bytes = read_at_most(&path, bytes_max as u64)
        .map_err(|error| unusable(value, "a drive file", error))?;
    let bytes = bytes
        .ok_or_else(|| value.refuse(format_args!("a drive file of at most {bytes_max} bytes")))?;
    let text = String::from_utf8(bytes).map_err(|error| unusable(value, "a drive file", error))?;
    drives::parse(&text, &path.display().to_string())
        .map_err(|error| unusable(value, "a drive file", error))
}

/// Where the disk's data is stored. `files` are the paths of other disks, with their lines.
fn backing(
    table: &Table<'_>,
    base_dir: &Path,
    real: Option<RealDisk>,
    files: &mut BTreeMap<PathBuf, usize>,
) -> Result<Backing, InputError> {
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
