//! Where the ranks meet: the address that the user names, or a free port of this machine.

use std::io;
use std::net::{Ipv4Addr, TcpListener};

use proxy_os::Settings;

use crate::sys::ReservedPort;

const VARIABLE: &str = "NEURON_RT_ROOT_COMM_ID";

/// The meeting point.
#[derive(Debug)]
pub(super) struct Root {
    /// As the library takes it.
    pub(super) address: String,
    /// Kept until the run is over.
    _reserved: Option<ReservedPort>,
}

impl Root {
    /// The address of the settings if they have one, after a look whether rank 0 can listen there; else a free port of `own`, an
    /// address of this machine.
    pub(super) fn choose(settings: &Settings, own: Ipv4Addr) -> Result<Self, String> {
        let Some(given) = settings.root_comm_id() else {
            let port = ReservedPort::new(own)
                .map_err(|error| format!("cannot find a free port on {own}: {error}"))?;
            return Ok(Self {
                address: port.address.to_string(),
                _reserved: Some(port),
            });
        };
        let address = given.to_string();
        match TcpListener::bind(&address) {
            Ok(_) => Ok(Self {
                address,
                _reserved: None,
            }),
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => Err(format!(
                "{VARIABLE} is {address}, but port {} is in use; accepted: a free port, or the variable unset to have one chosen",
                given.port
            )),
            Err(error) => Err(format!(
                "{VARIABLE} is {address}, where this machine cannot listen: {error}"
            )),
        }
    }
}
