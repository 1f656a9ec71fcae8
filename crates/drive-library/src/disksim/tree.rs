//! The grammar of parameter files: blocks of `key = value`, lists, and files that include files.
//!
//! ```text
//! file   = { block | "source" FILE | "instantiate" [ ... ] "as" NAME
//!          | "topology" TYPE NAME [ ... ] }
//! block  = TYPE [NAME] "{" { KEY "=" value [","] } "}"
//! value  = words | block | "[" { value [","] } "]" | "source" FILE
//! ```
//!
//! A word ends before the next of `{ } [ ] , =`, or is in quotes; `#` begins a comment. A key may
//! have several words. A file that another one names is looked up in that one's directory, then in
//! the parent directory: DiskSim resolves names from its working directory, which is one of the
//! two. Invariants: each value and block of a tree has its file and line; no input makes a tree
//! deeper than [`DEPTH_MAX`] or larger than [`BYTES_MAX`].

use std::path::{Path, PathBuf};
use std::rc::Rc;

use input::{InputError, Problem};

/// The largest depth of nested blocks, lists and includes: published files need eight.
pub(crate) const DEPTH_MAX: usize = 32;
/// The largest size of a file together with the files that it includes.
pub(crate) const BYTES_MAX: usize = 16 << 20;
const FOUND_CHARS_MAX: usize = 60;

/// A location in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct At {
    pub(crate) file: Rc<str>,
    pub(crate) line: usize,
}

/// The kinds of a value.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Kind {
    Words(String),
    List(Vec<Value>),
    Block(Block),
}

/// The right-hand side of a `=`, or an element of a list.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Value {
    pub(crate) kind: Kind,
    pub(crate) at: At,
}

/// `TYPE NAME { ... }`, its entries in the file's order.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Block {
    pub(crate) kind: String,
    pub(crate) name: String,
    pub(crate) at: At,
    pub(crate) entries: Vec<(String, Value)>,
}

/// A node of the topology: `TYPE NAME [ CHILDREN ]`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Node {
    pub(crate) name: String,
    pub(crate) children: Vec<Node>,
}

/// A file together with the files that it includes.
#[derive(Debug, Default)]
pub(crate) struct Tree {
    pub(crate) blocks: Vec<Block>,
    /// Each instance's name and the name of its block.
    pub(crate) instances: Vec<(String, String)>,
    pub(crate) topology: Vec<Node>,
}

/// The function that reads a file's text. Its error is what was expected of the file.
pub(crate) type Read<'a> = &'a mut dyn FnMut(&Path) -> Result<String, String>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Token<'t> {
    Word(&'t str),
    Mark(char),
}

/// The state that the parsers of all files share.
struct Shared<'r> {
    read: Read<'r>,
    /// The size of all files so far.
    bytes: usize,
    tree: Tree,
}

/// The parser of one file.
struct Parser<'a, 'r, 't> {
    shared: &'a mut Shared<'r>,
    tokens: &'t [(Token<'t>, usize)],
    next: usize,
    file: Rc<str>,
    directory: PathBuf,
    /// The number of files, blocks and lists around the next token.
    depth: usize,
}

impl At {
    /// An error at this location.
    pub(crate) fn refuse(
        &self,
        field: &str,
        found: Option<&str>,
        expected: impl std::fmt::Display,
    ) -> InputError {
        InputError::from(Problem {
            file: self.file.to_string(),
            line: Some(self.line),
            field: (!field.is_empty()).then(|| field.to_owned()),
            found: found.map(shortened),
            expected: expected.to_string(),
            ..Problem::default()
        })
    }
}

/// The text for one line of a message: short, and without control characters.
fn shortened(text: &str) -> String {
    text.chars().take(FOUND_CHARS_MAX).map(|c| if c.is_control() { ' ' } else { c }).collect()
}

/// Reads the file at `path` and the files that it includes.
pub(crate) fn parse(path: &Path, read: Read<'_>) -> Result<Tree, InputError> {
    let at = At { file: path.display().to_string().into(), line: 1 };
    let text = read(path).map_err(|why| at.refuse("source", Some(&at.file), why))?;
    let mut shared = Shared { read, bytes: 0, tree: Tree::default() };
    file(&mut shared, path, &text, (0, &at))?;
    Ok(shared.tree)
}

/// The path and text of a file that is named at `at`.
pub(crate) fn beside(at: &At, name: &str, read: Read<'_>) -> Result<(Rc<str>, String), InputError> {
    let directory = Path::new(&*at.file).parent().unwrap_or(Path::new(""));
    let (path, text) =
        find(directory, name, read).map_err(|why| at.refuse("source", Some(name), why))?;
    if text.len() > BYTES_MAX {
        return Err(at.refuse(
            "source",
            Some(name),
            format_args!("a file of at most {BYTES_MAX} bytes"),
        ));
    }
    Ok((path.display().to_string().into(), text))
}

/// The path and text of a file, from this directory or its parent.
fn find(directory: &Path, name: &str, read: Read<'_>) -> Result<(PathBuf, String), String> {
    let path = directory.join(name);
    match read(&path) {
        Ok(text) => Ok((path, text)),
        Err(why) => {
            let above =
                directory.parent().map(|above| above.join(name)).ok_or_else(|| why.clone())?;
            read(&above).map(|text| (above, text)).map_err(|_| why)
        }
    }
}

/// Parses the text of a file into the tree. The file is included at `include`, at this depth.
fn file(
    shared: &mut Shared<'_>,
    path: &Path,
    text: &str,
    (depth, include): (usize, &At),
) -> Result<(), InputError> {
    let name: Rc<str> = path.display().to_string().into();
    shared.bytes += text.len();
    if shared.bytes > BYTES_MAX {
        let expected = format!("at most {BYTES_MAX} bytes in all");
        return Err(include.refuse("source", Some(&name), expected));
    }
    let tokens = tokens(text);
    let directory = path.parent().unwrap_or(Path::new("")).to_owned();
    Parser { shared, tokens: &tokens, next: 0, file: name, directory, depth }.top()
}

fn tokens(text: &str) -> Vec<(Token<'_>, usize)> {
    let mut all = Vec::new();
    for (line, text) in (1..).zip(text.lines()) {
        let mut rest = text.split('#').next().unwrap_or_default().trim_start();
        while let Some(first) = rest.chars().next() {
            let mark = |c: char| "{}[],=".contains(c);
            let quoted = rest.strip_prefix('"').and_then(|inside| inside.split_once('"'));
            let end = if mark(first) {
                all.push((Token::Mark(first), line));
                first.len_utf8()
            } else if let Some((word, _)) = quoted {
                all.push((Token::Word(word), line));
                word.len() + 2
            } else {
                let end = rest.find(|c: char| mark(c) || c.is_whitespace()).unwrap_or(rest.len());
                all.push((Token::Word(&rest[..end]), line));
                end
            };
            rest = rest[end..].trim_start();
        }
    }
    all
}

impl Parser<'_, '_, '_> {
    fn top(&mut self) -> Result<(), InputError> {
        while let Some(token) = self.peek() {
            match token {
                Token::Mark(',') => self.next += 1,
                Token::Mark(_) => return Err(self.refuse("a block, `source` or `instantiate`")),
                Token::Word("source") => {
                    self.next += 1;
                    let (at, name) = (self.at(), self.word("a file's name")?);
                    self.include(&at, &name)?;
                }
                Token::Word("instantiate") => self.instantiate()?,
                Token::Word("topology") => {
                    self.next += 1;
                    let node = self.node()?;
                    self.shared.tree.topology.push(node);
                }
                Token::Word(_) => {
                    let at = self.at();
                    let words = self.words();
                    let block = self.block(&words, at)?;
                    self.shared.tree.blocks.push(block);
                }
            }
        }
        Ok(())
    }

    /// Adds the blocks of another file to the tree.
    fn include(&mut self, at: &At, name: &str) -> Result<(), InputError> {
        self.deeper(at)?;
        let found = find(&self.directory, name, &mut *self.shared.read);
        let (path, text) = found.map_err(|why| at.refuse("source", Some(name), why))?;
        let read = file(self.shared, &path, &text, (self.depth, at));
        self.depth -= 1;
        read
    }

    /// `instantiate [ a, b .. c ] as BLOCK`.
    fn instantiate(&mut self) -> Result<(), InputError> {
        self.next += 1;
        self.mark('[')?;
        let mut names = Vec::new();
        while !self.take(']') {
            if !self.take(',') {
                names.push(self.word("an instance's name or `]`")?);
            }
        }
        if self.word("`as`")? != "as" {
            self.next -= 1;
            return Err(self.refuse("`as`"));
        }
        let block = self.word("a block's name")?;
        self.shared.tree.instances.extend(names.into_iter().map(|name| (name, block.clone())));
        Ok(())
    }

    /// `TYPE NAME [ CHILDREN ]`.
    fn node(&mut self) -> Result<Node, InputError> {
        let at = self.at();
        self.word("a component's type")?;
        let name = self.word("a component's name")?;
        let mut children = Vec::new();
        self.deeper(&at)?;
        if self.take('[') {
            while !self.take(']') {
                if !self.take(',') {
                    children.push(self.node()?);
                }
            }
        }
        self.depth -= 1;
        Ok(Node { name, children })
    }

    /// `{ KEY = value, ... }`, whose type and name have been read.
    fn block(&mut self, words: &str, at: At) -> Result<Block, InputError> {
        let (kind, name) = words.split_once(' ').unwrap_or((words, ""));
        self.mark('{')?;
        self.deeper(&at)?;
        let mut entries: Vec<(String, Value)> = Vec::new();
        while !self.take('}') {
            if self.take(',') {
                continue;
            }
            let at = self.at();
            let key = self.words();
            if key.is_empty() {
                return Err(self.refuse("a key or `}`"));
            }
            self.mark('=')?;
            let value = self.value()?;
            if entries.iter().any(|(other, _)| *other == key) {
                return Err(at.refuse(&key, Some(&key), "each key of a block once"));
            }
            entries.push((key, value));
        }
        self.depth -= 1;
        Ok(Block { kind: kind.to_owned(), name: name.to_owned(), at, entries })
    }

    fn value(&mut self) -> Result<Value, InputError> {
        let at = self.at();
        if self.take('[') {
            self.deeper(&at)?;
            let mut list = Vec::new();
            while !self.take(']') {
                if !self.take(',') {
                    list.push(self.value()?);
                }
            }
            self.depth -= 1;
            return Ok(Value { kind: Kind::List(list), at });
        }
        let words = self.words();
        if words.is_empty() {
            return Err(self.refuse("a value"));
        }
        if self.peek() == Some(Token::Mark('{')) {
            let block = self.block(&words, at.clone())?;
            return Ok(Value { kind: Kind::Block(block), at });
        }
        match words.strip_prefix("source ") {
            Some(name) => self.included_value(&at, name),
            None => Ok(Value { kind: Kind::Words(words), at }),
        }
    }

    /// The only block of a file that is named as a value.
    fn included_value(&mut self, at: &At, name: &str) -> Result<Value, InputError> {
        let before = self.shared.tree.blocks.len();
        self.include(at, name)?;
        let mut blocks = self.shared.tree.blocks.drain(before..);
        match (blocks.next(), blocks.next()) {
            (Some(block), None) => Ok(Value { at: block.at.clone(), kind: Kind::Block(block) }),
            _ => Err(at.refuse("source", Some(name), "a file with one block")),
        }
    }

    fn deeper(&mut self, at: &At) -> Result<(), InputError> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            let expected = format!("at most {DEPTH_MAX} blocks, lists and files inside each other");
            return Err(at.refuse("", None, expected));
        }
        Ok(())
    }

    fn peek(&self) -> Option<Token<'_>> {
        self.tokens.get(self.next).map(|(token, _)| *token)
    }

    /// The location of the next token; at the end of the file, of the last token.
    fn at(&self) -> At {
        let token = self.tokens.get(self.next).or(self.tokens.last());
        At { file: Rc::clone(&self.file), line: token.map_or(1, |(_, line)| *line) }
    }

    fn take(&mut self, mark: char) -> bool {
        let is = self.peek() == Some(Token::Mark(mark));
        self.next += usize::from(is);
        is
    }

    fn mark(&mut self, mark: char) -> Result<(), InputError> {
        if self.take(mark) { Ok(()) } else { Err(self.refuse(format!("`{mark}`"))) }
    }

    /// All words up to the next mark, separated by one space.
    fn words(&mut self) -> String {
        let mut all = String::new();
        while let Some((Token::Word(word), _)) = self.tokens.get(self.next) {
            if !all.is_empty() {
                all.push(' ');
            }
            all.push_str(word);
            self.next += 1;
        }
        all
    }

    fn word(&mut self, expected: &str) -> Result<String, InputError> {
        let Some(Token::Word(word)) = self.peek() else { return Err(self.refuse(expected)) };
        let word = word.to_owned();
        self.next += 1;
        Ok(word)
    }

    /// An error about the next token.
    fn refuse(&self, expected: impl std::fmt::Display) -> InputError {
        let mark;
        let found = match self.peek() {
            Some(Token::Word(word)) => Some(word),
            Some(Token::Mark(c)) => {
                mark = c.to_string();
                Some(mark.as_str())
            }
            None => None,
        };
        self.at().refuse("", found, expected)
    }
}

impl Block {
    /// The value of a key. The case of keys differs between versions of the format.
    pub(crate) fn find(&self, key: &str) -> Option<&Value> {
        self.entries.iter().find(|(name, _)| name.eq_ignore_ascii_case(key)).map(|(_, value)| value)
    }

    fn need(&self, key: &str, expected: &str) -> Result<&Value, InputError> {
        self.find(key).ok_or_else(|| self.at.refuse(key, None, expected))
    }

    /// A finite number, if the key has a value.
    pub(crate) fn number(&self, key: &str) -> Result<Option<f64>, InputError> {
        self.find(key).map(|value| value.number(key)).transpose()
    }

    /// A whole number from `least` to `most`.
    pub(crate) fn whole(&self, key: &str, least: u64, most: u64) -> Result<u64, InputError> {
        let expected = format!("a whole number from {least} to {most}");
        self.need(key, &expected)?.whole(key, least, most)
    }

    /// A whole number from `least` to `most`, or `default` if the key is absent.
    pub(crate) fn whole_or(
        &self,
        key: &str,
        (least, most): (u64, u64),
        default: u64,
    ) -> Result<u64, InputError> {
        self.find(key).map_or(Ok(default), |value| value.whole(key, least, most))
    }

    /// A switch, as DiskSim reads it: off if the key is absent or 0, on at any other number.
    pub(crate) fn flag(&self, key: &str) -> Result<bool, InputError> {
        Ok(self.whole_or(key, (0, u8::MAX.into()), 0)? > 0)
    }

    pub(crate) fn words(&self, key: &str, expected: &str) -> Result<(&str, &At), InputError> {
        let value = self.need(key, expected)?;
        match &value.kind {
            Kind::Words(words) => Ok((words, &value.at)),
            _ => Err(value.at.refuse(key, None, expected)),
        }
    }

    pub(crate) fn block(&self, key: &str, expected: &str) -> Result<&Block, InputError> {
        let value = self.need(key, expected)?;
        match &value.kind {
            Kind::Block(block) => Ok(block),
            Kind::Words(words) => Err(value.at.refuse(key, Some(words), expected)),
            Kind::List(_) => Err(value.at.refuse(key, None, expected)),
        }
    }

    /// The elements of a list; none if the key is absent.
    pub(crate) fn list(&self, key: &str) -> Result<&[Value], InputError> {
        match self.find(key).map(|value| (&value.kind, &value.at)) {
            None => Ok(&[]),
            Some((Kind::List(list), _)) => Ok(list),
            Some((_, at)) => Err(at.refuse(key, None, "a list in brackets")),
        }
    }

    /// The location of the key's value; of the block if the key is absent.
    pub(crate) fn at(&self, key: &str) -> &At {
        self.find(key).map_or(&self.at, |value| &value.at)
    }
}

impl Value {
    pub(crate) fn number(&self, key: &str) -> Result<f64, InputError> {
        let expected = "a number";
        let Kind::Words(words) = &self.kind else {
            return Err(self.at.refuse(key, None, expected));
        };
        let hexadecimal = words.strip_prefix("0x").or(words.strip_prefix("0X"));
        let number = match hexadecimal.map(|digits| u32::from_str_radix(digits, 16)) {
            Some(number) => number.ok().map(f64::from),
            None => words.parse().ok(),
        };
        let number = number.filter(|number: &f64| number.is_finite());
        number.ok_or_else(|| self.at.refuse(key, Some(words), expected))
    }

    /// A whole number. Decimals are truncated, as in DiskSim.
    pub(crate) fn whole(&self, key: &str, least: u64, most: u64) -> Result<u64, InputError> {
        let number = self.number(key)?;
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "saturates")]
        let whole = if number < 0.0 { u64::MAX } else { number as u64 };
        if (least..=most).contains(&whole) {
            return Ok(whole);
        }
        let expected = format!("a whole number from {least} to {most}");
        Err(self.at.refuse(key, Some(&number.to_string()), expected))
    }
}
