//! `labels` of a volume: a list of `NAME=VALUE`.

use input::{InputError, Table};

use crate::limits::{LABEL_NAME_BYTES_MAX, LABEL_VALUE_BYTES_MAX, LABELS_MAX};
use crate::plan::Labels;

/// Names that metrics have for other things.
const RESERVED: [&str; 6] = ["device", "disk", "instance", "job", "le", "quantile"];

/// Whether a label may have this name: metrics carry it as the name of a label of theirs.
fn is_name(name: &str) -> bool {
    let is_part = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
    let first = name.bytes().next().is_some_and(|byte| byte.is_ascii_lowercase());
    first
        && name.len() <= LABEL_NAME_BYTES_MAX
        && name.bytes().all(is_part)
        && !RESERVED.contains(&name)
}

/// Whether a label may have this value.
fn is_value(value: &str) -> bool {
    value.len() <= LABEL_VALUE_BYTES_MAX && !value.chars().any(char::is_control)
}

/// The labels of a volume.
pub(super) fn labels(table: &Table<'_>) -> Result<Labels, InputError> {
    let expected = format!(
        "NAME=VALUE, with a name of 1 to {LABEL_NAME_BYTES_MAX} of a-z, 0-9 and _ that begins with \
         a letter and is none of {}, and a value of at most {LABEL_VALUE_BYTES_MAX} bytes",
        RESERVED.join(", ")
    );
    let mut labels = Labels::new();
    let Some(value) = table.value("labels") else { return Ok(labels) };
    for (value, text) in value.texts(LABELS_MAX, &expected)? {
        let parts = text.split_once('=').filter(|(name, label)| is_name(name) && is_value(label));
        let (name, label) = parts.ok_or_else(|| value.refuse(&expected))?;
        if labels.insert(name.to_owned(), label.to_owned()).is_some() {
            return Err(value.refuse("each label once"));
        }
    }
    Ok(labels)
}
