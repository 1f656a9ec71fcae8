//! One connection's side of the protocol, without a socket and without a clock.
//!
//! [`Session::feed`] takes bytes and produces events; [`Session::reply`] takes replies and produces
//! bytes in [`Session::output`]. One message is parsed at a time, from contiguous bytes:
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
//! - the outcome does not depend on how the bytes were split;
//! - memory stays under [`limits::SESSION_BYTES_MAX`](crate::limits::SESSION_BYTES_MAX), and
//!   payload memory is taken from a [`Budget`] shared by all sessions;
//! - a session without room stops taking bytes ([`Session::wants_input`]) and continues where it
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
pub(crate) use in_flight::{InFlight, ReplyKind};
pub use output::Output;
pub use state::{Blocked, CloseReason, Event, Session, SessionContext};
