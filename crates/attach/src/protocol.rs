//! The messages of the kernel's NBD driver (`include/uapi/linux/nbd-netlink.h`), and the one of
//! generic netlink itself that finds the driver (`CTRL_CMD_GETFAMILY`).

use units::{Bytes, Duration};

use crate::netlink::{
    Attributes, Malformed, Request, attribute, attributes, number_u16, number_u32, text,
};

/// The driver's name as a family.
pub const FAMILY_NAME: &str = "nbd";
/// The group to which the driver sends its events.
const EVENTS_NAME: &[u8] = b"nbd_mc_group";

/// The family that knows the others.
const CONTROLLER: u16 = 0x10;
const CONTROLLER_VERSION: u8 = 2;
const GET_FAMILY: u8 = 3;

/// The attributes of a family.
mod family {
    pub(super) const ID: u16 = 1;
    pub(super) const NAME: u16 = 2;
    pub(super) const ATTRIBUTES_MAX: u16 = 5;
    pub(super) const GROUPS: u16 = 7;
    pub(super) const GROUP_NAME: u16 = 1;
    pub(super) const GROUP_ID: u16 = 2;
}

const VERSION: u8 = 1;

mod command {
    pub(super) const CONNECT: u8 = 1;
    pub(super) const DISCONNECT: u8 = 2;
    pub(super) const RECONFIGURE: u8 = 3;
    pub(super) const LINK_DEAD: u8 = 4;
}

mod attr {
    pub(super) const INDEX: u16 = 1;
    pub(super) const SIZE_BYTES: u16 = 2;
    pub(super) const BLOCK_SIZE_BYTES: u16 = 3;
    pub(super) const SERVER_FLAGS: u16 = 5;
    pub(super) const SOCKETS: u16 = 7;
    pub(super) const DEAD_CONN_TIMEOUT: u16 = 8;
    pub(super) const BACKEND_IDENTIFIER: u16 = 10;
    /// Each socket is an item with one descriptor.
    pub(super) const SOCKET_ITEM: u16 = 1;
    pub(super) const SOCKET_FD: u16 = 1;
}

/// The driver, as generic netlink knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Family {
    /// Its number.
    pub id: u16,
    /// Its last attribute.
    pub attributes_max: u32,
    /// The number of the group that receives its events.
    pub events: Option<u32>,
}

impl Family {
    /// Asks for the driver.
    pub fn request() -> Request {
        let mut attributes = Attributes::default();
        attributes.put_text(family::NAME, FAMILY_NAME);
        Request { family: CONTROLLER, command: GET_FAMILY, version: CONTROLLER_VERSION, attributes }
    }

    /// Reads the answer.
    ///
    /// # Errors
    /// If it is malformed, or lacks the family's number.
    pub fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        let id = attribute(bytes, family::ID)?.ok_or(Malformed)?;
        let last = attribute(bytes, family::ATTRIBUTES_MAX)?.map(number_u32).transpose()?;
        let groups = attribute(bytes, family::GROUPS)?.unwrap_or_default();
        let mut events = None;
        for group in attributes(groups) {
            let (_, group) = group?;
            let name = attribute(group, family::GROUP_NAME)?.map(text);
            if name == Some(EVENTS_NAME) {
                events = attribute(group, family::GROUP_ID)?.map(number_u32).transpose()?;
            }
        }
        Ok(Self { id: number_u16(id)?, attributes_max: last.unwrap_or(0), events })
    }

    /// Whether the driver keeps the identifier of a device's backend (Linux 5.14 and later).
    pub const fn keeps_backend(&self) -> bool {
        self.attributes_max >= attr::BACKEND_IDENTIFIER as u32
    }

    fn of(&self, command: u8, attributes: Attributes) -> Request {
        Request { family: self.id, command, version: VERSION, attributes }
    }

    /// Connects a device.
    pub fn connect(&self, connect: &Connect<'_>) -> Request {
        let mut attributes = Attributes::default();
        if let Some(index) = connect.index {
            attributes.put_u32(attr::INDEX, index);
        }
        attributes.put_u64(attr::SIZE_BYTES, connect.size.0);
        attributes.put_u64(attr::BLOCK_SIZE_BYTES, connect.block.0);
        attributes.put_u64(attr::SERVER_FLAGS, u64::from(connect.server_flags));
        // No `NBD_ATTR_TIMEOUT`: with one the driver fails requests that wait for their contract.
        attributes.put_u64(attr::DEAD_CONN_TIMEOUT, seconds(connect.dead_timeout));
        attributes.put_text(attr::BACKEND_IDENTIFIER, connect.backend);
        put_sockets(&mut attributes, connect.sockets);
        self.of(command::CONNECT, attributes)
    }

    /// Changes a connected device.
    pub fn reconfigure(&self, change: &Reconfigure<'_>) -> Request {
        let mut attributes = Attributes::default();
        attributes.put_u32(attr::INDEX, change.index);
        if let Some(size) = change.size {
            attributes.put_u64(attr::SIZE_BYTES, size.0);
        }
        // The driver refuses a change without the identifier that it has.
        attributes.put_text(attr::BACKEND_IDENTIFIER, change.backend);
        if !change.sockets.is_empty() {
            put_sockets(&mut attributes, change.sockets);
        }
        self.of(command::RECONFIGURE, attributes)
    }

    /// Disconnects a device.
    pub fn disconnect(&self, index: u32) -> Request {
        let mut attributes = Attributes::default();
        attributes.put_u32(attr::INDEX, index);
        self.of(command::DISCONNECT, attributes)
    }

    /// The device whose connection ended, if that is the event.
    ///
    /// # Errors
    /// If it is malformed.
    pub fn dead_link(
        &self,
        (id, command): (u16, u8),
        attributes: &[u8],
    ) -> Result<Option<u32>, Malformed> {
        if id != self.id || command != command::LINK_DEAD {
            return Ok(None);
        }
        Self::index(attributes).map(Some)
    }

    /// The device that an answer is about.
    ///
    /// # Errors
    /// If it is malformed, or about none.
    pub fn index(attributes: &[u8]) -> Result<u32, Malformed> {
        attribute(attributes, attr::INDEX)?.ok_or(Malformed).and_then(number_u32)
    }
}

/// What a device is connected with.
#[derive(Clone, Copy, Debug)]
pub struct Connect<'a> {
    /// The device; `None`: one that is free.
    pub index: Option<u32>,
    /// Its size.
    pub size: Bytes,
    /// Its logical block.
    pub block: Bytes,
    /// The transmission flags of the export.
    pub server_flags: u16,
    /// How long requests wait for a connection before they fail, in whole seconds.
    pub dead_timeout: Duration,
    /// What sysfs shows of the device's origin.
    pub backend: &'a str,
    /// The descriptors of connections after their handshake.
    pub sockets: &'a [u32],
}

/// A change of a connected device.
#[derive(Clone, Copy, Debug)]
pub struct Reconfigure<'a> {
    /// The device.
    pub index: u32,
    /// Its new size.
    pub size: Option<Bytes>,
    /// The backend that it was connected with.
    pub backend: &'a str,
    /// Connections in place of those that ended. The driver drops those beyond that number, without
    /// an error.
    pub sockets: &'a [u32],
}

/// Whole seconds, rounded up: no time-out becomes shorter, or none at all.
const fn seconds(time: Duration) -> u64 {
    time.as_nanos().div_ceil(1_000_000_000)
}

fn put_sockets(attributes: &mut Attributes, sockets: &[u32]) {
    let mut items = Attributes::default();
    for socket in sockets {
        let mut item = Attributes::default();
        item.put_u32(attr::SOCKET_FD, *socket);
        items.put_nested(attr::SOCKET_ITEM, &item);
    }
    attributes.put_nested(attr::SOCKETS, &items);
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;
    use crate::netlink::{Content, Messages};

    const DRIVER: Family = Family { id: 0x1f, attributes_max: 10, events: Some(6) };

    /// The command and the attributes of a request, as the kernel reads them.
    fn read(request: &Request) -> (u8, Vec<(u16, Vec<u8>)>) {
        let bytes = request.encode(1);
        let message = Messages(&bytes).next().expect("one").expect("whole");
        let Content::Family { family: 0x1f, command, attributes: inner } = message.content else {
            panic!("{message:?}");
        };
        let owned = |each: Result<(u16, &[u8]), Malformed>| {
            let (kind, value) = each.expect("whole");
            (kind, value.to_vec())
        };
        (command, attributes(inner).map(owned).collect())
    }

    fn descriptors(sockets: &[u8]) -> Vec<u32> {
        let item = |each: Result<(u16, &[u8]), Malformed>| {
            let (kind, item) = each.expect("whole");
            assert_eq!(kind, 1);
            number_u32(attribute(item, 1).expect("whole").expect("there")).expect("a number")
        };
        attributes(sockets).map(item).collect()
    }

    #[test]
    fn the_driver_is_found_with_its_group_of_events() {
        let mut group = Attributes::default();
        group.put_text(1, "nbd_mc_group");
        group.put_u32(2, 6);
        let mut groups = Attributes::default();
        groups.put_nested(1, &group);
        let mut answer = Attributes::default();
        answer.put_text(2, "nbd");
        answer.put(1, &0x1f_u16.to_ne_bytes());
        answer.put_u32(5, 10);
        answer.put_nested(7, &groups);
        let request = Request { family: 0x1f, command: 1, version: 2, attributes: answer };
        let bytes = request.encode(1);
        assert_eq!(Family::decode(&bytes[20..]), Ok(DRIVER));
        assert!(DRIVER.keeps_backend());
        assert!(!Family { attributes_max: 9, ..DRIVER }.keeps_backend(), "Linux before 5.14");
    }

    #[test]
    fn a_device_is_connected_with_these_attributes() {
        let connect = Connect {
            index: None,
            size: Bytes(1 << 30),
            block: Bytes(512),
            server_flags: 0x16d,
            dead_timeout: Duration::from_millis(1_001),
            backend: "spindle:a",
            sockets: &[5, 6],
        };
        let (command, found) = read(&DRIVER.connect(&connect));
        let number = |value: u64| value.to_ne_bytes().to_vec();
        assert_eq!(command, 1);
        assert_eq!(
            found[..5],
            [
                (2, number(1 << 30)),
                (3, number(512)),
                (5, number(0x16d)),
                (8, number(2)),
                (10, b"spindle:a\0".to_vec()),
            ]
        );
        assert_eq!((found[5].0, descriptors(&found[5].1)), (7, vec![5, 6]));
        assert_eq!(found.len(), 6, "no time-out of requests");
        let (_, found) = read(&DRIVER.connect(&Connect { index: Some(3), ..connect }));
        assert_eq!(found[0], (1, 3_u32.to_ne_bytes().to_vec()));
    }

    #[test]
    fn a_change_names_its_device_and_its_backend() {
        let change = Reconfigure { index: 2, size: None, backend: "b", sockets: &[9] };
        let (command, found) = read(&DRIVER.reconfigure(&change));
        let index = (1, 2_u32.to_ne_bytes().to_vec());
        assert_eq!((command, &found[..2]), (3, &[index.clone(), (10, b"b\0".to_vec())][..]));
        assert_eq!(descriptors(&found[2].1), [9]);
        let grown = Reconfigure { size: Some(Bytes(4096)), sockets: &[], ..change };
        let (_, found) = read(&DRIVER.reconfigure(&grown));
        assert_eq!(found[1], (2, 4096_u64.to_ne_bytes().to_vec()));
        assert_eq!(found.len(), 3, "no sockets");
        assert_eq!(read(&DRIVER.disconnect(2)), (2, vec![index]));
    }

    #[test]
    fn an_event_names_the_device_whose_connection_ended() {
        let bytes = DRIVER.disconnect(7).encode(0);
        let attributes = &bytes[20..];
        assert_eq!(DRIVER.dead_link((0x1f, 4), attributes), Ok(Some(7)));
        assert_eq!(DRIVER.dead_link((0x1f, 5), attributes), Ok(None));
        assert_eq!(DRIVER.dead_link((0x20, 4), attributes), Ok(None));
        assert_eq!(DRIVER.dead_link((0x1f, 4), &[]), Err(Malformed));
    }

    proptest! {
        #[test]
        fn any_answer_is_read_without_panic(bytes in vec(any::<u8>(), 0..200)) {
            let _ = Family::decode(&bytes);
            let _ = Family::index(&bytes);
            let _ = DRIVER.dead_link((0x1f, 4), &bytes);
        }

        #[test]
        fn a_changed_answer_is_read_without_panic(at in 0_usize..100, value in any::<u8>()) {
            let mut bytes = Family::request().encode(1)[20..].to_vec();
            let at = at % bytes.len();
            bytes[at] = value;
            let _ = Family::decode(&bytes);
        }
    }
}
