//! The checks that are known to be missed: all of them. Any other miss makes the exit code 1, and
//! so does one of these that gets worse, or that is held again.

use super::check::{Check, Verdict};

/// The part of its bound by which a known miss may be worse than when it was entered: its figure is
/// entered with three digits.
const WORSE_MAX: f64 = 0.005;

/// A check that is known to be missed.
pub(super) struct KnownMiss {
    /// The experiment, and the check's name in it.
    check: (&'static str, &'static str),
    bound: f64,
    /// The figure when it was entered.
    entered: f64,
    /// Why it is missed, and what would mend it.
    reason: &'static str,
}

const WRITES: &str = "500 kB are written in 28 ms where FAST 2003 took 36.5, a revolution more, \
                      and a forced last chunk costs one revolution where it seems to cost up to \
                      two; FAST 2003 gives no reason for which the firmware loses them";
const fn miss(
    check: (&'static str, &'static str),
    (bound, entered): (f64, f64),
    reason: &'static str,
) -> KnownMiss {
    KnownMiss { check, bound, entered, reason }
}

const KNOWN_MISSES: [KnownMiss; 9] = [
    miss(
        ("vdisk-fig2", "runs of 1024: maximum ÷ reservable"),
        (100.0, 69.404),
        "a hundred times RTAS 2008's nominal 60 I/Os a second are 24.6 MB/s; the vendor's 284 Mb/s \
         at the head, less servo, gaps and changes of track, leave 22 MB/s in the outermost zone; \
         nothing known would mend it",
    ),
    miss(
        ("vdisk-fig5", "sequential: least rate from a reserve of 10 % on"),
        (135.0, 97.447),
        "the low-level driver does twice as many random requests a second as RTAS 2008's, and a \
         reserve of 90 % of them leaves a third of the disk; it is above RTAS 2008's 68, and 7 \
         times the reserve; RTAS 2008's elevator would mend it",
    ),
    miss(
        (
            "vdisk-fig11",
            "most that a stream had above its later rate in its first 2 s, ÷ a second's reserve",
        ),
        (1.0, 2.17),
        "beside its own bucket a stream that begins has what the others owe, up to a period's \
         worth each (RTAS 2008 §2.1), as they have used slack; not charging slack to the \
         reserve's bucket would mend it",
    ),
    miss(("spio-table3", "cells of writes within 20 %"), (12.0, 8.0), WRITES),
    miss(("spio-table4", "cells of writes within 20 %"), (48.0, 40.0), WRITES),
    miss(
        ("spio-better", "video server (DV15): waiting of npIO ÷ ours"),
        (3.0, 2.437),
        "most of what is left is seeks, which the order of the requests requires and no chunk \
         shortens: up to a third of the disk their time grows as the square root of the distance, \
         so that two half seeks take longer; FAST 2003 reached 2.1; two standard deviations of a \
         seek instead of three give 2.573, and cost random reads up to 3.6 % instead of 1.4 %; \
         nothing known would mend it",
    ),
    miss(
        ("clockwise-fig2", "random: load at the end"),
        (15.6, 13.928),
        "RTAS 2000 measured its drives' zones; those of atlas-ii are estimates, the innermost \
         with 117 sectors a track, and a block there takes too long for one more pair; measured \
         zones would mend it",
    ),
    miss(
        ("clockwise-fig3", "random: LST ÷ ΔL at the highest load: almost identical"),
        (0.3, 0.145),
        "all best effort must fit into the little slack that the last admitted pair leaves, while \
         LST needs none beside small requests; RTAS 2000 does not say how much its last load \
         left; measured zones would mend it, as in figure 2",
    ),
    miss(
        ("clockwise-fig3", "rotation: EDF ÷ LST at the highest load"),
        (1.0, 2.166),
        "EDF delays best effort by the real-time requests released with it, LST serves it within \
         the slack, so that EDF is worse here; RTAS 2000 does not say how LST loses there",
    ),
];

/// Judges the checks of a whole run of an experiment.
pub(super) fn judge(experiment: &str, checks: &mut Vec<Check>) {
    judge_by(&KNOWN_MISSES, experiment, checks);
}

/// Judges the checks of a run of a part of an experiment: what is known of the whole is neither
/// worse in it nor mended by it.
pub(super) fn judge_part(experiment: &str, checks: &mut [Check]) {
    for check in checks.iter_mut().filter(|check| check.holds == Some(false)) {
        if let Some(known) = find(&KNOWN_MISSES, experiment, &check.name) {
            (check.verdict, check.reason) = (Verdict::Known, Some(known.reason.to_owned()));
        }
    }
}

fn find<'a>(list: &'a [KnownMiss], experiment: &str, name: &str) -> Option<&'a KnownMiss> {
    list.iter().find(|known| known.check == (experiment, name))
}

fn judge_by(list: &[KnownMiss], experiment: &str, checks: &mut Vec<Check>) {
    for check in checks.iter_mut() {
        if let Some(known) = find(list, experiment, &check.name) {
            (check.verdict, check.reason) = verdict(known, check);
        }
    }
    let is_there = |known: &&KnownMiss| checks.iter().any(|check| check.name == known.check.1);
    let gone = list.iter().filter(|known| known.check.0 == experiment);
    let gone: Vec<_> = gone.filter(|known| !is_there(known)).collect();
    for known in gone {
        let mut check = Check::at_most(known.check.1, known.entered, known.bound, "");
        check.verdict = Verdict::Missed;
        check.reason = Some("it is a known miss, and there is no such check".to_owned());
        checks.push(check);
    }
}

/// The verdict on a check that is in the list, and its reason.
fn verdict(known: &KnownMiss, check: &Check) -> (Verdict, Option<String>) {
    let KnownMiss { bound, entered, reason, .. } = *known;
    let wrong = if check.holds != Some(false) {
        "it holds, and is to be removed from the known misses".to_owned()
    } else if check.bound.is_none_or(|found| (found - bound).abs() > f64::EPSILON * bound.abs()) {
        format!("it is known to be missed with the bound {bound}")
    } else if check.missed_by(check.ours) > check.missed_by(entered) + WORSE_MAX * bound.abs() {
        format!("it is known to be missed, and worse than when it was entered, {entered}")
    } else {
        return (Verdict::Known, Some(reason.to_owned()));
    };
    (Verdict::Missed, Some(wrong))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(ours: f64, bound: f64) -> (Verdict, String) {
        let list = [miss(("an experiment", "a figure"), (2.0, 3.0), "a reason")];
        let mut checks = vec![
            Check::at_most("a figure", ours, bound, "ms"),
            Check::at_most("another", 1.0, 2.0, "ms"),
        ];
        judge_by(&list, "an experiment", &mut checks);
        assert_eq!((checks.len(), checks[1].verdict), (2, Verdict::Held));
        (checks[0].verdict, checks[0].reason.clone().expect("it is in the list"))
    }

    #[test]
    fn a_known_miss_is_one_as_long_as_it_is_missed_and_gets_no_worse() {
        assert_eq!(judged(3.0, 2.0), (Verdict::Known, "a reason".to_owned()));
        assert_eq!(judged(2.5, 2.0).0, Verdict::Known, "it may get better");
        assert_eq!(judged(3.02, 2.0).0, Verdict::Missed);
        assert!(judged(3.02, 2.0).1.contains("worse"));
        assert_eq!(judged(1.9, 2.0).0, Verdict::Missed);
        assert!(judged(1.9, 2.0).1.contains("it holds"));
        assert_eq!(judged(3.0, 2.1).0, Verdict::Missed, "its bound is another");
    }

    #[test]
    fn a_known_miss_without_a_check_is_a_miss_and_so_is_a_check_without_an_entry() {
        let list = [miss(("an experiment", "a figure"), (2.0, 3.0), "a reason")];
        let mut checks = vec![Check::at_most("another", 3.0, 2.0, "ms")];
        judge_by(&list, "another experiment", &mut checks);
        assert_eq!((checks.len(), checks[0].verdict), (1, Verdict::Missed));
        judge_by(&list, "an experiment", &mut checks);
        assert_eq!((checks.len(), checks[1].verdict), (2, Verdict::Missed));
    }

    #[test]
    fn each_known_miss_is_of_an_experiment_and_is_a_miss() {
        for (index, known) in KNOWN_MISSES.iter().enumerate() {
            assert!(super::super::find(known.check.0).is_some(), "{:?}", known.check);
            let twice = find(&KNOWN_MISSES[..index], known.check.0, known.check.1);
            assert!(twice.is_none(), "{:?} is entered twice", known.check);
        }
    }
}
