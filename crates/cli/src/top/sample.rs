//! What a daemon says of its disks and volumes.

use api::{Client, DisksAnswer, Sample, VolumesAnswer};

use crate::daemon_api::{accepted, parse};

/// The present state of the daemon's disks and volumes.
pub(super) fn sample(client: &Client) -> anyhow::Result<Sample> {
    let disks = parse::<DisksAnswer>(&accepted(client.get("disks", None))?)?.disks;
    let volumes = parse::<VolumesAnswer>(&accepted(client.get("volumes", None))?)?.volumes;
    Ok(Sample { disks, volumes })
}
