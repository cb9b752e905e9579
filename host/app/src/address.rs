//! Addresses as written on the command line.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use tokio::net::lookup_host;

/// A host and a port. The host is a name, an IP address, or empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    host: String,
    port: u16,
}

impl Address {
    /// Parses the value of `--listen`. As in Go, an empty host means every address of this machine.
    pub fn to_listen(text: &str) -> Result<Self, String> {
        parse(text).ok_or_else(|| {
            format!(
                "{text:?} is not HOST:PORT; write 127.0.0.1:8080 for this machine alone, or :8080 for every address it has"
            )
        })
    }

    /// Parses the value of `--host`: like `--listen`, but a URL is accepted, too. An empty host
    /// means this machine.
    pub fn of_host(text: &str) -> Result<Self, String> {
        let address = text.strip_prefix("http://").unwrap_or(text);
        let address = address.strip_suffix('/').unwrap_or(address);
        parse(address).ok_or_else(|| {
            format!(
                "{text:?} is not HOST:PORT; write what the host's --listen says: 127.0.0.1:8080, localhost:8080 or http://localhost:8080"
            )
        })
    }

    /// The addresses to listen on; the first one that can be bound is used. IPv4 comes first, as in
    /// Go, because `localhost` usually means it.
    ///
    /// For every address of this machine the first is the IPv6 one, which on Linux accepts IPv4 as
    /// well.
    pub async fn places_to_listen(&self) -> std::io::Result<Vec<SocketAddr>> {
        if self.host.is_empty() {
            let every = [
                IpAddr::from(Ipv6Addr::UNSPECIFIED),
                Ipv4Addr::UNSPECIFIED.into(),
            ];
            return Ok(every.map(|ip| SocketAddr::new(ip, self.port)).to_vec());
        }
        let mut found: Vec<SocketAddr> = lookup_host((&*self.host, self.port)).await?.collect();
        found.sort_by_key(SocketAddr::is_ipv6);
        Ok(found)
    }

    /// Only the host, with an IPv6 address in brackets.
    pub fn host(&self) -> String {
        match self.host.contains(':') {
            true => format!("[{}]", self.host),
            false => self.host.clone(),
        }
    }

    /// True if the host is one of this machine's names for itself.
    pub fn is_this_machine(&self) -> bool {
        let ip = self.host.parse::<IpAddr>();
        let own = [
            IpAddr::from(Ipv4Addr::LOCALHOST),
            Ipv6Addr::LOCALHOST.into(),
        ];
        matches!(&*self.host, "" | "localhost") || ip.is_ok_and(|ip| own.contains(&ip))
    }

    /// Only the port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The host and port to connect to.
    pub fn to_connect(&self) -> (&str, u16) {
        match &*self.host {
            "" => ("127.0.0.1", self.port),
            host => (host, self.port),
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { host, port } = self;
        if host.contains(':') {
            write!(to, "[{host}]:{port}")
        } else {
            write!(to, "{host}:{port}")
        }
    }
}

fn parse(text: &str) -> Option<Address> {
    let (host, port) = text.rsplit_once(':')?;
    // `parse` alone would also accept a sign.
    let is_number = !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
    let port = port.parse().ok().filter(|_| is_number)?;
    let bracketed = host
        .strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']'));
    let host = match bracketed {
        Some(ip) => ip.parse::<Ipv6Addr>().ok().map(|_| ip)?,
        None => Some(host).filter(|host| is_name(host))?,
    };
    Some(Address {
        host: host.to_owned(),
        port,
    })
}

/// True for a DNS name, an IPv4 address or an empty text. Excludes URLs, paths and IPv6 addresses.
fn is_name(host: &str) -> bool {
    host.bytes()
        .all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(&byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn listens(text: &str) -> Vec<String> {
        let address = Address::to_listen(text).unwrap();
        let places = address.places_to_listen().await.unwrap();
        places.iter().map(ToString::to_string).collect()
    }

    #[tokio::test]
    async fn without_a_host_every_address_of_the_machine_is_listened_on() {
        assert_eq!(listens(":8080").await, ["[::]:8080", "0.0.0.0:8080"]);
        assert_eq!(listens("127.0.0.1:0").await, ["127.0.0.1:0"]);
        assert_eq!(listens("[::1]:80").await, ["[::1]:80"]);
    }

    #[tokio::test]
    async fn localhost_is_listened_on_by_ipv4_first() {
        assert_eq!(listens("localhost:8080").await[0], "127.0.0.1:8080");
    }

    #[test]
    fn a_host_is_named_as_its_listen_flag_or_as_a_url() {
        for (text, host) in [
            (":8080", "127.0.0.1"),
            ("localhost:8080", "localhost"),
            ("http://localhost:8080", "localhost"),
            ("http://127.0.0.1:8080/", "127.0.0.1"),
            ("[::1]:8080", "::1"),
        ] {
            let address = Address::of_host(text).unwrap();
            assert_eq!(address.to_connect(), (host, 8080), "{text}");
        }
    }

    #[test]
    fn an_address_is_printed_as_it_is_written() {
        for text in ["127.0.0.1:8080", "[::1]:8080", ":8080", "localhost:1"] {
            assert_eq!(Address::to_listen(text).unwrap().to_string(), text);
        }
    }

    #[test]
    fn what_is_no_address_is_told_what_one_looks_like() {
        for text in [
            "8080",
            "",
            "localhost",
            "::1:8080",
            "[::1]",
            "[name]:80",
            "a b:80",
            "host:",
            "host:+80",
            "host:65536",
            "http://localhost:8080",
        ] {
            let error = Address::to_listen(text).unwrap_err();
            assert!(
                error.contains("127.0.0.1:8080") && error.contains(":8080 for every"),
                "{error}"
            );
        }
        for text in [
            "https://localhost:8080",
            "http://localhost:8080/plugins",
            "8080",
            "",
        ] {
            let error = Address::of_host(text).unwrap_err();
            assert!(error.contains("http://localhost:8080"), "{error}");
        }
    }
}
