//! Guarantees by deadlines: admission and slack (Clockwise, RTAS 2000 §3).
//!
//! A [`Task`] releases at most b + ⌊t ÷ T⌋ requests in any t, of at most C of disk time each, and
//! each is due D after its release; its longest non-preemptible command takes q. For a stream D is
//! T and b is 1; a bounded latency is a task with any D and b. A [`TaskSet`] is the tasks of one
//! disk at one time: it tells whether a further one fits ([`TaskSet::check_with`]), why not
//! ([`Violation`]), and how much best effort may take at any moment without making a request late
//! ([`TaskSet::slack`], ΔL in RTAS 2000). A [`Timetable`] is the tasks of one disk over time.
//! [`CounterOffers`] are alternatives to a refused stream, [`LatencyOffers`] to a refused latency.
//!
//! # The test
//!
//! Tasks are sorted by deadline: D₁ ≤ … ≤ Dₙ; all times are whole ns. `demand(t) = Σ (bⱼ + ⌊(t −
//! Dⱼ) ÷ Tⱼ⌋)·Cⱼ` over the j with Dⱼ ≤ t is the most work that can be both released and due within
//! t: of task j it is what is released within t − Dⱼ. For D = T and b = 1 that is ⌊t ÷ T⌋·C. The
//! tasks meet every deadline under EDF that preempts nothing shorter than its qⱼ, whenever their
//! requests come, iff
//!
//! 1. Σ Cⱼ ÷ Tⱼ ≤ 1, and
//! 2. for every t ≥ D₁ `room(t) = t − demand(t) − b(t) ≥ 0`, with the *blocking* `b(t) = max { qᵢ −
//!    1 : Dᵢ ≥ t + 2 }`, 0 if there is none.
//!
//! It suffices. Let d be the deadline of the first request that is late, and o the last moment
//! before d before which no request waits that is due by d. From o to d the disk is never idle, and
//! serves by EDF what was released since o and is due by d, `demand(d − o)` at most, and before
//! that one command at most which began by o − 1 and is due by d + 1 at the earliest: its task has
//! Dᵢ ≥ d − o + 2, and at most qᵢ − 1 of it is left at o. So all that is due by d is done by o +
//! demand(d − o) + b(d − o) ≤ d. It is necessary: let the command of b(t) begin 1 ns before all
//! other tasks release their bursts, and a further request whenever they may. What is due within t
//! of that ns is then not done by its end. For D = T and b = 1, with L = t + 1, (2) is the
//! condition of Jeffay et al. 1991: for every i and T₁ < L < Tᵢ: qᵢ + Σ_{j<i} ⌊(L−1) ÷ Tⱼ⌋·Cⱼ ≤ L.
//! (With Tⱼ ≥ Tᵢ > L the quotient ⌊(L−1) ÷ Tⱼ⌋ is 0, so that the order among equal periods is of no
//! account.)
//!
//! Beyond Dₙ − 2 nothing blocks. With K = Σ max(0, bⱼ·Cⱼ − Dⱼ·Cⱼ ÷ Tⱼ), the *excess* of bursts and
//! early deadlines, demand(t) ≤ U·t + K everywhere, and room(t) ≥ t·(1 − U) − K there. So (2) is
//! examined for D₁ ≤ t ≤ max(Dₙ − 2, K ÷ (1 − U)); without excess, to Dₙ − 2.
//!
//! # The slack
//!
//! Let best effort have s in all between two moments at which no request waits. Take the first
//! request that is late, its deadline d, and o as above. From o to d the disk is busy with what was
//! released since o and is due by d, `demand(d − o)` at most; with one command at most that began
//! before o and is due after d, `b(d − o)` of it at most after o; and with s. So no request is late
//! if s ≤ room(t) for *every* t ≥ D₁: `slack = min room(t)`. RTAS 2000 (Definition 1) takes T₁ ≤ t
//! ≤ Tₙ only, which is not enough: see [`SlackRange::Published`].
//!
//! Beyond Dₙ nothing beyond t = (m + K) ÷ (1 − U) has less room than an m that was found already.
//! With U = 1 all periods coincide at some time, and the slack is 0, if every deadline is a period;
//! otherwise 0 is a lower bound, and with an excess (2) may stay undecided.
//!
//! # The search
//!
//! Demand grows, and blocking shrinks, at few points; and room(t) for one t bounds many below it:
//! for t′ < t `demand(t′) ≤ demand(t)`, so that every t′ with `t′ − b(t′) ≥ demand(t) + m` has a
//! room of m at least. The search goes backwards and skips all of those (Quick Processor-demand
//! Analysis, Zhang and Burns 2009, which decides for m = 0; here m is the minimum so far). One
//! value of demand takes one division for each value of ⌊t ÷ Tⱼ⌋, and for each task whose deadline
//! is not its period: the other costs are summed by period in advance. The work is bounded by
//! [`STREAM_WORK_MAX`](crate::limits::STREAM_WORK_MAX): a longer search is broken off with a safe
//! answer.
//!
//! # Granularity
//!
//! A request that is served in chunks, with a decision between any two (limited preemption: Baruah
//! 2005), blocks others for one chunk, q. While its chunks follow each other it is positioned for
//! once. Each preemption costs one more positioning, p, at which the interrupted request goes on;
//! and EDF preempts only for a request with an earlier deadline, which was released later, so that
//! its relative deadline is shorter. A release preempts one request at most. So each request of a
//! task pays for the preemption that it may cause: where some preemptible task has a longer
//! deadline, its cost is C + p, in demand and utilization, and no task's own cost depends on how
//! often it is preempted. Best effort that interrupts a request pays p out of the slack. (Bertogna
//! and Baruah 2010 and Buttazzo et al. 2013 bound the number of preemptions by the same releases.)
//!
//! Chunks shorten q, and lengthen C by what each continuation costs. So a [`TaskSet`] is served
//! *whole* where it fits so, and in chunks only where it fits in no other way
//! ([`TaskSet::granularity`]): a disk that splits admits whatever one that does not split admits.
//! The granularity changes with the set, at a moment at which the drive is idle and no released
//! request waits. The proofs above begin at such a moment, and need one granularity from there on.
//!
//! A server's commands ([`Task::server`]) are charged for their positionings out of its budget:
//! preempting it costs no other task anything.
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

pub use counter_offer::{CounterOffers, LatencyOffers, RequestedLatency, RequestedStream};
pub use set::{SlackRange, TaskSet, Tightest};
pub use span::Span;
pub use task::{Granularity, InvalidTask, RequestCost, Task, TaskId, Utilization};
pub use timetable::{Booking, Timetable, book_all};
pub use violation::{BlockingTask, Violation};
