//! The contract of a volume, as `spindle vol create`, `vol set` and `admit` take it.

use api::{ContractSpec, LatencySpec, StreamSpec, VolumeChange, VolumeSpec};
use clap::Args;
use console::bad_input;

#[derive(Debug, Args)]
pub(crate) struct Contract {
    /// The reserve: a share of the disk's time in every period, such as 30%.
    #[arg(long)]
    reserve: Option<String>,
    /// The limit: the largest share of the disk's time in every period, such as 60%.
    #[arg(long)]
    limit: Option<String>,
    /// The weight, 1 to 1000: slack is divided between volumes in proportion to it.
    #[arg(long)]
    weight: Option<i64>,
    /// The priority: high or normal. A volume of high priority is served before the others, up to
    /// its limit.
    #[arg(long, value_name = "CLASS")]
    priority: Option<String>,
    /// Derive the reserve from requests a second, such as 60/s.
    #[arg(long, value_name = "RATE")]
    #[arg(conflicts_with_all = ["reserve", "bandwidth", "range", "span"])]
    #[arg(conflicts_with_all = ["order", "parts", "survive"])]
    iops: Option<String>,
    /// The bytes a second of a stream, such as 817KB/s; with --run, derive the reserve from them.
    #[arg(long, value_name = "RATE", conflicts_with = "reserve")]
    bandwidth: Option<String>,
    /// The consecutive sequential requests that --iops or --bandwidth assumes.
    #[arg(long, value_name = "REQUESTS")]
    #[arg(conflicts_with_all = ["range", "span", "order", "parts", "survive"])]
    run: Option<i64>,
    /// The size of the stream's blocks, such as 1MB, or of the requests that a rate assumes.
    #[arg(long, value_name = "SIZE")]
    block: Option<String>,
    /// The part of the volume that the stream uses, such as 0GiB..2GiB.
    #[arg(long, value_name = "START..END", requires = "bandwidth")]
    range: Option<String>,
    /// The time in which the stream holds, from the daemon's start, such as 0s..2h.
    #[arg(long, value_name = "START..END", requires = "bandwidth")]
    span: Option<String>,
    /// The order in which the client of a stream of the pool asks for bytes: any, or sequential,
    /// with which each disk of a stripe admits its part of the blocks alone.
    #[arg(long, value_name = "ORDER", requires = "bandwidth")]
    order: Option<String>,
    /// How much of a volume of the pool is on each of its disks, one disk after the other, such as
    /// 3GiB,1GiB: each disk keeps the stream only while play, from the start of --span, is there.
    #[arg(long, value_name = "SIZE,...", value_delimiter = ',', requires_all = ["span", "order"])]
    parts: Option<Vec<String>>,
    /// How many of a mirror's disks may be lost before its stream is best effort. Default: one less
    /// than there are copies. With fewer, fewer disks keep the stream: reads go to these, and
    /// writes are best effort.
    #[arg(long, value_name = "DISKS", requires = "bandwidth")]
    survive: Option<i64>,
    /// Answer reads and writes of at most --request-size, at most --requests of them a second,
    /// within this time, such as 80ms.
    #[arg(long, value_name = "TIME", requires_all = ["requests", "request_size"])]
    #[arg(conflicts_with_all = ["range", "span", "order", "parts", "survive"])]
    latency: Option<String>,
    /// The rate of the requests that are answered within --latency, such as 20/s.
    #[arg(long, value_name = "RATE", requires = "latency")]
    requests: Option<String>,
    /// The number of requests that may arrive at once and are answered within --latency. Default:
    /// 1.
    #[arg(long, value_name = "REQUESTS", requires = "latency")]
    burst: Option<i64>,
    /// The largest request that is answered within --latency, such as 64KiB.
    #[arg(long, value_name = "SIZE", requires = "latency")]
    request_size: Option<String>,
}

impl Contract {
    /// Whether the arguments are a rate from which the reserve is derived, and not a stream.
    fn is_rate(&self) -> bool {
        self.iops.is_some() || self.run.is_some()
    }

    /// Refuses the parts of a rate or of a stream without the rest.
    fn check(&self) -> anyhow::Result<()> {
        let has_rate = self.iops.is_some() || self.bandwidth.is_some();
        let stray = [("--run", self.run.is_some()), ("--block", self.block.is_some())];
        if let Some((flag, _)) = stray.into_iter().find(|(_, is_given)| *is_given && !has_rate) {
            return Err(bad_input(format!("{flag}: expected --iops or --bandwidth with it")));
        }
        if self.bandwidth.is_some() && !self.is_rate() && self.block.is_none() {
            return Err(bad_input(
                "--bandwidth: expected --block with it, for a stream, or --run, for a reserve",
            ));
        }
        Ok(())
    }

    /// The stream, if one is given.
    fn stream(&self) -> anyhow::Result<Option<StreamSpec>> {
        let (Some(bandwidth), Some(block), false) = (&self.bandwidth, &self.block, self.is_rate())
        else {
            return Ok(None);
        };
        let span = self.span.as_ref().map(|span| {
            let parts = span.split_once("..");
            parts.map(|(start, end)| [start.trim().to_owned(), end.trim().to_owned()]).ok_or_else(
                || bad_input(format!("--span: found `{span}`, expected two times such as 0s..2h")),
            )
        });
        let (bandwidth, block) = (bandwidth.clone(), block.clone());
        let (range, order, parts) = (self.range.clone(), self.order.clone(), self.parts.clone());
        let (span, survive) = (span.transpose()?, self.survive);
        Ok(Some(StreamSpec { bandwidth, block, range, span, order, parts, survive }))
    }

    /// The volume `name` of `size` on `disk`, or in the pool, with this contract.
    pub(crate) fn volume(
        &self,
        name: &str,
        disk: Option<&str>,
        size: &str,
    ) -> anyhow::Result<VolumeSpec> {
        Ok(VolumeSpec {
            name: name.to_owned(),
            disk: disk.map(str::to_owned),
            size: size.to_owned(),
            ..VolumeSpec::from(self.spec()?)
        })
    }

    /// The change that sets this contract.
    pub(crate) fn change(&self) -> anyhow::Result<VolumeChange> {
        Ok(self.spec()?.into())
    }

    /// The bounded latency, if one is given.
    fn latency(&self) -> Option<LatencySpec> {
        Some(LatencySpec {
            within: self.latency.clone()?,
            requests: self.requests.clone()?,
            burst: self.burst,
            size: self.request_size.clone()?,
        })
    }

    fn spec(&self) -> anyhow::Result<ContractSpec> {
        self.check()?;
        let rate = |text: &Option<String>| text.clone().filter(|_| self.is_rate());
        Ok(ContractSpec {
            reserve: self.reserve.clone(),
            limit: self.limit.clone(),
            weight: self.weight,
            priority: self.priority.clone(),
            iops: self.iops.clone(),
            bandwidth: rate(&self.bandwidth),
            run: self.run,
            block: rate(&self.block),
            stream: self.stream()?,
            latency: self.latency(),
        })
    }
}
