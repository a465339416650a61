//! Which hosts are fetched from, and what may be told of them. Private addresses are for who trusts the authors of releases, and
//! even then no author of a release learns through the operator what listens there.

use std::net::{IpAddr, Ipv4Addr};
use std::str::FromStr;

use super::address::{Allowed, embedded, forbidden, plain};

/// Why a tenant may not fetch from this address where private ones are denied; `None`: it is one of the world.
#[must_use]
fn private(address: IpAddr) -> Option<&'static str> {
    match address {
        IpAddr::V4(v4) => private_v4(v4),
        IpAddr::V6(v6) if v6.is_unique_local() => Some("a private address"),
        IpAddr::V6(v6) => embedded(v6).and_then(private_v4),
    }
}

fn private_v4(address: Ipv4Addr) -> Option<&'static str> {
    let [first, second, third, _] = address.octets();
    match (first, second, third) {
        _ if address.is_private() => Some("a private address"),
        // Carriers and clouds use them inside.
        (100, 64..=127, _) => Some("an address of a carrier's inside"),
        (198, 18 | 19, _) | (192, 0, 0) | (240..=255, ..) => Some("a reserved address"),
        _ => None,
    }
}

/// Whether a cluster's name service gives such a name to a Service: `web.apps.svc` and what begins so.
fn names_a_service(host: &str) -> bool {
    let host = plain(host);
    host.ends_with(".svc") || host.contains(".svc.")
}

/// What may be told of a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reach {
    /// Everything: its administrator vouches for it.
    Allowed,
    /// Everything: anyone may ask it.
    Public,
    /// Whether it gave an archive. How it did not would tell what listens inside of the network.
    Private,
}

/// Which hosts may be fetched from.
#[derive(Clone, Debug, Default)]
pub(super) struct Walls {
    allowed: Vec<Allowed>,
    deny_private: bool,
    services: Vec<Network>,
}

/// A part of all addresses, such as `10.96.0.0/12`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    address: IpAddr,
    bits: u32,
}

impl Network {
    fn has(&self, address: IpAddr) -> bool {
        let same = |width: u32, ours: u128, theirs: u128| {
            let rest = width.saturating_sub(self.bits);
            ours.checked_shr(rest) == theirs.checked_shr(rest)
        };
        match (self.address, address) {
            (IpAddr::V4(ours), IpAddr::V4(theirs)) => {
                same(32, ours.to_bits().into(), theirs.to_bits().into())
            }
            (IpAddr::V6(ours), IpAddr::V6(theirs)) => same(128, ours.to_bits(), theirs.to_bits()),
            (IpAddr::V4(_), IpAddr::V6(theirs)) => embedded(theirs).is_some_and(|v4| self.has(v4.into())),
            (IpAddr::V6(_), IpAddr::V4(_)) => false,
        }
    }
}

impl FromStr for Network {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let parsed = text.split_once('/').and_then(|(address, bits)| {
            Some(Self { address: address.parse().ok()?, bits: bits.parse().ok()? })
        });
        parsed.ok_or_else(|| format!("`{text}` is no network, such as 10.96.0.0/12"))
    }
}

/// Why a host may not be asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Refused {
    pub host: String,
    pub why: &'static str,
}

impl Walls {
    pub(super) fn new(allowed: &[Allowed], deny_private: bool, services: &[Network]) -> Self {
        Self { allowed: allowed.to_vec(), deny_private, services: services.to_vec() }
    }

    pub(super) fn deny_private(&self) -> bool {
        self.deny_private
    }

    pub(super) fn allow(&self, host: &str, port: u16) -> bool {
        self.allowed.iter().any(|allowed| allowed.covers(host, port))
    }

    /// Judges a host by all of its addresses: what changes from one look to the next is not trusted.
    pub(super) fn judge(&self, host: &str, port: u16, addresses: &[IpAddr]) -> Result<Reach, Refused> {
        if self.allow(host, port) {
            return Ok(Reach::Allowed);
        }
        // Not the address of a name: who may write a release learns nothing of the network's inside from the name service that
        // the operator asks.
        let refused = |(ip, why): (IpAddr, &'static str)| {
            tracing::debug!(host, %ip, why, "a host is refused for its address");
            Refused { host: host.to_owned(), why }
        };
        let first = |rule: fn(IpAddr) -> Option<&'static str>| {
            addresses.iter().find_map(|ip| rule(*ip).map(|why| (*ip, why)))
        };
        if let Some(found) = first(forbidden) {
            return Err(refused(found));
        }
        const SERVICE: &str = "a Service of the cluster";
        let in_network = |ip: &&IpAddr| self.services.iter().any(|network| network.has(**ip));
        let found = if names_a_service(host) {
            Some(Refused { host: host.to_owned(), why: SERVICE })
        } else {
            let service = addresses.iter().find(in_network).map(|ip| (*ip, SERVICE));
            service.or_else(|| first(private)).map(refused)
        };
        match found {
            None => Ok(Reach::Public),
            Some(found) if self.deny_private => Err(found),
            Some(_) => Ok(Reach::Private),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(deny_private: bool, host: &str, addresses: &[&str]) -> Result<Reach, String> {
        let services = ["198.51.100.0/28", "2001:db8:1::/112"].map(|network| network.parse().unwrap());
        let walls = Walls::new(&["vouched.internal:80".parse().unwrap()], deny_private, &services);
        let addresses: Vec<IpAddr> = addresses.iter().map(|address| address.parse().unwrap()).collect();
        walls.judge(host, 80, &addresses).map_err(|Refused { host, why }| format!("{host} is {why}"))
    }

    #[test]
    fn private_addresses_are_refused_where_they_are_denied_and_little_is_told_of_them_elsewhere() {
        for (host, addresses, private) in [
            ("10.1.2.3", &["10.1.2.3"][..], true),
            ("a.example", &["172.31.0.1"], true),
            ("a.example", &["192.168.0.1"], true),
            ("a.example", &["100.64.0.1"], true),
            ("a.example", &["198.18.0.1"], true),
            ("a.example", &["240.0.0.1"], true),
            ("a.example", &["fd00::1"], true),
            ("a.example", &["::ffff:10.0.0.1"], true),
            ("a.example", &["64:ff9b::a00:1"], true),
            ("a.example", &["203.0.113.1", "10.0.0.1"], true),
            ("web.apps.svc", &["203.0.113.1"], true),
            ("WEB.apps.svc.cluster.local.", &["203.0.113.1"], true),
            ("a.example", &["198.51.100.15"], true),
            ("a.example", &["::ffff:198.51.100.0"], true),
            ("a.example", &["2001:db8:1::ffff"], true),
            ("a.example", &["198.51.100.16"], false),
            ("a.example", &["2001:db8:1::1:0"], false),
            ("a.example", &["203.0.113.1"], false),
            ("svc.example", &["2606:4700::1111"], false),
            ("a.example", &["172.32.0.1"], false),
            ("vouched.internal", &["10.0.0.1"], false),
        ] {
            let told = judged(false, host, addresses).unwrap();
            assert_eq!(told == Reach::Private, private, "{host} {addresses:?}: {told:?}");
            let denied = judged(true, host, addresses);
            assert_eq!(denied.is_err(), private, "{host} {addresses:?}: {denied:?}");
        }
        assert_eq!(judged(true, "10.1.2.3", &["10.1.2.3"]).unwrap_err(), "10.1.2.3 is a private address");
        let named = judged(true, "a.example", &["203.0.113.1", "10.0.0.1"]).unwrap_err();
        assert_eq!(named, "a.example is a private address", "what a name resolves to is not told");
        assert_eq!(
            judged(true, "a.b.svc", &["10.0.0.1"]).unwrap_err(),
            "a.b.svc is a Service of the cluster"
        );
        let service = judged(true, "198.51.100.7", &["198.51.100.7"]).unwrap_err();
        assert_eq!(service, "198.51.100.7 is a Service of the cluster");
        // The operator's own stay what they are, and what is vouched for is open.
        for deny in [false, true] {
            let own = judged(deny, "a.example", &["10.0.0.1", "169.254.169.254"]).unwrap_err();
            assert!(own.contains("metadata"), "{own}");
            assert_eq!(judged(deny, "vouched.internal", &["127.0.0.1"]), Ok(Reach::Allowed));
            assert_eq!(judged(deny, "a.example", &["203.0.113.1"]), Ok(Reach::Public));
        }
    }

    #[test]
    fn networks_hold_what_begins_as_they_do() {
        for (network, address, held) in [
            ("0.0.0.0/0", "203.0.113.1", true),
            ("10.0.0.0/8", "10.255.0.1", true),
            ("10.0.0.0/8", "11.0.0.1", false),
            ("10.0.0.7/32", "10.0.0.7", true),
            ("10.0.0.7/32", "10.0.0.6", false),
            ("::/0", "fd00::1", true),
            ("fd00::1/128", "fd00::1", true),
            ("fd00::/112", "fd00::1:0", false),
            ("::/0", "10.0.0.1", false),
        ] {
            let network: Network = network.parse().unwrap();
            assert_eq!(network.has(address.parse().unwrap()), held, "{network:?} {address}");
        }
        for wrong in ["10.0.0.0", "a/8", "10.0.0.0/x", ""] {
            wrong.parse::<Network>().unwrap_err();
        }
    }
}
