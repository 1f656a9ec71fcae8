//! The pool of a running daemon, over its API.

use std::io::IsTerminal;
use std::time::Duration;

use api::{Answer, ClientError, NamedSpec, Pool, PoolAnswer, PoolChange, PoolDisk, PoolVolume};
use console::{ExitStatus, bad_input, eprint, eprintln, print, println, table};
use units::{Bytes, Share};

use crate::daemon_api::{ApiSocket, accepted, parse, print_answer};

/// The interval at which [`wait`] polls the pool.
const POLL_INTERVAL: Duration = Duration::from_millis(500);

#[expect(clippy::disallowed_methods, reason = "a poll for a person, not a synchronisation")]
fn pause_between_polls() {
    std::thread::sleep(POLL_INTERVAL);
}

fn print_pool(answer: Result<Answer, ClientError>, json: bool) -> anyhow::Result<ExitStatus> {
    print_answer(answer, json, |answer: PoolAnswer| text(&answer.pool))
}

/// Shows the pool. One that cannot be written is a failed check.
pub(super) fn status(api: &ApiSocket, json: bool) -> anyhow::Result<ExitStatus> {
    let answer = api.client().get("pool", None);
    let writable = answer
        .as_ref()
        .is_ok_and(|answer| answer.body["pool"]["writable"] != serde_json::json!(false));
    print_pool(answer, json)?;
    Ok(writable.into())
}

pub(super) fn add(api: &ApiSocket, disk: &str, json: bool) -> anyhow::Result<ExitStatus> {
    print_pool(api.client().post("pool/disks", &NamedSpec { name: disk.to_owned() }), json)
}

pub(super) fn remove(
    api: &ApiSocket,
    disk: &str,
    waits: bool,
    json: bool,
) -> anyhow::Result<ExitStatus> {
    let answer = api.client().delete("pool/disks", disk, None);
    if !waits {
        return print_pool(answer, json);
    }
    accepted(answer)?;
    wait(api, json, |pool| !pool.disks.iter().any(|one| one.name.as_deref() == Some(disk)))
}

pub(super) fn replace(
    api: &ApiSocket,
    (old, new): (&str, &str),
    waits: bool,
    json: bool,
) -> anyhow::Result<ExitStatus> {
    let answer = api.client().replace(old, &NamedSpec { name: new.to_owned() });
    if !waits {
        return print_pool(answer, json);
    }
    accepted(answer)?;
    wait(api, json, |pool| {
        !pool.disks.iter().any(|one| one.name.as_deref() == Some(new) && one.stale_bytes > 0)
    })
}

pub(super) fn upgrade(api: &ApiSocket, json: bool) -> anyhow::Result<ExitStatus> {
    print_pool(api.client().post("pool/upgrade", &serde_json::json!({})), json)
}

pub(super) fn pause(api: &ApiSocket, paused: bool, json: bool) -> anyhow::Result<ExitStatus> {
    let change = PoolChange { paused: Some(paused), ..PoolChange::default() };
    print_pool(api.client().change("pool", &change), json)
}

/// Starts a scrub. One that was waited for and found blocks that no copy has, or copies that
/// differ or cannot be mended, is a failed check.
pub(super) fn scrub(api: &ApiSocket, waits: bool, json: bool) -> anyhow::Result<ExitStatus> {
    let change = PoolChange { scrub: Some(true), ..PoolChange::default() };
    let answer = api.client().change("pool", &change);
    if !waits {
        return print_pool(answer, json);
    }
    accepted(answer)?;
    let is_well = std::cell::Cell::new(true);
    let waited = wait(api, json, |pool| {
        is_well.set(pool.scrub.unmended + pool.scrub.lost + pool.scrub.differing == 0);
        !pool.scrub.running
    })?;
    Ok(if is_well.get() { waited } else { false.into() })
}

pub(super) fn stop_scrub(api: &ApiSocket, json: bool) -> anyhow::Result<ExitStatus> {
    let change = PoolChange { scrub: Some(false), ..PoolChange::default() };
    print_pool(api.client().change("pool", &change), json)
}

pub(super) fn alarm(api: &ApiSocket, level: &str, json: bool) -> anyhow::Result<ExitStatus> {
    let refused =
        || bad_input(format!("level: found `{level}`, expected whole percents such as 90%"));
    let share: Share = level.parse().map_err(|_| refused())?;
    let percent = share.ppb() / 10_000_000;
    if percent * 10_000_000 != share.ppb() {
        return Err(refused());
    }
    let percent = u8::try_from(percent).map_err(|_| refused())?;
    let change = PoolChange { alarm_percent: Some(percent), ..PoolChange::default() };
    print_pool(api.client().change("pool", &change), json)
}

/// Waits until `is_done`, and shows the progress of relocation. A relocation that cannot go on is a
/// failed check.
pub(crate) fn wait(
    api: &ApiSocket,
    json: bool,
    is_done: impl Fn(&Pool) -> bool,
) -> anyhow::Result<ExitStatus> {
    let is_terminal = std::io::stderr().is_terminal();
    loop {
        let answer = accepted(api.client().get("pool", None))?;
        let pool = parse::<PoolAnswer>(&answer)?.pool;
        let moving = || pool.volumes.iter().filter_map(|volume| volume.moving.as_ref());
        let left: u64 = moving().map(|one| one.left_bytes).sum();
        let moved: u64 = moving().map(|one| one.moved_bytes).sum();
        if is_terminal && left > 0 {
            eprint!("\r{} relocated, {} left   ", Bytes(moved), Bytes(left));
        }
        let stuck = pool.volumes.iter().find_map(|volume| {
            let why = volume.moving.as_ref()?.stuck.as_ref()?;
            Some(format!("volume \"{}\": {why}", volume.name))
        });
        if is_done(&pool) || stuck.is_some() {
            if is_terminal {
                eprintln!();
            }
            let done = is_done(&pool);
            if let Some(stuck) = stuck.filter(|_| !done) {
                eprintln!("spindle: {stuck}");
            }
            if json {
                println!("{}", answer.body);
            } else {
                print!("{}", text(&pool));
            }
            return Ok(done.into());
        }
        pause_between_polls();
    }
}

/// The placement of a volume, in words.
pub(crate) fn placement(volume: &PoolVolume) -> String {
    let PoolVolume { zone, disks, extents, .. } = volume;
    let (disks, layout) = (disks.join(", "), layout(volume));
    let what = match (&volume.snapshot_of, volume.thin) {
        (Some(origin), _) => format!("a snapshot of {origin}, "),
        (None, true) => "thin, ".to_owned(),
        (None, false) => String::new(),
    };
    let mapped = Bytes(volume.mapped_bytes);
    let sums = if volume.checksums { "; with checksums" } else { "" };
    format!(
        "in the pool: {what}{layout} on {disks}, zone {zone}; {mapped} in {extents} extents{sums}"
    )
}

/// A volume's layout, and the number of copies if it is a mirror.
fn layout(volume: &PoolVolume) -> String {
    let copies = volume.copies.map_or(String::new(), |copies| format!(" of {copies}"));
    volume.layout.clone() + &copies
}

fn disk_state(disk: &PoolDisk) -> String {
    match (disk.state.as_str(), disk.stale_bytes, disk.leaving) {
        ("in", 0, false) => String::new(),
        ("in", 0, true) => "draining".to_owned(),
        ("in", stale, _) => format!("{} to be written again", Bytes(stale)),
        (state, 0, _) => state.to_owned(),
        (state, stale, _) => format!("{state}, {} stale", Bytes(stale)),
    }
}

fn text(pool: &Pool) -> String {
    let (free, all) = (Bytes(pool.free_bytes), Bytes(pool.bytes));
    let mut text = format!("pool {}, {free} free of {all}\n", pool.uid);
    text += &super::health::lines(pool).concat();
    let disk = |disk: &PoolDisk| {
        vec![
            disk.name.clone().unwrap_or_else(|| "missing".to_owned()),
            disk.number.to_string(),
            Bytes(disk.bytes).to_string(),
            Bytes(disk.free_bytes).to_string(),
            disk_state(disk),
        ]
    };
    let rows: Vec<_> = pool.disks.iter().map(disk).collect();
    text += &table::text(&["disk", "number", "size", "free", ""], &rows);
    let volume = |volume: &PoolVolume| {
        let moving = volume.moving.as_ref().map(|one| match &one.stuck {
            None => format!("{} to relocate", Bytes(one.left_bytes)),
            Some(why) => format!("{} to relocate: {why}", Bytes(one.left_bytes)),
        });
        let state = match (volume.whole, volume.degraded_bytes) {
            (false, _) => "incomplete".to_owned(),
            (true, 0) => String::new(),
            (true, degraded) => format!("degraded: {} lack a copy", Bytes(degraded)),
        };
        vec![
            volume.name.clone(),
            Bytes(volume.bytes).to_string(),
            Bytes(volume.mapped_bytes).to_string(),
            layout(volume),
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
