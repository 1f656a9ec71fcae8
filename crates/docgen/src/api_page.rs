//! The page of the HTTP API: routes and shapes, from the `OpenAPI` description.

use core::fmt::Write as _;

use serde_json::{Map, Value};

use crate::markdown::{cell, head, paragraph, sentence};

/// The page of a description.
pub(crate) fn page(json: &str) -> String {
    let api: Value = serde_json::from_str(json).expect("the description is JSON");
    let mut text = head("API", "the routes of `crates/api`");
    text.push_str(&paragraph(&sentence(words(&api["info"], "description"))));
    text.push('\n');
    text.push_str(&paragraph(
        "The same description as JSON is [openapi.json](openapi.json); a daemon serves it at \
         `/openapi.json`. [Operating](../guide/operating.md) and \
         [Security](../guide/security.md) show how to reach the API.",
    ));
    text.push_str("\n## Routes\n\n| route | |\n|---|---|\n");
    for (path, method, operation) in operations(&api) {
        let route = format!("{} {path}", method.to_uppercase());
        let (anchor, summary) = (anchor(&route), cell(words(operation, "summary")));
        let _ = writeln!(text, "| [`{route}`](#{anchor}) | {summary} |");
    }
    for (path, method, operation) in operations(&api) {
        route(&format!("{} {path}", method.to_uppercase()), operation, &mut text);
    }
    text.push_str("\n## Shapes\n");
    for (name, schema) in object(&api["components"]["schemas"]) {
        shape(name, schema, &mut text);
    }
    text
}

/// Every route in the description's order: path, method, operation.
fn operations(api: &Value) -> Vec<(&str, &str, &Value)> {
    let paths = object(&api["paths"]).iter();
    let all = paths.flat_map(|(path, methods)| {
        object(methods).iter().map(move |(method, of)| (path.as_str(), method.as_str(), of))
    });
    all.collect()
}

fn route(name: &str, operation: &Value, text: &mut String) {
    let _ = writeln!(text, "\n### {name}\n");
    text.push_str(&paragraph(&sentence(words(operation, "summary"))));
    let more = words(operation, "description");
    if !more.is_empty() {
        text.push('\n');
        text.push_str(&paragraph(&sentence(more)));
    }
    let parameters = operation["parameters"].as_array().map(Vec::as_slice).unwrap_or_default();
    if !parameters.is_empty() {
        text.push_str("\n| parameter | in | type | |\n|---|---|---|---|\n");
        for parameter in parameters {
            let (name, place) = (words(parameter, "name"), words(parameter, "in"));
            let (kind, meaning) = (kind(&parameter["schema"]), words(parameter, "description"));
            let _ = writeln!(text, "| `{name}` | {place} | {kind} | {} |", cell(meaning));
        }
    }
    let body = &operation["requestBody"]["content"]["application/json"]["schema"];
    if !body.is_null() {
        let _ = writeln!(text, "\nBody: {}", kind(body));
    }
    text.push_str("\n| status | body | |\n|---|---|---|\n");
    for (status, response) in object(&operation["responses"]) {
        let content = object(&response["content"]).values().next();
        let body = content.map(|content| kind(&content["schema"])).unwrap_or_default();
        let meaning = cell(words(response, "description"));
        let _ = writeln!(text, "| {status} | {body} | {meaning} |");
    }
}

fn shape(name: &str, schema: &Value, text: &mut String) {
    let _ = writeln!(text, "\n### {name}\n");
    let about = words(schema, "description");
    if !about.is_empty() {
        text.push_str(&paragraph(&sentence(about)));
        text.push('\n');
    }
    if let Some(values) = schema["enum"].as_array() {
        let values: Vec<_> = values.iter().map(|value| format!("`{value}`")).collect();
        let _ = writeln!(text, "One of {}.", values.join(", "));
        return;
    }
    let required = schema["required"].as_array().map(Vec::as_slice).unwrap_or_default();
    text.push_str("| field | type | |\n|---|---|---|\n");
    for (field, of) in object(&schema["properties"]) {
        let is_required = required.iter().any(|name| name == field.as_str());
        let optional = if is_required { "" } else { ", optional" };
        let about = cell(description(of));
        let _ = writeln!(text, "| `{field}` | {}{optional} | {about} |", kind(of));
    }
}

/// A schema's description, or that of its first alternative that has one.
fn description(schema: &Value) -> &str {
    let own = words(schema, "description");
    if !own.is_empty() {
        return own;
    }
    let choices = schema["oneOf"].as_array().map(Vec::as_slice).unwrap_or_default();
    choices.iter().map(|choice| words(choice, "description")).find(|d| !d.is_empty()).unwrap_or("")
}

/// How a schema's type is shown: a link for a shape.
fn kind(schema: &Value) -> String {
    if let Some(reference) = schema["$ref"].as_str() {
        let name = reference.rsplit('/').next().unwrap_or_default();
        return format!("[{name}](#{})", name.to_lowercase());
    }
    if let Some(choices) = schema["oneOf"].as_array() {
        let choices = choices.iter().filter(|choice| choice["type"] != "null").map(kind);
        return choices.collect::<Vec<_>>().join(" or ");
    }
    let names: Vec<&str> = match &schema["type"] {
        Value::String(name) => vec![name],
        Value::Array(names) => {
            names.iter().filter_map(Value::as_str).filter(|name| *name != "null").collect()
        }
        _ => vec!["any"],
    };
    if names == ["array"] {
        return format!("list of {}", kind(&schema["items"]));
    }
    names.join(" or ")
}

fn words<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or_default()
}

/// An object's members; none of what is no object.
fn object(value: &Value) -> &Map<String, Value> {
    static EMPTY: std::sync::LazyLock<Map<String, Value>> = std::sync::LazyLock::new(Map::new);
    value.as_object().unwrap_or(&EMPTY)
}

/// The anchor of a heading, as Markdown viewers make it.
fn anchor(heading: &str) -> String {
    let kept = heading.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
    kept.map(|c| if c == ' ' { '-' } else { c }).collect::<String>().to_lowercase()
}
