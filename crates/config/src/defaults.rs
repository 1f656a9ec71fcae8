//! Values of keys that a config leaves out, in one place: the parser uses them, and the reference
//! shows them.

use units::{Bytes, Duration, SECTOR_BYTES, Sectors, Share};

use crate::limits::{HOST_LATENESS_MAX, WRITE_BUFFER_PROCESS_MAX};

/// The seed of a simulation, and of a disk's faults.
pub(crate) const SEED: u64 = 1;
/// The accounting period.
pub(crate) const PERIOD: Duration = Duration::from_secs(1);
/// The batch of a rotational drive.
pub(crate) const BATCH: Duration = Duration::from_millis(250);
/// The linger time of a rotational drive.
pub(crate) const LINGER: Duration = Duration::from_millis(2);
/// The same under a policy that idles for any client that thinks.
pub(crate) const LINGER_THINKING: Duration = Duration::from_millis(8);
/// The estimate of a sequential request on a rotational drive.
pub(crate) const ESTIMATE_SEQUENTIAL: Duration = Duration::from_micros(300);
/// The estimate of any other request on a rotational drive.
pub(crate) const ESTIMATE_RANDOM: Duration = Duration::from_millis(20);
/// The estimate of any request on a flash drive. It has no seeks: nothing is saved by batching or
/// lingering, and both default to zero.
pub(crate) const ESTIMATE_FLASH: Duration = Duration::from_micros(100);
/// A daemon sees completions some tens of µs late on a quiet machine, and milliseconds on a busy
/// one.
pub(crate) const HOST_LATENESS: Duration = Duration::from_millis(1);
/// The period of the best-effort server.
pub(crate) const SERVER_PERIOD: Duration = Duration::from_secs(1);
/// The memory of the write buffers of all disks together: that of four disks, each with
/// [`engine::limits::WRITE_BUFFER_MEMORY`].
pub(crate) const WRITE_BUFFER_PROCESS: Sectors = Sectors(1 << 21);
/// How late a stalled command begins.
pub(crate) const STALL: Duration = Duration::from_millis(200);
/// The request size that a rate in `iops` is about: that of Zygaria (RTAS 2008).
pub(crate) const BLOCK: Bytes = Bytes(4_096);
/// The reserve of a pool's metadata on each disk.
pub(crate) const METADATA_SHARE: Share = Share::from_percent(1);
/// The reserve and limit of relocating blocks on each disk.
pub(crate) const RELOCATION_SHARE: Share = Share::from_percent(5);
/// How long a disk has been out before a spare takes its place: one that was only detached is back
/// sooner, and then gets no more than what it missed.
pub(crate) const SPARE_AFTER: Duration = Duration::from_secs(60);
pub(crate) const SLOW_AFTER: Duration = Duration::from_secs(2);

const _: () = assert!(WRITE_BUFFER_PROCESS.0 <= WRITE_BUFFER_PROCESS_MAX.0 / SECTOR_BYTES);
const _: () = assert!(HOST_LATENESS.as_nanos() <= HOST_LATENESS_MAX.as_nanos());
/// The burst of a bus: the largest that SCSI disks use by default, and more than a hub's or a port
/// multiplier's packets.
pub(crate) const BUS_BURST: Bytes = Bytes(64 << 10);
