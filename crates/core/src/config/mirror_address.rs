//! The address of a CXDB server: where its turns go, and its HTTP port.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::node::ConfigNode;
use super::read::{ReadContext, Setting};

/// A CXDB server, written `HOST:PORT` or `HOST:PORT,http=PORT`; its HTTP port is the next one unless it is given.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct MirrorAddress {
    /// A name or an address, that of IPv6 in brackets.
    host: String,
    port: u16,
    http: u16,
}

/// No such address.
#[derive(Debug, thiserror::Error)]
#[error("`{0}` is not an address of a CXDB server")]
pub struct InvalidMirrorAddress(String);

impl MirrorAddress {
    /// Where turns go.
    pub fn server(&self) -> String {
        format!("{}:{}", self.host, self.port)
    }

    /// The address of its HTTP side.
    pub fn http(&self) -> String {
        format!("http://{}:{}", self.host, self.http)
    }
}

impl FromStr for MirrorAddress {
    type Err = InvalidMirrorAddress;
    fn from_str(text: &str) -> Result<Self, InvalidMirrorAddress> {
        let read = || {
            let (server, http) = text.split_once(',').map_or((text, None), |(server, rest)| (server, Some(rest)));
            let (host, port) = server.rsplit_once(':')?;
            let in_brackets = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
            let plain = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c);
            let is_host = match in_brackets {
                Some(inner) => inner.parse::<std::net::Ipv6Addr>().is_ok(),
                None => !host.is_empty() && host.chars().all(plain),
            };
            let number = |text: &str| text.parse().ok().filter(|port| *port != 0);
            let port: u16 = number(port).filter(|_| is_host)?;
            let http = match http {
                Some(given) => number(given.strip_prefix("http=")?)?,
                None => port.checked_add(1)?,
            };
            Some(Self { host: host.to_owned(), port, http })
        };
        read().ok_or_else(|| InvalidMirrorAddress(text.to_owned()))
    }
}

impl fmt::Display for MirrorAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.server())?;
        if self.port.checked_add(1) == Some(self.http) { Ok(()) } else { write!(f, ",http={}", self.http) }
    }
}

impl TryFrom<String> for MirrorAddress {
    type Error = InvalidMirrorAddress;
    fn try_from(text: String) -> Result<Self, InvalidMirrorAddress> {
        text.parse()
    }
}

impl From<MirrorAddress> for String {
    fn from(address: MirrorAddress) -> Self {
        address.to_string()
    }
}

impl Setting for MirrorAddress {
    fn read(node: &ConfigNode, reading: &mut ReadContext<'_>) -> Option<Self> {
        let address = String::read(node, reading)?.parse();
        if let Err(error) = &address {
            let hint = "Write HOST:PORT, or HOST:PORT,http=PORT where its HTTP port is not the next one.";
            reading.report(node.at, format!("{error}"), Some(hint.to_owned()));
        }
        address.ok()
    }

    fn takes() -> String {
        "HOST:PORT[,http=PORT]".to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_reads_back_what_it_shows() {
        for (text, shown, http) in [
            ("cxdb.example:9009", "cxdb.example:9009", "http://cxdb.example:9010"),
            ("localhost:9009,http=9010", "localhost:9009", "http://localhost:9010"),
            ("[::1]:9009,http=80", "[::1]:9009,http=80", "http://[::1]:80"),
            ("10.0.0.1:65535,http=1", "10.0.0.1:65535,http=1", "http://10.0.0.1:1"),
        ] {
            let address: MirrorAddress = text.parse().unwrap();
            assert_eq!((address.to_string().as_str(), address.http().as_str()), (shown, http));
            assert_eq!(address.to_string().parse::<MirrorAddress>().unwrap(), address);
        }
        for bad in
            ["", "host", "host:", ":9009", "host:0", "host:65535", "http://host:1", "a:1,2", "a:1,http=x", "::1:9"]
        {
            assert!(bad.parse::<MirrorAddress>().is_err(), "{bad}");
        }
    }
}
