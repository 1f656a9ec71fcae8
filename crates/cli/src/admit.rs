//! `spindle admit`: asks a running daemon whether a volume fits.

use api::{Admission, AdmissionAnswer, Headroom};
use clap::Args;
use console::{ExitStatus, println};

use crate::contract::Contract;
use crate::daemon_api::{ApiSocket, accepted, parse};

#[derive(Debug, Args)]
pub(crate) struct Admit {
    /// Change nothing; `spindle vol create` creates the volume.
    #[arg(long, required = true)]
    dry_run: bool,
    #[command(flatten)]
    api: ApiSocket,
    /// The disk of the volume.
    #[arg(long)]
    disk: String,
    /// The size of the volume, such as 10GiB.
    #[arg(long)]
    size: String,
    #[command(flatten)]
    contract: Contract,
}

/// The name of a volume that exists only in a question: no volume is likely to have it.
const NAMELESS: &str = "(a volume to come)";

pub(crate) fn run(admit: &Admit, json: bool) -> anyhow::Result<ExitStatus> {
    let Admit { api, disk, size, contract, .. } = admit;
    let volume = contract.volume(NAMELESS, Some(disk), size)?;
    let answer = accepted(api.client().post("admission", &volume))?;
    let Admission { fits, reason, reserve_max, size_max, room, .. } =
        parse::<AdmissionAnswer>(&answer)?.admission;
    if json {
        println!("{}", answer.body);
    } else if fits {
        println!("it fits");
        if let Some(Headroom { tasks, utilization, slack_ms }) = room {
            let (percent, disk) = (utilization * 1e2, disk.as_str());
            println!(
                "disk \"{disk}\" would have {tasks} tasks with {percent:.1} % of its time, and \
                 {slack_ms:.1} ms of slack"
            );
        }
    } else {
        let reason = reason.map_or_else(String::new, |fault| fault.message);
        println!("it does not fit: {reason}");
        println!("disk \"{disk}\" has a reserve of {reserve_max} and a size of {size_max} left");
    }
    Ok(fits.into())
}
