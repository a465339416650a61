//! The formats that are checked. Others are taken as a note to the reader.

use std::net::{Ipv4Addr, Ipv6Addr};

use super::pattern;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    DateTime,
    Date,
    Email,
    Hostname,
    Ipv4,
    Ipv6,
    Uri,
    Uuid,
    Regex,
}

impl Format {
    const ALL: [(&'static str, Self); 9] = [
        ("date-time", Self::DateTime),
        ("date", Self::Date),
        ("email", Self::Email),
        ("hostname", Self::Hostname),
        ("ipv4", Self::Ipv4),
        ("ipv6", Self::Ipv6),
        ("uri", Self::Uri),
        ("uuid", Self::Uuid),
        ("regex", Self::Regex),
    ];

    pub(super) fn of(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|(known, _)| *known == name).map(|(_, format)| *format)
    }

    pub(super) fn name(self) -> &'static str {
        Self::ALL.iter().find(|(_, format)| *format == self).map_or("", |(name, _)| name)
    }

    pub(super) fn fits(self, text: &str) -> bool {
        match self {
            Self::DateTime => text.contains(['T', 't']) && text.parse::<jiff::Timestamp>().is_ok(),
            Self::Date => text.len() == 10 && text.parse::<jiff::civil::Date>().is_ok(),
            Self::Email => text.rsplit_once('@').is_some_and(|(name, domain)| {
                !name.is_empty() && !name.contains(char::is_whitespace) && is_hostname(domain)
            }),
            Self::Hostname => is_hostname(text),
            Self::Ipv4 => text.parse::<Ipv4Addr>().is_ok(),
            Self::Ipv6 => text.parse::<Ipv6Addr>().is_ok(),
            Self::Uri => text.split_once(':').is_some_and(|(scheme, rest)| {
                scheme.starts_with(|c: char| c.is_ascii_alphabetic())
                    && scheme.chars().all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c))
                    && !rest.contains(|c: char| c.is_whitespace() || "<>\"{}|\\^`".contains(c))
            }),
            Self::Uuid => {
                text.len() == 36
                    && text.bytes().enumerate().all(|(at, c)| match at {
                        8 | 13 | 18 | 23 => c == b'-',
                        _ => c.is_ascii_hexdigit(),
                    })
            }
            Self::Regex => pattern::compile(text).is_ok(),
        }
    }
}

fn is_hostname(text: &str) -> bool {
    let label = |label: &str| {
        (1..=63).contains(&label.len())
            && label.bytes().all(|c| c.is_ascii_alphanumeric() || c == b'-')
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    text.len() <= 253 && text.split('.').all(label)
}
