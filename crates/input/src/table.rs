//! One TOML table, read key by key, with an error for each way in which a value can be wrong.
//!
//! The tables are walked rather than deserialized, so that every error names its table, its field
//! and its line: a derived deserializer reports the line alone. Invariant: an error made here has a
//! line.

use core::fmt::Display;
use core::ops::RangeInclusive;
use core::str::FromStr;

use toml::Spanned;
use toml::de::{DeTable, DeValue};
use units::{Bytes, Duration, Rate, SECTOR_BYTES, Share};

use crate::error::{InputError, Problem};
use crate::schema::TableKeys;
use crate::text::{list, shorten, time_text};

type Node<'t> = Spanned<DeValue<'t>>;

/// The shortest mean time between two events of a rate: no disk completes requests that fast.
pub const INTERVAL_MIN: Duration = Duration::from_micros(1);
/// The longest time that a file can name: 115 days.
pub const TIME_MAX: Duration = Duration::from_secs(10_000_000);
const _: () = assert!(TIME_MAX.as_nanos() < i64::MAX as u64 / 2);

const BANDWIDTH: &str = "a bandwidth above zero such as 20MB/s or 5MiB/s";

/// A text, its name in messages, and the offsets of its line ends.
pub struct Source<'t> {
    file: &'t str,
    text: &'t str,
    newlines: Vec<usize>,
}

impl<'t> Source<'t> {
    /// A text that messages call `file`.
    pub fn new(file: &'t str, text: &'t str) -> Self {
        // A value that is missing at the end of the file is reported on the last line with content.
        let end = text.trim_end_matches('\n').len();
        Self { file, text, newlines: text[..end].match_indices('\n').map(|(at, _)| at).collect() }
    }

    /// What messages call the text.
    pub fn file(&self) -> &'t str {
        self.file
    }

    /// The number, from 1, of the line that holds the byte at `offset`.
    fn line(&self, offset: usize) -> usize {
        1 + self.newlines.partition_point(|newline| *newline < offset)
    }

    /// Parses the text as TOML.
    ///
    /// # Errors
    /// The value, the key or the syntax is not as described.
    pub fn parse(&self) -> Result<DeTable<'t>, InputError> {
        DeTable::parse(self.text).map(Spanned::into_inner).map_err(|error| {
            let line = self.line(error.span().map_or(0, |span| span.start));
            let found =
                self.text.lines().nth(line - 1).map(str::trim).filter(|text| !text.is_empty());
            let expected = format!("TOML: {}", error.message().replace('\n', ", "));
            InputError::from(Problem {
                file: self.file.to_owned(),
                line: Some(line),
                table: None,
                field: None,
                found: found.map(shorten),
                expected,
                is_refusal: false,
            })
        })
    }
}

/// One table and its title in messages, which is `None` at the top of the file.
pub struct Table<'a> {
    source: &'a Source<'a>,
    title: Option<String>,
    offset: usize,
    fields: &'a DeTable<'a>,
    /// Keys that have an earlier name: the name and the earlier one.
    renamed: Vec<(&'static str, &'static str)>,
}

/// One value in a table.
pub struct Value<'a> {
    table: &'a Table<'a>,
    key: &'a str,
    node: &'a Node<'a>,
}

impl<'a> Table<'a> {
    /// The top of the file, whose keys are all in `accepted`.
    ///
    /// # Errors
    /// The value, the key or the syntax is not as described.
    pub fn top(
        source: &'a Source<'a>,
        fields: &'a DeTable<'a>,
        accepted: &TableKeys,
    ) -> Result<Self, InputError> {
        Self::of(source, None, 0, fields, accepted)
    }

    /// The table within this one under `key`, if there is one.
    ///
    /// # Errors
    /// The value, the key or the syntax is not as described.
    pub fn table(&'a self, key: &'a str, accepted: &TableKeys) -> Result<Option<Self>, InputError> {
        let within = |value: Value<'a>| {
            value.fields(format!("[{key}]"), accepted, format_args!("a table `[{key}]`"))
        };
        self.value(key).map(within).transpose()
    }

    /// The table in braces under `key`, if there is one; messages name the enclosing table.
    ///
    /// # Errors
    /// The value, the key or the syntax is not as described.
    pub fn braces(
        &'a self,
        key: &'a str,
        accepted: &TableKeys,
    ) -> Result<Option<Self>, InputError> {
        let title =
            self.title.as_ref().map_or_else(|| key.to_owned(), |title| format!("{title} {key}"));
        let expected = format!("{{ {} = … }}", accepted.names().collect::<Vec<_>>().join(" = …, "));
        let within = |value: Value<'a>| value.fields(title, accepted, expected);
        self.value(key).map(within).transpose()
    }

    /// The tables `[[key]]`, at most `count_max` of them.
    ///
    /// # Errors
    /// The value, the key or the syntax is not as described.
    pub fn tables(
        &'a self,
        key: &'a str,
        accepted: &TableKeys,
        count_max: usize,
    ) -> Result<Vec<Self>, InputError> {
        let Some(value) = self.value(key) else { return Ok(Vec::new()) };
        // Tables within a table are named by their headers: `[[pool.volume]]`.
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
                Some(name) => format!("[[{header}]] \"{}\"", shorten(name)),
                None => format!("[[{header}]] #{}", index + 1),
            };
            let (title, offset) = (Some(title), node.span().start);
            Self::of(self.source, title, offset, fields, accepted)
        };
        all.iter().enumerate().map(table).collect()
    }

    /// A table whose keys are all in `accepted`; else an error about the first, in the file's
    /// order, that is not, or that stands beside its earlier name.
    fn of(
        source: &'a Source<'a>,
        title: Option<String>,
        offset: usize,
        fields: &'a DeTable<'a>,
        accepted: &TableKeys,
    ) -> Result<Self, InputError> {
        let renamed = accepted.keys.iter().filter_map(|key| Some((key.name, key.old_name?)));
        let table = Self { source, title, offset, fields, renamed: renamed.collect() };
        let unknown = fields.keys().filter(|key| !accepted.accepts(key.get_ref()));
        if let Some(first) = unknown.min_by_key(|key| key.span().start) {
            let key = shorten(first.get_ref());
            let expected = format!("one of the keys {}", list(accepted.names(), '`'));
            let error = table.error(first.span().start, Some(&key));
            return Err(error.refuse(Some(key.clone()), expected));
        }
        for &(name, old_name) in &table.renamed {
            let both = fields.get(name).and(fields.get(old_name));
            if let Some(node) = both {
                let expected = format!("no such field beside `{name}`, which is its new name");
                let value = Value { table: &table, key: old_name, node };
                return Err(value.refuse(expected));
            }
        }
        Ok(table)
    }

    /// The line of the table's header.
    pub fn line(&self) -> usize {
        self.source.line(self.offset)
    }

    /// The value of `key`, if it has one under this name or the earlier one.
    pub fn value(&'a self, key: &'a str) -> Option<Value<'a>> {
        if let Some(node) = self.fields.get(key) {
            return Some(Value { table: self, key, node });
        }
        let (_, old_name) = self.renamed.iter().find(|(name, _)| *name == key)?;
        self.fields.get(*old_name).map(|node| Value { table: self, key: old_name, node })
    }

    /// The value of `key`, or an error that names the `expected` value.
    ///
    /// # Errors
    /// The value, the key or the syntax is not as described.
    pub fn require(
        &'a self,
        key: &'a str,
        expected: impl Display,
    ) -> Result<Value<'a>, InputError> {
        self.value(key).ok_or_else(|| self.missing(key, expected))
    }

    /// An error about `key`, which has no value.
    #[must_use]
    pub fn missing(&self, key: &str, expected: impl Display) -> InputError {
        self.error(self.offset, Some(key)).refuse(None, expected)
    }

    /// A time under `key` within `range`, or the `default`. `note` explains the range.
    ///
    /// # Errors
    /// The value, the key or the syntax is not as described.
    pub fn duration(
        &'a self,
        key: &'a str,
        range: RangeInclusive<Duration>,
        note: &str,
        default: Duration,
    ) -> Result<Duration, InputError> {
        self.value(key).map_or(Ok(default), |value| value.duration(range, note))
    }

    fn error(&self, offset: usize, field: Option<&str>) -> Problem {
        Problem {
            file: self.source.file.to_owned(),
            line: Some(self.source.line(offset)),
            table: self.title.clone(),
            field: field.map(str::to_owned),
            found: None,
            expected: String::new(),
            is_refusal: false,
        }
    }
}

impl<'a> Value<'a> {
    /// The line on which the value begins.
    pub fn line(&self) -> usize {
        self.table.source.line(self.node.span().start)
    }

    /// An error that names the value found and the `expected` one.
    #[must_use]
    pub fn refuse(&self, expected: impl Display) -> InputError {
        let error = self.table.error(self.node.span().start, Some(self.key));
        let found = match self.node.get_ref() {
            DeValue::String(text) => shorten(text),
            _ => shorten(self.written()),
        };
        error.refuse(Some(found), expected)
    }

    /// The first line of the value as written in the file, with its quotes: where the type is
    /// wrong, a `"1"` has to be distinguishable from a `1`.
    fn written(&self) -> &'a str {
        let text = self.table.source.text.get(self.node.span()).unwrap_or_default();
        text.lines().next().unwrap_or_default()
    }

    /// The value as a text.
    ///
    /// # Errors
    /// The value, the key or the syntax is not as described.
    pub fn text(&self, expected: impl Display) -> Result<&'a str, InputError> {
        match self.node.get_ref() {
            DeValue::String(text) => Ok(text.as_ref()),
            _ => Err(self.refuse(format_args!("{expected}, in quotes"))),
        }
    }

    /// The value as a list of texts, each a [`Value`] of its own.
    ///
    /// # Errors
    /// The value, the key or the syntax is not as described.
    pub fn texts(
        &self,
        count_max: usize,
        expected: &str,
    ) -> Result<Vec<(Value<'a>, &'a str)>, InputError> {
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

    /// The value as a list, each element a [`Value`] of its own.
    ///
    /// # Errors
    /// The value, the key or the syntax is not as described.
    pub fn elements(
        &self,
        count_max: usize,
        expected: impl Display,
    ) -> Result<Vec<Value<'a>>, InputError> {
        match self.node.get_ref() {
            DeValue::Array(all) if all.len() <= count_max => {
                let value = |node| Value { table: self.table, key: self.key, node };
                Ok(all.iter().map(value).collect())
            }
            _ => Err(self.refuse(format_args!("a list of at most {count_max}, each {expected}"))),
        }
    }

    /// The value as a whole number within `range`. `note` explains the range.
    ///
    /// # Errors
    /// The value, the key or the syntax is not as described.
    pub fn integer(&self, range: RangeInclusive<u64>, note: &str) -> Result<u64, InputError> {
        let expected = format!("a whole number from {} to {}{note}", range.start(), range.end());
        let DeValue::Integer(digits) = self.node.get_ref() else {
            let error = self.table.error(self.node.span().start, Some(self.key));
            let found = Some(shorten(self.written()));
            return Err(error.refuse(found, format_args!("{expected}, without quotes")));
        };
        let number = u64::from_str_radix(digits.as_str(), digits.radix()).ok();
        number.filter(|number| range.contains(number)).ok_or_else(|| self.refuse(expected))
    }

    /// Whether the value is a table.
    pub fn is_table(&self) -> bool {
        matches!(self.node.get_ref(), DeValue::Table(_))
    }

    /// The value as a table on one line, `{ key = … }`.
    ///
    /// # Errors
    /// The value, the key or the syntax is not as described.
    pub fn table(&self, accepted: &TableKeys) -> Result<Table<'a>, InputError> {
        let above =
            self.table.title.as_ref().map_or_else(String::new, |above| format!("{above}: "));
        let expected =
            format!("a table in braces, with {}", accepted.names().collect::<Vec<_>>().join(", "));
        self.fields(format!("{above}{}", self.key), accepted, expected)
    }

    /// The value as a table of this title, or an error that names the `expected` value.
    fn fields(
        &self,
        title: String,
        accepted: &TableKeys,
        expected: impl Display,
    ) -> Result<Table<'a>, InputError> {
        let DeValue::Table(fields) = self.node.get_ref() else { return Err(self.refuse(expected)) };
        let (title, offset) = (Some(title), self.node.span().start);
        Table::of(self.table.source, title, offset, fields, accepted)
    }

    /// The value as a boolean.
    ///
    /// # Errors
    /// The value, the key or the syntax is not as described.
    pub fn boolean(&self) -> Result<bool, InputError> {
        match self.node.get_ref() {
            DeValue::Boolean(flag) => Ok(*flag),
            _ => Err(self.refuse("true or false, without quotes")),
        }
    }

    /// The value as a number without a unit, in quotes or not.
    ///
    /// # Errors
    /// The value, the key or the syntax is not as described.
    pub fn factor<T: FromStr>(&self, expected: impl Display) -> Result<T, InputError> {
        let text = match self.node.get_ref() {
            DeValue::String(text) => text.as_ref(),
            DeValue::Integer(digits) if digits.radix() == 10 => digits.as_str(),
            DeValue::Float(digits) => digits.as_str(),
            _ => return Err(self.refuse(expected)),
        };
        text.parse().map_err(|_| self.refuse(expected))
    }

    /// The value as a quantity with a unit, in quotes.
    ///
    /// # Errors
    /// The value, the key or the syntax is not as described.
    pub fn quantity<T: FromStr>(&self, expected: impl Display) -> Result<T, InputError> {
        self.text(&expected)?.parse().map_err(|_| self.refuse(expected))
    }

    /// The value as a time within `range`. `note` explains the range.
    ///
    /// # Errors
    /// The value, the key or the syntax is not as described.
    pub fn duration(
        &self,
        range: RangeInclusive<Duration>,
        note: &str,
    ) -> Result<Duration, InputError> {
        let (low, high) = (time_text(*range.start()), time_text(*range.end()));
        let expected = format!("a time from {low} to {high}{note}");
        let found: Duration = self.quantity(&expected)?;
        if range.contains(&found) { Ok(found) } else { Err(self.refuse(expected)) }
    }

    /// The value as a share.
    ///
    /// # Errors
    /// The value, the key or the syntax is not as described.
    pub fn share(&self) -> Result<Share, InputError> {
        self.quantity("a share from 0% to 100%")
    }

    /// The value as an offset on a disk, in whole sectors from its beginning.
    ///
    /// # Errors
    /// The value, the key or the syntax is not as described.
    pub fn location(&self) -> Result<Bytes, InputError> {
        let location: Bytes = self.quantity("a location on the disk such as 0, 1MB or 20GiB")?;
        match location.sectors_exact() {
            Some(_) => Ok(location),
            None => Err(self.refuse(format_args!("a multiple of {SECTOR_BYTES} bytes"))),
        }
    }

    /// The value as a rate of events per second, returned as the mean time between two.
    ///
    /// # Errors
    /// The value, the key or the syntax is not as described.
    pub fn rate(&self) -> Result<Duration, InputError> {
        let Rate { interval } = self.quantity("a rate above zero such as 60/s or 0.5/s")?;
        if (INTERVAL_MIN..=TIME_MAX).contains(&interval) {
            return Ok(interval);
        }
        let (high, low) = (INTERVAL_MIN, TIME_MAX);
        Err(self.refuse(format_args!("a rate from one in {low} to one in {high}")))
    }

    /// The value as bytes per second, returned as the mean time between two requests of `block`.
    ///
    /// # Errors
    /// The value, the key or the syntax is not as described.
    pub fn bandwidth(&self, block: Bytes) -> Result<Duration, InputError> {
        let bytes = self.bytes_per_second()?;
        let nanos = u128::from(block.0) * 1_000_000_000 / u128::from(bytes.0);
        let interval = u64::try_from(nanos).ok().map(Duration::from_nanos);
        let within = interval.filter(|interval| (INTERVAL_MIN..=TIME_MAX).contains(interval));
        within.ok_or_else(|| self.refuse(BANDWIDTH))
    }

    /// The value as a number of bytes per second.
    ///
    /// # Errors
    /// The value, the key or the syntax is not as described.
    pub fn bytes_per_second(&self) -> Result<Bytes, InputError> {
        let size = self.text(BANDWIDTH)?.trim().strip_suffix("/s");
        let bytes = size.and_then(|size| size.parse::<Bytes>().ok()).filter(|size| size.0 > 0);
        bytes.ok_or_else(|| self.refuse(BANDWIDTH))
    }

    /// The value as a size of whole sectors, at least one.
    ///
    /// # Errors
    /// The value, the key or the syntax is not as described.
    pub fn size(&self) -> Result<Bytes, InputError> {
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

impl Problem {
    fn refuse(self, found: Option<String>, expected: impl Display) -> InputError {
        InputError::from(Self { found, expected: expected.to_string(), ..self })
    }
}
