//! Deadlines, and best effort in what they leave (RTAS 2000, the Clockwise scheduler): `edf`, `lst`, `delta-l`, `delta-star`.
//!
//! Each volume's head is in one of three places:
//!
//! ```text
//!                     released                        no block of a stream, or no budget
//!  future (a stream's head that has come early) ──▶ real time, by deadline      best effort, by recent usage
//!    └── is best effort until then ──────────────────────────────────────────────▲
//! ```
//!
//! The policies differ in one number, the *room*: how long a best-effort command may be that goes before real-time
//! requests, those that are released and those that may be while it is served:
//!
//! | policy | room beside released real-time requests | beside none |
//! |---|---|---|
//! | `edf` | none | any |
//! | `lst` | until the latest start of the first request in the queue | any |
//! | `delta-l` | `ΔL_r`: what best effort has left of ΔL since the queue was empty | ΔL |
//! | `delta-star` | the slack of the present state ([`present`]); none in a burst | the same |
//!
//! A *burst* begins when best effort has no room left, and ends when no released request is queued: so the arm goes from
//! best effort to the streams and back once, not after each request. `delta-star`'s ends sooner if the slack has grown
//! (requests take less than at worst) and does for all of best effort that waits, or for four commands of it: then the way is
//! worth while, and who is alone does not wait.
//!
//! Reserves are sporadic servers ([`server`]): their heads are real time as long as their budget pays for them. A block has
//! no use for being early, but whoever has a reserve waits for his answer: so his head is best effort as well, and where there
//! is room it goes in the order of recent usage and costs his budget nothing. Best effort itself may have such a server.
//!
//! **Changes.** A stream or a reserve that is new, or another, *joins*: it releases nothing until there is a moment at which
//! no released request is queued and the drive is idle. Nothing that was begun or let go before can be in its way then, so
//! that what the new set was admitted with holds from there on, and the old set's until there. Until the queue is empty
//! next, `ΔL_r` is at most the new ΔL. Who has not joined yet is best effort.

mod blocks;
mod dynamic_slack;
mod scheduler;
mod slack;
mod sporadic_server;
mod state;
mod worst_case;

pub(crate) use state::Deadline;
pub(crate) use worst_case::WorstCase;
