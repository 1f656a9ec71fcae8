//! Writes and reads a profile's file by one description, in which each key occurs once.
//!
//! A [`Record`] visits its fields with a [`Form`], which is a writer, a reader, or a list of keys,
//! by which the reader rejects others.

use core::fmt::{Display, Write};

use drive_profile::findings::Figure;
use units::Share;

use input::{InputError, Key, Source, Table, TableKeys, Value};

use super::name::Name;
use super::value::Written;
use crate::file::{LINE_CHARS_MAX, wrapped_list};

/// The keys of a figure.
const FIGURE: [&str; 4] = ["value", "spread", "samples", "confidence"];
/// A figure, for messages.
const FIGURE_EXPECTED: &str = "{ value = …, spread = …, samples = …, confidence = … }";

/// The brackets of a table's header, and of a header of a list of tables.
const TABLE: Brackets = Brackets { open: "[", close: "]", shape: "a table" };
const TABLES: Brackets = Brackets { open: "[[", close: "]]", shape: "tables" };

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

    /// The number of its values.
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

/// The names under which a writer writes a key that was renamed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Names {
    /// The current name.
    Current,
    /// The current name and the earlier one.
    All,
}

/// The full name of a table, such as `found.flash`; empty at the top.
#[derive(Clone, Default)]
struct TablePath(String);

#[derive(Clone, Copy)]
struct Brackets {
    open: &'static str,
    close: &'static str,
    /// The shape of the key's value.
    shape: &'static str,
}

/// The keys of a table, and of the tables within it.
#[derive(Default)]
pub(super) struct KeyList {
    path: TablePath,
    keys: Vec<Key>,
    below: Vec<TableKeys>,
}

/// The text of a table, and of the tables within it.
pub(super) struct Writer {
    path: TablePath,
    names: Names,
    own: String,
    below: String,
}

impl TablePath {
    fn within(&self, key: &str) -> Self {
        Self(if self.0.is_empty() { key.into() } else { format!("{}.{key}", self.0) })
    }

    fn header(&self, brackets: Brackets) -> String {
        format!("{}{}{}", brackets.open, self.0, brackets.close)
    }
}

impl KeyList {
    fn add(&mut self, name: Name, shape: impl Into<String>, is_required: bool) {
        let key = Key::new(name.current, shape, "");
        let key = if is_required { key.required() } else { key };
        self.keys.push(match name.earlier {
            Some(earlier) => key.formerly(earlier),
            None => key,
        });
    }

    /// Adds the key of a table or of tables, and their keys.
    fn nest<T: Record>(&mut self, name: Name, brackets: Brackets, is_required: bool) {
        self.add(name, brackets.shape, is_required);
        let path = self.path.within(name.current);
        let header = path.header(brackets);
        self.below.extend(described::<T>(path, header));
    }
}

impl Writer {
    fn new(path: TablePath, names: Names) -> Self {
        Self { path, names, own: String::new(), below: String::new() }
    }

    /// The names to write a key under.
    fn names(&self, name: Name) -> impl Iterator<Item = &'static str> + use<> {
        let earlier = name.earlier.filter(|_| self.names == Names::All);
        [Some(name.current), earlier].into_iter().flatten()
    }

    fn line(&mut self, name: Name, value: &str) {
        for key in self.names(name) {
            writeln!(self.own, "{key} = {value}").expect("a string takes everything");
        }
    }

    fn nest<T: Record>(&mut self, name: Name, brackets: Brackets, record: &mut T) {
        for key in self.names(name) {
            let path = self.path.within(key);
            let (header, text) = (path.header(brackets), written(record, path, self.names));
            write!(self.below, "\n{header}\n{text}").expect("a string takes everything");
        }
    }
}

/// The keys of a record's table.
fn keys<T: Record>() -> TableKeys {
    described::<T>(TablePath::default(), String::new()).swap_remove(0)
}

/// The keys of a record's table at the top of a file, and of each table within it.
pub(super) fn all_keys<T: Record>() -> Vec<TableKeys> {
    described::<T>(TablePath::default(), String::new())
}

/// The keys of a record's table, and of each table within it.
fn described<T: Record>(path: TablePath, header: String) -> Vec<TableKeys> {
    let mut form = Form::Keys(KeyList { path, ..KeyList::default() });
    T::blank().visit(&mut form).expect("keys are no values");
    let Form::Keys(list) = form else { return Vec::new() };
    let own = TableKeys::new(header, "", list.keys);
    core::iter::once(own).chain(list.below).collect()
}

/// The file of a record.
pub(super) fn write<T: Record>(record: &mut T, names: Names) -> String {
    written(record, TablePath::default(), names)
}

/// The text of a record's table, without its header.
fn written<T: Record>(record: &mut T, path: TablePath, names: Names) -> String {
    let mut form = Form::Writer(Writer::new(path, names));
    record.visit(&mut form).expect("a writer takes everything");
    match form {
        Form::Writer(writer) => writer.own + &writer.below,
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

impl<'a> Form<'a> {
    /// A required value.
    pub(super) fn field<T: Written>(
        &mut self,
        name: impl Into<Name>,
        value: &mut T,
    ) -> Result<(), InputError> {
        let read = |table: &'a Table<'a>, key| {
            let value = table.value(key).ok_or_else(|| table.missing(key, T::shape()))?;
            T::read(&value).map(Some)
        };
        self.entry(name.into(), (T::shape, true), value, |value| Some(value.text()), read)
    }

    /// An optional value.
    pub(super) fn maybe<T: Written>(
        &mut self,
        name: impl Into<Name>,
        value: &mut Option<T>,
    ) -> Result<(), InputError> {
        let text = |value: &Option<T>| value.as_ref().map(Written::text);
        self.entry(name.into(), (T::shape, false), value, text, |table, key| {
            table.value(key).map(|value| T::read(&value).map(Some)).transpose()
        })
    }

    /// An optional figure.
    pub(super) fn figure<T: Written>(
        &mut self,
        name: impl Into<Name>,
        figure: &mut Option<Figure<T>>,
    ) -> Result<(), InputError> {
        let text = |figure: &Option<Figure<T>>| figure.as_ref().map(figure_text);
        self.entry(name.into(), (figure_shape::<T>, false), figure, text, |table, key| {
            read_figure(table, key).map(Some)
        })
    }

    /// A required figure; `blank` until it is read.
    pub(super) fn known<T: Written>(
        &mut self,
        name: impl Into<Name>,
        figure: &mut Figure<T>,
    ) -> Result<(), InputError> {
        let text = |figure: &Figure<T>| Some(figure_text(figure));
        self.entry(name.into(), (figure_shape::<T>, true), figure, text, |table, key| {
            let found = read_figure(table, key)?;
            found.ok_or_else(|| table.missing(key, FIGURE_EXPECTED)).map(Some)
        })
    }

    /// A list of values; empty if the key is absent.
    pub(super) fn values<T: Written>(
        &mut self,
        name: impl Into<Name>,
        all: &mut Vec<T>,
        count_max: usize,
    ) -> Result<(), InputError> {
        let shape = || format!("a list, each {}", T::shape());
        self.list(name.into(), (shape, T::EXPECTED, count_max), all, T::text, T::read)
    }

    /// A list of rows; empty if the key is absent.
    pub(super) fn rows<T: Row>(
        &mut self,
        name: impl Into<Name>,
        all: &mut Vec<T>,
        count_max: usize,
    ) -> Result<(), InputError> {
        let shape = || format!("rows {}", T::EXPECTED);
        let text = |row: &T| format!("[{}]", row.cells().join(", "));
        self.list(name.into(), (shape, T::EXPECTED, count_max), all, text, |value| {
            let cells = value.elements(T::COUNT, "of a row")?;
            if cells.len() != T::COUNT {
                return Err(value.refuse(T::EXPECTED));
            }
            T::read(&Cells(cells))
        })
    }

    /// A required number.
    pub(super) fn exactly(&mut self, name: &'static str, number: u32) -> Result<(), InputError> {
        let (shape, text) = (|| number.to_string(), |number: &u32| Some(number.text()));
        self.entry(name.into(), (shape, true), &mut { number }, text, |table, key| {
            let value = table.require(key, number)?;
            if u32::read(&value)? != number {
                return Err(value.refuse(format_args!("{number}, the only version there is")));
            }
            Ok(Some(number))
        })
    }

    /// An optional table within this one.
    pub(super) fn table<T: Record>(
        &mut self,
        name: impl Into<Name>,
        record: &mut Option<T>,
    ) -> Result<(), InputError> {
        let name = name.into();
        if let Some(table) = self.nest(name, (TABLE, false), record.iter_mut()) {
            let within = table.table(name.current, &keys::<T>())?;
            *record = within.map(|within| filled(&within)).transpose()?;
        }
        Ok(())
    }

    /// A required table within this one.
    pub(super) fn section<T: Record>(
        &mut self,
        name: impl Into<Name>,
        record: &mut T,
    ) -> Result<(), InputError> {
        let name = name.into();
        if let Some(table) = self.nest(name, (TABLE, true), core::iter::once(&mut *record)) {
            let within = table.table(name.current, &keys::<T>())?;
            let expected = format_args!("a table `[{}]`", name.current);
            *record = filled(&within.ok_or_else(|| table.missing(name.current, expected))?)?;
        }
        Ok(())
    }

    /// A list of tables within this one.
    pub(super) fn tables<T: Record>(
        &mut self,
        name: impl Into<Name>,
        records: &mut Vec<T>,
        count_max: usize,
    ) -> Result<(), InputError> {
        let name = name.into();
        if let Some(table) = self.nest(name, (TABLES, false), records.iter_mut()) {
            let tables = table.tables(name.current, &keys::<T>(), count_max)?;
            *records = tables.iter().map(filled).collect::<Result<_, _>>()?;
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

    /// A key with its value: written if `text` returns one, set if `read` returns one.
    fn entry<T, D: Into<String>>(
        &mut self,
        name: Name,
        (shape, is_required): (impl Fn() -> D, bool),
        value: &mut T,
        text: impl Fn(&T) -> Option<String>,
        read: impl Fn(&'a Table<'a>, &'static str) -> Result<Option<T>, InputError>,
    ) -> Result<(), InputError> {
        match self {
            Self::Writer(writer) => {
                if let Some(text) = text(value) {
                    writer.line(name, &text);
                }
            }
            Self::Reader(table) => {
                if let Some(found) = read(table, name.current)? {
                    *value = found;
                }
            }
            Self::Keys(list) => list.add(name, shape(), is_required),
        }
        Ok(())
    }

    /// A list of at most `count_max` elements, which is written unless it is empty.
    fn list<T>(
        &mut self,
        name: Name,
        (shape, expected, count_max): (impl Fn() -> String, impl Display + Copy, usize),
        all: &mut Vec<T>,
        text: impl Fn(&T) -> String,
        read: impl Fn(&Value<'a>) -> Result<T, InputError>,
    ) -> Result<(), InputError> {
        let text = |all: &Vec<T>| {
            let elements: Vec<_> = all.iter().map(&text).collect();
            list_text(name.current, &elements)
        };
        self.entry(name, (shape, false), all, text, |table, key| {
            let Some(value) = table.value(key) else { return Ok(None) };
            let elements = value.elements(count_max, expected)?;
            elements.iter().map(&read).collect::<Result<_, _>>().map(Some)
        })
    }

    /// Writes the records as tables, or lists their keys; returns the table to read them from, if
    /// this is a reader.
    fn nest<'r, T: Record + 'r>(
        &mut self,
        name: Name,
        (brackets, is_required): (Brackets, bool),
        records: impl Iterator<Item = &'r mut T>,
    ) -> Option<&'a Table<'a>> {
        match self {
            Self::Writer(writer) => {
                records.for_each(|record| writer.nest(name, brackets, record));
                None
            }
            Self::Reader(table) => Some(table),
            Self::Keys(list) => {
                list.nest::<T>(name, brackets, is_required);
                None
            }
        }
    }
}

fn figure_shape<T: Written>() -> String {
    format!("a figure: {}", T::shape())
}

fn figure_text<T: Written>(figure: &Figure<T>) -> String {
    let Figure { value, spread, samples, confidence } = figure;
    let values = [value.text(), spread.text(), samples.text(), confidence.text()];
    let pairs = FIGURE.iter().zip(values).map(|(key, value)| format!("{key} = {value}"));
    format!("{{ {} }}", pairs.collect::<Vec<_>>().join(", "))
}

fn read_figure<'a, T: Written>(
    table: &'a Table<'a>,
    key: &'static str,
) -> Result<Option<Figure<T>>, InputError> {
    let accepted = TableKeys::new("", "", FIGURE.map(|key| Key::new(key, "", "")).into());
    let Some(braces) = table.braces(key, &accepted)? else { return Ok(None) };
    Ok(Some(Figure {
        value: required(&braces, "value")?,
        spread: required(&braces, "spread")?,
        samples: required(&braces, "samples")?,
        confidence: required::<Share>(&braces, "confidence")?,
    }))
}

fn required<T: Written>(table: &Table<'_>, key: &'static str) -> Result<T, InputError> {
    T::read(&table.require(key, T::EXPECTED)?)
}

/// The text of a list, on one line if it fits; none for an empty list.
fn list_text(key: &str, elements: &[String]) -> Option<String> {
    if elements.is_empty() {
        return None;
    }
    let on_one_line = format!("[{}]", elements.join(", "));
    let fits = key.len() + " = ".len() + on_one_line.len() <= LINE_CHARS_MAX;
    Some(if fits { on_one_line } else { wrapped_list(elements) })
}
