//! The description of a flash drive, as a plain value.

use units::{Bytes, Duration, Sectors};

/// Most sectors a flash drive may have: a pebibyte.
pub const FLASH_CAPACITY_MAX: Sectors = Sectors(1 << 41);
/// Most channels.
pub const CHANNELS_MAX: u32 = 64;
/// Most dies on a channel.
pub const DIES_PER_CHANNEL_MAX: u32 = 64;
/// Most planes of a die.
pub const PLANES_MAX: u32 = 16;
/// The longest stripe (a page of every plane of a die): 1 MiB.
pub const STRIPE_MAX: Sectors = Sectors(2_048);
/// Most programs between two erases.
pub const UNITS_PER_BLOCK_MAX: u32 = 1 << 16;
/// The most memory for either writes or reads: 4 GiB.
pub const FLASH_BUFFER_MAX: Sectors = Sectors(8 << 20);
/// Most commands a flash drive may hold. An `NVMe` drive may take 65,536 a queue; hosts open 1,023.
pub const FLASH_QUEUE_DEPTH_MAX: u32 = 1_024;
/// The longest of a flash drive's times: an erase takes milliseconds.
pub const LATENCY_MAX: Duration = Duration::from_secs(1);
/// The slowest link or channel, in bytes a second.
pub const RATE_MIN: Bytes = Bytes(1_000_000);
/// The fastest link or channel, in bytes a second.
pub const RATE_MAX: Bytes = Bytes(100_000_000_000);
/// The largest write amplification.
pub const AMPLIFICATION_MAX: Amplification = Amplification(100_000);
/// Most reads that may pass a program that waits, and most suspensions of one operation.
pub const PASSED_MAX: u32 = 65_535;

/// Bytes programmed for each byte written, in thousandths.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Amplification(pub u32);

impl Amplification {
    /// Nothing is programmed but what is written.
    pub const NONE: Self = Self(1_000);
}

/// A flash drive as its data sheet or its author describes it. Unchecked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlashSpec {
    /// Addresses.
    pub capacity: Sectors,
    /// Commands inside at once: 32 for SATA.
    pub queue_depth_max: u32,
    /// Whether what is in the write buffer survives a loss of power.
    pub power_loss_protection: bool,
    /// The flash itself.
    pub nand: Nand,
    /// The drive's memory.
    pub memory: Memory,
    /// The host interface.
    pub host: Host,
}

/// Dies and channels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Nand {
    /// Channels.
    pub channels: u32,
    /// Dies on each of them.
    pub dies_per_channel: u32,
    /// Planes of a die: they sense and program together.
    pub planes: u32,
    /// A page of one plane.
    pub page: Sectors,
    /// The bytes that a channel carries per second.
    pub channel_rate: Bytes,
    /// From the cells into the die's register.
    pub read: Duration,
    /// From the register into the cells.
    pub program: Duration,
    /// Of a block of every plane.
    pub erase: Duration,
    /// Programs of a die for which one erase has to be paid.
    pub units_per_block: u32,
    /// How a program or an erase makes way for a read; none if it does not.
    pub suspend: Option<Suspend>,
    /// Reads of a die that may go before a program that waits for it.
    pub reads_before_program: u32,
    /// Of writes that do not continue another: garbage collection, by what it costs.
    pub write_amplification: Amplification,
}

/// The cost of suspending an operation of a die.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Suspend {
    /// Until the die can sense.
    pub enter: Duration,
    /// More, when it goes on.
    pub resume: Duration,
    /// How often one program or erase may be suspended.
    pub count_max: u32,
}

/// The drive's memory, as far as it shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memory {
    /// For what was written and is not yet programmed. At least two stripes.
    pub write_buffer: Sectors,
    /// For what is read ahead of sequential readers; nothing is read ahead without.
    pub read_buffer: Sectors,
    /// How far past the last sector asked for a sequential reader is read ahead.
    pub read_ahead: Sectors,
}

/// The host interface, and the controller's latencies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Host {
    /// Data to the host, in bytes a second.
    pub read_rate: Bytes,
    /// Data from the host, in bytes a second.
    pub write_rate: Bytes,
    /// Whether both directions go at once, as on PCI Express.
    pub duplex: bool,
    /// How long a read keeps the link, beyond its data: at depth it is what limits small reads.
    pub read_command: Duration,
    /// The same of a write.
    pub write_command: Duration,
    /// The further latency of a read, which overlaps with other commands.
    pub read_latency: Duration,
    /// The further latency of a write, a trim or a write of zeroes, which overlaps with other
    /// commands.
    pub write_latency: Duration,
    /// The additional latency of a write that does not continue another, which overlaps as well.
    pub write_random: Duration,
    /// The latency of a flush once everything that it covers is durable.
    pub flush: Duration,
}

impl FlashSpec {
    /// A page of every plane of a die: it is programmed at once, and the next data goes to the next
    /// die.
    pub(super) fn stripe(&self) -> Sectors {
        Sectors(self.nand.page.0 * u64::from(self.nand.planes))
    }
}
