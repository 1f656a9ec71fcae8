//! Contracts that the policy of a volume's disk does not keep are refused, key by key.

use engine::{Feature, PolicyName};
use input::{InputError, Table, list};

use crate::plan::Disk;

/// The keys of a volume's contract and their features. A stream and a latency have checks of their
/// own.
const KEYS: [(&str, Feature); 6] = [
    ("reserve", Feature::Reserve),
    ("iops", Feature::Rate),
    ("bandwidth", Feature::Rate),
    ("limit", Feature::Limit),
    ("weight", Feature::Weight),
    ("priority", Feature::Priority),
];

/// The key of a disk with which a simulation accepts what its policy does not keep.
pub(crate) const KEY: &str = "unkept_contracts";

/// Whether the disk accepts contracts that its policy does not keep.
pub(crate) fn allowed(table: &Table<'_>) -> Result<bool, InputError> {
    const EXPECTED: &str = "\"refused\", or for experiments \"allowed\"";
    let Some(value) = table.value(KEY) else { return Ok(false) };
    match value.text(EXPECTED)? {
        "refused" => Ok(false),
        "allowed" => Ok(true),
        _ => Err(value.refuse(EXPECTED)),
    }
}

/// Rejects the keys of a volume that the policy of its disk does not keep.
pub(crate) fn check(table: &Table<'_>, disk: &Disk) -> Result<(), InputError> {
    for (key, feature) in KEYS {
        let is_accepted = disk.policy.keeps(feature) || disk.unkept_contracts;
        if let Some(value) = table.value(key).filter(|_| !is_accepted) {
            return Err(value.refuse(expected(key, feature, disk)));
        }
    }
    Ok(())
}

/// Rejects a share of the pool's own work that the policy of a disk does not keep.
pub(crate) fn check_pool<'a>(
    table: &Table<'_>,
    mut disks: impl Iterator<Item = &'a Disk>,
) -> Result<(), InputError> {
    let Some(disk) = disks.find(|disk| !disk.policy.keeps(Feature::Reserve)) else {
        return Ok(());
    };
    for key in ["metadata_share", "relocation_share", "rebuild", "scrub"] {
        if let Some(value) = table.value(key) {
            return Err(value.refuse(expected(key, Feature::Reserve, disk)));
        }
    }
    Ok(())
}

pub(crate) fn expected(key: &str, feature: Feature, disk: &Disk) -> String {
    let (policy, name) = (disk.policy, &disk.name);
    if PolicyName::keeping(feature).next().is_none() {
        return format!("no `{key}` on disk \"{name}\": no policy keeps one yet");
    }
    let keeping = list(PolicyName::keeping(feature), '"');
    format!("no `{key}` on disk \"{name}\": its policy \"{policy}\" keeps none ({keeping} do)")
}
