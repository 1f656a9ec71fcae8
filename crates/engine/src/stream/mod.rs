//! Streams with deadlines: who fits beside whom, and what is left (RTAS 2000, §3; DESIGN.md, "Admission and slack").
//!
//! A [`Task`] asks for at most `cost` of disk time in every `period` and has it by the period's end; its longest
//! command that nobody can preempt takes `longest`. A [`TaskSet`] is the tasks of one disk at one time: it tells
//! whether a further one fits ([`TaskSet::check_with`]), why not ([`Violation`]), and how much best effort may take at
//! any moment without anybody's being late ([`TaskSet::slack`], the paper's ΔL). A [`Timetable`] is the tasks of one
//! disk over time. [`CounterOffers`] says what would fit instead of what did not.
//!
//! # The test
//!
//! Tasks are sorted by period: T₁ ≤ … ≤ Tₙ; Cⱼ is a task's cost, qⱼ its longest command, all in whole ns, and
//! `demand(t) = Σ ⌊t ÷ Tⱼ⌋·Cⱼ` is the most work that can be both released and due within t. The tasks meet every
//! deadline under EDF that preempts nothing shorter than its qⱼ, whenever their requests come, iff
//!
//! 1. Σ Cⱼ ÷ Tⱼ ≤ 1, and
//! 2. for every i and T₁ < L < Tᵢ: qᵢ + Σ_{j<i} ⌊(L−1) ÷ Tⱼ⌋·Cⱼ ≤ L.
//!
//! (2) is the case in which request i begins 1 ns before everybody else's. With Tⱼ ≥ Tᵢ > L the quotient
//! ⌊(L−1) ÷ Tⱼ⌋ is 0, so that the sum may run over all j and the order among equal periods is of no account. With
//! t = L − 1 and the *blocking* `b(t) = max { qᵢ − 1 : Tᵢ ≥ t + 2 }`, 0 if there is none, (2) reads
//!
//! > `room(t) = t − demand(t) − b(t) ≥ 0` for T₁ ≤ t ≤ Tₙ − 2.
//!
//! # The slack
//!
//! Let best effort have s in all between two moments at which no request waits. Look at the first request that is late,
//! and back from its deadline d to the last moment o before which nothing waits that is due by d. From o to d the disk is
//! busy with what was released since o and is due by d, `demand(d − o)` at most; with one command at most that began
//! before o and is due after d, `b(d − o)` of it at most after o; and with s. So nobody is late if s ≤ room(t) for *every*
//! t ≥ T₁: `slack = min room(t)`. The paper looks at T₁ ≤ t ≤ Tₙ only. That is not enough: see [`SlackRange::Published`].
//!
//! Beyond Tₙ nothing blocks, and room(t) = t − demand(t) ≥ t·(1 − U). So nothing beyond t = m ÷ (1 − U) has less room
//! than an m that was found already. With U = 1 all periods come round together at some time, and the slack is 0.
//!
//! # The search
//!
//! DemandBound grows, and blocking shrinks, at few points; and room(t) for one t tells of many below it: for t′ < t
//! `demand(t′) ≤ demand(t)`, so that every t′ with `t′ − b(t′) ≥ demand(t) + m` has a room of m at least. The search
//! goes backwards and leaps over all of those (Quick Processor-demand Analysis, Zhang and Burns 2009, which decides for
//! m = 0; here m is the least room so far). One value of demand takes one division for each value of ⌊t ÷ Tⱼ⌋: costs are
//! summed up by period in advance. What remains is bounded by [`STREAM_WORK_MAX`](crate::limits::STREAM_WORK_MAX): a search that
//! takes longer is broken off with an answer that is safe.
//!
//! # Over time
//!
//! Where tasks come and go, the test is made for each stretch of time in which they stay the same, and for the moments
//! between two of those: see `handover`. A task's requests are released *and due* in its span.
//!
//! # Reserves and servers
//!
//! A reserve is a task with C = share × period, kept as a dynamic sporadic server: its budget comes back one period after
//! it was drawn on, so that in any t it takes at most what a task would. So is the server that keeps best effort alive
//! where there is no slack. See [`Task::server`].

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
