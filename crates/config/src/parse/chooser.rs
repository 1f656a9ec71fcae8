//! `chooser` of a `[[disk]]` table: which of a volume's requests goes next; and `freeblock`, what
//! goes in the rotational wait of the one that goes next.

use drive::AnyModel;
use engine::{ChooserName, Execution, Feature, PolicyName};
use input::{InputError, Table, list};

use super::real;

/// The chooser; `auto`, the default, is the one with the most throughput that the policy, the drive
/// and the execution allow.
pub(crate) fn check(
    table: &Table<'_>,
    policy: PolicyName,
    (model, execution): (&AnyModel, Execution),
) -> Result<ChooserName, InputError> {
    let refusal = obstacle(policy, model, execution);
    let auto = match (&refusal, model.mechanical()) {
        (Some(_), _) => ChooserName::Arrival,
        (None, Some(_)) => ChooserName::Predicted,
        (None, None) => ChooserName::Sweep,
    };
    let Some(value) = table.value("chooser") else { return Ok(auto) };
    let expected = format!("\"auto\" or one of {}", list(ChooserName::ALL.iter(), '"'));
    if value.text(&expected)? == "auto" {
        return Ok(auto);
    }
    let chooser = value.quantity(&expected)?;
    match (chooser, refusal) {
        (ChooserName::Sweep | ChooserName::Predicted, Some(refusal)) => Err(value.refuse(refusal)),
        (ChooserName::Predicted, None) if model.mechanical().is_none() => {
            let cure = real::HELP_MEASURE_PROFILE;
            Err(value.refuse(format_args!("\"sweep\", or {cure}")))
        }
        _ => Ok(chooser),
    }
}

/// `freeblock`: whether best effort's reads are carried out in rotational waits, which the chooser
/// has to predict.
pub(crate) fn freeblock(table: &Table<'_>, chooser: ChooserName) -> Result<bool, InputError> {
    let Some(value) = table.value("freeblock") else { return Ok(false) };
    let is_on = value.boolean()?;
    if is_on && chooser != ChooserName::Predicted {
        let (chooser, predicted) = (chooser.as_str(), ChooserName::Predicted.as_str());
        return Err(value.refuse(format_args!(
            "false: rotational waits are predicted under chooser = \"{predicted}\" alone, from a \
             profile or a drive file, and the chooser is \"{chooser}\""
        )));
    }
    Ok(is_on)
}

/// What keeps the requests of a volume in the order of their arrival.
fn obstacle(policy: PolicyName, model: &AnyModel, execution: Execution) -> Option<String> {
    if !policy.keeps(Feature::Chooser) {
        let keeping = list(PolicyName::keeping(Feature::Chooser), '"');
        return Some(format!(
            "\"arrival\": under policy \"{policy}\" requests go in the order of their arrival \
             (not under {keeping})"
        ));
    }
    if !model.rotational() {
        return Some("\"arrival\": the drive has no arm".to_owned());
    }
    match execution {
        Execution::Whole { split: None } => None,
        Execution::Whole { split: Some(_) } => Some("\"arrival\", or no `split`".to_owned()),
        Execution::Preemptible(_) => Some("\"arrival\", or execution = \"whole\"".to_owned()),
    }
}
