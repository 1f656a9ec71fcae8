//! A checked flash drive: the values that its device looks up.

use units::{Bytes, Duration, Sectors};

use super::spec::{Amplification, FlashSpec};

/// Thousandths of a nanosecond for one sector: a link of gigabytes a second takes no whole number
/// of nanoseconds for one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace(u64);

impl Pace {
    fn new(bytes_a_second: Bytes) -> Self {
        Self((units::SECTOR_BYTES * 1_000_000_000_000).div_ceil(bytes_a_second.0))
    }

    /// The time of `len` sectors.
    pub(super) const fn of(self, len: Sectors) -> Duration {
        Duration::from_nanos((self.0 * len.0).div_ceil(1_000))
    }
}

/// A checked flash drive: no state, shared between devices.
#[derive(Clone, Debug)]
pub struct FlashModel {
    spec: FlashSpec,
    stripe: Sectors,
    dies: u32,
    pub(super) channel: Pace,
    pub(super) to_host: Pace,
    pub(super) from_host: Pace,
    /// The soonest that a command is answered after data for it has reached the controller.
    pub(super) sent_least: Duration,
    /// The soonest that a read is answered after its die has become free.
    pub(super) sensed_least: Duration,
    /// The soonest that a command is answered after something has reached the write buffer.
    pub(super) stored_least: Duration,
}

impl FlashModel {
    pub(super) fn new(spec: FlashSpec) -> Self {
        let host = spec.host;
        let (channel, to_host) = (Pace::new(spec.nand.channel_rate), Pace::new(host.read_rate));
        let sent_least = to_host.of(Sectors(1)) + host.read_latency;
        Self {
            stripe: spec.stripe(),
            dies: spec.nand.channels * spec.nand.dies_per_channel,
            channel,
            to_host,
            from_host: Pace::new(host.write_rate),
            sent_least,
            sensed_least: spec.nand.read + channel.of(Sectors(1)) + sent_least,
            stored_least: host.write_latency.min(host.flush),
            spec,
        }
    }

    /// The mean time in which it programs a stripe of what is written, with what garbage collection
    /// and erases take for it: writes that continue another, or not (`is_random`).
    pub(super) fn store_time(&self, is_random: bool) -> Duration {
        let nand = &self.spec.nand;
        let transfer = self.channel.of(self.stripe).as_nanos();
        let erase = nand.erase.as_nanos() / u64::from(nand.units_per_block);
        let of_dies = (transfer + nand.program.as_nanos() + erase) / u64::from(self.dies);
        let of_channels = transfer / u64::from(nand.channels);
        let amplified = if is_random { nand.write_amplification } else { Amplification::NONE };
        let programs = u64::from(amplified.0);
        let time = of_dies.max(of_channels) * programs / u64::from(Amplification::NONE.0);
        Duration::from_nanos(time)
    }

    /// The description that it was made of.
    pub const fn spec(&self) -> &FlashSpec {
        &self.spec
    }

    /// Addresses on the drive.
    pub const fn capacity(&self) -> Sectors {
        self.spec.capacity
    }

    /// Commands that it holds at once.
    pub const fn queue_depth_max(&self) -> u32 {
        self.spec.queue_depth_max
    }

    /// Dies on all channels.
    pub const fn dies(&self) -> u32 {
        self.dies
    }

    /// A page of every plane of a die: the data on one die before the next die follows, which is
    /// programmed at once.
    pub const fn stripe(&self) -> Sectors {
        self.stripe
    }
}
