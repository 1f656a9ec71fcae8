//! Files with a limit on their size.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use units::Bytes;

use crate::error::{InputError, Problem};

/// The file's bytes, or `None` if it has more than `bytes_max`. At most one byte more is read.
///
/// # Errors
/// The file cannot be read.
pub fn read_at_most(path: &Path, bytes_max: u64) -> std::io::Result<Option<Vec<u8>>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(bytes_max + 1).read_to_end(&mut bytes)?;
    Ok((bytes.len() as u64 <= bytes_max).then_some(bytes))
}

/// The file's text.
///
/// # Errors
/// The file cannot be read, has more than `bytes_max` bytes, or is not UTF-8; the last names the
/// line.
pub fn read_text(path: &Path, bytes_max: u64) -> Result<String, InputError> {
    let refused = |line, found: String, expected: String| {
        let (file, found) = (path.display().to_string(), Some(found));
        InputError::from(Problem { file, line, found, expected, ..Problem::default() })
    };
    let bytes = read_at_most(path, bytes_max)
        .map_err(|error| refused(None, error.to_string(), "a file that can be read".into()))?;
    let Some(bytes) = bytes else {
        let expected = format!("at most {}", Bytes(bytes_max));
        return Err(refused(None, format!("over {bytes_max} bytes"), expected));
    };
    String::from_utf8(bytes).map_err(|error| {
        let (before, from) = error.as_bytes().split_at(error.utf8_error().valid_up_to());
        let line = before.split(|byte| *byte == b'\n').count();
        let found = from.first().map_or_else(String::new, |byte| format!("\\x{byte:02x}"));
        refused(Some(line), found, "text in UTF-8".into())
    })
}
