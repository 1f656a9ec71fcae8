//! What blkparse prints by default, as blkparse(1) and `blkparse_fmt.c` of blktrace describe it.
//!
//! ```text
//! major,minor cpu sequence seconds.nanoseconds pid action rwbs sector + sectors [process]
//!   8,0    3        1     0.000000000   697  Q   W 223490 + 8 [kjournald]
//! ```
//! One action is a request, all others are left out: by default `Q`, as it entered the block layer,
//! which is what a volume sees; `D`, as it was issued to the driver, behind merges and an I/O
//! scheduler, with `blkparse-issue`. The summary at the end is left out too.
//!
//! The letters of rwbs: an `F` before the operation is a flush before it (a request that is nothing
//! else is a flush; one with data is taken as its data, the flush being the kernel's to send), `R`,
//! `W`, `D` (discard) the operation, an `F` behind it forced unit access. Sectors have 512 bytes. A
//! device is `major << 20 | minor`, as the kernel packs it. Times count from the trace's start. The
//! answer is another line, as far away as it took: it is not matched, so that memory stays
//! constant.

use units::{Op, SECTOR_BYTES};

use crate::error::Fault;
use crate::record::{Raw, bytes};
use crate::text::{number, time};

const LINE: &str =
    "`major,minor cpu sequence seconds pid action rwbs ...`, as blkparse prints by default";
const MINOR_BITS: u32 = 20;
const MAJOR_BITS: u32 = 12;

/// The action that is a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    Queue,
    Issue,
}

impl Event {
    fn action(self) -> &'static str {
        match self {
            Self::Queue => "Q",
            Self::Issue => "D",
        }
    }
}

/// The action that is a request, and whether the summary has begun.
#[derive(Debug)]
pub(crate) struct Lines {
    event: Event,
    over: bool,
}

impl Lines {
    pub(crate) fn new(event: Event) -> Self {
        Self { event, over: false }
    }

    pub(crate) fn request(&mut self, line: &str) -> Result<Option<Raw>, Fault> {
        self.over |= ["CPU", "Total (", "Throughput"].iter().any(|head| line.starts_with(head));
        if self.over {
            return Ok(None);
        }
        let mut words = line.split_ascii_whitespace();
        let mut word = || words.next().ok_or_else(|| Fault::of(line, LINE));
        let device = device(word()?)?;
        let (_cpu, _sequence) = (word()?, word()?);
        let at = time(word()?, 1_000_000_000, "a time in seconds")?;
        let (_pid, action) = (word()?, word()?);
        if action != self.event.action() {
            return Ok(None);
        }
        let rwbs = word()?;
        let (op, fua) = operation(rwbs)?;
        let Some(op) = op else { return Ok(None) };
        let rest = [words.next(), words.next(), words.next()];
        let [Some(start), Some("+"), Some(len)] = rest else {
            // Without a location it is a flush, or a command that transfers no sectors.
            return Ok(rwbs.starts_with('F').then(|| Raw::flush(at, device)));
        };
        let sectors = |text| bytes(number(text, "a number of sectors")?, SECTOR_BYTES);
        let (start, len) = (sectors(start)?, sectors(len)?);
        if op == Op::Flush || len == 0 && rwbs.starts_with('F') {
            return Ok(Some(Raw::flush(at, device)));
        }
        Ok(Some(Raw { fua, ..Raw::new(at, device, op, start, len) }))
    }
}

fn device(text: &str) -> Result<u32, Fault> {
    let refused = || Fault::of(text, LINE);
    let (major, minor) = text.split_once(',').ok_or_else(refused)?;
    let within =
        |text, bits| number(text, LINE).ok().filter(|n: &u32| n.checked_shr(bits) == Some(0));
    let major = within(major, MAJOR_BITS).ok_or_else(refused)?;
    let minor = within(minor, MINOR_BITS).ok_or_else(refused)?;
    Ok(major << MINOR_BITS | minor)
}

/// The operation, if it is known, and whether it has forced unit access.
fn operation(rwbs: &str) -> Result<(Option<Op>, bool), Fault> {
    let mut letters = rwbs.chars().peekable();
    let flushes = letters.next_if_eq(&'F').is_some();
    let op = match letters.peek() {
        Some('R') => Some(Op::Read),
        Some('W') => Some(Op::Write),
        Some('D') => Some(Op::Trim),
        Some('F') => Some(Op::Flush),
        None if flushes => Some(Op::Flush),
        Some('N' | 'S' | 'A' | 'M' | 'B') => flushes.then_some(Op::Flush),
        // A command to a zone of a zoned disk.
        Some('Z') => None,
        _ => return Err(Fault::of(rwbs, "letters such as R, WS, FWFS or D")),
    };
    Ok((op, letters.skip(1).any(|letter| letter == 'F')))
}
