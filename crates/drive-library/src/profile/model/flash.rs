//! A model of a flash drive from a profile.
//!
//! Rates and latencies determine how a drive answers, not how many dies it has. The model has
//! enough dies to keep the link busy, and the limit of small commands at depth is attributed to the
//! link, as in the drives of the library. Values that were not measured are theirs.

use ::drive::{
    Amplification, FLASH_BUFFER_MAX, FlashSpec, Host, LATENCY_MAX, Memory, Nand, RATE_MAX,
    RATE_MIN, Suspend,
};
use drive_profile::findings::{AccessPattern, Flash, Rate};
use units::{Bytes, Duration, Op, Sectors};

use super::missing::MissingFindings;
use crate::profile::values::{MeasuredDevice, ProfileFile};

const BLOCK: Sectors = Sectors(8);
/// The dies of the model: enough that random locations rarely collide.
const CHANNELS: u32 = 8;
const DIES_PER_CHANNEL: u32 = 8;
const PLANES: u32 = 2;
const PAGE: Sectors = Sectors(32);
const CHANNEL_RATE: Bytes = Bytes(1_200_000_000);
/// The read time of the cells, of a drive whose latency is above twice this time.
const SENSE: Duration = Duration::from_micros(45);
const ERASE: Duration = Duration::from_millis(5);
const SUSPEND: Suspend =
    Suspend { enter: Duration::from_micros(30), resume: Duration::from_micros(30), count_max: 8 };
const BUFFER: Sectors = Sectors(32_768);
const AHEAD: Sectors = Sectors(2_048);

impl ProfileFile {
    /// A model of the flash drive. Unchecked.
    ///
    /// # Errors
    /// Names the missing findings.
    pub fn flash_spec(&self) -> Result<FlashSpec, MissingFindings> {
        spec(&self.device, &self.findings.flash).ok_or(MissingFindings::Rates)
    }
}

/// The rates of one-block commands of a kind, at depth 1 and at the largest depth.
fn blocks(rates: &[Rate], op: Op, access: AccessPattern) -> Option<(&Rate, &Rate)> {
    let all = rates.iter().filter(|rate| (rate.op, rate.access, rate.len) == (op, access, BLOCK));
    let alone = all.clone().find(|rate| rate.depth == 1)?;
    Some((alone, all.max_by_key(|rate| rate.depth)?))
}

fn per_second(rate: &Rate) -> u64 {
    let nanos = u128::from(rate.interval.value.as_nanos().max(1));
    let bytes = u128::from(rate.len.bytes().0) * 1_000_000_000 / nanos;
    u64::try_from(bytes).unwrap_or(u64::MAX)
}

/// The transfer time at a rate.
fn way(len: Sectors, rate: Bytes) -> Duration {
    let nanos = u128::from(len.bytes().0) * 1_000_000_000 / u128::from(rate.0);
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}

fn spec(device: &MeasuredDevice, flash: &Flash) -> Option<FlashSpec> {
    let fastest = |op: Op| flash.rates.iter().filter(|rate| rate.op == op).map(per_second).max();
    let rate = |bytes: u64| Bytes(bytes.clamp(RATE_MIN.0, RATE_MAX.0));
    let read_rate = rate(fastest(Op::Read)?);
    let write_rate = fastest(Op::Write).map_or(read_rate, rate);
    let (read, deep) = blocks(&flash.rates, Op::Read, AccessPattern::Random)?;
    // The link's time for a command at depth, and the rest of the latency of a single command.
    let part = |alone: &Rate, deep: &Rate, rate: Bytes| {
        let command = deep.interval.value.saturating_sub(way(BLOCK, rate));
        let rest = alone.latency.value.saturating_sub(command).saturating_sub(way(BLOCK, rate));
        (command.min(LATENCY_MAX), rest.min(LATENCY_MAX))
    };
    let (read_command, rest) = part(read, deep, read_rate);
    let rest = rest.saturating_sub(way(BLOCK, CHANNEL_RATE));
    let sense = SENSE.min(rest / 2).max(Duration::from_nanos(1));
    let write = blocks(&flash.rates, Op::Write, AccessPattern::Sequential);
    let (write_command, write_latency) =
        write.map_or((read_command, rest / 2), |(alone, deep)| part(alone, deep, write_rate));
    let random = blocks(&flash.rates, Op::Write, AccessPattern::Random).zip(write);
    let write_random = random.map_or(Duration::ZERO, |((random, _), (row, _))| {
        random.latency.value.saturating_sub(row.latency.value)
    });
    let row = blocks(&flash.rates, Op::Read, AccessPattern::Sequential);
    let ahead = row.is_some_and(|(row, _)| {
        row.latency.value.as_nanos() * 10 < read.latency.value.as_nanos() * 7
    });
    let flush = flash.flushes.iter().find(|flush| flush.writes == 0);
    let stripe = Sectors(PAGE.0 * u64::from(PLANES));
    let buffer = flash.write_buffer.map_or(BUFFER, |buffer| buffer.value);
    Some(FlashSpec {
        capacity: device.capacity,
        queue_depth_max: device.depth_max.max(1),
        power_loss_protection: false,
        nand: Nand {
            channels: CHANNELS,
            dies_per_channel: DIES_PER_CHANNEL,
            planes: PLANES,
            page: PAGE,
            channel_rate: CHANNEL_RATE,
            read: sense,
            program: program(flash, stripe, write_rate),
            erase: ERASE,
            units_per_block: 1_536,
            suspend: Some(SUSPEND),
            reads_before_program: 16,
            write_amplification: Amplification::NONE,
        },
        memory: Memory {
            write_buffer: Sectors(buffer.0.clamp(2 * stripe.0, FLASH_BUFFER_MAX.0)),
            read_buffer: if ahead { BUFFER } else { Sectors::ZERO },
            read_ahead: if ahead { AHEAD } else { Sectors::ZERO },
        },
        host: Host {
            read_rate,
            write_rate,
            duplex: false,
            read_command,
            write_command,
            read_latency: rest.saturating_sub(sense),
            write_latency,
            write_random: write_random.min(LATENCY_MAX),
            flush: flush.map_or(Duration::ZERO, |flush| flush.time.value.min(LATENCY_MAX)),
        },
    })
}

/// The program time of the cells: at the rate of all dies with a full write buffer, or else half as
/// fast again as the link.
fn program(flash: &Flash, stripe: Sectors, write_rate: Bytes) -> Duration {
    let dies = u64::from(CHANNELS * DIES_PER_CHANNEL);
    let long = |rate: &&Rate| rate.op == Op::Write && rate.access == AccessPattern::Random;
    let slowest = flash.rates.iter().filter(long).max_by_key(|rate| (rate.len, rate.depth));
    let sustained = match (flash.write_buffer, slowest) {
        (Some(_), Some(rate)) => Bytes(per_second(rate).max(1)),
        _ => Bytes(write_rate.0 + write_rate.0 / 2),
    };
    let time = way(Sectors(stripe.0 * dies), sustained);
    time.min(LATENCY_MAX).max(Duration::from_nanos(1))
}
