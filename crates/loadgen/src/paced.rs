//! A closed loop with think times or bursts: one thread sends when a request is due, another
//! receives the answers.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;

use anyhow::Context;
use daemon::Clock;
use nbd::client::{Client, Receiver};
use sim::Generator;
use units::{Duration, Instant, Op};

/// The longest interval between two looks at the flag that stops a client.
const STOP_CHECK_INTERVAL: Duration = Duration::from_millis(100);

/// The times at which the requests of a closed loop are due, and the number in flight.
///
/// Invariant: due and in flight together are at most the workload's outstanding requests; of a
/// burst, none is due while one is in flight.
#[derive(Debug)]
struct Pacer {
    generator: Generator,
    due: BinaryHeap<Reverse<Instant>>,
    in_flight: u32,
}

impl Pacer {
    /// A closed loop whose first requests are due at `now`.
    ///
    /// # Errors
    /// If the generator is one of an open loop.
    fn new(generator: Generator, now: Instant) -> anyhow::Result<Self> {
        let first = generator.outstanding().context("an open loop has a client of its own")?;
        let due = (0..first).map(|_| Reverse(now)).collect();
        Ok(Self { generator, due, in_flight: 0 })
    }

    /// Takes the next request that is due at `now`.
    fn take_due(&mut self, now: Instant) -> Option<units::Operation> {
        self.due.peek().filter(|Reverse(at)| *at <= now)?;
        self.due.pop();
        self.in_flight += 1;
        Some(self.generator.operation())
    }

    /// An answer arrived at `at`.
    fn on_answer(&mut self, at: Instant) {
        self.in_flight -= 1;
        if let Some((count, pause)) = self.generator.after_answer(self.in_flight) {
            self.due.extend((0..count).map(|_| Reverse(at + pause)));
        }
    }

    /// The time from `now` until the next request is due, at most [`STOP_CHECK_INTERVAL`].
    fn until_next(&self, now: Instant) -> Duration {
        let left = self.due.peek().map(|Reverse(at)| at.saturating_since(now));
        left.unwrap_or(STOP_CHECK_INTERVAL).min(STOP_CHECK_INTERVAL)
    }
}

/// Runs the client until `stop` is set, and waits for the requests in flight.
pub(crate) fn drive(client: Client, generator: Generator, stop: &AtomicBool) -> anyhow::Result<()> {
    let clock = Clock::start();
    let mut pacer = Pacer::new(generator, clock.now())?;
    let (mut sender, receiver) = client.split();
    let (sent, in_flight) = mpsc::channel();
    let (answered, answers) = mpsc::channel();
    let name = std::thread::current().name().map(str::to_owned);
    let thread = std::thread::Builder::new().name(name.unwrap_or_default());
    let receiving = thread.spawn(move || receive(receiver, clock, &in_flight, &answered))?;
    let mut cookie = 0_u64;
    let mut payload = Vec::new();
    while !stop.load(Ordering::Relaxed) {
        while let Some(operation) = pacer.take_due(clock.now()) {
            let writes = operation.op == Op::Write;
            payload.resize(if writes { operation.extent.len.bytes_usize() } else { 0 }, 0);
            sender.send(cookie, operation, &payload)?;
            cookie += 1;
            sent.send(()).context("the receiver of answers has ended")?;
        }
        let left = std::time::Duration::from_nanos(pacer.until_next(clock.now()).as_nanos());
        match answers.recv_timeout(left) {
            Ok(at) => pacer.on_answer(at),
            Err(mpsc::RecvTimeoutError::Timeout) => {}
            // The receiver has failed; it is joined below and says why.
            Err(mpsc::RecvTimeoutError::Disconnected) => break,
        }
    }
    drop(sent);
    receiving.join().expect("a client does not panic")?;
    sender.disconnect().context("at the disconnect")
}

/// Receives one answer for each request that was sent, and passes on when it arrived.
fn receive(
    mut receiver: Receiver,
    clock: Clock,
    in_flight: &mpsc::Receiver<()>,
    answered: &mpsc::Sender<Instant>,
) -> anyhow::Result<()> {
    while in_flight.recv().is_ok() {
        let completion = receiver.receive()?;
        completion.result.map_err(|error| anyhow::anyhow!("a request failed: {error}"))?;
        // A client that was stopped waits for the answers and looks at none.
        let _ = answered.send(clock.now());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use config::{Access, Arrival, Mix, Synthetic, ThinkTime};
    use sim::SeededRng;
    use units::{Bytes, Sectors};

    use super::*;

    fn pacer(arrival: Arrival) -> Pacer {
        let drawn = Synthetic {
            mix: Mix::Read,
            access: Access::Random,
            block: Bytes(4_096),
            arrival,
            flush_every: None,
        };
        let generator = Generator::new(&drawn, Sectors(8_000), SeededRng::new(1, 0));
        Pacer::new(generator, Instant::ZERO).expect("a closed loop")
    }

    fn take_all(pacer: &mut Pacer, now: Instant) -> u32 {
        (0..).map_while(|_| pacer.take_due(now)).map(|_| 1).sum()
    }

    fn at(micros: u64) -> Instant {
        Instant::ZERO + Duration::from_micros(micros)
    }

    #[test]
    fn a_burst_follows_the_last_answer_of_the_burst_before_it() {
        let think = ThinkTime::Fixed(Duration::from_micros(100));
        let mut pacer = pacer(Arrival::Bursts { size: 4, think });
        assert_eq!(take_all(&mut pacer, at(0)), 4);
        for answer in 1..=3 {
            pacer.on_answer(at(answer));
            assert_eq!(take_all(&mut pacer, at(1_000)), 0, "requests of two bursts in flight");
        }
        pacer.on_answer(at(1_000));
        assert_eq!(pacer.until_next(at(1_050)), Duration::from_micros(50));
        assert_eq!(take_all(&mut pacer, at(1_099)), 0);
        assert_eq!(take_all(&mut pacer, at(1_100)), 4);
    }

    #[test]
    fn each_answer_of_a_closed_loop_is_followed_by_one_request_after_its_think_time() {
        let think = ThinkTime::Fixed(Duration::from_micros(100));
        let mut pacer = pacer(Arrival::Closed { outstanding: 2, think });
        assert_eq!(take_all(&mut pacer, at(0)), 2);
        pacer.on_answer(at(10));
        pacer.on_answer(at(60));
        assert_eq!([109, 110, 159, 160].map(|now| take_all(&mut pacer, at(now))), [0, 1, 0, 1]);
        assert_eq!(pacer.until_next(at(160)), STOP_CHECK_INTERVAL);
    }

    #[test]
    fn exponential_think_times_have_their_mean() {
        let mean = Duration::from_millis(1);
        let think = ThinkTime::Exponential { mean };
        let mut pacer = pacer(Arrival::Closed { outstanding: 1, think });
        let (mut now, count) = (Instant::ZERO, 100_000_u32);
        for _ in 0..count {
            assert!(pacer.take_due(now).is_some(), "a request is due at {now}");
            pacer.on_answer(now);
            let Reverse(due) = *pacer.due.peek().expect("a request is due after each answer");
            now = due;
        }
        let average = now.since(Instant::ZERO).as_millis_f64() / f64::from(count);
        assert!((average - 1.0).abs() < 0.01, "{average} ms");
    }
}
