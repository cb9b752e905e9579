//! IP addresses as Go reads and writes them.

use std::net::{IpAddr, Ipv4Addr};

/// Parses an IP address: `010.0.0.1` is `10.0.0.1`, and an IPv4 address written as IPv6
/// (`::ffff:10.0.0.1`) is IPv4. `None`: it is no address.
///
/// Like upstream, controllers write what this returns, in its canonical form, because the API
/// server accepts another form in an old pod but may refuse it in a new object.
#[must_use]
pub fn parse(text: &str) -> Option<IpAddr> {
    let parsed = text.parse().ok().or_else(|| with_leading_zeros(text));
    parsed.map(|ip: IpAddr| ip.to_canonical())
}

/// True if it is an IPv6 address.
#[must_use]
pub fn is_ipv6(text: &str) -> bool {
    parse(text).is_some_and(|ip| ip.is_ipv6())
}

fn with_leading_zeros(text: &str) -> Option<IpAddr> {
    let octet = |text: &str| {
        let is_decimal = text.bytes().all(|byte| byte.is_ascii_digit());
        is_decimal.then(|| text.parse::<u8>().ok()).flatten()
    };
    let octets: Vec<u8> = text.split('.').map(octet).collect::<Option<_>>()?;
    let octets: [u8; 4] = octets.try_into().ok()?;
    Some(Ipv4Addr::from(octets).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_one_form_however_it_is_written() {
        for (text, canonical) in [
            ("10.0.0.1", Some("10.0.0.1")),
            ("010.000.0.01", Some("10.0.0.1")),
            ("::ffff:10.0.0.1", Some("10.0.0.1")),
            ("2001:0DB8:0::1", Some("2001:db8::1")),
            ("10.0.0.256", None),
            ("10.0.0", None),
            ("+1.0.0.1", None),
            ("1.2.3.", None),
            ("", None),
            ("localhost", None),
        ] {
            let parsed = parse(text).map(|ip| ip.to_string());
            assert_eq!(parsed.as_deref(), canonical, "{text}");
            assert_eq!(is_ipv6(text), canonical == Some("2001:db8::1"), "{text}");
        }
    }
}
