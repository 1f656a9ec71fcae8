//! How clients reach an export, and how many of them do.

/// How a client reaches an export.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Transport {
    /// An NBD client on a socket.
    #[default]
    Nbd,
    /// The kernel's NBD client on a socket, as far as it says so.
    KernelNbd,
    /// The kernel's userspace block device driver.
    Ublk,
    /// A virtual machine, by vhost-user-blk.
    VhostUser,
}

impl Transport {
    /// All of them, in the order in which they are shown.
    pub const ALL: [Self; 4] = [Self::Nbd, Self::KernelNbd, Self::Ublk, Self::VhostUser];

    /// Its name in reports, metrics and traces.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Nbd => "nbd",
            Self::KernelNbd => "kernel-nbd",
            Self::Ublk => "ublk",
            Self::VhostUser => "vhost-user",
        }
    }

    /// Its number, below the number of transports.
    pub(crate) const fn index(self) -> usize {
        self as usize
    }
}

impl core::fmt::Display for Transport {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.pad(self.as_str())
    }
}

/// The number of an export's connections by each transport. A queue client is one connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Connections([usize; Transport::ALL.len()]);

impl Connections {
    /// Of all transports together.
    pub fn total(&self) -> usize {
        self.0.iter().sum()
    }

    /// By one transport.
    pub const fn by(&self, transport: Transport) -> usize {
        self.0[transport.index()]
    }

    pub(crate) const fn add(&mut self, transport: Transport) {
        self.0[transport.index()] += 1;
    }

    /// The transports with connections, and their numbers.
    pub fn iter(&self) -> impl Iterator<Item = (Transport, usize)> {
        let all = Transport::ALL.into_iter().map(|transport| (transport, self.by(transport)));
        all.filter(|(_, count)| *count > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_transport_is_counted_and_named_on_its_own() {
        let mut connections = Connections::default();
        for transport in [Transport::VhostUser, Transport::Nbd, Transport::VhostUser] {
            connections.add(transport);
        }
        let counted: Vec<_> = connections.iter().map(|(t, n)| format!("{n} {t}")).collect();
        assert_eq!((counted.join(", ").as_str(), connections.total()), ("1 nbd, 2 vhost-user", 3));
        for (index, transport) in Transport::ALL.into_iter().enumerate() {
            assert_eq!(transport.index(), index);
        }
    }
}
