//! Writes and reads a profile's file by one description, in which each key occurs once.
//!
//! A [`Record`] visits its fields with a [`Form`], which is a writer, a reader, or a list of keys,
//! by which the reader rejects others.

use core::fmt::Write;

use drive_profile::findings::Figure;
use units::Share;

use input::{InputError, Key, Source, Table, TableKeys, Value};

use super::value::Written;
use crate::file::{LINE_CHARS_MAX, wrapped_list};

/// The keys of a figure.
const FIGURE: [&str; 4] = ["value", "spread", "samples", "confidence"];

/// A table of the file.
pub(super) trait Record: Sized {
    /// A record without findings.
    fn blank() -> Self;

    /// Visits every field, in the order of the file: values, then lists, then tables.
    fn visit(&mut self, form: &mut Form<'_>) -> Result<(), InputError>;
}

/// A row of a list: a fixed number of values in brackets.
pub(super) trait Row: Sized {
    /// Its description in messages: `[a distance, a time]`.
    const EXPECTED: &'static str;

    /// Its values.
    fn cells(&self) -> Vec<String>;

    /// Reads a row from the values that [`Row::cells`] returns.
    fn read(cells: &Cells<'_>) -> Result<Self, InputError>;

    /// How many values it has.
    const COUNT: usize;
}

/// The values of a row that is read.
pub(super) struct Cells<'a>(Vec<Value<'a>>);

impl Cells<'_> {
    pub(super) fn at<T: Written>(&self, nth: usize) -> Result<T, InputError> {
        T::read(&self.0[nth])
    }
}

/// The visitor of a record.
pub(super) enum Form<'a> {
    /// Writes the values.
    Writer(Writer),
    /// Sets the values from the table.
    Reader(&'a Table<'a>),
    /// Collects the keys.
    Keys(KeyList),
}

/// The keys of a table, and of the tables within it.
#[derive(Default)]
pub(super) struct KeyList {
    /// The table's full name, such as `found.flash`; empty at the top.
    path: String,
    keys: Vec<Key>,
    below: Vec<TableKeys>,
}

impl KeyList {
    /// Adds the key of a table or of tables in `brackets`, and their keys.
    fn nest<T: Record>(&mut self, key: &'static str, brackets: (&str, &str), shape: &str) {
        self.keys.push(Key::new(key, shape, ""));
        let path = if self.path.is_empty() { key.into() } else { format!("{}.{key}", self.path) };
        let header = format!("{}{path}{}", brackets.0, brackets.1);
        self.below.extend(described::<T>(path, header));
    }
}

/// The text of a table, and of the tables within it.
pub(super) struct Writer {
    /// The table's full name, such as `found.flash`; empty at the top.
    path: String,
    own: String,
    below: String,
}

impl Writer {
    fn new(path: String) -> Self {
        Self { path, own: String::new(), below: String::new() }
    }

    fn line(&mut self, key: &str, value: &str) {
        writeln!(self.own, "{key} = {value}").expect("a string takes everything");
    }

    fn within(&self, key: &str) -> String {
        if self.path.is_empty() { key.to_owned() } else { format!("{}.{key}", self.path) }
    }

    fn text(self) -> String {
        self.own + &self.below
    }
}

/// The keys of a record's table.
fn keys<T: Record>() -> TableKeys {
    described::<T>(String::new(), String::new()).swap_remove(0)
}

/// The keys of a record's table, and of each table within it.
pub(super) fn described<T: Record>(path: String, header: String) -> Vec<TableKeys> {
    let mut form = Form::Keys(KeyList { path, ..KeyList::default() });
    T::blank().visit(&mut form).expect("keys are no values");
    let Form::Keys(list) = form else { return Vec::new() };
    let own = TableKeys::new(header, "", list.keys);
    core::iter::once(own).chain(list.below).collect()
}

/// The file of a record.
pub(super) fn write<T: Record>(record: &mut T) -> String {
    let mut form = Form::Writer(Writer::new(String::new()));
    record.visit(&mut form).expect("a writer takes everything");
    match form {
        Form::Writer(writer) => writer.text(),
        Form::Reader(_) | Form::Keys(_) => String::new(),
    }
}

/// The record of a file.
pub(super) fn read<T: Record>(
    source: &Source<'_>,
    root: &toml::de::DeTable<'_>,
) -> Result<T, InputError> {
    let top = Table::top(source, root, &keys::<T>())?;
    filled(&top)
}

fn filled<T: Record>(table: &Table<'_>) -> Result<T, InputError> {
    let mut record = T::blank();
    record.visit(&mut Form::Reader(table))?;
    Ok(record)
}

impl Form<'_> {
    /// A required value.
    pub(super) fn field<T: Written>(
        &mut self,
        key: &'static str,
        value: &mut T,
    ) -> Result<(), InputError> {
        match self {
            Self::Writer(writer) => writer.line(key, &value.text()),
            Self::Reader(table) => *value = T::read(&table.require(key, T::EXPECTED)?)?,
            Self::Keys(list) => list.keys.push(Key::new(key, T::EXPECTED, "").required()),
        }
        Ok(())
    }

    /// An optional value.
    pub(super) fn maybe<T: Written>(
        &mut self,
        key: &'static str,
        value: &mut Option<T>,
    ) -> Result<(), InputError> {
        match (self, value) {
            (Self::Writer(writer), Some(value)) => writer.line(key, &value.text()),
            (Self::Writer(_), None) => {}
            (Self::Reader(table), value) => {
                *value = table.value(key).map(|value| T::read(&value)).transpose()?;
            }
            (Self::Keys(list), _) => list.keys.push(Key::new(key, T::EXPECTED, "")),
        }
        Ok(())
    }

    /// An optional figure.
    pub(super) fn figure<T: Written>(
        &mut self,
        key: &'static str,
        figure: &mut Option<Figure<T>>,
    ) -> Result<(), InputError> {
        match (self, figure) {
            (Self::Writer(writer), Some(figure)) => {
                let [value, spread] = [&figure.value, &figure.spread].map(Written::text);
                let (samples, confidence) = (figure.samples, figure.confidence.text());
                let text = format!(
                    "{{ value = {value}, spread = {spread}, samples = {samples}, confidence = \
                     {confidence} }}"
                );
                writer.line(key, &text);
            }
            (Self::Writer(_), None) => {}
            (Self::Reader(table), figure) => {
                *figure = match table.braces(key, &figure_keys())? {
                    Some(braces) => Some(read_figure(&braces)?),
                    None => None,
                };
            }
            (Self::Keys(list), _) => {
                list.keys.push(Key::new(key, format!("a figure: {}", T::EXPECTED), ""));
            }
        }
        Ok(())
    }

    /// A required figure; `blank` until it is read.
    pub(super) fn known<T: Written + Clone>(
        &mut self,
        key: &'static str,
        figure: &mut Figure<T>,
    ) -> Result<(), InputError> {
        let mut found = match self {
            Self::Reader(_) => None,
            Self::Writer(_) | Self::Keys(_) => Some(figure.clone()),
        };
        self.figure(key, &mut found)?;
        match (found, self) {
            (Some(found), _) => *figure = found,
            (None, Self::Reader(table)) => {
                let expected = "{ value = …, spread = …, samples = …, confidence = … }";
                return Err(table.missing(key, expected));
            }
            (None, Self::Writer(_) | Self::Keys(_)) => {}
        }
        Ok(())
    }

    /// A list of values; empty if the key is absent.
    pub(super) fn values<T: Written>(
        &mut self,
        key: &'static str,
        all: &mut Vec<T>,
        count_max: usize,
    ) -> Result<(), InputError> {
        match self {
            Self::Writer(writer) => list(writer, key, all.iter().map(Written::text)),
            Self::Reader(table) => {
                let Some(value) = table.value(key) else { return Ok(()) };
                let elements = value.elements(count_max, T::EXPECTED)?;
                *all = elements.iter().map(T::read).collect::<Result<_, _>>()?;
            }
            Self::Keys(list) => {
                list.keys.push(Key::new(key, format!("a list of {}", T::EXPECTED), ""));
            }
        }
        Ok(())
    }

    /// A list of rows; empty if the key is absent.
    pub(super) fn rows<T: Row>(
        &mut self,
        key: &'static str,
        all: &mut Vec<T>,
        count_max: usize,
    ) -> Result<(), InputError> {
        match self {
            Self::Writer(writer) => {
                list(writer, key, all.iter().map(|row| format!("[{}]", row.cells().join(", "))));
            }
            Self::Reader(table) => {
                let Some(value) = table.value(key) else { return Ok(()) };
                let row = |value: &Value<'_>| {
                    let cells = value.elements(T::COUNT, "of a row")?;
                    if cells.len() != T::COUNT {
                        return Err(value.refuse(T::EXPECTED));
                    }
                    T::read(&Cells(cells))
                };
                let rows = value.elements(count_max, T::EXPECTED)?;
                *all = rows.iter().map(row).collect::<Result<_, _>>()?;
            }
            Self::Keys(list) => list.keys.push(Key::new(key, format!("rows {}", T::EXPECTED), "")),
        }
        Ok(())
    }

    /// An optional table within this one.
    pub(super) fn table<T: Record>(
        &mut self,
        key: &'static str,
        record: &mut Option<T>,
    ) -> Result<(), InputError> {
        match (self, record) {
            (Self::Writer(writer), Some(record)) => writer.nest(key, "[", "]", record),
            (Self::Writer(_), None) => {}
            (Self::Reader(table), record) => {
                *record = match table.table(key, &keys::<T>())? {
                    Some(within) => Some(filled(&within)?),
                    None => None,
                };
            }
            (Self::Keys(list), _) => list.nest::<T>(key, ("[", "]"), "a table"),
        }
        Ok(())
    }

    /// A required table within this one.
    pub(super) fn section<T: Record>(
        &mut self,
        key: &'static str,
        record: &mut T,
    ) -> Result<(), InputError> {
        match self {
            Self::Writer(writer) => writer.nest(key, "[", "]", record),
            Self::Reader(table) => {
                let within = table.table(key, &keys::<T>())?;
                let within =
                    within.ok_or_else(|| table.missing(key, format_args!("a table `[{key}]`")))?;
                *record = filled(&within)?;
            }
            Self::Keys(list) => list.nest::<T>(key, ("[", "]"), "a table"),
        }
        Ok(())
    }

    /// A condition on the values read; `key` is the field of its error.
    pub(super) fn sound(
        &self,
        holds: bool,
        key: &'static str,
        expected: impl Fn() -> String,
    ) -> Result<(), InputError> {
        match self {
            Self::Reader(table) if !holds => Err(table
                .value(key)
                .map_or_else(|| table.missing(key, expected()), |value| value.refuse(expected()))),
            Self::Reader(_) | Self::Writer(_) | Self::Keys(_) => Ok(()),
        }
    }

    /// A required number.
    pub(super) fn exactly(&mut self, key: &'static str, number: u32) -> Result<(), InputError> {
        match self {
            Self::Writer(writer) => writer.line(key, &number.text()),
            Self::Reader(table) => {
                let value = table.require(key, number)?;
                if u32::read(&value)? != number {
                    return Err(value.refuse(format_args!("{number}, the only version there is")));
                }
            }
            Self::Keys(list) => list.keys.push(Key::new(key, number.to_string(), "").required()),
        }
        Ok(())
    }

    /// A list of tables within this one.
    pub(super) fn tables<T: Record>(
        &mut self,
        key: &'static str,
        records: &mut Vec<T>,
        count_max: usize,
    ) -> Result<(), InputError> {
        match self {
            Self::Writer(writer) => {
                for record in records {
                    writer.nest(key, "[[", "]]", record);
                }
            }
            Self::Reader(table) => {
                let tables = table.tables(key, &keys::<T>(), count_max)?;
                *records = tables.iter().map(filled).collect::<Result<_, _>>()?;
            }
            Self::Keys(list) => list.nest::<T>(key, ("[[", "]]"), "tables"),
        }
        Ok(())
    }
}

impl Writer {
    fn nest<T: Record>(&mut self, key: &str, open: &str, close: &str, record: &mut T) {
        let path = self.within(key);
        let mut form = Form::Writer(Self::new(path.clone()));
        record.visit(&mut form).expect("a writer takes everything");
        let Form::Writer(within) = form else { return };
        write!(self.below, "\n{open}{path}{close}\n{}", within.text())
            .expect("a string takes everything");
    }
}

fn figure_keys() -> TableKeys {
    TableKeys::new("", "", FIGURE.map(|key| Key::new(key, "", "")).into())
}

fn read_figure<T: Written>(braces: &Table<'_>) -> Result<Figure<T>, InputError> {
    let of = |key| T::read(&braces.require(key, T::EXPECTED)?);
    Ok(Figure {
        value: of("value")?,
        spread: of("spread")?,
        samples: u32::read(&braces.require("samples", u32::EXPECTED)?)?,
        confidence: Share::read(&braces.require("confidence", Share::EXPECTED)?)?,
    })
}

/// Writes a list, on one line if it fits; nothing for an empty list.
fn list(writer: &mut Writer, key: &str, elements: impl Iterator<Item = String>) {
    let elements: Vec<_> = elements.collect();
    if elements.is_empty() {
        return;
    }
    let on_one_line = format!("[{}]", elements.join(", "));
    let fits = key.len() + " = ".len() + on_one_line.len() <= LINE_CHARS_MAX;
    writer.line(key, &if fits { on_one_line } else { wrapped_list(&elements) });
}
