//! The queue against a driver and a server in memory.

use std::cell::RefCell;

use rng::SeededRng;

use super::*;
use crate::limits::DEPTH;

/// A driver whose requests the test makes.
#[derive(Default)]
struct Model {
    completions: VecDeque<(u16, i32)>,
    descriptors: Vec<Descriptor>,
    /// What was copied to a tag's request.
    read: RefCell<Vec<(u16, Vec<u8>)>>,
    committed: Vec<(u16, i32)>,
    /// Whether copies fail.
    is_gone: bool,
}

impl Model {
    fn new() -> Self {
        Self { descriptors: vec![Descriptor::default(); DEPTH.into()], ..Self::default() }
    }

    fn ask(&mut self, tag: u16, operation: u32, start: u64, sectors: u32) {
        self.descriptors[usize::from(tag)] = Descriptor { operation, sectors, start };
        self.completions.push_back((tag, 0));
    }
}

impl Driver for Model {
    fn completion(&mut self) -> Option<(u16, i32)> {
        self.completions.pop_front()
    }

    fn descriptor(&self, tag: u16) -> Descriptor {
        self.descriptors[usize::from(tag)]
    }

    fn copy_from(&self, tag: u16, data: &mut [u8]) -> io::Result<()> {
        if self.is_gone {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        data.fill(u8::try_from(tag).expect("a small tag"));
        Ok(())
    }

    fn copy_to(&self, tag: u16, data: &[u8]) -> io::Result<()> {
        self.read.borrow_mut().push((tag, data.to_vec()));
        Ok(())
    }

    fn commit(&mut self, tag: u16, result: i32) {
        self.committed.push((tag, result));
    }
}

/// A submitted request: its tag, its operation, whether its sectors stay allocated, its data.
type Submitted = (u16, Operation, bool, Vec<u8>);

/// A server with memory for some bytes, whose volume ends at a sector.
struct Room {
    bytes: usize,
    end: u64,
    submitted: VecDeque<Submitted>,
}

impl Room {
    fn new() -> Self {
        Self { bytes: 4 << 20, end: 1 << 40, submitted: VecDeque::new() }
    }
}

impl Intake for Room {
    fn has_room(&mut self, bytes: usize) -> bool {
        self.bytes >= bytes
    }

    fn buffer(&mut self, bytes: usize) -> Vec<u8> {
        vec![0xee; bytes]
    }

    fn submit(
        &mut self,
        tag: u16,
        operation: Operation,
        no_hole: bool,
        data: Vec<u8>,
    ) -> Result<(), Errno> {
        if operation.extent.end().0 > self.end {
            return Err(Errno::NoSpc);
        }
        self.bytes -= moved(operation);
        self.submitted.push_back((tag, operation, no_hole, data));
        Ok(())
    }
}

#[test]
fn each_operation_of_the_kernel_has_its_own() {
    let (mut queue, mut model, mut room) = (Queue::new(DEPTH), Model::new(), Room::new());
    model.ask(0, 0, 8, 2);
    model.ask(1, 1 | flag::FUA, 16, 1);
    model.ask(2, 2, 0, 0);
    model.ask(3, 3, 24, 100_000);
    model.ask(4, 5 | flag::NO_UNMAP | flag::FUA, 32, 4);
    model.ask(5, 5, 40, 4);
    assert_eq!(queue.receive(&mut model, &mut room), QueueState::Open);
    let seen: Vec<_> = room
        .submitted
        .iter()
        .map(|(tag, operation, no_hole, data)| {
            (*tag, operation.op, operation.fua, *no_hole, data.len())
        })
        .collect();
    let expected = [
        (0, Op::Read, false, false, 0),
        (1, Op::Write, true, false, 512),
        (2, Op::Flush, false, false, 0),
        (3, Op::Trim, false, false, 0),
        (4, Op::WriteZeroes, true, true, 0),
        (5, Op::WriteZeroes, false, false, 0),
    ];
    assert_eq!(seen, expected);
    assert_eq!(room.submitted[0].1.extent, Extent::new(Lba(8), Sectors(2)));
    assert_eq!(room.submitted[1].3, [1; 512], "the data are the driver's");
    assert_eq!(queue.complete(&mut model, 0, Ok(vec![7; 1_024])).len(), 1_024, "for reuse");
    queue.complete(&mut model, 1, Ok(Vec::new()));
    queue.complete(&mut model, 2, Ok(Vec::new()));
    queue.complete(&mut model, 3, Err(Errno::Io));
    queue.complete(&mut model, 4, Err(Errno::NoSpc));
    queue.complete(&mut model, 5, Ok(Vec::new()));
    assert_eq!(model.committed, [(0, 1_024), (1, 512), (2, 0), (3, -5), (4, -28), (5, 0)]);
    assert_eq!(model.read.into_inner(), [(0, vec![7; 1_024])]);
}

#[test]
fn what_cannot_be_carried_out_is_an_error_of_that_request() {
    let (mut queue, mut model, mut room) = (Queue::new(DEPTH), Model::new(), Room::new());
    room.end = 1_000;
    // Another operation, a write longer than any of the device, one past the end, and a read.
    model.ask(0, 15, 0, 8);
    model.ask(1, 1, 0, 4_096);
    model.ask(2, 1, 996, 8);
    model.ask(3, 0, 0, 8);
    queue.receive(&mut model, &mut room);
    assert_eq!(model.committed, [(0, -95), (1, -95), (2, -28)]);
    assert_eq!(room.submitted.len(), 1);
    queue.complete(&mut model, 3, Ok(vec![0; 512]));
    assert_eq!(model.committed[3], (3, -IO), "a short read is an error");
    model.is_gone = true;
    model.ask(4, 1, 0, 8);
    queue.receive(&mut model, &mut room);
    assert_eq!(model.committed[4], (4, -IO), "data that cannot be copied are an error");
}

#[test]
fn a_device_that_is_stopped_ends_and_its_last_requests_are_answered() {
    let (mut queue, mut model, mut room) = (Queue::new(DEPTH), Model::new(), Room::new());
    model.ask(0, 0, 0, 8);
    model.completions.push_back((1, -19));
    assert_eq!(queue.receive(&mut model, &mut room), QueueState::Ended);
    queue.complete(&mut model, 0, Ok(vec![0; 4_096]));
    assert_eq!(model.committed, [(0, 4_096)]);
}

#[test]
fn any_mix_of_requests_is_answered_once_each_and_goes_on_in_order() {
    for seed in 0..8 {
        let mut rng = SeededRng::new(seed, 0);
        let (mut queue, mut model, mut room) = (Queue::new(DEPTH), Model::new(), Room::new());
        let mut free: Vec<u16> = (0..DEPTH).collect();
        let (mut asked, mut taken) = (VecDeque::new(), 0);
        let mut below = |end: usize| usize::try_from(rng.below(end as u64)).expect("small");
        for step in 0..4_000 {
            if step < 3_000 && !free.is_empty() && below(2) == 0 {
                let tag = free.swap_remove(below(free.len()));
                let sectors = 1 + u32::try_from(below(2_048)).expect("few");
                model.ask(tag, [0, 1, 2, 3, 5][below(5)], below(1 << 30) as u64, sectors);
                asked.push_back(tag);
            }
            queue.receive(&mut model, &mut room);
            for (tag, ..) in room.submitted.range(taken..) {
                assert_eq!(asked.pop_front(), Some(*tag), "seed {seed}: in order");
            }
            if !room.submitted.is_empty() && below(2) == 0 {
                let at = below(room.submitted.len());
                let (tag, operation, _, mut data) = room.submitted.remove(at).expect("there");
                room.bytes += moved(operation);
                data.resize(moved(operation), 0);
                let result = if below(10) == 0 { Err(Errno::Io) } else { Ok(data) };
                queue.complete(&mut model, tag, result);
            }
            taken = room.submitted.len();
            free.extend(model.committed.drain(..).map(|(tag, _)| tag));
        }
        free.sort_unstable();
        assert_eq!(free, (0..DEPTH).collect::<Vec<_>>(), "seed {seed}: a tag is answered once");
        assert_eq!(room.bytes, 4 << 20, "seed {seed}: the memory is released");
    }
}
