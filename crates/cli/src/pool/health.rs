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
    lines.extend(resync(pool));
    if pool.format < pool.format_newest {
        lines.push(format!(
            "its format is of version {}: mirrors need version {}; `spindle pool upgrade`\n",
            pool.format, pool.format_newest
        ));
    }
    if pool.alarm {
        lines.push("alarm: the pool is nearly full\n".to_owned());
    }
    lines
}

/// What is being done about copies that differ.
fn resync(pool: &Pool) -> Option<String> {
    let resync = pool.resync;
    let (left, done) = (Bytes(resync.left_bytes), Bytes(resync.done_bytes));
    if resync.stuck {
        return Some(format!(
            "resynchronisation has stopped, {left} are left: a disk cannot be read or written\n"
        ));
    }
    if resync.verifying {
        return Some(format!(
            "resynchronisation: mirrors that could be written to when the daemon ended are made \
             equal, {done} so far\n"
        ));
    }
    (resync.left_bytes > 0 || resync.running)
        .then(|| format!("resynchronisation: {done} made equal, {left} left\n"))
}
