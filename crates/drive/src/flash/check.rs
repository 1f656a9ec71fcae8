//! The check that makes a [`FlashModel`] of a [`FlashSpec`].

use units::{Bytes, Duration, Sectors};

use super::model::FlashModel;
use super::spec::{
    AMPLIFICATION_MAX, Amplification, CHANNELS_MAX, DIES_PER_CHANNEL_MAX, FLASH_BUFFER_MAX,
    FLASH_CAPACITY_MAX, FLASH_QUEUE_DEPTH_MAX, FlashSpec, Host, LATENCY_MAX, Memory, Nand,
    PASSED_MAX, PLANES_MAX, RATE_MAX, RATE_MIN, STRIPE_MAX, UNITS_PER_BLOCK_MAX,
};
use crate::check::{Field, SpecError};

impl FlashSpec {
    /// Checks the description and builds the model.
    ///
    /// # Errors
    /// Says which field is wrong and what would be accepted.
    pub fn check(self) -> Result<FlashModel, SpecError> {
        let top = |name, found, least, most, unit| range((None, name), found, (least, most), unit);
        top("capacity", self.capacity.0, 1, FLASH_CAPACITY_MAX.0, "sectors")?;
        let (depth, depth_max) = (self.queue_depth_max, FLASH_QUEUE_DEPTH_MAX);
        top("queue_depth_max", depth.into(), 1, depth_max.into(), "commands")?;
        self.nand.check()?;
        let stripe = self.stripe().0;
        let name = (Some("nand"), "page");
        range(name, self.nand.page.0, (1, STRIPE_MAX.0 / u64::from(self.nand.planes)), "sectors")?;
        let Memory { write_buffer, read_buffer, read_ahead } = self.memory;
        let memory = |name, found: Sectors, least, most| {
            range((Some("memory"), name), found.0, (least, most), "sectors")
        };
        memory("write_buffer", write_buffer, 2 * stripe, FLASH_BUFFER_MAX.0)?;
        memory("read_buffer", read_buffer, 0, FLASH_BUFFER_MAX.0)?;
        memory("read_ahead", read_ahead, 0, read_buffer.0)?;
        self.host.check()?;
        Ok(FlashModel::new(self))
    }
}

type Name = (Option<&'static str>, &'static str);

fn range(
    (table, name): Name,
    found: u64,
    (least, most): (u64, u64),
    unit: &'static str,
) -> Result<(), SpecError> {
    let field = Field { table, index: None, name };
    let fits = (least..=most).contains(&found);
    if fits { Ok(()) } else { Err(SpecError::Range { field, found, least, most, unit }) }
}

fn time(table: &'static str, name: &'static str, found: Duration) -> Result<(), SpecError> {
    range((Some(table), name), found.as_nanos(), (0, LATENCY_MAX.as_nanos()), "ns")
}

fn rate(table: &'static str, name: &'static str, found: Bytes) -> Result<(), SpecError> {
    range((Some(table), name), found.0, (RATE_MIN.0, RATE_MAX.0), "bytes a second")
}

impl Nand {
    fn check(&self) -> Result<(), SpecError> {
        let count = |name, found: u32, most: u32, unit| {
            range((Some("nand"), name), found.into(), (1, most.into()), unit)
        };
        count("channels", self.channels, CHANNELS_MAX, "channels")?;
        count("dies_per_channel", self.dies_per_channel, DIES_PER_CHANNEL_MAX, "dies")?;
        count("planes", self.planes, PLANES_MAX, "planes")?;
        count("units_per_block", self.units_per_block, UNITS_PER_BLOCK_MAX, "programs")?;
        count("reads_before_program", self.reads_before_program, PASSED_MAX, "reads")?;
        rate("nand", "channel_rate", self.channel_rate)?;
        // A die without latency could do unlimited work in an instant.
        let array = |name, found: Duration| {
            range((Some("nand"), name), found.as_nanos(), (1, LATENCY_MAX.as_nanos()), "ns")
        };
        array("read", self.read)?;
        array("program", self.program)?;
        time("nand", "erase", self.erase)?;
        let Amplification(thousandths) = self.write_amplification;
        let limits = (Amplification::NONE.0.into(), AMPLIFICATION_MAX.0.into());
        let name = (Some("nand"), "write_amplification");
        range(name, thousandths.into(), limits, "thousandths")?;
        if let Some(suspend) = self.suspend {
            time("suspend", "enter", suspend.enter)?;
            time("suspend", "resume", suspend.resume)?;
            let name = (Some("suspend"), "count_max");
            range(name, suspend.count_max.into(), (1, PASSED_MAX.into()), "suspensions")?;
        }
        Ok(())
    }
}

impl Host {
    fn check(&self) -> Result<(), SpecError> {
        rate("host", "read_rate", self.read_rate)?;
        rate("host", "write_rate", self.write_rate)?;
        time("host", "read_command", self.read_command)?;
        time("host", "write_command", self.write_command)?;
        time("host", "read_latency", self.read_latency)?;
        time("host", "write_latency", self.write_latency)?;
        time("host", "write_random", self.write_random)?;
        time("host", "flush", self.flush)
    }
}
