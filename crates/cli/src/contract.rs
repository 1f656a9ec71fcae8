//! The contract of a volume, as `spindle vol create`, `vol set` and `admit` take it.

use api::{StreamSpec, VolumeSpec};
use clap::Args;
use console::bad_input;

#[derive(Debug, Args)]
pub(crate) struct Contract {
    /// The reserve: a share of the disk's time in every period, such as 30%.
    #[arg(long)]
    pub(crate) reserve: Option<String>,
    /// The limit: the largest share of the disk's time in every period, such as 60%.
    #[arg(long)]
    pub(crate) limit: Option<String>,
    /// The weight, 1 to 1000: slack is divided between volumes in proportion to it.
    #[arg(long)]
    pub(crate) weight: Option<i64>,
    #[command(flatten)]
    pub(crate) stream: StreamArgs,
}

#[derive(Debug, Args)]
pub(crate) struct StreamArgs {
    /// A stream of this bandwidth, instead of a reserve, such as 817KB/s.
    #[arg(long, value_name = "RATE", requires = "block")]
    bandwidth: Option<String>,
    /// The size of the stream's blocks, such as 1MB.
    #[arg(long, value_name = "SIZE", requires = "bandwidth")]
    block: Option<String>,
    /// The part of the volume that the stream uses, such as 0GiB..2GiB.
    #[arg(long, value_name = "START..END", requires = "bandwidth")]
    range: Option<String>,
    /// The time in which the stream holds, from the daemon's start, such as 0s..2h.
    #[arg(long, value_name = "START..END", requires = "bandwidth")]
    span: Option<String>,
}

impl StreamArgs {
    /// The stream, if one is given.
    pub(crate) fn spec(&self) -> anyhow::Result<Option<StreamSpec>> {
        let (Some(bandwidth), Some(block)) = (&self.bandwidth, &self.block) else {
            return Ok(None);
        };
        let span = self.span.as_ref().map(|span| {
            let parts = span.split_once("..");
            parts.map(|(start, end)| [start.trim().to_owned(), end.trim().to_owned()]).ok_or_else(
                || bad_input(format!("--span: found `{span}`, expected two times such as 0s..2h")),
            )
        });
        let (bandwidth, block, range) = (bandwidth.clone(), block.clone(), self.range.clone());
        Ok(Some(StreamSpec { bandwidth, block, range, span: span.transpose()? }))
    }
}

impl Contract {
    /// The volume `name` of `size` on `disk` with this contract.
    pub(crate) fn volume(&self, name: &str, disk: &str, size: &str) -> anyhow::Result<VolumeSpec> {
        Ok(VolumeSpec {
            name: name.to_owned(),
            disk: Some(disk.to_owned()),
            size: size.to_owned(),
            reserve: self.reserve.clone(),
            limit: self.limit.clone(),
            weight: self.weight,
            stream: self.stream.spec()?,
            ..VolumeSpec::default()
        })
    }
}
