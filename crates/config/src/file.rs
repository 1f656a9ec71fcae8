//! Files that may be larger than they should be.

use std::fs::File;
use std::io::Read;
use std::path::Path;

/// The file's bytes, or `None` if there are more than `bytes_max`: of those no more is read.
pub(crate) fn read_at_most(path: &Path, bytes_max: u64) -> std::io::Result<Option<Vec<u8>>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(bytes_max + 1).read_to_end(&mut bytes)?;
    Ok((bytes.len() as u64 <= bytes_max).then_some(bytes))
}
