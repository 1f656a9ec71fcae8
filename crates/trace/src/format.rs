//! The formats: their names, and how they are recognised.

use core::fmt;
use core::str::FromStr;
use std::path::Path;

use crate::formats::{SPINDLE_HEADER, srt, vscsi};
use crate::limits::SNIFF_BYTES_MAX;

/// The format of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Format {
    /// Spindle's own text format.
    Spindle,
    /// HP's binary "standard record trace".
    HpSrt,
    /// `DiskSim`'s text for open loops.
    DiskSimAscii,
    /// `DiskSim`'s text for the validation of a drive, with measured response times.
    DiskSimValidate,
    /// The output of blkparse, with a request for each queued event.
    Blkparse,
    /// The output of blkparse, with a request for each event of issuing to the driver.
    BlkparseIssue,
    /// fio's log, version 2.
    FioV2,
    /// fio's log, version 3.
    FioV3,
    /// Microsoft Research Cambridge's CSV.
    Msr,
    /// `VMware`'s binary traces of virtual SCSI disks, version 1.
    Vscsi,
    /// Alibaba Cloud's CSV.
    AliCloud,
    /// Tencent Cloud's CSV.
    Tencent,
}

/// A name of no format.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownFormat(String);

impl Format {
    /// All of them.
    pub const ALL: [Self; 12] = [
        Self::Spindle,
        Self::HpSrt,
        Self::DiskSimAscii,
        Self::DiskSimValidate,
        Self::Blkparse,
        Self::BlkparseIssue,
        Self::FioV2,
        Self::FioV3,
        Self::Msr,
        Self::Vscsi,
        Self::AliCloud,
        Self::Tencent,
    ];

    /// The name on the command line and in configs.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Spindle => "spindle",
            Self::HpSrt => "hp-srt",
            Self::DiskSimAscii => "disksim-ascii",
            Self::DiskSimValidate => "disksim-validate",
            Self::Blkparse => "blkparse",
            Self::BlkparseIssue => "blkparse-issue",
            Self::FioV2 => "fio-v2",
            Self::FioV3 => "fio-v3",
            Self::Msr => "msr",
            Self::Vscsi => "vscsi",
            Self::AliCloud => "alicloud",
            Self::Tencent => "tencent",
        }
    }

    /// All names, for messages.
    pub fn names() -> String {
        Self::ALL.map(Self::name).join(", ")
    }

    /// Whether its times have an epoch of their own, so that a trace starts with its first request.
    pub(crate) const fn has_epoch(self) -> bool {
        matches!(self, Self::HpSrt | Self::Msr | Self::Vscsi | Self::AliCloud | Self::Tencent)
    }

    /// The format of a trace that begins with these bytes and has this name, if it is recognised.
    pub(crate) fn of(bytes: &[u8], path: &Path) -> Option<Self> {
        let bytes = &bytes[..bytes.len().min(SNIFF_BYTES_MAX)];
        if bytes.starts_with(srt::MAGIC) {
            return Some(Self::HpSrt);
        }
        if bytes.contains(&0) && vscsi::begins(bytes) {
            return Some(Self::Vscsi);
        }
        let text = String::from_utf8_lossy(bytes);
        let line = text.lines().map(str::trim).find(|line| !line.is_empty());
        line.and_then(Self::of_line).or_else(|| Self::of_extension(path))
    }

    fn of_line(line: &str) -> Option<Self> {
        match line {
            SPINDLE_HEADER => return Some(Self::Spindle),
            "fio version 2 iolog" => return Some(Self::FioV2),
            "fio version 3 iolog" => return Some(Self::FioV3),
            _ => {}
        }
        let fields: Vec<&str> = line.split(',').map(str::trim).collect();
        let lower = |index: usize| fields[index].to_ascii_lowercase();
        match fields.len() {
            7 if ["read", "write", "type"].contains(&lower(3).as_str()) => return Some(Self::Msr),
            5 if ["r", "w", "opcode"].contains(&lower(1).as_str()) => return Some(Self::AliCloud),
            5 if ["0", "1", "iotype"].contains(&lower(3).as_str()) => return Some(Self::Tencent),
            _ => {}
        }
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        let number = |word: &&str| word.bytes().all(|b| b.is_ascii_digit() || b == b'.');
        match words.as_slice() {
            ["R" | "W", _, rest @ ..] if rest.len() == 4 && rest.iter().all(number) => {
                Some(Self::DiskSimValidate)
            }
            [first @ .., _] if first.len() == 4 && first.iter().all(number) => {
                Some(Self::DiskSimAscii)
            }
            [device, cpu, sequence, ..] if words.len() > 5 => {
                let known = device.split_once(',').is_some_and(|(a, b)| number(&a) && number(&b));
                (known && number(cpu) && number(sequence)).then_some(Self::Blkparse)
            }
            _ => None,
        }
    }

    fn of_extension(path: &Path) -> Option<Self> {
        match path.extension()?.to_str()?.to_ascii_lowercase().as_str() {
            "srt" => Some(Self::HpSrt),
            "vscsi" | "vscsi1" => Some(Self::Vscsi),
            "blkparse" => Some(Self::Blkparse),
            _ => None,
        }
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Format {
    type Err = UnknownFormat;
    fn from_str(text: &str) -> Result<Self, UnknownFormat> {
        let known = Self::ALL.into_iter().find(|format| format.name() == text);
        known.ok_or_else(|| UnknownFormat(text.to_owned()))
    }
}

impl fmt::Display for UnknownFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "found `{}`, expected one of {}", self.0, Format::names())
    }
}

impl std::error::Error for UnknownFormat {}
