//! How requests are executed, and what that has done: values.

use units::{DiskTime, Duration, Sectors};

/// The execution of the requests on one disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Execution {
    /// As one command each, or several if they exceed the longest command.
    Whole {
        /// The most that one command transfers, with no decision between the commands of one
        /// request: what operating systems do to long requests. `None`: only
        /// [`Settings::command_max`](crate::Settings) splits, and there is a decision between those
        /// commands.
        split: Option<Sectors>,
    },
    /// As short commands with a decision between any two.
    Preemptible(Preemptible),
}

/// The parameters of preemptible execution. The defaults are those of [`Preemptible::default`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Preemptible {
    /// The sectors of one command; `None`: in each band of the profile the fewest that sustain the
    /// full sequential rate.
    pub chunk: Option<Sectors>,
    /// Whether seeks are just in time.
    pub jit: Option<Jit>,
    /// The longest sub-seek, in cylinders, where the drive has a seek command; `None`: seeks are
    /// not split.
    pub seek_split: Option<SeekSplit>,
    /// Where sectors go that a rotational wait before a seek is used to read, behind the last read.
    pub free_prefetch: FreePrefetch,
    /// Whether writes are split too, their last chunk forced to the media.
    pub preempt_writes: bool,
}

/// What is read in rotational waits, behind the last read (free prefetching, FAST 2003 §3.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FreePrefetch {
    /// Nothing.
    Off,
    /// Whatever follows, into the drive's buffer alone. The drive takes it for read by the host,
    /// and overwrites it for more.
    ToDrive,
    /// What a volume is offered ([`Event::PrefetchOffered`](crate::Event)), into the host's memory.
    /// The volume is charged for it.
    ToHost,
}

/// Just-in-time seeks (FAST 2003 §3.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Jit {
    /// How much earlier than the predicted passage of the sector the head arrives: 1 ms in FAST
    /// 2003.
    pub offset: Duration,
    /// How the arm is moved.
    pub approach: Approach,
}

/// How the arm is moved to where a transfer begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Approach {
    /// The first transfer command moves it, sent so that the head arrives as the sector does: as in
    /// FAST 2003, and the only way on a drive without a seek command. A seek that exceeds its
    /// prediction by more than the offset costs a revolution; once such losses exceed a hundredth
    /// of the disk's time, it allows for as much variation as the others, until they do not.
    InTime,
    /// A seek command moves it, early enough whatever the seek takes; the transfer command is sent
    /// when the sector approaches. The rest that must be predicted is rotation alone. On a drive
    /// without a seek command it is as [`Approach::ShortRead`] if that pays by the drive's profile,
    /// else as [`Approach::Transfer`].
    Ahead,
    /// As [`Approach::Ahead`], but on a drive without a seek command a read of one block of the
    /// target's track moves it, where the rotational wait hides that read.
    ShortRead,
    /// The first transfer command moves it, early enough whatever the seek takes.
    Transfer,
    /// As [`Approach::InTime`], whatever that loses: FAST 2003's, for experiments alone.
    Published,
}

/// Seek splitting (FAST 2003 §3.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SeekSplit {
    /// Seeks over more cylinders than this in two equal parts, whatever the cost; with
    /// [`Approach::Ahead`] in as many parts (up to four) as make none longer, and shorter seeks as
    /// with `Hidden`.
    Always(u32),
    /// In the number of parts that shortens the wait that they cause, as long as the rotational
    /// wait hides the cost.
    Hidden,
}

impl Default for Preemptible {
    fn default() -> Self {
        Self {
            chunk: None,
            jit: Some(Jit { offset: Duration::from_millis(1), approach: Approach::Ahead }),
            seek_split: Some(SeekSplit::Hidden),
            free_prefetch: FreePrefetch::Off,
            preempt_writes: true,
        }
    }
}

impl Execution {
    /// The execution of the FAST 2003 prototype: chunks of `chunk`, an offset of 1 ms, seeks over
    /// more than `split` cylinders in two.
    pub const fn as_published(chunk: Sectors, split: u32) -> Self {
        debug_assert!(chunk.0 > 0, "a chunk has sectors");
        Self::Preemptible(Preemptible {
            chunk: Some(chunk),
            jit: Some(Jit { offset: Duration::from_millis(1), approach: Approach::Published }),
            seek_split: Some(SeekSplit::Always(split)),
            free_prefetch: FreePrefetch::Off,
            preempt_writes: true,
        })
    }

    /// The parameters of preemptible execution, if it is preemptible.
    pub const fn preemptible(&self) -> Option<&Preemptible> {
        match self {
            Self::Whole { .. } => None,
            Self::Preemptible(preemptible) => Some(preemptible),
        }
    }
}

/// The purpose of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Carries out a piece of its request.
    Transfer,
    /// Moves the arm for its request, by a seek command or a short read; no client receives data.
    Seek,
    /// Uses a rotational wait to read what is likely to be read next. It is for no request: the
    /// driver keeps its data for its volume ([`ReadAhead`](crate::ReadAhead)), if it keeps any.
    Prefetch,
}

/// What preemptible execution has done so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PreemptionStats {
    /// Transfers whose seek was just in time.
    pub jit_transfers: u64,
    /// Of these, the ones that arrived late: each cost a revolution.
    pub missed: u64,
    /// Seeks made in several parts.
    pub split_seeks: u64,
    /// Seek commands, and the short reads that take their place.
    pub seek_commands: u64,
    /// Requests that were preempted after they had begun.
    pub preemptions: u64,
    /// Sectors prefetched in rotational waits.
    pub prefetched: Sectors,
    /// Idle time of rotational waits.
    pub rotational_wait: DiskTime,
    /// Times that just-in-time seeks were disabled because predictions failed.
    pub jit_disabled_count: u64,
    /// Whether just-in-time seeks are enabled now.
    pub jit_enabled: bool,
}

/// The mean wait of a request that arrives at any time with equal probability, while
/// non-preemptible `commands` are executed and the disk is idle for `idle` between them (FAST 2003,
/// equation 2): `½ Σ Tᵢ² / (Σ Tᵢ + T_idle)`. Zero if the total time is zero.
pub fn expected_wait(commands: impl IntoIterator<Item = Duration>, idle: Duration) -> Duration {
    let (mut squares, mut sum) = (0_u128, u128::from(idle.as_nanos()));
    for time in commands {
        let nanos = u128::from(time.as_nanos());
        squares = squares.saturating_add(nanos.saturating_mul(nanos));
        sum = sum.saturating_add(nanos);
    }
    let wait = squares.checked_div(2 * sum).unwrap_or(0);
    debug_assert!(wait <= sum, "no request waits longer than everything takes");
    Duration::from_nanos(u64::try_from(wait).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The worked example of FAST 2003 §1.1.
    #[test]
    fn the_example_of_fast_2003_comes_out_exactly() {
        let ms = Duration::from_millis;
        let whole = expected_wait([ms(14 + 7 + 25)], Duration::ZERO);
        assert_eq!(whole, ms(23));
        let commands = [ms(9), ms(9)].into_iter().chain([ms(1); 25]);
        assert_eq!(expected_wait(commands, ms(3)).as_micros(), 2_032);
    }

    #[test]
    fn without_commands_there_is_no_wait() {
        assert_eq!(expected_wait([], Duration::ZERO), Duration::ZERO);
    }

    #[test]
    fn shorter_commands_of_equal_length_never_lengthen_the_wait() {
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
