//! The binary of the Kubernetes driver.

use clap::Parser;
use spindle_csi::{Options, run};

fn main() -> anyhow::Result<()> {
    run(Options::parse())
}
