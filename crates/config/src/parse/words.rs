//! Keys whose value is one of a few words.

use input::{InputError, Value};

/// The meaning of the word in the config.
pub(crate) fn one_of<T: Copy>(
    value: Option<Value<'_>>,
    words: &[(&str, T)],
    default: T,
) -> Result<T, InputError> {
    let Some(value) = value else { return Ok(default) };
    let text = value.text(listed(words))?;
    let found = words.iter().find(|(word, _)| *word == text);
    found.map(|(_, meant)| *meant).ok_or_else(|| value.refuse(listed(words)))
}

/// What a key accepts.
pub(crate) fn listed<T>(words: &[(&str, T)]) -> String {
    format!("one of {}", input::list(words.iter().map(|(word, _)| word), '"'))
}
