//! Checksums of the data on a pool's disks: one for each 4 KiB, kept on the same disk, in a
//! checksum area behind the second label.
//!
//! ```text
//!  … │ label │ ledger 0 │ ledger 1 │ page of region 0 │ page of region 1 │ …
//! ```
//!
//! A *page* has the checksums of a *region* of 255 blocks. A region is *open* from before the first
//! write to it until its page has what was written; the *ledger*, a bitmap in two slots, says which
//! regions are. The page of an open region counts for nothing after a crash: its checksums are
//! unknown then, and no data is refused for what a crash has lost. What changes in a closed region
//! is a lost, misdirected or corrupted write, or damage, and a read finds it.
//!
//! So a page needs no second slot: a torn one is of an open region. A page that is damaged makes
//! the checksums of its region unknown, and no data wrong.
//!
//! [`DiskSums`] is the state machine of one disk. It orders pieces that touch the same 4 KiB, so
//! that a checksum is always that of the last write that has completed, and a read is compared with
//! it exactly. It has no clock, does no I/O, and sees no data: its driver computes the checksums.
//!
//! | before | what happens |
//! |---|---|
//! | a read | the page of its region is read, unless it is in memory |
//! | a write to a closed region | the same, then the ledger with its region open is durable |
//! | a piece in order | the same for the regions in front of it, several together |
//! | a region is closed | the data is flushed, its page is written and flushed, then the ledger |

mod area;
mod find;
mod format;
mod machine;
mod order;
mod run_pieces;
mod run_transactions;
mod runs;
mod transaction;
mod values;

pub use area::{
    LEDGER_HEAD_BYTES, PAGE_HEAD_BYTES, SUM_SECTORS, SUMS_OF_REGION, SUMS_REGION_BLOCKS, SumsArea,
    blocks_with_area, touched_sums, whole_sums,
};
pub(crate) use find::check_sums;
pub use find::{FoundSums, find_sums};
pub use format::{LEDGER_FIELDS, Ledger, PAGE_FIELDS, PageOwner};
pub use machine::{DiskSums, RESIDENT_MAX, SumsLimits};
pub use values::{
    Access, Submitted, Sum, SumsAction, SumsOutput, SumsSerial, SumsStatus, SumsStepId, Verdict,
};
