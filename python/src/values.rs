//! Values of a scenario, replaced in its text by their paths.

use pyo3::prelude::*;
use toml_edit::{DocumentMut, Item, TableLike, Value};

use crate::bad_input;

/// The text with each path's value replaced by a TOML literal. A path is `key` for a key of the
/// whole scenario, else `table.name.key`: the table `[[table]]` whose `name` it is, or whose number
/// from 0 on.
#[pyfunction]
pub(crate) fn with_values(text: &str, values: Vec<(String, String)>) -> PyResult<String> {
    let mut document: DocumentMut = text.parse().map_err(bad_input)?;
    for (path, literal) in values {
        let value: Value = literal.parse().map_err(bad_input)?;
        put(&mut document, &path, value).map_err(bad_input)?;
    }
    Ok(document.to_string())
}

fn put(document: &mut DocumentMut, path: &str, value: Value) -> Result<(), String> {
    let parts: Vec<&str> = path.split('.').collect();
    match parts[..] {
        [key] if !key.is_empty() => {
            document.insert(key, Item::Value(value));
            Ok(())
        }
        [table, name, key] => {
            let tables = document.get_mut(table).and_then(Item::as_array_of_tables_mut);
            let mut tables =
                tables.ok_or_else(|| format!("{path}: found no [[{table}]]"))?.iter_mut();
            let found = match name.parse::<usize>() {
                Ok(number) => tables.nth(number),
                Err(_) => {
                    tables.find(|table| table.get("name").and_then(Item::as_str) == Some(name))
                }
            };
            let found = found.ok_or_else(|| format!("{path}: found no [[{table}]] \"{name}\""))?;
            TableLike::insert(found, key, Item::Value(value));
            Ok(())
        }
        _ => Err(format!("found path `{path}`, expected `key` or `table.name.key`")),
    }
}
