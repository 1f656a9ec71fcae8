//! The pool of a running daemon, over its API.

use std::io::IsTerminal;
use std::time::Duration;

use api::{Answer, ClientError, NamedSpec, Pool, PoolAnswer, PoolChange, PoolDisk, PoolVolume};
use console::{ExitStatus, bad_input, eprintln, print, println, table};
use units::{Bytes, Share};

use crate::vol::{Reach, accepted, shape};

/// Somebody waits for it, and looks every so often how far it is.
#[expect(clippy::disallowed_methods, reason = "a person's patience, not a synchronisation")]
fn patience() {
    std::thread::sleep(LOOK_EVERY);
}

/// How often a wait looks.
const LOOK_EVERY: Duration = Duration::from_millis(500);

fn told(asked: Result<Answer, ClientError>, json: bool) -> anyhow::Result<ExitStatus> {
    let answer = accepted(asked)?;
    let pool = shape::<PoolAnswer>(&answer)?.pool;
    if json {
        println!("{}", answer.body);
    } else {
        print!("{}", text(&pool));
    }
    Ok(ExitStatus::Success)
}

/// The pool; one that cannot be written did not hold.
pub(super) fn status(reach: &Reach, json: bool) -> anyhow::Result<ExitStatus> {
    let answer = reach.client().get("pool", None);
    let writable = answer
        .as_ref()
        .is_ok_and(|answer| answer.body["pool"]["writable"] != serde_json::json!(false));
    told(answer, json)?;
    Ok(writable.into())
}

pub(super) fn add(reach: &Reach, disk: &str, json: bool) -> anyhow::Result<ExitStatus> {
    told(reach.client().post("pool/disks", &NamedSpec { name: disk.to_owned() }), json)
}

pub(super) fn remove(
    reach: &Reach,
    disk: &str,
    wait_for: bool,
    json: bool,
) -> anyhow::Result<ExitStatus> {
    let asked = reach.client().delete("pool/disks", disk, None);
    if !wait_for {
        return told(asked, json);
    }
    accepted(asked)?;
    wait(reach, json, |pool| !pool.disks.iter().any(|one| one.name.as_deref() == Some(disk)))
}

pub(super) fn pause(reach: &Reach, paused: bool, json: bool) -> anyhow::Result<ExitStatus> {
    let change = PoolChange { paused: Some(paused), ..PoolChange::default() };
    told(reach.client().change("pool", &change), json)
}

pub(super) fn alarm(reach: &Reach, level: &str, json: bool) -> anyhow::Result<ExitStatus> {
    let refused =
        || bad_input(format!("level: found `{level}`, expected whole percents such as 90%"));
    let share: Share = level.parse().map_err(|_| refused())?;
    let percent = share.ppb() / 10_000_000;
    if percent * 10_000_000 != share.ppb() {
        return Err(refused());
    }
    let percent = u8::try_from(percent).map_err(|_| refused())?;
    let change = PoolChange { alarm_percent: Some(percent), ..PoolChange::default() };
    told(reach.client().change("pool", &change), json)
}

/// Waits until the pool is as it should be, and says how far it is; ends with 1 if it gets no further.
pub(crate) fn wait(
    reach: &Reach,
    json: bool,
    arrived: impl Fn(&Pool) -> bool,
) -> anyhow::Result<ExitStatus> {
    let shown = std::io::stderr().is_terminal();
    loop {
        let answer = accepted(reach.client().get("pool", None))?;
        let pool = shape::<PoolAnswer>(&answer)?.pool;
        let moving = || pool.volumes.iter().filter_map(|volume| volume.moving.as_ref());
        let left: u64 = moving().map(|one| one.left_bytes).sum();
        let moved: u64 = moving().map(|one| one.moved_bytes).sum();
        if shown && left > 0 {
            eprint!("\r{} moved, {} left   ", Bytes(moved), Bytes(left));
        }
        let stuck = pool.volumes.iter().find_map(|volume| {
            let why = volume.moving.as_ref()?.stuck.as_ref()?;
            Some(format!("volume \"{}\": {why}", volume.name))
        });
        if arrived(&pool) || stuck.is_some() {
            if shown {
                eprintln!();
            }
            let held = arrived(&pool);
            if let Some(stuck) = stuck.filter(|_| !held) {
                eprintln!("spindle: {stuck}");
            }
            if json {
                println!("{}", answer.body);
            } else {
                print!("{}", text(&pool));
            }
            return Ok(held.into());
        }
        patience();
    }
}

/// How a volume lies, in words.
pub(crate) fn lies(volume: &PoolVolume) -> String {
    let PoolVolume { layout, zone, disks, extents, .. } = volume;
    let disks = disks.join(", ");
    let what = match (&volume.snapshot_of, volume.thin) {
        (Some(origin), _) => format!("a snapshot of {origin}, "),
        (None, true) => "thin, ".to_owned(),
        (None, false) => String::new(),
    };
    let mapped = Bytes(volume.mapped_bytes);
    format!("in the pool: {what}{layout} on {disks}, zone {zone}; {mapped} in {extents} pieces")
}

fn text(pool: &Pool) -> String {
    let (free, all) = (Bytes(pool.free_bytes), Bytes(pool.bytes));
    let mut text = format!("pool {}, {free} free of {all}\n", pool.uid);
    if !pool.writable {
        text += "it cannot be written: a disk is missing, or has failed\n";
    }
    if pool.alarm {
        text += "alarm: the pool is nearly full\n";
    }
    let disk = |disk: &PoolDisk| {
        vec![
            disk.name.clone().unwrap_or_else(|| "missing".to_owned()),
            disk.number.to_string(),
            Bytes(disk.bytes).to_string(),
            Bytes(disk.free_bytes).to_string(),
            if disk.leaving { "leaving" } else { "" }.to_owned(),
        ]
    };
    let rows: Vec<_> = pool.disks.iter().map(disk).collect();
    text += &table::text(&["disk", "number", "size", "free", ""], &rows);
    let volume = |volume: &PoolVolume| {
        let moving = volume.moving.as_ref().map(|one| match &one.stuck {
            None => format!("{} to be moved", Bytes(one.left_bytes)),
            Some(why) => format!("{} to be moved: {why}", Bytes(one.left_bytes)),
        });
        let state = if volume.whole { "" } else { "not whole" }.to_owned();
        vec![
            volume.name.clone(),
            Bytes(volume.bytes).to_string(),
            Bytes(volume.mapped_bytes).to_string(),
            volume.layout.clone(),
            volume.zone.clone(),
            volume.disks.join("+"),
            volume.snapshot_of.clone().unwrap_or_default(),
            moving.unwrap_or(state),
        ]
    };
    let rows: Vec<_> = pool.volumes.iter().map(volume).collect();
    if !rows.is_empty() {
        let head = ["volume", "size", "mapped", "layout", "zone", "disks", "snapshot of", ""];
        text += &table::text(&head, &rows);
    }
    text
}
