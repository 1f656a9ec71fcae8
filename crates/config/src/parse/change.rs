//! `[[change]]` tables: what a simulation does to its pool.

use units::Duration;

use input::{InputError, Table};

use super::names::Names;
use crate::limits::TIME_MAX;
use crate::plan::{PoolAction, PoolChange, PoolPlan, PoolVolumeIndex};

const ACTION: &str = "\"snapshot\" or \"relocate\"";

/// Checks the tables, in the file's order. The snapshots' names are added to `names`.
pub(crate) fn check<'a>(
    tables: &'a [Table<'a>],
    pool: Option<&PoolPlan>,
    names: &mut Names<'a>,
) -> Result<Vec<PoolChange>, InputError> {
    let none = Vec::new();
    let volumes = pool.map_or(&none, |pool| &pool.volumes);
    let known: Vec<_> = volumes.iter().map(|volume| (volume.name.clone(), volume.line)).collect();
    let known = Names::of(known.iter().map(|(name, line)| (name.as_str(), *line)));
    let mut changes: Vec<PoolChange> = Vec::new();
    for table in tables {
        let volume = table.require("volume", "the name of a volume of the pool")?;
        let index = known.find(&volume, "volume of the pool")?;
        let at = table.require("at", "a time such as 10s")?;
        let at = at.duration(Duration::ZERO..=TIME_MAX, "")?;
        let value = table.require("action", ACTION)?;
        let action = match value.text(ACTION)? {
            "snapshot" => PoolAction::Snapshot { name: names.add(table)?.to_owned() },
            "relocate" => {
                if let Some(name) = table.value("name") {
                    return Err(name.refuse("no such field, or action = \"snapshot\""));
                }
                let twice =
                    |one: &PoolChange| one.action == PoolAction::Relocate && one.volume.0 == index;
                if volumes[index].from.is_none() || changes.iter().any(twice) {
                    return Err(volume.refuse("a volume with `from`, relocated once"));
                }
                PoolAction::Relocate
            }
            _ => return Err(value.refuse(ACTION)),
        };
        changes.push(PoolChange { at, volume: PoolVolumeIndex(index), action, line: table.line() });
    }
    Ok(changes)
}
