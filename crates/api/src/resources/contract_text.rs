//! A volume's contract and its connections in words.

use super::contract::ContractKind;
use super::latency::Latency;
use super::volume::Volume;

impl Volume {
    /// What it is guaranteed, in words.
    pub fn contract(&self) -> String {
        let reserve = &self.reserve;
        match (self.kind(), &self.rate, &self.stream) {
            (ContractKind::Stream, _, Some(stream)) if reserve != "0%" => {
                format!("stream {}, reserve {reserve}", stream.bandwidth)
            }
            (ContractKind::Stream, _, Some(stream)) => format!("stream {}", stream.bandwidth),
            (ContractKind::Rate, Some(rate), _) => {
                format!("{reserve} for {:.0}/s in runs of {} x {}", rate.iops, rate.run, rate.block)
            }
            (ContractKind::Latency, ..) => self.bounded_latency(),
            (ContractKind::BestEffort, ..) => "best effort".to_owned(),
            _ => reserve.clone(),
        }
    }

    /// Its bounded latency, and the reserve beside it.
    fn bounded_latency(&self) -> String {
        let bounded = self.latency.as_ref().map_or_else(
            || "latency".to_owned(),
            |latency| {
                let Latency { within_ms, requests_per_s, size, .. } = latency;
                format!("{within_ms} ms for {requests_per_s:.1}/s of {size}")
            },
        );
        match &self.rate {
            Some(_) => format!("{bounded}, {} for a rate", self.reserve),
            None if self.reserve == "0%" => bounded,
            None => format!("{bounded}, reserve {}", self.reserve),
        }
    }

    /// Its connections by transport, in words.
    pub fn clients(&self) -> String {
        let counted = self.transports.iter();
        let counted: Vec<_> =
            counted.map(|(transport, count)| format!("{count} {transport}")).collect();
        if counted.is_empty() { self.connections.to_string() } else { counted.join(", ") }
    }

    /// The deadlines of its stream or its bounded latency that were met and missed.
    pub fn deadlines(&self) -> Option<(u64, u64)> {
        let stream = self.stream.as_ref().map(|stream| (stream.met, stream.missed));
        let bounded = self.latency.as_ref();
        stream.or(bounded.map(|latency| (latency.answered - latency.late, latency.late)))
    }
}
