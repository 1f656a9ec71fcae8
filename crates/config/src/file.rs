//! Files that may be larger than they should be.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use units::Bytes;

use crate::error::{ConfigError, Parts};

/// The file's bytes, or `None` if there are more than `bytes_max`: of those no more is read.
pub(crate) fn read_at_most(path: &Path, bytes_max: u64) -> std::io::Result<Option<Vec<u8>>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(bytes_max + 1).read_to_end(&mut bytes)?;
    Ok((bytes.len() as u64 <= bytes_max).then_some(bytes))
}

/// The file's text.
///
/// # Errors
/// It cannot be read, is over `bytes_max`, or is no text: the line is told where that ends.
pub(crate) fn read_text(path: &Path, bytes_max: u64) -> Result<String, ConfigError> {
    let refused = |line, found: String, expected: String| {
        ConfigError::from(Parts {
            file: path.display().to_string(),
            line,
            table: None,
            field: None,
            found: Some(found),
            expected,
            refusal: false,
            unfit: None,
        })
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
