//! Deadlines, and best effort in the slack that they leave (Clockwise, RTAS 2000): the policies
//! `edf`, `lst`, `delta-l` and `delta-star`.
//!
//! Each volume's head is in one of three states:
//!
//! ```text
//!                           released              no block of a stream, or no budget
//!  future (an early head of a stream) ──▶ real time, by deadline    best effort, by usage
//!    └── is best effort until then ───────────────────────────────────▲
//! ```
//!
//! The policies differ in one number, the *available slack*: the longest best-effort command that
//! may go before real-time requests, those that are released and those that may be released while
//! it is served:
//!
//! | policy | slack beside released real-time requests | beside none |
//! |---|---|---|
//! | `edf` | none | any |
//! | `lst` | until the latest start of the first request in the queue | any |
//! | `delta-l` | `ΔL_r`: the rest of ΔL since the queue was empty | ΔL |
//! | `delta-star` | the slack of the present state ([`dynamic_slack`]); none in a burst | same |
//!
//! A *burst* begins when best effort has no slack left, and ends when no released request is
//! queued: so the arm moves from best effort to the streams and back once, not after each request.
//! The burst of `delta-star` ends sooner if the slack has grown (requests take less than their
//! worst case) and suffices for all queued best effort, or for four commands of it: then the seek
//! is worthwhile.
//!
//! Reserves are sporadic servers ([`sporadic_server`]): their heads are real time while their
//! budget pays for them. A block gains nothing by being early, but the client of a reserve waits
//! for its answer: so a reserve's head is best effort as well, and within the slack it goes in the
//! order of recent usage and costs no budget. Best effort itself may have such a server.
//!
//! **Changes.** A new or changed stream or reserve is *activated* later: it releases nothing until
//! no released request is queued and the drive is idle. Nothing that began earlier can delay it
//! then, so that what the new set was admitted with holds from there on, and the old set's
//! guarantee until there. Until the queue is next empty, `ΔL_r` is at most the new ΔL. A volume
//! that is not activated yet is best effort.

mod blocks;
mod dynamic_slack;
mod scheduler;
mod slack;
mod slack_bound;
mod sporadic_server;
mod state;
mod worst_case;

pub(super) use dynamic_slack::{DemandForecast, Rate, Releases};
pub(super) use slack_bound::{BURST_COMMANDS, SlackBound};
pub(crate) use state::Deadline;
pub use worst_case::WorstCase;
