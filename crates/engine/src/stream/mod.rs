//! Streams with deadlines: admission and slack (Clockwise, RTAS 2000 §3).
//!
//! A [`Task`] demands at most `cost` of disk time in every `period` and has it by the period's end;
//! its longest non-preemptible command takes `longest`. A [`TaskSet`] is the tasks of one disk at
//! one time: it tells whether a further one fits ([`TaskSet::check_with`]), why not
//! ([`Violation`]), and how much best effort may take at any moment without making a request late
//! ([`TaskSet::slack`], ΔL in RTAS 2000). A [`Timetable`] is the tasks of one disk over time.
//! [`CounterOffers`] are alternatives to a refused stream.
//!
//! # The test
//!
//! Tasks are sorted by period: T₁ ≤ … ≤ Tₙ; Cⱼ is a task's cost, qⱼ its longest command, all in
//! whole ns, and `demand(t) = Σ ⌊t ÷ Tⱼ⌋·Cⱼ` is the most work that can be both released and due
//! within t. The tasks meet every deadline under EDF that preempts nothing shorter than its qⱼ,
//! whenever their requests come, iff
//!
//! 1. Σ Cⱼ ÷ Tⱼ ≤ 1, and
//! 2. for every i and T₁ < L < Tᵢ: qᵢ + Σ_{j<i} ⌊(L−1) ÷ Tⱼ⌋·Cⱼ ≤ L.
//!
//! (2) is the case in which request i begins 1 ns before all others. With Tⱼ ≥ Tᵢ > L the quotient
//! ⌊(L−1) ÷ Tⱼ⌋ is 0, so that the sum may run over all j and the order among equal periods is of no
//! account. With t = L − 1 and the *blocking* `b(t) = max { qᵢ − 1 : Tᵢ ≥ t + 2 }`, 0 if there is
//! none, (2) reads
//!
//! > `room(t) = t − demand(t) − b(t) ≥ 0` for T₁ ≤ t ≤ Tₙ − 2.
//!
//! # The slack
//!
//! Let best effort have s in all between two moments at which no request waits. Take the first
//! request that is late, its deadline d, and the last moment o before d before which no request
//! waits that is due by d. From o to d the disk is busy with what was released since o and is due
//! by d, `demand(d − o)` at most; with one command at most that began before o and is due after d,
//! `b(d − o)` of it at most after o; and with s. So no request is late if s ≤ room(t) for *every* t
//! ≥ T₁: `slack = min room(t)`. RTAS 2000 (Definition 1) takes T₁ ≤ t ≤ Tₙ only, which is not
//! enough: see [`SlackRange::Published`].
//!
//! Beyond Tₙ nothing blocks, and room(t) = t − demand(t) ≥ t·(1 − U). So nothing beyond t = m ÷ (1
//! − U) has less room than an m that was found already. With U = 1 all periods coincide at some
//! time, and the slack is 0.
//!
//! # The search
//!
//! Demand grows, and blocking shrinks, at few points; and room(t) for one t bounds many below it:
//! for t′ < t `demand(t′) ≤ demand(t)`, so that every t′ with `t′ − b(t′) ≥ demand(t) + m` has a
//! room of m at least. The search goes backwards and skips all of those (Quick Processor-demand
//! Analysis, Zhang and Burns 2009, which decides for m = 0; here m is the minimum so far). One
//! value of demand takes one division for each value of ⌊t ÷ Tⱼ⌋: costs are summed by period in
//! advance. The work is bounded by [`STREAM_WORK_MAX`](crate::limits::STREAM_WORK_MAX): a longer
//! search is broken off with a safe answer.
//!
//! # Over time
//!
//! Where tasks begin and end, the test is made for each interval in which they stay the same, and
//! for the moments between two of those: see `handover`. A task's requests are released *and due*
//! in its span.
//!
//! # Reserves and servers
//!
//! A reserve is a task with C = share × period, kept as a dynamic sporadic server: its budget is
//! refilled one period after it was used, so that in any t it takes at most what a task would. So
//! is the server that keeps best effort from starving where there is no slack. See
//! [`Task::server`].

mod counter_offer;
mod demand_bound;
mod handover;
mod set;
mod span;
mod task;
mod timetable;
mod violation;

pub use counter_offer::{CounterOffers, RequestedStream};
pub use set::{SlackRange, TaskSet, Tightest};
pub use span::Span;
pub use task::{InvalidTask, Task, TaskId, Utilization};
pub use timetable::{Booking, Timetable, book_all};
pub use violation::{BlockingTask, Violation};
