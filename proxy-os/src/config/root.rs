//! The address at which the ranks of a job meet.

use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

/// `NEURON_RT_ROOT_COMM_ID`: `ipv4:port`, `[ipv6]:port` or `host:port`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RootCommId {
    /// The machine.
    pub host: Host,
    /// The port, not 0.
    pub port: u16,
}

/// A machine, by address or by name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Host {
    /// An IPv4 address.
    V4(Ipv4Addr),
    /// An IPv6 address.
    V6(Ipv6Addr),
    /// A name to be resolved.
    Name(String),
}

/// Text that is no [`RootCommId`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BadRootCommId;

impl fmt::Display for BadRootCommId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "accepted: {ACCEPTED}")
    }
}

impl std::error::Error for BadRootCommId {}

/// What is accepted, for error messages.
pub(super) const ACCEPTED: &str = "ipv4:port, [ipv6]:port or host:port, with a port of 1..65535";

impl FromStr for RootCommId {
    type Err = BadRootCommId;

    fn from_str(text: &str) -> Result<Self, BadRootCommId> {
        let (host, port) = text.rsplit_once(':').ok_or(BadRootCommId)?;
        Ok(Self {
            host: parse_host(host).ok_or(BadRootCommId)?,
            port: parse_port(port).ok_or(BadRootCommId)?,
        })
    }
}

fn parse_port(text: &str) -> Option<u16> {
    // `parse` would take a leading plus.
    let digits = text.bytes().all(|byte| byte.is_ascii_digit());
    let port = digits.then(|| text.parse().ok())??;
    (port != 0).then_some(port)
}

fn parse_host(text: &str) -> Option<Host> {
    if let Some(inner) = text.strip_prefix('[') {
        return inner.strip_suffix(']')?.parse().ok().map(Host::V6);
    }
    if let Ok(address) = text.parse() {
        return Some(Host::V4(address));
    }
    is_name(text).then(|| Host::Name(text.to_owned()))
}

/// A DNS name. One whose last label is a number would be an IPv4 address with a slip.
fn is_name(text: &str) -> bool {
    let label = |label: &str| {
        (1..=63).contains(&label.len())
            && label
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_')
    };
    let number = |label: &str| label.bytes().all(|byte| byte.is_ascii_digit());
    let last = text.rsplit('.').next().unwrap_or(text);
    text.len() <= 253 && text.split('.').all(label) && !number(last)
}

impl fmt::Display for RootCommId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let port = self.port;
        match &self.host {
            Host::V4(address) => write!(f, "{address}:{port}"),
            Host::V6(address) => write!(f, "[{address}]:{port}"),
            Host::Name(name) => write!(f, "{name}:{port}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_three_forms_are_read_and_shown_alike() {
        for text in [
            "10.0.0.7:62128",
            "[fe80::1]:1",
            "head-node.cluster.local:65535",
            "node_1:5",
        ] {
            assert_eq!(text.parse::<RootCommId>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn everything_else_is_refused() {
        for text in [
            "",
            ":",
            "10.0.0.7",
            "10.0.0.7:",
            ":5",
            "host:0",
            "host:65536",
            "host:+5",
            "fe80::1:80",
            "[fe80::1]",
            "[10.0.0.7]:5",
            "10.0.0.256:5",
            "10.0.0:5",
            "a..b:5",
            "a b:5",
            "-:x",
        ] {
            assert_eq!(text.parse::<RootCommId>(), Err(BadRootCommId), "{text}");
        }
    }
}
