//! How requests are executed, and what that has done: values.

use units::{DiskTime, Duration, Sectors};

/// How the requests on one disk are executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Execution {
    /// As one command each, or several if they are longer than a command may be.
    Whole {
        /// The most that one command transfers, with no decision between the commands of one request: what
        /// operating systems do to long requests. `None`: only [`Settings::command_max`](crate::Settings) splits, and
        /// between those pieces there is a decision.
        split: Option<Sectors>,
    },
    /// As short commands with a decision between any two.
    Preemptible(Preemptible),
}

/// How a request is cut up. The defaults are what [`Preemptible::default`] says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Preemptible {
    /// What one command transfers; `None`: in each band of the profile the smallest that keeps full speed there.
    pub chunk: Option<Sectors>,
    /// Whether the arm is sent just in time.
    pub jit: Option<Jit>,
    /// The longest sub-seek, in cylinders, where the drive has a seek command; `None`: seeks are not split.
    pub seek_split: Option<SeekSplit>,
    /// Whether slack before a movement is used to read on behind what was read last.
    pub free_prefetch: bool,
    /// Whether writes are cut up too, their last chunk forced to the disk.
    pub preempt_writes: bool,
}

/// Just-in-time seeks (FAST 2003 §3.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Jit {
    /// By how much earlier than foretold the head is to be there: 1 ms in the paper.
    pub offset: Duration,
    /// How the arm gets there.
    pub approach: Approach,
}

/// How the arm gets to where a transfer begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Approach {
    /// The first transfer's own command moves it, sent so that the head arrives as the sector does: the paper's way,
    /// and the only one where a drive has no seek command. A seek that takes longer than foretold by more than the
    /// offset costs a turn.
    InTime,
    /// A seek command moves it, early enough to be there whatever the seek takes; the transfer's command is sent when
    /// the sector comes. Only the rest of the way has to be foretold, and that is rotation alone.
    Ahead,
}

/// Seek splitting (FAST 2003 §3.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SeekSplit {
    /// Seeks over more cylinders than this in two equal parts, whatever that costs; with [`Approach::Ahead`] in as many
    /// (up to four) as make none longer, and shorter ones as with `Hidden`.
    Always(u32),
    /// In as many parts as shorten the wait that they cause, as long as the slack hides what that costs.
    Hidden,
}

impl Default for Preemptible {
    fn default() -> Self {
        Self {
            chunk: None,
            jit: Some(Jit { offset: Duration::from_millis(1), approach: Approach::Ahead }),
            seek_split: Some(SeekSplit::Hidden),
            free_prefetch: false,
            preempt_writes: true,
        }
    }
}

impl Execution {
    /// What the paper's prototype did: chunks of `chunk`, an offset of 1 ms, seeks over more than `split` cylinders in
    /// two.
    pub const fn as_published(chunk: Sectors, split: u32) -> Self {
        Self::Preemptible(Preemptible {
            chunk: Some(chunk),
            jit: Some(Jit { offset: Duration::from_millis(1), approach: Approach::InTime }),
            seek_split: Some(SeekSplit::Always(split)),
            free_prefetch: false,
            preempt_writes: true,
        })
    }

    /// How requests are cut up, if they are.
    pub const fn preemptible(&self) -> Option<&Preemptible> {
        match self {
            Self::Whole { .. } => None,
            Self::Preemptible(preemptible) => Some(preemptible),
        }
    }
}

/// What a command is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Carries out a piece of its request.
    Transfer,
    /// Moves the arm for its request; no data.
    Seek,
    /// Uses slack to bring what is likely to be read next into the drive's memory; its data is nobody's.
    Prefetch,
}

/// What preemptible execution has done so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PreemptionStats {
    /// Times that the arm's arrival was foretold and waited for.
    pub jit_transfers: u64,
    /// Of these, times that it came late: each cost a turn.
    pub missed: u64,
    /// Movements made in several parts.
    pub split_seeks: u64,
    /// Seek commands.
    pub seek_commands: u64,
    /// Requests that somebody of a higher class went before after they had begun.
    pub preemptions: u64,
    /// Sectors read in slack.
    pub prefetched: Sectors,
    /// Idle time made by waiting for the disk to turn.
    pub rotational_wait: DiskTime,
    /// Times that just-in-time seeks were given up because predictions did not come true.
    pub jit_disabled_count: u64,
    /// Whether just-in-time seeks are on now.
    pub jit_enabled: bool,
}

/// The mean wait of a request that arrives at any time with equal probability, while `commands` are executed that
/// nobody can interrupt and the disk is idle for `idle` between them (FAST 2003, equation 2):
/// `½ Σ Tᵢ² / (Σ Tᵢ + T_idle)`. Nothing if there is no time at all.
pub fn expected_wait(commands: impl IntoIterator<Item = Duration>, idle: Duration) -> Duration {
    let (mut squares, mut sum) = (0_u128, u128::from(idle.as_nanos()));
    for time in commands {
        let nanos = u128::from(time.as_nanos());
        squares = squares.saturating_add(nanos.saturating_mul(nanos));
        sum = sum.saturating_add(nanos);
    }
    let wait = squares.checked_div(2 * sum).unwrap_or(0);
    Duration::from_nanos(u64::try_from(wait).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The worked example of FAST 2003 §1.1.
    #[test]
    fn the_papers_example_comes_out_exactly() {
        let ms = Duration::from_millis;
        let whole = expected_wait([ms(14 + 7 + 25)], Duration::ZERO);
        assert_eq!(whole, ms(23));
        let commands = [ms(9), ms(9)].into_iter().chain([ms(1); 25]);
        assert_eq!(expected_wait(commands, ms(3)).as_micros(), 2_032);
    }

    #[test]
    fn nothing_executed_makes_nobody_wait() {
        assert_eq!(expected_wait([], Duration::ZERO), Duration::ZERO);
    }

    #[test]
    fn finer_commands_of_equal_length_never_make_anybody_wait_longer() {
        let total = 24_000_000_u64;
        let waits: Vec<Duration> = [1, 2, 3, 4, 6, 8, 12, 24]
            .map(|parts| {
                let part = Duration::from_nanos(total / parts);
                expected_wait((0..parts).map(|_| part), Duration::from_millis(2))
            })
            .to_vec();
        assert!(waits.windows(2).all(|pair| pair[1] < pair[0]), "{waits:?}");
    }
}
