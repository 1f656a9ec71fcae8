//! The driver's structures and numbers, as bytes.
//!
//! They are written and read field by field, so that no layout of Rust's is assumed. All numbers
//! are in the machine's byte order.

/// The bytes of a command in a submission entry of 128 bytes.
pub(crate) const COMMAND_BYTES: usize = 80;

/// Encodes the number of a command as the kernel's `_IOC` does: direction, size, type, number.
const fn encoded(direction: u32, number: u32, size: u32) -> u32 {
    direction << 30 | size << 16 | (b'u' as u32) << 8 | number
}

const READ: u32 = 2;
const READ_WRITE: u32 = 3;
/// The bytes of `struct ublksrv_ctrl_cmd`.
const CONTROL_BYTES: u32 = 32;
/// The bytes of `struct ublksrv_io_cmd`.
const IO_BYTES: u32 = 16;

/// Commands to the control file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ControlOp {
    GetDevInfo,
    AddDev,
    DelDev,
    StartDev,
    StopDev,
    SetParams,
    GetParams,
    StartUserRecovery,
    EndUserRecovery,
    GetFeatures,
    UpdateSize,
}

impl ControlOp {
    pub(crate) const fn code(self) -> u32 {
        let (direction, number) = match self {
            Self::GetDevInfo => (READ, 0x02),
            Self::AddDev => (READ_WRITE, 0x04),
            Self::DelDev => (READ_WRITE, 0x05),
            Self::StartDev => (READ_WRITE, 0x06),
            Self::StopDev => (READ_WRITE, 0x07),
            Self::SetParams => (READ_WRITE, 0x08),
            Self::GetParams => (READ, 0x09),
            Self::StartUserRecovery => (READ_WRITE, 0x10),
            Self::EndUserRecovery => (READ_WRITE, 0x11),
            Self::GetFeatures => (READ, 0x13),
            Self::UpdateSize => (READ_WRITE, 0x15),
        };
        encoded(direction, number, CONTROL_BYTES)
    }
}

/// Fetches the first request of a tag.
pub(crate) const FETCH: u32 = encoded(READ_WRITE, 0x20, IO_BYTES);
/// Commits a result, and fetches the tag's next request.
pub(crate) const COMMIT_AND_FETCH: u32 = encoded(READ_WRITE, 0x21, IO_BYTES);

/// The driver's features, as bits of `flags`.
pub(crate) mod feature {
    pub(crate) const USER_RECOVERY: u64 = 1 << 3;
    pub(crate) const USER_RECOVERY_REISSUE: u64 = 1 << 4;
    pub(crate) const CMD_IOCTL_ENCODE: u64 = 1 << 6;
    pub(crate) const USER_COPY: u64 = 1 << 7;
    pub(crate) const UPDATE_SIZE: u64 = 1 << 10;
}

/// Attributes of a device.
pub(crate) mod attribute {
    pub(crate) const READ_ONLY: u32 = 1;
    pub(crate) const ROTATIONAL: u32 = 1 << 1;
    pub(crate) const VOLATILE_CACHE: u32 = 1 << 2;
    pub(crate) const FUA: u32 = 1 << 3;
}

/// Flags of a request.
pub(crate) mod flag {
    pub(crate) const FUA: u32 = 1 << 13;
    pub(crate) const NO_UNMAP: u32 = 1 << 15;
}

/// Where a queue's descriptors are mapped. There is one queue.
pub(crate) const DESCRIPTORS_OFFSET: u64 = 0;
/// The bytes of a descriptor.
pub(crate) const DESCRIPTOR_BYTES: usize = 24;

/// Where the data of a tag of queue 0 are, in the device's control node.
pub(crate) const fn data_offset(tag: u16) -> u64 {
    0x8000_0000 + ((tag as u64) << 25)
}

/// A command to the control file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ControlCommand {
    pub(crate) op: ControlOp,
    /// The device; `u32::MAX` for none.
    pub(crate) device: u32,
    pub(crate) data: u64,
}

impl ControlCommand {
    /// The bytes of `struct ublksrv_ctrl_cmd`, with a buffer at `address`.
    pub(crate) fn bytes(self, address: u64, len: u16) -> [u8; COMMAND_BYTES] {
        let mut bytes = [0; COMMAND_BYTES];
        bytes[0..4].copy_from_slice(&self.device.to_ne_bytes());
        // No queue.
        bytes[4..6].copy_from_slice(&u16::MAX.to_ne_bytes());
        bytes[6..8].copy_from_slice(&len.to_ne_bytes());
        bytes[8..16].copy_from_slice(&address.to_ne_bytes());
        bytes[16..24].copy_from_slice(&self.data.to_ne_bytes());
        bytes
    }
}

/// The bytes of `struct ublksrv_io_cmd` for a tag of queue 0. The address is unused with
/// `UBLK_F_USER_COPY`.
pub(crate) fn io_command(tag: u16, result: i32) -> [u8; COMMAND_BYTES] {
    let mut bytes = [0; COMMAND_BYTES];
    bytes[2..4].copy_from_slice(&tag.to_ne_bytes());
    bytes[4..8].copy_from_slice(&result.to_ne_bytes());
    bytes
}

/// `struct ublksrv_ctrl_dev_info`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct DevInfo {
    pub(crate) queues: u16,
    pub(crate) depth: u16,
    pub(crate) state: u16,
    pub(crate) request_bytes_max: u32,
    pub(crate) device: u32,
    pub(crate) pid: i32,
    pub(crate) flags: u64,
    /// Kept by the driver for its server.
    pub(crate) server_flags: u64,
}

impl DevInfo {
    pub(crate) const BYTES: usize = 64;

    pub(crate) fn to_bytes(self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[0..2].copy_from_slice(&self.queues.to_ne_bytes());
        bytes[2..4].copy_from_slice(&self.depth.to_ne_bytes());
        bytes[4..6].copy_from_slice(&self.state.to_ne_bytes());
        bytes[8..12].copy_from_slice(&self.request_bytes_max.to_ne_bytes());
        bytes[12..16].copy_from_slice(&self.device.to_ne_bytes());
        bytes[16..20].copy_from_slice(&self.pid.to_ne_bytes());
        bytes[24..32].copy_from_slice(&self.flags.to_ne_bytes());
        bytes[32..40].copy_from_slice(&self.server_flags.to_ne_bytes());
        bytes
    }

    pub(crate) fn from_bytes(bytes: &[u8; Self::BYTES]) -> Self {
        Self {
            queues: u16_at(bytes, 0),
            depth: u16_at(bytes, 2),
            state: u16_at(bytes, 4),
            request_bytes_max: u32_at(bytes, 8),
            device: u32_at(bytes, 12),
            pid: u32_at(bytes, 16).cast_signed(),
            flags: u64_at(bytes, 24),
            server_flags: u64_at(bytes, 32),
        }
    }
}

/// `struct ublk_params`, with what is used of it: the basic parameters and those of discards.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Params {
    pub(crate) attributes: u32,
    pub(crate) logical_shift: u8,
    pub(crate) physical_shift: u8,
    pub(crate) optimal_shift: u8,
    pub(crate) minimal_shift: u8,
    pub(crate) request_sectors_max: u32,
    pub(crate) sectors: u64,
    /// Absent for a read-only device.
    pub(crate) discard: Option<Discard>,
}

/// `struct ublk_param_discard`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Discard {
    pub(crate) granularity: u32,
    pub(crate) sectors_max: u32,
    pub(crate) zeroes_sectors_max: u32,
}

impl Params {
    pub(crate) const BYTES: usize = 8 + 32 + 20;
    const BASIC: u32 = 1;
    const DISCARD: u32 = 1 << 1;

    pub(crate) fn to_bytes(self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        let len = u32::try_from(Self::BYTES).expect("a few bytes");
        let discard = if self.discard.is_some() { Self::DISCARD } else { 0 };
        bytes[0..4].copy_from_slice(&len.to_ne_bytes());
        bytes[4..8].copy_from_slice(&(Self::BASIC | discard).to_ne_bytes());
        bytes[8..12].copy_from_slice(&self.attributes.to_ne_bytes());
        bytes[12] = self.logical_shift;
        bytes[13] = self.physical_shift;
        bytes[14] = self.optimal_shift;
        bytes[15] = self.minimal_shift;
        bytes[16..20].copy_from_slice(&self.request_sectors_max.to_ne_bytes());
        bytes[24..32].copy_from_slice(&self.sectors.to_ne_bytes());
        if let Some(discard) = self.discard {
            bytes[44..48].copy_from_slice(&discard.granularity.to_ne_bytes());
            bytes[48..52].copy_from_slice(&discard.sectors_max.to_ne_bytes());
            bytes[52..56].copy_from_slice(&discard.zeroes_sectors_max.to_ne_bytes());
            // One segment in a discard.
            bytes[56..58].copy_from_slice(&1_u16.to_ne_bytes());
        }
        bytes
    }

    pub(crate) fn from_bytes(bytes: &[u8; Self::BYTES]) -> Self {
        let discard = Discard {
            granularity: u32_at(bytes, 44),
            sectors_max: u32_at(bytes, 48),
            zeroes_sectors_max: u32_at(bytes, 52),
        };
        Self {
            attributes: u32_at(bytes, 8),
            logical_shift: bytes[12],
            physical_shift: bytes[13],
            optimal_shift: bytes[14],
            minimal_shift: bytes[15],
            request_sectors_max: u32_at(bytes, 16),
            sectors: u64_at(bytes, 24),
            discard: (u32_at(bytes, 4) & Self::DISCARD != 0).then_some(discard),
        }
    }
}

/// `struct ublksrv_io_desc`: a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Descriptor {
    /// The operation in the low byte, flags above.
    pub(crate) operation: u32,
    pub(crate) sectors: u32,
    pub(crate) start: u64,
}

impl Descriptor {
    pub(crate) const fn op(self) -> u8 {
        self.operation.to_ne_bytes()[if cfg!(target_endian = "little") { 0 } else { 3 }]
    }

    pub(crate) const fn has(self, flag: u32) -> bool {
        self.operation & flag != 0
    }

    pub(crate) fn from_bytes(bytes: &[u8; DESCRIPTOR_BYTES]) -> Self {
        Self { operation: u32_at(bytes, 0), sectors: u32_at(bytes, 4), start: u64_at(bytes, 8) }
    }
}

fn array<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    bytes[at..at + N].try_into().expect("as many bytes")
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_ne_bytes(array(bytes, at))
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_ne_bytes(array(bytes, at))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_ne_bytes(array(bytes, at))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_have_the_numbers_of_the_kernel_s_header() {
        // `_IOR('u', 0x13, 32 bytes)`, `_IOWR('u', 0x06, 32 bytes)`, `_IOWR('u', 0x20, 16 bytes)`.
        assert_eq!(ControlOp::GetFeatures.code(), 0x8020_7513);
        assert_eq!(ControlOp::StartDev.code(), 0xc020_7506);
        assert_eq!((FETCH, COMMIT_AND_FETCH), (0xc010_7520, 0xc010_7521));
        assert_eq!(data_offset(3), 0x8000_0000 + 3 * (32 << 20));
    }

    #[test]
    fn what_is_written_is_read_back() {
        let info = DevInfo {
            queues: 1,
            depth: 128,
            state: 2,
            request_bytes_max: 1 << 20,
            device: 7,
            pid: -1,
            flags: 0x1fe,
            server_flags: u64::MAX - 5,
        };
        assert_eq!(DevInfo::from_bytes(&info.to_bytes()), info);
        let discard = Discard { granularity: 512, sectors_max: 9, zeroes_sectors_max: 8 };
        for discard in [None, Some(discard)] {
            let params = Params {
                attributes: 14,
                logical_shift: 9,
                physical_shift: 12,
                optimal_shift: 12,
                minimal_shift: 12,
                request_sectors_max: 2_048,
                sectors: 1 << 40,
                discard,
            };
            assert_eq!(Params::from_bytes(&params.to_bytes()), params);
        }
    }

    #[test]
    fn a_descriptor_has_its_operation_in_the_low_byte() {
        let mut bytes = [0; DESCRIPTOR_BYTES];
        bytes[0..4].copy_from_slice(&(1 | flag::FUA).to_ne_bytes());
        bytes[4..8].copy_from_slice(&8_u32.to_ne_bytes());
        bytes[8..16].copy_from_slice(&99_u64.to_ne_bytes());
        let found = Descriptor::from_bytes(&bytes);
        assert_eq!((found.op(), found.sectors, found.start), (1, 8, 99));
        assert!(found.has(flag::FUA) && !found.has(flag::NO_UNMAP));
    }
}
