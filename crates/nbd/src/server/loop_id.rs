//! The identifier of an event loop, and the connection numbers that contain it.

use crate::limits::THREADS_MAX;
use crate::proto::request::ConnectionId;
use crate::proto::transport::Transport;

/// A connection's number consists of a counter, the transport, the loop, and the slot in the loop.
const SLOT_BITS: u32 = 16;
const PLACE_BITS: u32 = 2;
/// The bits of the place and of the transport.
const COUNT_SHIFT: u32 = 4;

const _: () = assert!(THREADS_MAX <= 1 << PLACE_BITS);

/// An event loop of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LoopId(usize);

impl LoopId {
    /// The loop that accepts clients.
    pub(crate) const FIRST: Self = Self(0);

    pub(crate) const fn new(index: usize) -> Self {
        Self(index)
    }

    /// The identifiers of `loops` event loops.
    pub(crate) fn all(loops: usize) -> impl Iterator<Item = Self> {
        (0..loops).map(Self)
    }

    /// The loop of this connection.
    pub(crate) fn of(id: ConnectionId) -> Self {
        Self(low(id.0 >> SLOT_BITS, PLACE_BITS))
    }

    /// The next of `loops` loops, if there is one.
    pub(crate) fn next(self, loops: usize) -> Option<Self> {
        Some(Self(self.0 + 1)).filter(|next| next.0 < loops)
    }

    /// The number of the `count`th connection of this loop, in this slot.
    pub(crate) const fn number(
        self,
        count: u64,
        slot: usize,
        transport: Transport,
    ) -> ConnectionId {
        let loop_id = count << COUNT_SHIFT | self.0 as u64;
        ConnectionId(loop_id << SLOT_BITS | slot as u64).with_transport(transport)
    }

    pub(crate) const fn index(self) -> usize {
        self.0
    }
}

/// The slot of a connection in its loop.
pub(crate) fn slot(id: ConnectionId) -> usize {
    low(id.0, SLOT_BITS)
}

fn low(number: u64, bits: u32) -> usize {
    usize::try_from(number & ((1 << bits) - 1)).expect("a few bits fit")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_says_where_its_connection_is_and_how_its_client_came() {
        for loop_id in LoopId::all(THREADS_MAX) {
            for (count, at) in [(1, 0), (1 << 40, 1_023), (77, 65_535)] {
                for transport in Transport::ALL {
                    let id = loop_id.number(count, at, transport);
                    assert_eq!(
                        (LoopId::of(id), slot(id), id.transport()),
                        (loop_id, at, transport)
                    );
                    let other = id.with_transport(Transport::Nbd);
                    assert_eq!(other, loop_id.number(count, at, Transport::Nbd));
                }
            }
        }
    }
}
