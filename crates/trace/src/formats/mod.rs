//! One module for each family of formats: from a line or a record to a [`Raw`] request.

mod blkparse;
mod csv;
mod disksim;
mod fio;
mod spindle;
pub(crate) mod srt;
pub(crate) mod vscsi;

pub(crate) use blkparse::Event;
pub(crate) use spindle::HEADER as SPINDLE_HEADER;
pub(crate) use spindle::mark;

use crate::Format;
use crate::error::Fault;
use crate::record::Raw;

/// The parser of a text's lines, with the state that it keeps between lines.
#[derive(Debug)]
pub(crate) enum Lines {
    Spindle(spindle::Lines),
    DiskSimAscii,
    DiskSimValidate(disksim::Validate),
    Blkparse(blkparse::Lines),
    Fio(fio::Lines),
    Msr,
    AliCloud,
    Tencent,
}

impl Lines {
    /// The parser of `format`; `None` for a binary one.
    pub(crate) fn new(format: Format) -> Option<Self> {
        Some(match format {
            Format::Spindle => Self::Spindle(spindle::Lines::default()),
            Format::DiskSimAscii => Self::DiskSimAscii,
            Format::DiskSimValidate => Self::DiskSimValidate(disksim::Validate::default()),
            Format::Blkparse => Self::Blkparse(blkparse::Lines::new(Event::Queue)),
            Format::BlkparseIssue => Self::Blkparse(blkparse::Lines::new(Event::Issue)),
            Format::FioV2 => Self::Fio(fio::Lines::new(fio::Version::Two)),
            Format::FioV3 => Self::Fio(fio::Lines::new(fio::Version::Three)),
            Format::Msr => Self::Msr,
            Format::AliCloud => Self::AliCloud,
            Format::Tencent => Self::Tencent,
            Format::HpSrt | Format::Vscsi => return None,
        })
    }

    /// The request in a line that is not blank; `None` if it has none. `number` counts lines from
    /// 1.
    pub(crate) fn request(&mut self, line: &str, number: u64) -> Result<Option<Raw>, Fault> {
        match self {
            Self::Spindle(lines) => lines.request(line),
            Self::DiskSimAscii => disksim::ascii(line).map(Some),
            Self::DiskSimValidate(lines) => lines.request(line).map(Some),
            Self::Blkparse(lines) => lines.request(line),
            Self::Fio(lines) => lines.request(line),
            Self::Msr => csv::msr(line, number),
            Self::AliCloud => csv::alicloud(line, number),
            Self::Tencent => csv::tencent(line, number),
        }
    }
}
