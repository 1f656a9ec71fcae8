//! Drives from DiskSim's parameter files: `.parv`, `.diskspecs`, with the `.model` and `.seek` that
//! they name.
//!
//! ```text
//! X.parv ── source ─▶ X.diskspecs ── Model = source ─▶ X.model ── Full seek curve ─▶ X.seek
//!  bus, topology       controller.rs                    layout.rs, mechanics.rs       mechanics.rs
//! ```
//!
//! A file is looked up in the directory of the file that names it. A parameter that cannot be
//! represented is refused by name and line if the drive depends on it. Ignored parameters make no
//! difference to a drive that holds one command: schedulers, preseeking, water marks of writes,
//! statistics.
//!
//! Invariant: no input panics, and none uses memory out of proportion to its size.

mod controller;
mod layout;
mod mechanics;
mod sparing;
#[cfg(test)]
mod tests;
mod tree;
mod warning;

use std::path::Path;

use drive::Spec;

use crate::file::DRIVE_FILE_BYTES_MAX;
use input::{InputError, read_at_most};
use tree::{At, Block, Read, Tree};
use warning::Warnings;

pub use warning::Warning;

/// A drive from DiskSim's files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Imported {
    /// The drive. Its check has passed.
    pub spec: Spec,
    /// What was made of parameters that DiskSim takes and that contradict others.
    pub warnings: Vec<Warning>,
}

/// Whether the file is one of DiskSim's, by its name.
pub fn is_named(path: &Path) -> bool {
    let end = path.extension().and_then(|end| end.to_str()).unwrap_or_default();
    ["parv", "diskspecs"].iter().any(|known| end.eq_ignore_ascii_case(known))
}

/// Reads a `.parv` or `.diskspecs` file, and the files that it names, into a drive whose check has
/// passed.
///
/// # Errors
/// The error names the file, the line, the field and what is accepted.
pub fn import(path: &Path) -> Result<Imported, InputError> {
    import_with(path, &mut |path| {
        let most = DRIVE_FILE_BYTES_MAX;
        let bytes = read_at_most(path, most as u64)
            .map_err(|error| format!("a file that can be read ({error})"))?
            .ok_or_else(|| format!("a file of at most {most} bytes"))?;
        String::from_utf8(bytes).map_err(|_| "a file of text".to_owned())
    })
}

/// As [`import`], with `read` returning a file's text, or what was expected of it.
///
/// # Errors
/// As [`import`].
pub fn import_with(
    path: &Path,
    read: &mut dyn FnMut(&Path) -> Result<String, String>,
) -> Result<Imported, InputError> {
    let tree = tree::parse(path, &mut *read)?;
    let disk = disk(&tree, path)?;
    let above = controller::path(&tree, &disk.name)?;
    let mut warnings = Warnings::new();
    let spec = spec(disk, above, read, &mut warnings)?;
    Ok(Imported { spec, warnings })
}

/// The same drive with a queue of `depth` commands that serves the shortest positioning first: the
/// published files have a queue of one, and no discipline. The decision latency is the
/// electronics' time for a hit.
#[must_use]
pub fn with_shortest_positioning(spec: Spec, depth: u32) -> Spec {
    let discipline = drive::Discipline::ShortestPositioning(controller::choosing(&spec.overheads));
    Spec { discipline, queue_depth_max: depth, ..spec }
}

/// The disk of the file: the only one, or the only one that is used.
fn disk<'t>(tree: &'t Tree, path: &Path) -> Result<&'t Block, InputError> {
    let disks = || tree.blocks.iter().filter(|block| block.kind == "disksim_disk");
    let used = |block: &&Block| tree.instances.iter().any(|(_, kind)| *kind == block.name);
    let whole = At { file: path.display().to_string().into(), line: 1 };
    match (disks().count(), disks().filter(used).count()) {
        (0, _) => {
            let expected = "a disksim_disk block: a .parv or .diskspecs file has one";
            Err(whole.refuse("disksim_disk", None, expected))
        }
        (1, _) => Ok(disks().next().expect("there is one")),
        (_, 1) => Ok(disks().find(used).expect("there is one")),
        (count, _) => {
            let second = disks().nth(1).map_or(&whole, |block| &block.at);
            let found = format!("{count} disks");
            Err(second.refuse(
                "disksim_disk",
                Some(&found),
                "one disk, or one that is instantiated",
            ))
        }
    }
}

fn spec(
    disk: &Block,
    above: controller::Path,
    read: Read<'_>,
    warnings: &mut Warnings,
) -> Result<Spec, InputError> {
    let model = disk.block("Model", "a dm_disk block")?;
    if model.kind != "dm_disk" {
        return Err(model.at.refuse("Model", Some(&model.kind), "a dm_disk block"));
    }
    let (surfaces, mapping, zones) = layout::read(model, warnings)?;
    let cylinders = zones.last().map_or(1, |zone| zone.last_cylinder + 1);
    let mechanical = model.block("Mechanical Model", "a dm_mech_g1 block")?;
    let mechanics = mechanics::read(mechanical, cylinders, read, warnings)?;
    let controller = controller::read(disk, above, warnings)?;
    let spec = Spec {
        period: mechanics.period,
        surfaces,
        mapping,
        zones,
        seek: mechanics.seek,
        seek_write: mechanics.seek_write,
        head_switch: mechanics.head_switch,
        write_settle: mechanics.write_settle,
        overheads: controller.overheads,
        overheads_after_write: controller.overheads_after_write,
        bus_sector: controller.bus_sector,
        read_buffer: controller.read_buffer,
        write_buffer: controller.write_buffer,
        write_cache: controller.write_cache,
        queue_depth_max: controller.queue_depth_max,
        // The queue of a controller on the path is not part of the drive.
        discipline: controller.discipline,
        firmware: controller.firmware,
        // All of them are SCSI drives, which have a seek command.
        arm: drive::Arm { seek_command: true, variation: units::Duration::ZERO },
    };
    match spec.clone().check() {
        Ok(_) => Ok(spec),
        Err(error) => Err(disk.at.refuse(
            &error.field().to_string(),
            None,
            format!("a drive: it {}", error.reason()),
        )),
    }
}
