//! TOML edited in place: comments and layout stay.

use toml_edit::{Array, ArrayOfTables, InlineTable, Item, Table, Value};

use super::values::{LatencyEdit, RateEdit, StreamEdit, VolumeEdit};
use crate::parse::RATE_KEYS;

/// The tables under `key`, also if the file has them as an array on one line.
pub(super) fn tables_in<'a>(within: &'a mut Table, key: &str) -> Option<&'a mut ArrayOfTables> {
    let item = within.entry(key).or_insert_with(|| Item::ArrayOfTables(ArrayOfTables::new()));
    if !item.is_array_of_tables() {
        let tables = core::mem::take(item).into_array_of_tables();
        *item = tables.map_or_else(|item| item, Item::ArrayOfTables);
    }
    item.as_array_of_tables_mut()
}

const NO_RATE: RateEdit = RateEdit { iops: None, bandwidth: None, run: None, block: None };

pub(super) fn write(table: &mut Table, edit: &VolumeEdit) {
    let VolumeEdit { size, reserve, limit, weight, priority, rate, .. } = edit;
    let VolumeEdit { stream, latency, labels, ublk, .. } = edit;
    let streams = matches!(stream, Some(StreamEdit::Put { .. }));
    let bounds = matches!(latency, Some(LatencyEdit::Put { .. }));
    if reserve.is_some() || rate.is_some() {
        for key in RATE_KEYS {
            table.remove(key);
        }
    }
    if stream.is_some() || bounds {
        table.remove("stream");
    }
    if streams || latency.is_some() {
        table.remove("latency");
    }
    if rate.is_some() {
        table.remove("reserve");
    }
    if let Some(StreamEdit::Put { bandwidth, block, range, span, order, parts, survive }) = stream {
        let mut fields = inline(bandwidth, block, range.as_deref(), span.as_ref());
        if let Some(order) = order {
            fields.insert("order", order.into());
        }
        if let Some(parts) = parts {
            fields.insert("parts", list(parts.iter().map(String::as_str)));
        }
        if let Some(survive) = survive {
            fields.insert("survive", (*survive).into());
        }
        put(table, "stream", Value::InlineTable(fields));
    }
    if let Some(LatencyEdit::Put { within, requests, burst, size }) = latency {
        put(table, "latency", inline_latency((within, requests), *burst, size));
    }
    match labels {
        Some(labels) if labels.is_empty() => drop(table.remove("labels")),
        Some(labels) => {
            let texts: Vec<String> =
                labels.iter().map(|(name, value)| format!("{name}={value}")).collect();
            put(table, "labels", list(texts.iter().map(String::as_str)));
        }
        None => {}
    }
    let rate = rate.as_ref().unwrap_or(&NO_RATE);
    for (key, text) in [
        ("size", size),
        ("reserve", reserve),
        ("limit", limit),
        ("priority", priority),
        ("iops", &rate.iops),
        ("bandwidth", &rate.bandwidth),
        ("block", &rate.block),
    ] {
        if let Some(text) = text {
            put(table, key, text);
        }
    }
    match ublk {
        Some(true) => put(table, "ublk", true),
        Some(false) => drop(table.remove("ublk")),
        None => {}
    }
    for (key, number) in [("weight", weight), ("run", &rate.run)] {
        if let Some(number) = number {
            put(table, key, *number);
        }
    }
}

fn inline(
    bandwidth: &str,
    block: &str,
    range: Option<&str>,
    span: Option<&[String; 2]>,
) -> InlineTable {
    let mut fields = InlineTable::new();
    fields.insert("bandwidth", bandwidth.into());
    fields.insert("block", block.into());
    if let Some(range) = range {
        fields.insert("range", range.into());
    }
    if let Some(span) = span {
        fields.insert("span", Value::Array(span.iter().map(String::as_str).collect()));
    }
    fields
}

fn inline_latency((within, requests): (&str, &str), burst: Option<i64>, size: &str) -> Value {
    let mut fields = InlineTable::new();
    fields.insert("within", within.into());
    fields.insert("requests", requests.into());
    if let Some(burst) = burst {
        fields.insert("burst", burst.into());
    }
    fields.insert("size", size.into());
    Value::InlineTable(fields)
}

/// Sets a value and keeps the comment after the previous one.
pub(super) fn put(table: &mut Table, key: &str, value: impl Into<Value>) {
    let mut value = value.into();
    if let Some(before) = table.get(key).and_then(Item::as_value) {
        *value.decor_mut() = before.decor().clone();
    }
    table.insert(key, Item::Value(value));
}

pub(super) fn list<'a>(names: impl Iterator<Item = &'a str>) -> Value {
    Value::Array(names.collect())
}

/// The text before a value, from the comma on.
pub(super) fn prefix(value: &Value) -> String {
    let prefix = value.decor().prefix().and_then(|prefix| prefix.as_str());
    prefix.unwrap_or_default().to_owned()
}

/// The end of the rest of a line that has a comment on the previous value; 0 in a list on one line.
pub(super) fn line_end(text: &str) -> usize {
    text.find('\n').unwrap_or(0)
}

/// The text after a list's last value, on either side of a comma.
pub(super) fn behind(list: &mut Array) -> String {
    let trailing = list.trailing().as_str().unwrap_or_default().to_owned();
    let Some(last) = list.iter_mut().last() else { return trailing };
    let suffix = last.decor().suffix().and_then(|suffix| suffix.as_str());
    let suffix = suffix.unwrap_or_default().to_owned();
    last.decor_mut().set_suffix("");
    suffix + &trailing
}

/// Adds a value to a list, on a line of its own if the last one has one. Comments on the last one
/// stay with it.
pub(super) fn add(list: &mut Array, name: &str) {
    let behind = behind(list);
    let mut value = Value::from(name);
    let indent = list.iter().last().map_or_else(String::new, |last| {
        let prefix = prefix(last);
        prefix.rfind('\n').map_or_else(|| " ".to_owned(), |at| prefix[at..].to_owned())
    });
    let split = if indent.starts_with('\n') { line_end(&behind) } else { 0 };
    let (of_last, rest) = behind.split_at(split);
    value.decor_mut().set_prefix(format!("{of_last}{indent}"));
    list.push_formatted(value);
    list.set_trailing(rest);
}

/// Puts another name in the place of one in a list. Comments beside it stay.
pub(super) fn rename(list: &mut Array, old: &str, new: &str) {
    for value in list.iter_mut().filter(|value| value.as_str() == Some(old)) {
        let mut renamed = Value::from(new);
        *renamed.decor_mut() = value.decor().clone();
        *value = renamed;
    }
}

/// Removes a value from a list, with the comment on its line; comments on its neighbours stay.
pub(super) fn take(list: &mut Array, index: usize) {
    let trailing = behind(list);
    let before = prefix(&list.remove(index));
    let (of_last, _) = before.split_at(line_end(&before));
    match list.get_mut(index) {
        Some(next) => {
            let own = prefix(next);
            let joined = match index {
                0 => before,
                _ => format!("{of_last}{}", &own[line_end(&own)..]),
            };
            next.decor_mut().set_prefix(joined);
            list.set_trailing(trailing);
        }
        None => list.set_trailing(format!("{of_last}{}", &trailing[line_end(&trailing)..])),
    }
}
