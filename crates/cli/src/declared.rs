//! Messages about volumes that declare a rate instead of a share.

use config::{Plan, Volume};
use console::eprintln;
use stats::VolumeReport;

/// The reserve of a volume, and the rate from which it was derived.
pub(crate) fn reserve(volume: &Volume) -> String {
    let reserve = volume.contract.reserve;
    let Some(declared) = volume.declared else { return format!("reserve {reserve}") };
    let demand = declared.requirement;
    let iops = 1.0 / demand.interval.as_secs_f64();
    format!(
        "reserve {reserve} for {iops:.0} IOPS in runs of {} × {}",
        demand.run,
        demand.block.bytes()
    )
}

/// Reports on standard error the reserve that each declared rate needs.
pub(crate) fn say(plan: &Plan) {
    for volume in plan.volumes.iter().filter(|volume| volume.declared.is_some()) {
        eprintln!("{}: {}", volume.name, reserve(volume));
    }
}

/// Reports on standard error the volumes whose load differs from their declaration.
pub(crate) fn warn(volumes: &[VolumeReport]) {
    for volume in volumes {
        let declared = volume.declared.as_ref();
        if let Some(warning) = declared.and_then(|declared| declared.warning.as_ref()) {
            eprintln!("{}: {warning}", volume.name);
        }
    }
}
