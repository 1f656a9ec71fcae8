//! The pieces of reads in progress, and the identifiers of what they concern: dies, stripes,
//! commands.

use units::{Lba, Sectors};

/// A command's place in the drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Slot(pub(super) u32);

/// A stripe of the drive, counted from its first sector.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Stripe(pub(super) u64);

impl Stripe {
    pub(super) const fn of(lba: Lba, len: Sectors) -> Self {
        Self(lba.0 / len.0)
    }
}

/// One of the dies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct DieId(pub(super) u32);

/// The identifier of a piece of a read in progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct OpId(u32);

/// The receiver of a piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Owner {
    /// A command.
    Command(Slot),
    /// The read buffer.
    Ahead(Stripe),
}

/// A piece of a read: all of it lies on one die.
#[derive(Clone, Copy, Debug)]
pub(super) struct Op {
    pub(super) owner: Owner,
    pub(super) len: Sectors,
    next: Option<OpId>,
}

/// A list of pieces.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct List {
    first: Option<OpId>,
    last: Option<OpId>,
}

impl List {
    pub(super) const fn first(&self) -> Option<OpId> {
        self.first
    }
}

/// All pieces, and the places of those that are done.
#[derive(Clone, Debug)]
pub(super) struct Ops {
    all: Vec<Op>,
    free: Vec<OpId>,
}

impl Ops {
    pub(super) fn new(capacity: usize) -> Self {
        Self { all: Vec::with_capacity(capacity), free: Vec::with_capacity(capacity) }
    }

    pub(super) fn enter(&mut self, owner: Owner, len: Sectors) -> OpId {
        let op = Op { owner, len, next: None };
        if let Some(id) = self.free.pop() {
            self.all[id.0 as usize] = op;
            return id;
        }
        self.all.push(op);
        OpId(u32::try_from(self.all.len() - 1).expect("pieces are few"))
    }

    pub(super) fn get(&self, id: OpId) -> &Op {
        &self.all[id.0 as usize]
    }

    /// Removes a piece that is done. Returns it and the next one in its list.
    pub(super) fn leave(&mut self, id: OpId) -> (Op, Option<OpId>) {
        self.free.push(id);
        let op = self.all[id.0 as usize];
        (op, op.next)
    }

    pub(super) fn append(&mut self, list: &mut List, id: OpId) {
        match list.last {
            Some(last) => self.all[last.0 as usize].next = Some(id),
            None => list.first = Some(id),
        }
        list.last = Some(id);
    }

    pub(super) fn pop(&mut self, list: &mut List) -> Option<OpId> {
        let first = list.first?;
        list.first = self.all[first.0 as usize].next.take();
        if list.first.is_none() {
            list.last = None;
        }
        Some(first)
    }
}
