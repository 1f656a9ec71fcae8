//! The tables of a flash drive's file.

use core::str::FromStr;

use drive::{Amplification, FlashSpec, Host, Memory, Nand, Suspend};
use serde::Deserialize;
use units::{Bytes, Duration};

use super::kind::Kind;
use super::value::{Size, Time, Written};

/// Bytes a second, written as `560MB/s`.
#[derive(Clone, Copy)]
struct PerSecond(Bytes);

impl FromStr for PerSecond {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let refused = || format!("found `{text}`, expected a rate such as 560MB/s or 3.2GB/s");
        let bytes = text.strip_suffix("/s").ok_or_else(refused)?;
        bytes.parse().map(Self).map_err(|_| refused())
    }
}

/// A factor of up to three decimals.
#[derive(Clone, Copy)]
struct Factor(Amplification);

impl FromStr for Factor {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let refused = || format!("found `{text}`, expected a factor such as 1 or 6.75");
        let (whole, part) = text.split_once('.').unwrap_or((text, "0"));
        let digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        if !digits(whole) || !digits(part) || part.len() > 3 {
            return Err(refused());
        }
        let thousandths = format!("{whole}{part:0<3}").parse().map_err(|_| refused())?;
        Ok(Self(Amplification(thousandths)))
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FlashFile {
    #[serde(rename = "kind")]
    _kind: Kind,
    capacity: Size,
    queue_depth_max: u32,
    power_loss_protection: bool,
    nand: NandTable,
    suspend: Option<SuspendTable>,
    memory: MemoryTable,
    host: HostTable,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NandTable {
    channels: u32,
    dies_per_channel: u32,
    planes: u32,
    page: Size,
    channel_rate: Written<PerSecond>,
    read: Time,
    program: Time,
    erase: Time,
    units_per_block: u32,
    reads_before_program: u32,
    write_amplification: Written<Factor>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SuspendTable {
    enter: Time,
    resume: Time,
    count_max: u32,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct MemoryTable {
    write_buffer: Size,
    read_buffer: Size,
    read_ahead: Size,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct HostTable {
    read_rate: Written<PerSecond>,
    write_rate: Written<PerSecond>,
    duplex: bool,
    read_command: Time,
    write_command: Time,
    read_latency: Time,
    write_latency: Time,
    write_random: Option<Time>,
    flush: Time,
}

impl FlashFile {
    pub(super) fn spec(self) -> FlashSpec {
        let Self { nand, memory, host, .. } = self;
        FlashSpec {
            capacity: self.capacity.0,
            queue_depth_max: self.queue_depth_max,
            power_loss_protection: self.power_loss_protection,
            nand: Nand {
                channels: nand.channels,
                dies_per_channel: nand.dies_per_channel,
                planes: nand.planes,
                page: nand.page.0,
                channel_rate: nand.channel_rate.0.0,
                read: nand.read.0,
                program: nand.program.0,
                erase: nand.erase.0,
                units_per_block: nand.units_per_block,
                suspend: self.suspend.map(|suspend| Suspend {
                    enter: suspend.enter.0,
                    resume: suspend.resume.0,
                    count_max: suspend.count_max,
                }),
                reads_before_program: nand.reads_before_program,
                write_amplification: nand.write_amplification.0.0,
            },
            memory: Memory {
                write_buffer: memory.write_buffer.0,
                read_buffer: memory.read_buffer.0,
                read_ahead: memory.read_ahead.0,
            },
            host: Host {
                read_rate: host.read_rate.0.0,
                write_rate: host.write_rate.0.0,
                duplex: host.duplex,
                read_command: host.read_command.0,
                write_command: host.write_command.0,
                read_latency: host.read_latency.0,
                write_latency: host.write_latency.0,
                write_random: host.write_random.map_or(Duration::ZERO, |time| time.0),
                flush: host.flush.0,
            },
        }
    }
}
