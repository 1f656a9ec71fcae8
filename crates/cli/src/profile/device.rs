//! The device under measurement: its opening and its description.

use std::path::Path;

use anyhow::bail;
use console::bad_input;
use drive::AnyModel;
use drive_library::profile::{CpuCost, MeasuredDevice};
use profile_targets::{AccessMode, BlockTarget, EmulatedTarget, NbdTarget};
use profiler::Target;
use sim::BenchTarget;
use units::Duration;

use super::args::Measure;

/// A device that is open.
pub(super) enum Open {
    Block(Box<BlockTarget>),
    Nbd(Box<NbdTarget>),
    Emulated(Box<EmulatedTarget>),
    Simulated(Box<BenchTarget>),
}

fn model(name: &str) -> anyhow::Result<AnyModel> {
    drive_library::open(name).map_err(bad_input)?.check().map_err(bad_input)
}

/// Whether `--write` is given, and confirmed by the name of the device.
fn may_write(args: &Measure, device: &str) -> anyhow::Result<bool> {
    match &args.write {
        None => Ok(false),
        Some(again) if again == device => Ok(true),
        Some(again) => {
            bail!(bad_input(format!(
                "--write: found `{again}`, expected `{device}`, the device again"
            )))
        }
    }
}

impl Open {
    /// Opens what the arguments name, with the name that the profile gives it.
    pub(super) fn new(args: &Measure) -> anyhow::Result<(Self, String)> {
        let only_simulated = args.noise.is_some() || args.seed.is_some();
        if only_simulated && args.of.simulated.is_none() {
            bail!(bad_input(
                "--noise and --seed: expected --simulated DRIVE: only simulated drives have them"
            ));
        }
        if let Some(name) = &args.of.simulated {
            let target = BenchTarget::new(
                model(name)?,
                args.noise.unwrap_or(Duration::ZERO),
                args.seed.unwrap_or(1),
            );
            // Writing to a model loses no data, so it is on unless `--write` names another device.
            let write = args.write.is_none() || may_write(args, name)?;
            let target = if write { target } else { target.read_only() };
            return Ok((Self::Simulated(Box::new(target)), format!("simulated:{name}")));
        }
        if let Some(name) = &args.of.emulated {
            let write = args.write.is_none() || may_write(args, name)?;
            let target = EmulatedTarget::new(model(name)?, write);
            return Ok((Self::Emulated(Box::new(target)), format!("emulated:{name}")));
        }
        let name = args.of.device.clone().expect("one of the group is required");
        let write = may_write(args, &name)?;
        let access = AccessMode { write, buffered: args.buffered };
        Ok((Self::named(&name, access)?, name))
    }

    /// Opens a block device, a file, or the NBD export of a URI.
    pub(super) fn named(name: &str, access: AccessMode) -> anyhow::Result<Self> {
        let refused = |error: &dyn std::fmt::Display| bad_input(format!("{name}: {error}"));
        if NbdTarget::is_named(name) {
            let target = NbdTarget::open(name, access.write).map_err(|error| refused(&error))?;
            return Ok(Self::Nbd(Box::new(target)));
        }
        let target = BlockTarget::open(Path::new(name), access).map_err(|error| refused(&error))?;
        Ok(Self::Block(Box::new(target)))
    }

    pub(super) fn target(&mut self) -> &mut dyn Target {
        match self {
            Self::Block(target) => &mut **target,
            Self::Nbd(target) => &mut **target,
            Self::Emulated(target) => &mut **target,
            Self::Simulated(target) => &mut **target,
        }
    }

    /// Whether it runs in real time on this host.
    pub(super) const fn is_live(&self) -> bool {
        !matches!(self, Self::Simulated(_))
    }

    /// Its description in the profile.
    pub(super) fn device(&mut self, name: String) -> MeasuredDevice {
        let facts = self.target().facts();
        let model = match self {
            Self::Block(target) => target.kernel().model.clone(),
            Self::Nbd(_) | Self::Emulated(_) | Self::Simulated(_) => None,
        };
        MeasuredDevice {
            name,
            model,
            capacity: facts.sectors,
            block: facts.block,
            written: facts.writable,
            seeks: facts.seeks,
            depth_max: facts.depth_max,
        }
    }

    /// A reason to doubt the figures.
    pub(super) fn warning(&self, buffered: bool) -> Option<&'static str> {
        match self {
            Self::Block(_) if buffered => {
                Some("through the page cache: what memory holds was read from memory")
            }
            Self::Block(target) if target.is_sparse() => {
                Some("the file has holes: they are read from nowhere")
            }
            _ => None,
        }
    }

    /// The time that threads add to a command; `None` without threads.
    pub(super) fn overhead(&self) -> Option<Duration> {
        match self {
            Self::Block(target) => Some(target.overhead()),
            _ => None,
        }
    }

    /// The CPU time of transfers, by length.
    pub(super) fn processor(&self) -> Vec<CpuCost> {
        let Self::Block(target) = self else { return Vec::new() };
        let costs = target.processor().iter().filter(|(len, sum)| len.0 > 0 && sum.count > 0);
        costs
            .map(|(len, sum)| {
                let (len, time, samples) = (*len, sum.time / sum.count, sum.count);
                CpuCost { len, time, samples }
            })
            .collect()
    }
}
