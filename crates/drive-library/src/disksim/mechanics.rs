//! `dm_mech_g1`: rotation, seek curve, head switch, write settling.

use drive::{MOVE_MAX, PERIOD_MAX, PERIOD_MIN, SeekCurve, Spec};
use units::Duration;

use super::tree::{self, At, Block, Read};
use super::warning::{Warning, Warnings};
use input::InputError;

const POINTS_MAX: usize = 1 << 16;
/// The number of distances whose times `hplplus10` lists individually.
const LISTED: u32 = 10;

/// The mechanics of the block.
#[derive(Debug)]
pub(crate) struct Mechanics {
    pub(crate) period: Duration,
    pub(crate) seek: SeekCurve,
    pub(crate) seek_write: Option<SeekCurve>,
    pub(crate) head_switch: Duration,
    pub(crate) write_settle: Duration,
}

/// Milliseconds as nanoseconds; at most [`MOVE_MAX`].
pub(crate) fn milliseconds(at: &At, key: &str, number: f64) -> Result<Duration, InputError> {
    let nanos = (number * 1e6).round();
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "in its range")]
    let time = (0.0..1e18).contains(&nanos).then(|| Duration::from_nanos(nanos as u64));
    let expected = || format!("milliseconds from 0 to {}", MOVE_MAX.as_micros() / 1_000);
    time.filter(|time| *time <= MOVE_MAX)
        .ok_or_else(|| at.refuse(key, Some(&number.to_string()), expected()))
}

/// A time in milliseconds; zero if the key has no value.
pub(crate) fn time(block: &Block, key: &str) -> Result<Duration, InputError> {
    let number = block.number(key)?.unwrap_or(0.0);
    milliseconds(block.at(key), key, number)
}

pub(crate) fn read(
    block: &Block,
    cylinders: u32,
    read: Read<'_>,
    warnings: &mut Warnings,
) -> Result<Mechanics, InputError> {
    if block.kind != "dm_mech_g1" {
        let expected = "dm_mech_g1, the one mechanical model that can be represented";
        return Err(block.at.refuse("Mechanical Model", Some(&block.kind), expected));
    }
    let access = "trackSwitchPlusRotation";
    if let Some(value) = block.find("Access time type") {
        let (words, _) = block.words("Access time type", access)?;
        if words != access {
            return Err(value.at.refuse("Access time type", Some(words), access));
        }
    }
    let rpm = "Rotation speed (in rpms)";
    let rpm = block.whole(
        rpm,
        60_000_000_000 / PERIOD_MAX.as_nanos(),
        60_000_000_000 / PERIOD_MIN.as_nanos(),
    )?;
    let period = Spec::period_of_rpm(u32::try_from(rpm).expect("in its range"));
    let (mut seek, mut seek_write) = curve(block, cylinders, read)?;
    let settle = "Add. write settling delay";
    let milliseconds_more = block.number(settle)?.unwrap_or(0.0);
    let mut write_settle = Duration::ZERO;
    if milliseconds_more < 0.0 {
        // A negative delay gives writes a seek curve of their own, lower by this time.
        let less = milliseconds(block.at(settle), settle, -milliseconds_more)?;
        let mut lower = seek_write.take().unwrap_or_else(|| seek.clone());
        lower.points.iter_mut().for_each(|point| point.1 = point.1.saturating_sub(less));
        seek_write = Some(lower);
    } else {
        write_settle = milliseconds(block.at(settle), settle, milliseconds_more)?;
    }
    for curve in [Some(&mut seek), seek_write.as_mut()].into_iter().flatten() {
        curve.fall_max = fall(curve);
    }
    if let Some((distance, by)) = most_falling(&seek) {
        let made = format!(
            "a seek over {distance} cylinders takes {by} less than a shorter one: the curve is \
             taken as it is"
        );
        warnings.push(Warning::new(block.at("Seek type"), "Seek type", made));
    }
    let head_switch = time(block, "Head switch time")?;
    Ok(Mechanics { period, seek, seek_write, head_switch, write_settle })
}

/// The largest fall of the curve from a point to the next.
fn fall(curve: &SeekCurve) -> Duration {
    most_falling(curve).map_or(Duration::ZERO, |(_, by)| by)
}

/// The distance whose seek time is furthest below that of the distance before, and by how much; if
/// there is one.
fn most_falling(curve: &SeekCurve) -> Option<(u32, Duration)> {
    let falls =
        curve.points.windows(2).map(|pair| (pair[1].0, pair[0].1.saturating_sub(pair[1].1)));
    falls.max_by_key(|(_, by)| *by).filter(|(_, by)| *by > Duration::ZERO)
}

fn curve(
    block: &Block,
    cylinders: u32,
    read: Read<'_>,
) -> Result<(SeekCurve, Option<SeekCurve>), InputError> {
    let expected = "one of the seek types extracted and hplplus10 (the others give no usable times \
                    in the simulator that reads these files)";
    let (kind, at) = block.words("Seek type", expected)?;
    match kind {
        "extracted" => {
            let (name, at) = block.words("Full seek curve", "a file with the seek curve")?;
            let (file, text) = tree::beside(at, name, read)?;
            measured(&file, &text)
        }
        "hplplus10" => Ok((formula(block, cylinders)?, None)),
        _ => Err(at.refuse("Seek type", Some(kind), expected)),
    }
}

/// `DISTANCE, MS [, DEVIATION [, MS OF WRITES]]`, line by line.
fn measured(
    file: &std::rc::Rc<str>,
    text: &str,
) -> Result<(SeekCurve, Option<SeekCurve>), InputError> {
    let mut reads: Vec<(u32, Duration)> = Vec::new();
    let mut writes: Vec<(u32, Duration)> = Vec::new();
    let mut at = At { file: std::rc::Rc::clone(file), line: 1 };
    for (number, line) in (1..).zip(text.lines()) {
        at.line = number;
        let line = line.split('#').next().unwrap_or_default().trim();
        if line.is_empty() || line.to_ascii_lowercase().starts_with("seek distances measured") {
            continue;
        }
        let fields: Vec<&str> =
            line.split(|c: char| c == ',' || c.is_whitespace()).filter(|f| !f.is_empty()).collect();
        // A seek over no distance takes no time, whatever the file says.
        if fields[0].parse() == Ok(0) {
            continue;
        }
        let expected = "a distance in cylinders and milliseconds, rising from line to line";
        let distance = fields[0]
            .parse::<u32>()
            .ok()
            .filter(|d| *d > 0 && reads.last().is_none_or(|last| last.0 < *d));
        let distance = distance.ok_or_else(|| at.refuse("distance", Some(line), expected))?;
        let time = |field: usize| {
            let number = fields.get(field).and_then(|text| text.parse().ok()).unwrap_or(f64::NAN);
            milliseconds(&at, "time", number)
        };
        let takes = time(1)?;
        if reads.len() == POINTS_MAX {
            return Err(at.refuse("", None, format_args!("at most {POINTS_MAX} distances")));
        }
        reads.push((distance, takes));
        if fields.len() > 3 {
            writes.push((distance, time(3)?));
        }
    }
    if reads.is_empty() {
        return Err(at.refuse("Full seek curve", None, "at least one distance"));
    }
    let of = |points| SeekCurve { points, fall_max: Duration::ZERO };
    let both = writes.len() == reads.len();
    Ok((of(reads), both.then(|| of(writes))))
}

/// The first ten distances from a list, then a square root, then a line.
fn formula(block: &Block, cylinders: u32) -> Result<SeekCurve, InputError> {
    let list = |key, count| {
        let all = block.list(key)?;
        if all.len() < count {
            return Err(block.at(key).refuse(
                key,
                Some(&all.len().to_string()),
                format_args!("{count} numbers"),
            ));
        }
        all.iter().map(|value| value.number(key)).collect::<Result<Vec<_>, _>>()
    };
    let (first, hpl) = ("First ten seek times", "HPL seek equation values");
    let (listed, equation) = (list(first, LISTED as usize)?, list(hpl, 5)?);
    let mut points = Vec::new();
    for (distance, number) in (1..).zip(&listed).take(LISTED as usize) {
        points.push((distance, milliseconds(block.at(first), first, *number)?));
    }
    let at = |distance: u32| {
        let far = f64::from(distance);
        let number = if far < equation[0] {
            equation[1] + equation[2] * far.sqrt()
        } else {
            equation[3] + equation[4] * far
        };
        milliseconds(block.at(hpl), hpl, number)
    };
    let mut distance = LISTED + 1;
    while distance < cylinders {
        points.push((distance, at(distance)?));
        let line = f64::from(distance) >= equation[0];
        // The linear part needs its first point and its last.
        distance = if line && distance + 1 < cylinders { cylinders - 1 } else { distance + 1 };
        if points.len() > POINTS_MAX {
            let expected = format!("a root that ends under {POINTS_MAX} cylinders");
            return Err(block.at(hpl).refuse(hpl, Some(&equation[0].to_string()), expected));
        }
    }
    points.retain(|point| point.0 < cylinders.max(2));
    Ok(SeekCurve { points, fall_max: Duration::ZERO })
}
