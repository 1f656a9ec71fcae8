//! Labels of a volume: what the volume is for, in the words of its user.

use std::collections::BTreeMap;

/// The labels of a volume: values by name. They do not change how the volume is served; the API and
/// the metrics carry them.
pub type Labels = BTreeMap<String, String>;
