//! `spindle admit`: asks a running daemon whether a volume fits, on a disk or in its pool.

use api::{Admission, AdmissionAnswer, AdmissionDisk, Headroom};
use clap::Args;
use console::{ExitStatus, println};
use units::Bytes;

use crate::contract::Contract;
use crate::daemon_api::{ApiSocket, accepted, parse};
use crate::vol::LayoutArgs;

#[derive(Debug, Args)]
pub(crate) struct Admit {
    /// Change nothing; `spindle vol create` creates the volume.
    #[arg(long, required = true)]
    dry_run: bool,
    #[command(flatten)]
    api: ApiSocket,
    /// The disk of the volume. Default: the pool.
    #[arg(long)]
    disk: Option<String>,
    /// The size of the volume, such as 10GiB.
    #[arg(long)]
    size: String,
    #[command(flatten)]
    layout: LayoutArgs,
    #[command(flatten)]
    contract: Contract,
}

/// The name of a volume that exists only in a question: no volume is likely to have it.
const NAMELESS: &str = "(a volume to come)";

/// The slack that a disk would have with the volume.
fn headroom(disk: &str, headroom: Option<&Headroom>) -> String {
    headroom.map_or_else(String::new, |Headroom { tasks, utilization, slack_ms }| {
        let percent = utilization * 1e2;
        format!(
            "disk \"{disk}\" would have {tasks} tasks with {percent:.1} % of its time, and \
             {slack_ms:.1} ms of slack\n"
        )
    })
}

/// The answer in words.
fn words(disk: Option<&str>, said: &Admission) -> String {
    let (reserve, size) = (&said.reserve_max, &said.size_max);
    let verdict = if said.fits {
        "it fits\n".to_owned()
    } else {
        let reason = said.reason.as_ref().map_or("", |fault| &fault.message);
        format!("it does not fit: {reason}\n")
    };
    let rest = match disk {
        Some(disk) if said.fits => headroom(disk, said.headroom.as_ref()),
        Some(disk) => {
            format!("disk \"{disk}\" has a reserve of {reserve} and a size of {size} left\n")
        }
        None => {
            said.disks.iter().map(|disk| left(disk, said.fits)).collect::<String>()
                + &format!("the pool has {reserve} of each disk and a size of {size} left for it\n")
        }
    };
    verdict + &rest
}

/// What a disk of the pool has left.
fn left(disk: &AdmissionDisk, fits: bool) -> String {
    let AdmissionDisk { disk: name, reserve_max, fast_bytes, slow_bytes, .. } = disk;
    let slack = headroom(name, disk.headroom.as_ref().filter(|_| fits));
    let (fast, slow) = (Bytes(*fast_bytes), Bytes(*slow_bytes));
    format!(
        "{slack}disk \"{name}\" has a reserve of {reserve_max}, {fast} of its fast part and {slow} \
         of its slow part left\n"
    )
}

pub(crate) fn run(admit: &Admit, json: bool) -> anyhow::Result<ExitStatus> {
    let Admit { api, disk, size, layout, contract, .. } = admit;
    let volume = layout.place(contract.volume(NAMELESS, disk.as_deref(), size)?);
    let to = if disk.is_some() { "admission" } else { "pool/admission" };
    let answer = accepted(api.client().post(to, &volume))?;
    let said = parse::<AdmissionAnswer>(&answer)?.admission;
    if json {
        println!("{}", answer.body);
    } else {
        console::print!("{}", words(disk.as_deref(), &said));
    }
    Ok(said.fits.into())
}
