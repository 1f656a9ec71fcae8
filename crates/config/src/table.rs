//! One TOML table, read key by key, with an error for each way in which a value is not what it should be.
//!
//! The tables are walked rather than deserialized so that every error knows its table, its field and its
//! line: a derived deserializer knows the line alone. Invariant: an error made here carries a line.

use core::fmt::Display;
use core::ops::RangeInclusive;
use core::str::FromStr;

use toml::Spanned;
use toml::de::{DeTable, DeValue};
use units::{Bytes, Duration, Rate, SECTOR_BYTES, Share};

use crate::error::{ConfigError, Parts};
use crate::limits::{INTERVAL_MIN, TIME_MAX};

type Node<'t> = Spanned<DeValue<'t>>;

const FOUND_CHARS_MAX: usize = 60;
const LISTED_MAX: usize = 32;
const BANDWIDTH: &str = "a bandwidth above zero such as 20MB/s or 5MiB/s";

/// A text, the name that messages give it, and where its lines end: they are asked for once a table.
pub(crate) struct Source<'t> {
    file: &'t str,
    text: &'t str,
    newlines: Vec<usize>,
}

impl<'t> Source<'t> {
    pub(crate) fn new(file: &'t str, text: &'t str) -> Self {
        // Behind the final newline there is nothing to look at: what is missing there, is missing on the
        // last line that says something.
        let end = text.trim_end_matches('\n').len();
        Self { file, text, newlines: text[..end].match_indices('\n').map(|(at, _)| at).collect() }
    }

    /// The number of the line, from 1, in which the byte at `offset` stands.
    fn line(&self, offset: usize) -> usize {
        1 + self.newlines.partition_point(|newline| *newline < offset)
    }

    /// Reads the text as TOML.
    pub(crate) fn parse(&self) -> Result<DeTable<'t>, ConfigError> {
        DeTable::parse(self.text).map(Spanned::into_inner).map_err(|error| {
            let line = self.line(error.span().map_or(0, |span| span.start));
            let found =
                self.text.lines().nth(line - 1).map(str::trim).filter(|text| !text.is_empty());
            let expected = format!("TOML: {}", error.message().replace('\n', ", "));
            ConfigError::from(Parts {
                file: self.file.to_owned(),
                line: Some(line),
                table: None,
                field: None,
                found: found.map(shortened),
                expected,
                refusal: false,
                unfit: None,
            })
        })
    }
}

/// One table and its title in messages. `None` is the top of the file.
pub(crate) struct Table<'a> {
    source: &'a Source<'a>,
    title: Option<String>,
    offset: usize,
    fields: &'a DeTable<'a>,
}

/// One value in a table.
pub(crate) struct Value<'a> {
    table: &'a Table<'a>,
    key: &'a str,
    node: &'a Node<'a>,
}

impl<'a> Table<'a> {
    /// The top of the file, whose keys are all in `accepted`.
    pub(crate) fn top(
        source: &'a Source<'a>,
        fields: &'a DeTable<'a>,
        accepted: &[&str],
    ) -> Result<Self, ConfigError> {
        Self { source, title: None, offset: 0, fields }.with_keys_in(accepted)
    }

    /// The table within this one under `key`, if there is one.
    pub(crate) fn table(
        &'a self,
        key: &'a str,
        accepted: &[&str],
    ) -> Result<Option<Self>, ConfigError> {
        let within = |value: Value<'a>| {
            value.fields(format!("[{key}]"), accepted, format_args!("a table `[{key}]`"))
        };
        self.value(key).map(within).transpose()
    }

    /// The table in braces under `key`, if there is one; messages name the table that it stands in.
    pub(crate) fn braces(
        &'a self,
        key: &'a str,
        accepted: &[&str],
    ) -> Result<Option<Self>, ConfigError> {
        let title =
            self.title.as_ref().map_or_else(|| key.to_owned(), |title| format!("{title} {key}"));
        let expected = format!("{{ {} = … }}", accepted.join(" = …, "));
        let within = |value: Value<'a>| value.fields(title, accepted, expected);
        self.value(key).map(within).transpose()
    }

    /// The tables `[[key]]`, at most `count_max` of them.
    pub(crate) fn tables(
        &'a self,
        key: &'a str,
        accepted: &[&str],
        count_max: usize,
    ) -> Result<Vec<Self>, ConfigError> {
        let Some(value) = self.value(key) else { return Ok(Vec::new()) };
        // Those of a table are called as their headers are: `[[pool.volume]]`.
        let above = self.title.as_deref().and_then(|title| title.strip_prefix('['));
        let above = above.and_then(|title| title.strip_suffix(']'));
        let header = above.map_or_else(|| key.to_owned(), |above| format!("{above}.{key}"));
        let expected = format!("tables `[[{header}]]`, with two brackets");
        let DeValue::Array(all) = value.node.get_ref() else { return Err(value.refuse(expected)) };
        if let Some(first_above) = all.get(count_max) {
            let error = self.error(first_above.span().start, Some(key));
            let expected = format!("at most {count_max} tables `[[{header}]]`");
            return Err(error.refuse(Some(all.len().to_string()), expected));
        }
        let table = |(index, node): (usize, &'a Node<'a>)| {
            let DeValue::Table(fields) = node.get_ref() else {
                return Err(Value { node, ..value }.refuse(&expected));
            };
            let name = fields.get("name").and_then(|name| name.get_ref().as_str());
            let title = match name.filter(|name| !name.is_empty()) {
                Some(name) => format!("[[{header}]] \"{}\"", shortened(name)),
                None => format!("[[{header}]] #{}", index + 1),
            };
            let (title, offset) = (Some(title), node.span().start);
            Self { source: self.source, title, offset, fields }.with_keys_in(accepted)
        };
        all.iter().enumerate().map(table).collect()
    }

    /// Refuses the first key, in the file's order, that is not in `accepted`.
    fn with_keys_in(self, accepted: &[&str]) -> Result<Self, ConfigError> {
        let unknown = self.fields.keys().filter(|key| !accepted.contains(&key.get_ref().as_ref()));
        let Some(first) = unknown.min_by_key(|key| key.span().start) else { return Ok(self) };
        let key = shortened(first.get_ref());
        let expected = format!("one of the keys {}", listed(accepted.iter(), '`'));
        Err(self.error(first.span().start, Some(&key)).refuse(Some(key.clone()), expected))
    }

    /// The line of its header.
    pub(crate) fn line(&self) -> usize {
        self.source.line(self.offset)
    }

    /// The value of `key`, if it has one.
    pub(crate) fn value(&'a self, key: &'a str) -> Option<Value<'a>> {
        self.fields.get(key).map(|node| Value { table: self, key, node })
    }

    /// The value of `key`; where it has none, an error that says what was `expected`.
    pub(crate) fn require(
        &'a self,
        key: &'a str,
        expected: impl Display,
    ) -> Result<Value<'a>, ConfigError> {
        self.value(key).ok_or_else(|| self.missing(key, expected))
    }

    /// An error about `key`, which has no value.
    pub(crate) fn missing(&self, key: &str, expected: impl Display) -> ConfigError {
        self.error(self.offset, Some(key)).refuse(None, expected)
    }

    /// A time under `key` within `range`, or the `default`. `note` says where the range comes from.
    pub(crate) fn duration(
        &'a self,
        key: &'a str,
        range: RangeInclusive<Duration>,
        note: &str,
        default: Duration,
    ) -> Result<Duration, ConfigError> {
        self.value(key).map_or(Ok(default), |value| value.duration(range, note))
    }

    fn error(&self, offset: usize, field: Option<&str>) -> Parts {
        Parts {
            file: self.source.file.to_owned(),
            line: Some(self.source.line(offset)),
            table: self.title.clone(),
            field: field.map(str::to_owned),
            found: None,
            expected: String::new(),
            refusal: false,
            unfit: None,
        }
    }
}

impl<'a> Value<'a> {
    /// The line on which it begins.
    pub(crate) fn line(&self) -> usize {
        self.table.source.line(self.node.span().start)
    }

    /// An error that says what stands here and what was `expected`.
    pub(crate) fn refuse(&self, expected: impl Display) -> ConfigError {
        let error = self.table.error(self.node.span().start, Some(self.key));
        let found = match self.node.get_ref() {
            DeValue::String(text) => shortened(text),
            _ => shortened(self.written()),
        };
        error.refuse(Some(found), expected)
    }

    /// The first line of the value as the file has it, quotes and all: where the type is wrong, a `"1"` is
    /// to be told from a `1`.
    fn written(&self) -> &'a str {
        let text = self.table.source.text.get(self.node.span()).unwrap_or_default();
        text.lines().next().unwrap_or_default()
    }

    /// It as a text.
    pub(crate) fn text(&self, expected: impl Display) -> Result<&'a str, ConfigError> {
        match self.node.get_ref() {
            DeValue::String(text) => Ok(text.as_ref()),
            _ => Err(self.refuse(format_args!("{expected}, in quotes"))),
        }
    }

    /// It as a list of texts, each of them a value of its own.
    pub(crate) fn texts(
        &self,
        count_max: usize,
        expected: &str,
    ) -> Result<Vec<(Value<'a>, &'a str)>, ConfigError> {
        let list = format!("a list of at most {count_max}, each {expected}");
        let DeValue::Array(all) = self.node.get_ref() else { return Err(self.refuse(list)) };
        if all.len() > count_max {
            return Err(self.refuse(list));
        }
        all.iter()
            .map(|node| {
                let value = Value { table: self.table, key: self.key, node };
                value.text(expected).map(|text| (value, text))
            })
            .collect()
    }

    /// It as a list, each element a value of its own.
    pub(crate) fn elements(
        &self,
        count_max: usize,
        expected: impl Display,
    ) -> Result<Vec<Value<'a>>, ConfigError> {
        match self.node.get_ref() {
            DeValue::Array(all) if all.len() <= count_max => {
                let value = |node| Value { table: self.table, key: self.key, node };
                Ok(all.iter().map(value).collect())
            }
            _ => Err(self.refuse(format_args!("a list of at most {count_max}, each {expected}"))),
        }
    }

    /// It as a whole number within `range`. `note` says where the range comes from.
    pub(crate) fn integer(
        &self,
        range: RangeInclusive<u64>,
        note: &str,
    ) -> Result<u64, ConfigError> {
        let expected = format!("a whole number from {} to {}{note}", range.start(), range.end());
        let DeValue::Integer(digits) = self.node.get_ref() else {
            let error = self.table.error(self.node.span().start, Some(self.key));
            let found = Some(shortened(self.written()));
            return Err(error.refuse(found, format_args!("{expected}, without quotes")));
        };
        let number = u64::from_str_radix(digits.as_str(), digits.radix()).ok();
        number.filter(|number| range.contains(number)).ok_or_else(|| self.refuse(expected))
    }

    /// It as a table on one line, `{ key = … }`.
    pub(crate) fn table(&self, accepted: &[&str]) -> Result<Table<'a>, ConfigError> {
        let above =
            self.table.title.as_ref().map_or_else(String::new, |above| format!("{above}: "));
        let expected = format!("a table in braces, with {}", accepted.join(", "));
        self.fields(format!("{above}{}", self.key), accepted, expected)
    }

    /// It as a table of this title, or what was `expected`.
    fn fields(
        &self,
        title: String,
        accepted: &[&str],
        expected: impl Display,
    ) -> Result<Table<'a>, ConfigError> {
        let DeValue::Table(fields) = self.node.get_ref() else { return Err(self.refuse(expected)) };
        let (title, offset) = (Some(title), self.node.span().start);
        Table { source: self.table.source, title, offset, fields }.with_keys_in(accepted)
    }

    /// It as a yes or no.
    pub(crate) fn boolean(&self) -> Result<bool, ConfigError> {
        match self.node.get_ref() {
            DeValue::Boolean(flag) => Ok(*flag),
            _ => Err(self.refuse("true or false, without quotes")),
        }
    }

    /// It as a number without a unit, in quotes or not.
    pub(crate) fn factor<T: FromStr>(&self, expected: impl Display) -> Result<T, ConfigError> {
        let text = match self.node.get_ref() {
            DeValue::String(text) => text.as_ref(),
            DeValue::Integer(digits) if digits.radix() == 10 => digits.as_str(),
            DeValue::Float(digits) => digits.as_str(),
            _ => return Err(self.refuse(expected)),
        };
        text.parse().map_err(|_| self.refuse(expected))
    }

    /// It as a quantity that people write with a unit.
    pub(crate) fn quantity<T: FromStr>(&self, expected: impl Display) -> Result<T, ConfigError> {
        self.text(&expected)?.parse().map_err(|_| self.refuse(expected))
    }

    /// It as a time within `range`. `note` says where the range comes from.
    pub(crate) fn duration(
        &self,
        range: RangeInclusive<Duration>,
        note: &str,
    ) -> Result<Duration, ConfigError> {
        let (low, high) = (time(*range.start()), time(*range.end()));
        let expected = format!("a time from {low} to {high}{note}");
        let found: Duration = self.quantity(&expected)?;
        if range.contains(&found) { Ok(found) } else { Err(self.refuse(expected)) }
    }

    /// It as a share.
    pub(crate) fn share(&self) -> Result<Share, ConfigError> {
        self.quantity("a share from 0% to 100%")
    }

    /// It as a place on a disk: whole sectors from its beginning.
    pub(crate) fn place(&self) -> Result<Bytes, ConfigError> {
        let place: Bytes = self.quantity("a place on the disk such as 0, 1MB or 20GiB")?;
        match place.sectors_exact() {
            Some(_) => Ok(place),
            None => Err(self.refuse(format_args!("a multiple of {SECTOR_BYTES} bytes"))),
        }
    }

    /// It as a rate of events a second: the mean time between two.
    pub(crate) fn rate(&self) -> Result<Duration, ConfigError> {
        let Rate { interval } = self.quantity("a rate above zero such as 60/s or 0.5/s")?;
        if (INTERVAL_MIN..=TIME_MAX).contains(&interval) {
            return Ok(interval);
        }
        let (high, low) = (INTERVAL_MIN, TIME_MAX);
        Err(self.refuse(format_args!("a rate from one in {low} to one in {high}")))
    }

    /// It as bytes a second: the mean time between two pieces of `block`.
    pub(crate) fn bandwidth(&self, block: Bytes) -> Result<Duration, ConfigError> {
        let bytes = self.bytes_per_second()?;
        let nanos = u128::from(block.0) * 1_000_000_000 / u128::from(bytes.0);
        let interval = u64::try_from(nanos).ok().map(Duration::from_nanos);
        let within = interval.filter(|interval| (INTERVAL_MIN..=TIME_MAX).contains(interval));
        within.ok_or_else(|| self.refuse(BANDWIDTH))
    }

    /// It as so many bytes a second.
    pub(crate) fn bytes_per_second(&self) -> Result<Bytes, ConfigError> {
        let size = self.text(BANDWIDTH)?.trim().strip_suffix("/s");
        let bytes = size.and_then(|size| size.parse::<Bytes>().ok()).filter(|size| size.0 > 0);
        bytes.ok_or_else(|| self.refuse(BANDWIDTH))
    }

    /// It as a size of whole sectors, at least one.
    pub(crate) fn size(&self) -> Result<Bytes, ConfigError> {
        let size: Bytes = self.quantity("a size such as 4KiB, 1MB or 20GiB")?;
        if size == Bytes::ZERO {
            return Err(self.refuse("a size above zero"));
        }
        if size.sectors_exact().is_none() {
            return Err(self.refuse(format_args!("a multiple of {SECTOR_BYTES} bytes")));
        }
        Ok(size)
    }
}

impl Parts {
    fn refuse(self, found: Option<String>, expected: impl Display) -> ConfigError {
        ConfigError::from(Self { found, expected: expected.to_string(), ..self })
    }
}

/// A size that can be typed back as it is: the short form where it is exact, else bytes.
pub fn size(bytes: Bytes) -> String {
    let short = bytes.to_string();
    if short.parse() == Ok(bytes) { short } else { format!("{}B", bytes.0) }
}

/// A time as people write it: `0s` rather than `0ns`.
pub(crate) fn time(duration: Duration) -> String {
    if duration == Duration::ZERO { "0s".to_owned() } else { duration.to_string() }
}

/// The names between quotes, with commas; the first ones if there are many.
pub(crate) fn listed(names: impl Iterator<Item = impl Display>, quote: char) -> String {
    let mut names = names.map(|name| format!("{quote}{name}{quote}"));
    let first: Vec<_> = names.by_ref().take(LISTED_MAX).collect();
    match names.count() {
        0 => first.join(", "),
        more => format!("{} and {more} more", first.join(", ")),
    }
}

/// The text on one line of a message: short, and without characters that would do something to a terminal.
pub(crate) fn shortened(text: &str) -> String {
    let mut shown = String::new();
    for (index, c) in text.chars().enumerate() {
        if index == FOUND_CHARS_MAX {
            shown.push('…');
            break;
        }
        if matches!(c, '"' | '\'' | '\\') {
            shown.push(c);
        } else {
            shown.extend(c.escape_debug());
        }
    }
    shown
}
