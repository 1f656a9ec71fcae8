//! `spindle drive`: the library of drive models, and import into it.

mod flash;
mod import;
mod show;

use clap::Subcommand;
use console::ExitStatus;

use crate::lab::{self, Forwarded};
use import::Import;
use show::Show;

#[derive(Debug, Subcommand)]
pub(crate) enum Drive {
    /// List the drives of the library with their figures.
    Ls,
    /// Show one drive; with --json also the rates of its zones and its service times.
    Show(Show),
    /// Make a drive file from DiskSim's parameter files, or from a measured profile.
    Import(Import),
    /// Moved to `spindle-lab validate`.
    #[command(hide = true, disable_help_flag = true)]
    Validate(Forwarded),
}

pub(crate) fn run(command: &Drive, json: bool) -> anyhow::Result<ExitStatus> {
    match command {
        Drive::Ls => show::list(json),
        Drive::Show(args) => show::show(args, json),
        Drive::Import(args) => import::run(args, json),
        Drive::Validate(args) => Err(lab::exec("drive validate", "validate", args, json)),
    }
}
