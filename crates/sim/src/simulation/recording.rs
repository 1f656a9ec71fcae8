//! A simulation that records its requests.

use super::Simulation;
use super::record::RecordedRequest;

impl Simulation {
    /// Records the requests that are answered from now on, up to [`RECORDED_MAX`].
    ///
    /// [`RECORDED_MAX`]: super::RECORDED_MAX
    pub fn record_requests(&mut self) {
        self.record.begin();
    }

    /// Takes the recorded requests in the order of their answers, and the number of those beyond
    /// the limit.
    pub fn take_requests(&mut self) -> (Vec<RecordedRequest>, u64) {
        self.record.take()
    }
}
