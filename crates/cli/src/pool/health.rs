//! What is wrong with a pool: what is at risk, what is being done, and what to do.

use api::{Pool, PoolDisk, PoolVolume};
use units::Bytes;

fn name(disk: &PoolDisk) -> String {
    disk.name.clone().unwrap_or_else(|| format!("number {}", disk.number))
}

fn names<'a>(volumes: impl Iterator<Item = &'a PoolVolume>) -> String {
    volumes.map(|volume| volume.name.as_str()).collect::<Vec<_>>().join(", ")
}

fn sum(volumes: &[PoolVolume], of: impl Fn(&PoolVolume) -> u64) -> Bytes {
    Bytes(volumes.iter().map(of).sum())
}

/// One line for each thing that an operator should know; none of a pool that is well.
pub(super) fn lines(pool: &Pool) -> Vec<String> {
    let mut lines = Vec::new();
    let is = |disk: &&PoolDisk, state: &str| disk.state == state;
    let missing = pool.disks.iter().filter(|disk| is(disk, "missing"));
    for disk in missing {
        lines.push(format!(
            "missing: disk {}: the pool does not go on without it\n  to do: attach it, and start \
             the daemon again\n",
            name(disk)
        ));
    }
    if !pool.writable {
        lines.push("it is read-only: a disk is missing, or has failed\n".to_owned());
    }
    for disk in &pool.disks {
        let (name, why) = match disk.state.as_str() {
            "failing" => (name(disk), "it fails, and is being taken out"),
            "out" => (name(disk), "it failed, and the pool goes on without it"),
            "out-missing" => (name(disk), "it is missing, and the pool goes on without it"),
            _ => continue,
        };
        lines.push(format!("out: disk {name}: {why}\n"));
        let spare = disk.spare.as_ref();
        if let Some(seconds) = spare.and_then(|spare| spare.takes_over_in_s) {
            lines.push(format!("  a spare takes its place in {}\n", span(seconds)));
        }
        if let Some(why) = spare.and_then(|spare| spare.refused.as_ref()) {
            lines.push(format!("  no spare may have its place: {why}\n"));
        }
        lines.push(match &disk.name {
            Some(known) => format!(
                "  to do: `spindle disk reopen {known}` once it works, or `spindle pool replace \
                 {known} NEW`\n"
            ),
            None => "  to do: attach it, and start the daemon again, or `spindle pool replace OLD \
                     NEW`\n"
                .to_owned(),
        });
    }
    let volumes = &pool.volumes;
    if volumes.iter().any(|volume| volume.lost_bytes > 0) {
        let (lost, of) = (sum(volumes, |one| one.lost_bytes), volumes.iter());
        let of = names(of.filter(|volume| volume.lost_bytes > 0));
        lines.push(format!("no copy is left of {lost}, of {of}: attach the disks that have it\n"));
    }
    if volumes.iter().any(|volume| volume.degraded_bytes > 0) {
        let at_risk = sum(volumes, |one| one.degraded_bytes);
        let of = names(volumes.iter().filter(|volume| volume.degraded_bytes > 0));
        lines.push(format!("at risk: {at_risk} lack a copy, of {of}\n"));
    }
    lines.extend(unkept_streams(volumes));
    lines.extend(shared_domains(volumes));
    lines.extend(resync(pool));
    lines.extend(scrub(pool));
    lines.extend(pool.disks.iter().filter_map(checksums));
    if pool.format < pool.format_newest {
        lines.push(format!(
            "its format is of version {}: mirrors need version 2, a scrub version 3, checksums \
             version 4, and {} is the newest; `spindle pool upgrade`\n",
            pool.format, pool.format_newest
        ));
    }
    if pool.alarm {
        lines.push("alarm: the pool is nearly full\n".to_owned());
    }
    lines
}

/// The streams that are read from disks that do not keep them.
fn unkept_streams(volumes: &[PoolVolume]) -> Option<String> {
    let of = names(volumes.iter().filter(|volume| volume.stream_kept == Some(false)));
    (!of.is_empty()).then(|| {
        format!(
            "best effort: streams of {of} are read from disks that do not keep them\n  to do: \
             nothing else; they are kept again when the copies are equal\n"
        )
    })
}

/// The mirrors of which one failure may take two copies.
fn shared_domains(volumes: &[PoolVolume]) -> Option<String> {
    let of = names(volumes.iter().filter(|volume| volume.shares_domain));
    (!of.is_empty()).then(|| {
        format!(
            "at risk: copies of {of} are in one failure domain\n  to do: `spindle vol move` to \
             disks of other domains\n"
        )
    })
}

/// What is being done about copies that differ.
fn resync(pool: &Pool) -> Option<String> {
    let resync = pool.resync;
    let (left, done) = (Bytes(resync.left_bytes), Bytes(resync.done_bytes));
    if resync.stuck {
        return Some(format!(
            "resynchronisation has stopped, {left} are left: a disk cannot be read or written\n  \
             to do: `spindle disk ls` shows the failures of each disk; it goes on when a disk \
             comes back, and with the next start\n"
        ));
    }
    if resync.verifying {
        return Some(format!(
            "resynchronisation: mirrors that could be written to when the daemon ended are made \
             equal, {done} so far\n  to do: nothing, but keep all disks until then\n"
        ));
    }
    if resync.left_bytes == 0 && !resync.running {
        return None;
    }
    let when = match (resync.time_left_s, resync.bytes_per_s) {
        (Some(seconds), Some(rate)) => {
            format!("all are equal in {} at {}/s", span(seconds), Bytes(rate))
        }
        _ => "no progress of late, so that the time left is unknown".to_owned(),
    };
    Some(format!(
        "resynchronisation: {done} made equal, {left} left: {when}\n  to do: nothing, but keep all \
         disks until then; a larger `[pool] rebuild` makes it faster\n"
    ))
}

/// What the checksums of a disk have found.
fn checksums(disk: &PoolDisk) -> Option<String> {
    let (sums, name) = (disk.checksums?, name(disk));
    if sums.broken {
        return Some(format!(
            "checksums of disk {name} cannot be stored: writes to it fail\n  to do: `spindle disk \
             reopen {name}` once it works, or replace it\n"
        ));
    }
    let wrong = Bytes(4_096 * sums.wrong);
    (sums.wrong > 0).then(|| {
        format!(
            "checksums: disk {name} returned {wrong} that are not what was written: they are read \
             from another copy, and mended, or the read fails\n  to do: `spindle pool scrub`, and \
             replace the disk if there are more\n"
        )
    })
}

/// What a scrub has found, and when it ends.
fn scrub(pool: &Pool) -> Vec<String> {
    let scrub = pool.scrub;
    let (read, left) = (Bytes(scrub.read_bytes), Bytes(scrub.left_bytes));
    let mut lines = Vec::new();
    if scrub.running {
        let when = match (scrub.waiting, scrub.time_left_s, scrub.bytes_per_s) {
            (true, ..) => "it waits until copies are equal, and the pool is writable".to_owned(),
            (false, Some(seconds), Some(rate)) => {
                format!("all is read in {} at {}/s", span(seconds), Bytes(rate))
            }
            _ => "no progress of late, so that the time left is unknown".to_owned(),
        };
        lines.push(format!("scrub: {read} read, {left} left: {when}\n"));
    } else if scrub.stopped {
        lines.push(format!(
            "scrub: stopped, {read} read, {left} left\n  to do: `spindle pool scrub` goes on\n"
        ));
    }
    let found = |count: u64, what: &str, to_do: &str| {
        (count > 0).then(|| format!("scrub: {count} {what}\n  to do: {to_do}\n"))
    };
    let log = "the daemon's log names them;";
    lines.extend(found(
        scrub.mended,
        "copies could not be read, and were written again from another",
        "replace the disk if their number grows",
    ));
    lines.extend(found(
        scrub.unmended,
        "copies cannot be read although they were written again",
        &format!("{log} replace the disk"),
    ));
    lines.extend(found(
        scrub.lost,
        "blocks can be read from no copy",
        &format!("{log} restore them from a backup"),
    ));
    lines.extend(found(
        scrub.differing,
        "blocks have copies that differ; none was changed",
        &format!("{log} restore them from a backup, which writes all copies"),
    ));
    lines
}

/// A time in its two largest units.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it saturates")]
fn span(seconds: f64) -> String {
    let whole = seconds as u64;
    let (minutes, hours, days) = (whole / 60, whole / 3_600, whole / 86_400);
    match whole {
        0..60 => format!("{whole} s"),
        60..3_600 => format!("{minutes} min {} s", whole % 60),
        3_600..86_400 => format!("{hours} h {} min", minutes % 60),
        _ => format!("{days} d {} h", hours % 24),
    }
}

#[cfg(test)]
mod tests {
    use api::{PoolResync, PoolScrub};

    use super::*;

    const GIB: u64 = 1 << 30;

    fn pool(resync: PoolResync) -> Pool {
        Pool {
            uid: "0".to_owned(),
            sequence: 1,
            writable: true,
            bytes: GIB,
            free_bytes: GIB,
            promised_bytes: 0,
            alarm: false,
            format: 3,
            format_newest: 3,
            resync,
            scrub: NO_SCRUB,
            disks: Vec::new(),
            volumes: Vec::new(),
        }
    }

    const QUIET: PoolResync = PoolResync {
        running: false,
        stuck: false,
        verifying: false,
        left_bytes: 0,
        done_bytes: 0,
        bytes_per_s: None,
        time_left_s: None,
    };

    const NO_SCRUB: PoolScrub = PoolScrub {
        running: false,
        stopped: false,
        waiting: false,
        began: None,
        ended: None,
        read_bytes: 0,
        left_bytes: 0,
        mended: 0,
        unmended: 0,
        lost: 0,
        differing: 0,
        bytes_per_s: None,
        time_left_s: None,
    };

    #[test]
    fn a_scrub_says_when_it_ends_what_it_found_and_what_to_do() {
        let (began, ended) = (Some(5), None);
        let quiet = Pool { scrub: PoolScrub { began, ended: Some(6), ..NO_SCRUB }, ..pool(QUIET) };
        assert!(lines(&quiet).is_empty(), "a scrub that found nothing has no line");
        let running = PoolScrub { running: true, began, ended, read_bytes: GIB, ..NO_SCRUB };
        let (bytes_per_s, time_left_s) = (Some(50 << 20), Some(61.0));
        let running = PoolScrub { left_bytes: 2 * GIB, bytes_per_s, time_left_s, ..running };
        let text = lines(&Pool { scrub: running, ..pool(QUIET) }).concat();
        assert!(text.contains("1GiB read, 2GiB left: all is read in 1 min 1 s"), "{text}");
        let waiting = PoolScrub { waiting: true, ..running };
        let text = lines(&Pool { scrub: waiting, ..pool(QUIET) }).concat();
        assert!(text.contains("it waits"), "{text}");
        let found = PoolScrub { mended: 1, unmended: 2, lost: 3, differing: 4, ..NO_SCRUB };
        let text = lines(&Pool { scrub: found, ..pool(QUIET) }).concat();
        for said in ["1 copies", "2 copies", "3 blocks", "4 blocks", "backup"] {
            assert!(text.contains(said), "{said}: {text}");
        }
    }

    #[test]
    fn a_pool_that_is_well_has_no_line() {
        assert!(lines(&pool(QUIET)).is_empty());
    }

    #[test]
    fn a_rebuild_says_when_it_ends_and_what_to_do_until_then() {
        let rebuild = PoolResync { running: true, left_bytes: 90 * GIB, done_bytes: GIB, ..QUIET };
        let known =
            PoolResync { bytes_per_s: Some(50 << 20), time_left_s: Some(1_843.2), ..rebuild };
        let text = lines(&pool(known)).concat();
        for said in ["1GiB made equal, 90GiB left", "equal in 30 min 43 s at 50MiB/s", "to do: "] {
            assert!(text.contains(said), "{said}: {text}");
        }
        let text = lines(&pool(rebuild)).concat();
        assert!(text.contains("the time left is unknown") && text.contains("90GiB left"), "{text}");
    }

    #[test]
    fn a_time_has_its_two_largest_units() {
        let spans = [0.4, 59.9, 60.0, 3_599.0, 3_600.0, 86_399.0, 90_000.0].map(span);
        let wanted = ["0 s", "59 s", "1 min 0 s", "59 min 59 s", "1 h 0 min", "23 h 59 min"];
        assert_eq!(spans[..6], wanted);
        assert_eq!(spans[6], "1 d 1 h");
    }
}
