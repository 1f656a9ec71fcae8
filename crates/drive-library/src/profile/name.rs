//! The name of a key or value, with the one that it had before.

/// A name. A profile with the earlier one reads to the same value, for one version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Name {
    pub(super) current: &'static str,
    pub(super) earlier: Option<&'static str>,
}

impl Name {
    pub(super) fn is(self, name: &str) -> bool {
        self.current == name || self.earlier == Some(name)
    }
}

impl From<&'static str> for Name {
    fn from(current: &'static str) -> Self {
        Self { current, earlier: None }
    }
}

/// The current name, and the earlier one.
impl From<(&'static str, &'static str)> for Name {
    fn from((current, earlier): (&'static str, &'static str)) -> Self {
        Self { current, earlier: Some(earlier) }
    }
}
