//! The page of policies: what each keeps and what it refuses.

use core::fmt::Write as _;

use engine::{Feature, PolicyName};

use crate::markdown::{head, paragraph};

pub(crate) fn page() -> String {
    let mut text = head("Policies", "`crates/engine/src/policy/features.rs`");
    text.push_str(&paragraph(
        "What each scheduling policy keeps of a volume's contract, and on which disks it runs. A \
         contract that the policy of its disk does not keep is refused by name, in a config, over \
         the API and by `spindle vol`. [The scheduler](../concepts/scheduler.md) says how each \
         policy orders requests.",
    ));
    text.push_str("\n| policy |");
    for feature in Feature::ALL {
        let _ = write!(text, " {feature} |");
    }
    let _ = writeln!(text, "\n|---|{}", "---|".repeat(Feature::ALL.len()));
    for policy in PolicyName::ALL {
        let default = if policy == PolicyName::DEFAULT { " (the default)" } else { "" };
        let _ = write!(text, "| `{policy}`{default} |");
        for feature in Feature::ALL {
            text.push_str(cell(policy, feature));
        }
        text.push('\n');
    }
    text.push('\n');
    text.push_str(&paragraph(
        "\"By deadline\": served in the order of deadlines, without a guarantee. \"As a rate\": \
         `reserve` and `limit` are requests a second of the disk's nominal rate. `preemptible` is \
         `execution = \"preemptible\"`; policies that serve streams require a `chunk` with it. \
         `flash` stands for every drive without an arm.",
    ));
    text.push('\n');
    text.push_str(&paragraph(
        "`unkept_contracts = \"allowed\"` on a disk makes a simulation accept reserves, limits \
         and weights that the policy does not keep, as a control that shows the difference. \
         `spindle serve` refuses it.",
    ));
    text
}

fn cell(policy: PolicyName, feature: Feature) -> &'static str {
    let is_by_deadline = policy.has_deadlines() && !policy.guarantees_deadlines();
    let is_rate = policy.has_nominal_rate();
    match feature {
        _ if !policy.keeps(feature) => " refused |",
        Feature::Reserve | Feature::Stream | Feature::Rate if is_by_deadline => " by deadline |",
        Feature::Reserve | Feature::Limit if is_rate => " as a rate |",
        _ => " yes |",
    }
}
