//! The spindle: `[found.rotation]`, or `non_rotating = true` for a device that does not rotate.

use drive::{PERIOD_MAX, PERIOD_MIN};
use drive_profile::findings::{Findings, Rotation, Spindle};
use units::Duration;

use super::flash::no_time;
use super::form::{Form, Record};
use input::InputError;

/// The table is absent if it is unknown whether the device rotates.
pub(super) fn visit(findings: &mut Findings, form: &mut Form<'_>) -> Result<(), InputError> {
    let (mut not_rotating, mut rotation) = match findings.spindle {
        None => (None, None),
        Some(Spindle::NotRotating) => (Some(true), None),
        Some(Spindle::Rotating(rotation)) => (None, Some(rotation)),
    };
    form.maybe(("non_rotating", "still"), &mut not_rotating)?;
    form.table("rotation", &mut rotation)?;
    findings.spindle = match (rotation, not_rotating) {
        (Some(rotation), _) => Some(Spindle::Rotating(rotation)),
        (None, Some(true)) => Some(Spindle::NotRotating),
        (None, _) => None,
    };
    Ok(())
}

impl Record for Rotation {
    fn blank() -> Self {
        Self {
            period: no_time(),
            period_picos: 0,
            noise: Duration::ZERO,
            wander: Duration::ZERO,
            eviction_reads: 0,
            cache_hit_max: Duration::ZERO,
        }
    }

    fn visit(&mut self, form: &mut Form<'_>) -> Result<(), InputError> {
        form.known("period", &mut self.period)?;
        let is_valid = (PERIOD_MIN..=PERIOD_MAX).contains(&self.period.value);
        form.sound(is_valid, "period", || format!("a period of {PERIOD_MIN} to {PERIOD_MAX}"))?;
        form.field("period_ps", &mut self.period_picos)?;
        form.field("noise", &mut self.noise)?;
        form.field("wander", &mut self.wander)?;
        form.field(("eviction_reads", "forgets"), &mut self.eviction_reads)?;
        form.field(("cache_hit_max", "hit_below"), &mut self.cache_hit_max)
    }
}
