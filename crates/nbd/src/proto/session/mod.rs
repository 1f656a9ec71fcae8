//! One connection's side of the protocol, without a socket and without a clock.
//!
//! Bytes go in with [`Session::feed`], events come out; answers go in with [`Session::reply`],
//! bytes come out of [`Session::output`]. One message is parsed at a time, from bytes that lie
//! together:
//!
//! ```text
//!  ClientFlags ─▶ Options ⇄ SkipOption
//!                    │ GO, EXPORT_NAME
//!                    ▼
//!                 Requests ⇄ Payload, SkipPayload
//!                    │ DISC           any phase: a violation
//!                    ▼                         ▼
//!                 Finished                  Finished
//! ```
//!
//! Invariants:
//! - the outcome does not depend on how the bytes were cut into pieces;
//! - memory stays under [`limits::SESSION_BYTES_MAX`], and what it holds of payloads is taken from
//!   a [`Budget`] shared by all sessions;
//! - when it is out of room it stops taking bytes ([`Session::wants_input`]) and goes on where it
//!   was ([`Session::resume`]) once there is room.

mod budget;
mod classify;
mod handshake;
mod in_flight;
mod metadata;
mod output;
mod partial_sectors;
mod replies;
mod state;
#[cfg(test)]
mod tests;
mod transmission;

pub use budget::Budget;
pub(crate) use in_flight::InFlight;
pub use output::Output;
pub use state::{Blocked, CloseReason, Event, Session, SessionContext};
