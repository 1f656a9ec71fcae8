//! `[[bus]]` tables, and the key `bus` of a `[[disk]]` table.

use input::{InputError, Table, size_text};
use units::Bytes;

use super::names::Names;
use crate::defaults;
use crate::limits::{BUS_BANDWIDTH_MAX, BUS_BANDWIDTH_MIN, BUS_BURST_MAX};
use crate::plan::Bus;

/// The buses of a config, with their names.
pub(crate) struct Buses<'a> {
    names: Names<'a>,
    buses: Vec<Bus>,
}

/// Checks the tables, and counts the disks of each bus. `disks` are the tables of all disks.
pub(crate) fn check<'a>(
    tables: &'a [Table<'a>],
    disks: &[Table<'_>],
) -> Result<Buses<'a>, InputError> {
    let mut names = Names::default();
    let mut buses = Vec::new();
    for table in tables {
        let name = names.add(table)?.to_owned();
        let value = table.require("bandwidth", "bytes a second such as 10MB/s")?;
        let bandwidth = value.bytes_per_second()?;
        if !(BUS_BANDWIDTH_MIN..=BUS_BANDWIDTH_MAX).contains(&bandwidth) {
            let (low, high) = (size_text(BUS_BANDWIDTH_MIN), size_text(BUS_BANDWIDTH_MAX));
            return Err(value.refuse(format_args!("from {low}/s to {high}/s")));
        }
        let burst = match table.value("burst") {
            None => defaults::BUS_BURST,
            Some(value) => match value.size()? {
                size if size > BUS_BURST_MAX => {
                    let most = size_text(BUS_BURST_MAX);
                    return Err(value.refuse(format_args!("a size of at most {most}")));
                }
                size => size,
            },
        };
        let is_its = |disk: &&Table<'_>| {
            let bus = disk.value("bus");
            bus.is_some_and(|value| value.text("").is_ok_and(|text| text == name))
        };
        let count = disks.iter().filter(is_its).count();
        let disks = u32::try_from(count).expect("disks are few");
        buses.push(Bus { name, bandwidth, burst: burst.sectors_floor(), disks });
    }
    Ok(Buses { names, buses })
}

/// Refuses a bus that is on no disk: `bus` may be missing where its disks are described.
pub(crate) fn refuse_unused(
    tables: &[Table<'_>],
    Buses { buses, .. }: &Buses<'_>,
) -> Result<(), InputError> {
    debug_assert_eq!(tables.len(), buses.len(), "one of each table");
    let Some((table, bus)) = tables.iter().zip(buses).find(|(_, bus)| bus.disks == 0) else {
        return Ok(());
    };
    let name = table.require("name", "a name")?;
    Err(name.refuse(format_args!("the bus of a disk: `bus = \"{}\"` of a [[disk]]", bus.name)))
}

impl Buses<'_> {
    /// The bus that a disk's table names, if it names one.
    pub(crate) fn of(&self, disk: &Table<'_>) -> Result<Option<Bus>, InputError> {
        let Some(value) = disk.value("bus") else { return Ok(None) };
        let bus = self.buses[self.names.find(&value, "bus")?].clone();
        debug_assert!(bus.disks > 0, "this one was counted");
        debug_assert!(bus.bandwidth > Bytes::ZERO, "a bus carries something");
        Ok(Some(bus))
    }
}
