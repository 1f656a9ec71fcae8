//! Payload memory: connections that hold it, and those that wait for it.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, channel};

use spindle_nbd::{Handle, Reply, Request};
use units::Operation;

use crate::harness::{Running, extent, request_head};

const MIB: usize = 1 << 20;
/// Answers every request with the bytes of a read of 4 KiB.
fn answer_all(handle: Handle, taken: Receiver<Request>) {
    std::thread::spawn(move || {
        for Request { id, .. } in taken {
            handle.reply(Reply { id, result: Ok(vec![0; 4096]) });
        }
    });
}

#[test]
fn announced_payloads_that_do_not_arrive_are_dropped_when_others_need_memory() {
    let (running, taken) = Running::start_small();
    answer_all(running.handle.clone(), taken);
    let mut holds_memory_too_long: Vec<_> = (0..4).map(|_| running.raw()).collect();
    for hog in &mut holds_memory_too_long {
        hog.write_all(&request_head(1, 0, 16 << 20)).expect("sent");
        hog.write_all(&vec![0; 15 * MIB]).expect("sent");
    }
    let mut client = running.client();
    client.send(1, Operation::read(extent(0, 8)), &[]).expect("sent");
    let (sender, answered) = channel();
    std::thread::spawn(move || sender.send(client.receive().expect("answered").result));
    assert_eq!(running.pass_time_until(&answered), Ok(vec![0; 4096]));
    for mut hog in holds_memory_too_long {
        assert!(matches!(hog.read(&mut [0]), Ok(0) | Err(_)), "hung up on");
    }
}

/// Four connections that together hold all payload memory there is, each amid a write of 32 MiB
/// that needs more. Each has sent 15 MiB.
fn deadlocked(running: &Running) -> Vec<UnixStream> {
    let mut streams: Vec<_> = (0..4).map(|_| running.raw_on("big")).collect();
    for stream in &mut streams {
        stream.write_all(&request_head(1, 0, 32 << 20)).expect("sent");
        stream.write_all(&vec![0; 15 * MIB]).expect("sent");
    }
    streams
}

/// Sends the rest of each connection's payload on threads of their own; each says whether its write
/// was answered.
fn send_rests(streams: Vec<UnixStream>, rest: usize) -> Receiver<bool> {
    let (sender, written) = channel();
    for mut stream in streams {
        let sender = sender.clone();
        std::thread::spawn(move || {
            let sent = stream.write_all(&vec![0; rest]);
            sender.send(sent.and_then(|()| stream.read_exact(&mut [0; 16])).is_ok())
        });
    }
    written
}

#[test]
fn payloads_that_wait_for_each_others_memory_do_not_deadlock() {
    let (running, taken) = Running::start_small();
    answer_all(running.handle.clone(), taken);
    let written = send_rests(deadlocked(&running), 17 * MIB);
    let mut outcomes = vec![running.pass_time_until(&written)];
    // The others need no more time. Their threads may report before that of the dropped connection.
    outcomes.extend((0..3).map(|_| written.recv().expect("it ends")));
    outcomes.sort_unstable();
    assert_eq!(outcomes, [false, true, true, true], "one gives way, and the others are done");
}

#[test]
fn a_payload_that_gets_the_memory_of_a_dropped_one_has_time_to_arrive() {
    let (running, taken) = Running::start_small();
    answer_all(running.handle.clone(), taken);
    let mut streams = deadlocked(&running);
    let mut client = running.client();
    for stream in &mut streams {
        // The held memory is filled, and a little waits in the socket.
        stream.write_all(&vec![0; MIB + 4096]).expect("sent");
    }
    running.pass_time_until(&running.closed);
    for _ in 0..10 {
        running.clock.fetch_add(1_000_000_000, Ordering::SeqCst);
        client.flush().expect("the server looks at its deadlines");
    }
    assert!(running.closed.try_recv().is_err(), "one is enough");
    let written = send_rests(streams, 16 * MIB - 4096);
    let mut outcomes: Vec<_> = (0..4).map(|_| written.recv().expect("it ends")).collect();
    outcomes.sort_unstable();
    assert_eq!(outcomes, [false, true, true, true]);
}
