//! Where the ranks meet: the address that the user names, or a free port of this machine.

use std::io;
use std::net::{IpAddr, TcpListener};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

use proxy_os::Settings;

use crate::sys::ReservedPort;

const VARIABLE: &str = "NEURON_RT_ROOT_COMM_ID";

/// The meeting point.
#[derive(Debug)]
pub(super) struct Root {
    /// As the library takes it.
    pub(super) address: String,
    /// Kept until the run is over.
    _held: Held,
}

/// What keeps others from the port.
#[derive(Debug)]
enum Held {
    Reserved(#[expect(dead_code, reason = "held, not used")] ReservedPort),
    Claimed(#[expect(dead_code, reason = "held, not used")] UnixDatagram),
}

/// Keeps other runs of this machine from a port between now and when rank 0 listens there: a name that is in no file system and goes
/// with this process. Ranks of two runs at one port would take each other for their own.
fn claim(port: u16) -> io::Result<UnixDatagram> {
    let name = SocketAddr::from_abstract_name(format!("proxy-run/root/{port}"))?;
    UnixDatagram::bind_addr(&name)
}

impl Root {
    /// The address of the settings if they have one, after a look whether rank 0 can listen there; else a free port of `own`, an
    /// address of this machine.
    pub(super) fn choose(settings: &Settings, own: IpAddr) -> Result<Self, String> {
        let Some(given) = settings.root_comm_id() else {
            let port = ReservedPort::new(own)
                .map_err(|error| format!("cannot find a free port on {own}: {error}"))?;
            return Ok(Self {
                address: port.address.to_string(),
                _held: Held::Reserved(port),
            });
        };
        let address = given.to_string();
        let claimed = claim(given.port);
        match claimed.and_then(|claimed| TcpListener::bind(&address).map(|_| claimed)) {
            Ok(claimed) => Ok(Self {
                address,
                _held: Held::Claimed(claimed),
            }),
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => Err(format!(
                "{VARIABLE} is {address}, but port {} is in use; accepted: a free port, or the variable unset to have one chosen",
                given.port
            )),
            Err(error) => Err(format!(
                "{VARIABLE} is {address}, where this machine cannot listen: {error}; accepted: an address of this machine, or the variable unset \
                 to have one chosen"
            )),
        }
    }
}
