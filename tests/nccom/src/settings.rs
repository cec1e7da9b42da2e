//! The one setting of the library, and the process-wide note of which local address reaches the root.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, ToSocketAddrs};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::error::{Error, Result};

const TIMEOUT_VARIABLE: &str = "NEURON_CCOM_SOCK_TIMEOUT";
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(120);

/// The longest that a bootstrap call may block: `NEURON_CCOM_SOCK_TIMEOUT` in whole seconds, else 120 s.
pub(crate) fn bootstrap_timeout() -> Result<Duration> {
    match std::env::var_os(TIMEOUT_VARIABLE) {
        None => Ok(DEFAULT_TIMEOUT),
        Some(value) => parse_timeout(&value.to_string_lossy()),
    }
}

fn parse_timeout(value: &str) -> Result<Duration> {
    match value.trim().parse::<u32>() {
        Ok(seconds) if seconds > 0 => Ok(Duration::from_secs(seconds.into())),
        _ => Err(Error::invalid(format!(
            "{TIMEOUT_VARIABLE} is '{value}', accepted: seconds, 1 or more"
        ))),
    }
}

/// Reads a root id: `host:port` or `[v6]:port`, the format of `NEURON_RT_ROOT_COMM_ID`.
pub(crate) fn parse_root(text: &str) -> Result<SocketAddr> {
    let refused = |why: String| {
        Error::invalid(format!(
            "root id '{text}' {why}, accepted: host:port or [v6 address]:port"
        ))
    };
    let address = match text.parse::<SocketAddr>() {
        Ok(address) => address,
        Err(_) => text
            .to_socket_addrs()
            .map_err(|error| refused(format!("cannot be resolved ({error})")))?
            .next()
            .ok_or_else(|| refused("has no address".into()))?,
    };
    if address.port() == 0 {
        return Err(refused("has port 0".into()));
    }
    Ok(address)
}

/// The local address by which this process reached its root, if it did yet. One per process is enough: all
/// communicators of a process live in one network namespace.
static LOCAL: Mutex<IpAddr> = Mutex::new(IpAddr::V4(Ipv4Addr::LOCALHOST));

/// Notes the local address by which the root was reached.
pub(crate) fn set_local_address(address: IpAddr) {
    *LOCAL.lock().unwrap_or_else(PoisonError::into_inner) = address;
}

/// Where new listeners are opened; loopback until a root was reached.
pub(crate) fn local_address() -> IpAddr {
    *LOCAL.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn root_ids_of_both_families_are_read() {
        assert_eq!(
            parse_root("10.1.2.3:62182").unwrap(),
            "10.1.2.3:62182".parse().unwrap()
        );
        assert_eq!(parse_root("[::1]:9").unwrap(), "[::1]:9".parse().unwrap());
    }

    #[test]
    fn a_bad_root_id_is_named_with_what_is_accepted() {
        for text in [
            "",
            "10.1.2.3",
            "10.1.2.3:0",
            "10.1.2.3:70000",
            "[::1]",
            ":1:2",
        ] {
            let error = parse_root(text).expect_err(text).to_string();
            assert!(
                error.contains(&format!("'{text}'")) && error.contains("host:port"),
                "{error}"
            );
        }
    }

    #[test]
    fn a_bad_timeout_names_variable_value_and_range() {
        assert_eq!(parse_timeout("7").unwrap(), Duration::from_secs(7));
        for value in ["0", "-1", "soon", "1.5", ""] {
            let error = parse_timeout(value).expect_err(value).to_string();
            assert!(
                error.contains(TIMEOUT_VARIABLE) && error.contains(&format!("'{value}'")),
                "{error}"
            );
        }
    }
}
