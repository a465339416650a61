//! Which addresses a fetch may never go to. A release's author chooses the URL, so it must not reach what only the operator's own
//! pod or node can: itself, its neighbours on the link, the cloud's metadata service.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

/// Metadata services that stand at an address which would be fine otherwise, with whose they are.
const METADATA: [(IpAddr, &str); 6] = [
    (IpAddr::V4(Ipv4Addr::new(169, 254, 169, 254)), "a cloud's metadata service"),
    (IpAddr::V4(Ipv4Addr::new(100, 100, 100, 200)), "Alibaba Cloud's metadata service"),
    (IpAddr::V4(Ipv4Addr::new(168, 63, 129, 16)), "Azure's host service"),
    (IpAddr::V4(Ipv4Addr::new(192, 0, 0, 192)), "Oracle Cloud's metadata service"),
    (IpAddr::V6(Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254)), "the metadata service of EC2"),
    (IpAddr::V6(Ipv6Addr::new(0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254)), "Google Cloud's metadata service"),
];

/// Why nothing is fetched from this address; `None`: it may be.
///
/// An IPv6 address that stands for an IPv4 one (mapped, compatible, NAT64, 6to4) is judged as that one.
#[must_use]
pub(super) fn forbidden(address: IpAddr) -> Option<&'static str> {
    if let Some((_, whose)) = METADATA.iter().find(|(known, _)| *known == address) {
        return Some(whose);
    }
    match address {
        IpAddr::V4(v4) => forbidden_v4(v4),
        IpAddr::V6(v6) => forbidden_v6(v6).or_else(|| embedded(v6).and_then(|v4| forbidden(IpAddr::V4(v4)))),
    }
}

fn forbidden_v4(address: Ipv4Addr) -> Option<&'static str> {
    if address.is_loopback() {
        Some("a loopback address")
    } else if address.octets()[0] == 0 {
        // Linux connects 0.0.0.0 to itself.
        Some("an unspecified address")
    } else if address.is_link_local() {
        Some("a link-local address")
    } else if address.is_multicast() {
        Some("a multicast address")
    } else if address.is_broadcast() {
        Some("the broadcast address")
    } else {
        None
    }
}

fn forbidden_v6(address: Ipv6Addr) -> Option<&'static str> {
    if address.is_loopback() {
        Some("a loopback address")
    } else if address.is_unspecified() {
        Some("an unspecified address")
    } else if address.is_unicast_link_local() {
        Some("a link-local address")
    } else if address.is_multicast() {
        Some("a multicast address")
    } else if address.segments()[0] & 0xffc0 == 0xfec0 {
        Some("a site-local address, which is deprecated")
    } else {
        None
    }
}

/// The IPv4 address that an IPv6 address stands for.
pub(super) fn embedded(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let from = |high: u16, low: u16| {
        let ([a, b], [c, d]) = (high.to_be_bytes(), low.to_be_bytes());
        Some(Ipv4Addr::new(a, b, c, d))
    };
    match address.segments() {
        [0, 0, 0, 0, 0, 0xffff | 0, high, low] => from(high, low),
        // NAT64: the well-known prefix, and the one for use inside a network with any infix.
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] | [0x64, 0xff9b, 1, _, _, _, high, low] => from(high, low),
        [0, 0, 0, 0, 0xffff, 0, high, low] => from(high, low),
        [0x2002, high, low, ..] => from(high, low),
        _ => None,
    }
}

/// A host that the operator's administrator vouches for, whatever its address is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Allowed {
    host: String,
    /// `None`: every port.
    port: Option<u16>,
}

/// No flag can name it: it is no host.
const EVERY: &str = "*";

impl Allowed {
    /// Every host: for the own process of a user, which reaches nothing that the user does not.
    #[must_use]
    pub fn every() -> Self {
        Self { host: EVERY.to_owned(), port: None }
    }

    #[must_use]
    pub fn covers(&self, host: &str, port: u16) -> bool {
        (self.host == EVERY || self.host == plain(host)) && self.port.is_none_or(|allowed| allowed == port)
    }
}

/// `HOST`, `HOST:PORT`, an IPv4 address, or an IPv6 address, in brackets when a port follows.
impl FromStr for Allowed {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wrong =
            || format!("`{text}` is no HOST or HOST:PORT, such as charts.example.com:8443 or [fd00::1]:80");
        let text = text.trim();
        if let Ok(address) = text.parse::<IpAddr>() {
            return Ok(Self { host: address.to_string(), port: None });
        }
        let (host, port) = match text.strip_prefix('[') {
            Some(rest) => {
                let (host, port) = rest.split_once(']').ok_or_else(wrong)?;
                host.parse::<Ipv6Addr>().map_err(|_| wrong())?;
                (host, if port.is_empty() { None } else { Some(port.strip_prefix(':').ok_or_else(wrong)?) })
            }
            None => match text.split_once(':') {
                Some((host, port)) => (host, Some(port)),
                None => (text, None),
            },
        };
        let port = match port {
            Some(port) => Some(port.parse::<u16>().ok().filter(|port| *port > 0).ok_or_else(wrong)?),
            None => None,
        };
        let named = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '-' | '.' | '_' | ':');
        if host.is_empty() || !host.chars().all(named) {
            return Err(wrong());
        }
        Ok(Self { host: plain(host), port })
    }
}

/// One spelling for one host: lower case, no dot at the end, addresses in their shortest form.
pub(super) fn plain(host: &str) -> String {
    match host.parse::<IpAddr>() {
        Ok(address) => address.to_string(),
        Err(_) => host.strip_suffix('.').unwrap_or(host).to_ascii_lowercase(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_only_the_operator_can_reach_is_forbidden_in_every_spelling() {
        for (address, why) in [
            ("127.0.0.1", "loopback"),
            ("127.255.3.4", "loopback"),
            ("0.0.0.0", "unspecified"),
            ("0.1.2.3", "unspecified"),
            ("169.254.169.254", "metadata"),
            ("169.254.170.2", "link-local"),
            ("100.100.100.200", "metadata"),
            ("168.63.129.16", "Azure"),
            ("192.0.0.192", "metadata"),
            ("224.0.0.251", "multicast"),
            ("239.1.1.1", "multicast"),
            ("255.255.255.255", "broadcast"),
            ("::1", "loopback"),
            ("::", "unspecified"),
            ("fe80::1", "link-local"),
            ("febf::1", "link-local"),
            ("fec0::1", "site-local"),
            ("ff02::fb", "multicast"),
            ("fd00:ec2::254", "metadata"),
            ("fd20:ce::254", "metadata"),
            ("::ffff:127.0.0.1", "loopback"),
            ("::ffff:169.254.169.254", "metadata"),
            ("::ffff:0:0", "unspecified"),
            ("::127.0.0.1", "loopback"),
            ("64:ff9b::7f00:1", "loopback"),
            ("64:ff9b::a9fe:a9fe", "metadata"),
            ("64:ff9b:1:2:3:4:7f00:1", "loopback"),
            ("::ffff:0:127.0.0.1", "loopback"),
            ("2002:7f00:1::", "loopback"),
            ("2002:a9fe:a9fe::1", "metadata"),
        ] {
            let said = forbidden(address.parse().unwrap());
            assert!(said.is_some_and(|said| said.contains(why)), "{address}: {said:?}");
        }
    }

    #[test]
    fn servers_of_the_cluster_and_of_the_world_are_not() {
        for address in [
            "10.0.0.1",
            "172.16.3.4",
            "192.168.1.1",
            "100.64.0.1",
            "8.8.8.8",
            "169.253.1.1",
            "fd00::1",
            "fd00:ec2::253",
            "2606:4700::1111",
            "::ffff:10.0.0.1",
            "64:ff9b::808:808",
            "2002:808:808::1",
        ] {
            assert_eq!(forbidden(address.parse().unwrap()), None, "{address}");
        }
    }

    #[test]
    fn a_host_is_allowed_with_its_port_or_with_all() {
        for (text, host, port, covers) in [
            ("localhost", "localhost", 80, true),
            ("localhost", "LOCALHOST.", 8080, true),
            ("Charts.Example.com:8443", "charts.example.com", 8443, true),
            ("charts.example.com:8443", "charts.example.com", 443, false),
            ("charts.example.com", "cdn.charts.example.com", 443, false),
            ("127.0.0.1:80", "127.0.0.1", 80, true),
            ("127.0.0.1:80", "localhost", 80, false),
            ("::1", "::1", 80, true),
            ("[::1]:8080", "0:0:0:0:0:0:0:1", 8080, true),
            ("[::1]", "::1", 9, true),
        ] {
            assert_eq!(text.parse::<Allowed>().unwrap().covers(host, port), covers, "{text} {host}:{port}");
        }
        for wrong in
            ["", ":80", "a:b", "a:0", "a:99999", "[::1", "[x]:1", "[::1]80", "http://a", "a/b", "a b"]
        {
            wrong.parse::<Allowed>().unwrap_err();
        }
    }
}
