//! Descriptions of tables: the parser rejects keys that are not in them, and the reference pages
//! are generated from them, so that the two cannot drift apart.

/// One key of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Key {
    /// Its name.
    pub name: &'static str,
    /// An earlier name that is still accepted, for one version.
    pub old_name: Option<&'static str>,
    /// The type and limits of its value, as an English noun phrase.
    pub shape: String,
    /// The value used if the key is absent; `None` if it is required, or if absence has no value.
    pub default: Option<String>,
    /// Whether the key must be present.
    pub is_required: bool,
    /// One sentence that describes it.
    pub about: &'static str,
}

/// One table of a file: its header and its keys.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TableKeys {
    /// The header, such as `[[disk]]`; empty for the top of the file.
    pub header: String,
    /// One sentence that describes it.
    pub about: &'static str,
    /// Its keys, in the order of the reference page.
    pub keys: Vec<Key>,
}

impl Key {
    /// An optional key without a default value.
    pub fn new(name: &'static str, shape: impl Into<String>, about: &'static str) -> Self {
        let shape = shape.into();
        Self { name, old_name: None, shape, default: None, is_required: false, about }
    }

    /// The same key, which has to be present.
    #[must_use]
    pub fn required(mut self) -> Self {
        assert!(self.default.is_none(), "`{}` is required and has a default", self.name);
        self.is_required = true;
        self
    }

    /// The same key with a default value.
    #[must_use]
    pub fn or(mut self, default: impl Into<String>) -> Self {
        assert!(!self.is_required, "`{}` is required and has a default", self.name);
        self.default = Some(default.into());
        self
    }

    /// The same key, which is also accepted under an earlier name.
    #[must_use]
    pub fn formerly(mut self, old_name: &'static str) -> Self {
        assert!(self.name != old_name, "the earlier name of `{}` is its name", self.name);
        self.old_name = Some(old_name);
        self
    }
}

impl TableKeys {
    /// A table with these keys.
    ///
    /// # Panics
    /// Two keys share a name: the table could not be read.
    pub fn new(header: impl Into<String>, about: &'static str, keys: Vec<Key>) -> Self {
        for (index, key) in keys.iter().enumerate() {
            let is_known = |name| keys[..index].iter().any(|other| other.is_called(name));
            assert!(!is_known(key.name), "`{}` is described twice", key.name);
            assert!(!key.old_name.is_some_and(is_known), "`{}` has a name in use", key.name);
        }
        Self { header: header.into(), about, keys }
    }

    /// The current names of the keys, in their order.
    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        self.keys.iter().map(|key| key.name)
    }

    /// Whether a key of the table has this name, or had it before.
    pub fn accepts(&self, name: &str) -> bool {
        self.keys.iter().any(|key| key.is_called(name))
    }

    /// The earlier name of the key `name`, if it has one.
    pub fn old_name(&self, name: &str) -> Option<&'static str> {
        self.keys.iter().find(|key| key.name == name)?.old_name
    }
}

impl Key {
    fn is_called(&self, name: &str) -> bool {
        self.name == name || self.old_name == Some(name)
    }
}
