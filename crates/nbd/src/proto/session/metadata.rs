//! Metadata contexts (section "Metadata querying"). There is one, `base:allocation`.

use super::state::{Session, SessionContext};
use crate::proto::export::ExportId;
use crate::proto::wire::{Fields, length, option, option_reply, rep};

/// The number of the context on every connection.
pub(super) const ALLOCATION_ID: u32 = 1;
const ALLOCATION: &[u8] = b"base:allocation";
/// The query for all contexts of the namespace.
const WILDCARD: &[u8] = b"base:";

/// The data of `NBD_OPT_LIST_META_CONTEXT` and `NBD_OPT_SET_META_CONTEXT`.
struct ContextRequest<'a> {
    name: &'a [u8],
    queries: Fields<'a>,
    count: u32,
}

impl<'a> ContextRequest<'a> {
    /// `None` unless all queries are complete and no bytes follow.
    fn decode(data: &'a [u8]) -> Option<Self> {
        let mut fields = Fields(data);
        let name_length = length(fields.u32()?);
        let name = fields.bytes(name_length)?;
        let count = fields.u32()?;
        let request = Self { name, queries: Fields(fields.0), count };
        let mut rest = Fields(fields.0);
        for _ in 0..count {
            let query_length = length(rest.u32()?);
            let query = rest.bytes(query_length)?;
            core::str::from_utf8(query).ok()?;
        }
        rest.0.is_empty().then_some(request)
    }

    fn asks_for(mut self, wanted: &[&[u8]]) -> bool {
        (0..self.count).any(|_| {
            let query_length = self.queries.u32().map_or(0, length);
            self.queries.bytes(query_length).is_some_and(|query| wanted.contains(&query))
        })
    }
}

impl Session {
    /// `NBD_OPT_LIST_META_CONTEXT` and `NBD_OPT_SET_META_CONTEXT`. The second also replaces the
    /// selection, and clears it on an error.
    pub(super) fn contexts(&mut self, option: u32, data: &[u8], context: &SessionContext<'_>) {
        let sets = option == option::SET_META_CONTEXT;
        if sets {
            self.context_of = None;
        }
        if self.style == crate::proto::reply::Style::Simple {
            let why = "structured replies have to be agreed on before";
            return self.answer_with(option, rep::ERR_INVALID, why);
        }
        let Some(request) = ContextRequest::decode(data) else {
            return self.answer(option, rep::ERR_INVALID);
        };
        let export = match self.find_export(request.name, context) {
            Ok(export) => export.id,
            Err(kind) => return self.answer(option, kind),
        };
        let found = if sets {
            request.asks_for(&[ALLOCATION])
        } else {
            request.count == 0 || request.asks_for(&[ALLOCATION, WILDCARD])
        };
        let mut out = Vec::new();
        if found {
            // "The metadata context ID in these replies is reserved and SHOULD be set to zero"
            // where it is a list.
            let id = if sets { ALLOCATION_ID } else { 0 };
            option_reply(&mut out, option, rep::META_CONTEXT, &[&id.to_be_bytes(), ALLOCATION]);
        }
        option_reply(&mut out, option, rep::ACK, &[]);
        self.output.push_bytes(out);
        if sets && found {
            self.context_of = Some(export);
        }
    }

    /// Whether the context was selected for this export.
    pub(super) fn has_selected(&self, export: ExportId) -> bool {
        self.context_of == Some(export)
    }
}
