//! Probes: what the annotations `sherpack.io/health-check…` of an object ask for.
//!
//! A probe takes part in waits only (install, upgrade, rollback): its object is ready when its own health rule says so
//! and the probe succeeded once after that. It is no continuous health: what is deployed is not probed.

use std::fmt;
use std::ops::RangeInclusive;
use std::time::Duration;

use serde_json::Value;

use super::Error;
use super::annotations::{first, list, time, truth, wrong};
use crate::api::{duration, names};
use crate::manifest::Object;

/// Between two probes of one object, unless it says otherwise: as the kubelet.
const INTERVAL: Duration = Duration::from_secs(10);
/// For one probe, unless it says otherwise.
const TIMEOUT: Duration = Duration::from_secs(5);
/// What an object may say.
const SHORTEST: Duration = Duration::from_secs(1);
const INTERVAL_MAX: Duration = Duration::from_hours(1);
const TIMEOUT_MAX: Duration = Duration::from_mins(5);
/// Characters of a path, and of a command: both become a part of a URL.
const TEXT_MAX: usize = 2048;
/// What a path and its query may hold beside letters and digits.
const PATH: &[u8] = b"/?%-._~!$&'()*+,;=:@";
/// Statuses that count as healthy, unless an object says otherwise: as the kubelet.
const STATUSES: RangeInclusive<u16> = 200..=399;
/// A command in a plan is cut to this many characters.
const SHOWN: usize = 80;

const SETTINGS: [&str; 9] = [
    names::HEALTH_CHECK_TYPE,
    names::HEALTH_CHECK_PATH,
    names::HEALTH_CHECK_PORT,
    names::HEALTH_CHECK_SCHEME,
    names::HEALTH_CHECK_STATUS,
    names::HEALTH_CHECK_COMMAND,
    names::HEALTH_CHECK_CONTAINER,
    names::HEALTH_CHECK_INTERVAL,
    names::HEALTH_CHECK_TIMEOUT,
];
const HTTP_ONLY: [&str; 4] = [
    names::HEALTH_CHECK_PATH,
    names::HEALTH_CHECK_PORT,
    names::HEALTH_CHECK_SCHEME,
    names::HEALTH_CHECK_STATUS,
];
const COMMAND_ONLY: [&str; 2] = [names::HEALTH_CHECK_COMMAND, names::HEALTH_CHECK_CONTAINER];

/// A probe of one object. `Display`: what it asks, as `GET http://:8080/healthz`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Probe {
    /// Whom it asks.
    pub target: Target,
    /// What it asks.
    pub check: Check,
    /// Between the end of one and the beginning of the next.
    pub interval: Duration,
    /// After which one answer that did not come is a failure.
    pub timeout: Duration,
}

/// Whom a probe asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// The object, a pod.
    Pod,
    /// Every ready pod of the object, a workload.
    Pods,
    /// The object, a Service, through the API server.
    Service,
}

/// What a probe asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Check {
    Http(Http),
    Command {
        /// Program and arguments; never empty.
        command: Vec<String>,
        /// `None`: the one that kubectl would take.
        container: Option<String>,
    },
}

/// A GET.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Http {
    pub scheme: Scheme,
    pub port: Port,
    /// Begins with a slash; may have a query.
    pub path: String,
    /// Statuses that count as healthy; never empty.
    pub statuses: Vec<RangeInclusive<u16>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheme {
    Http,
    Https,
}

/// A port of a pod or Service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Port {
    Number(u16),
    Name(String),
}

impl Http {
    #[must_use]
    pub fn accepts(&self, status: u16) -> bool {
        self.statuses.iter().any(|range| range.contains(&status))
    }
}

impl Scheme {
    /// As it stands in URLs.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Https => "https",
        }
    }
}

impl fmt::Display for Port {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => write!(f, "{number}"),
            Self::Name(name) => f.write_str(name),
        }
    }
}

impl fmt::Display for Probe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.check {
            Check::Http(Http { scheme, port, path, statuses: _ }) => {
                write!(f, "GET {}://:{port}{path}", scheme.as_str())
            }
            Check::Command { command, container: _ } => {
                let text = match command.as_slice() {
                    [shell, flag, text] if shell == "sh" && flag == "-c" => text.clone(),
                    words => words.join(" "),
                };
                write!(f, "run `{}`", crate::pack::shown(&text, SHOWN))
            }
        }
    }
}

/// The probe of an object, if it has one.
///
/// # Errors
/// A kind that has nothing to probe, a setting that means nothing, that is missing, or that belongs to the other type
/// of probe; and settings without `sherpack.io/health-check`.
pub fn probe(object: &Object) -> Result<Option<Probe>, Error> {
    refuse_unknown(object)?;
    if !is_asked_for(object)? {
        return Ok(None);
    }
    let target = probed(object)?;
    let check = check(object, target)?;
    Ok(Some(Probe {
        target,
        check,
        interval: bounded(object, names::HEALTH_CHECK_INTERVAL, INTERVAL, INTERVAL_MAX, "1s to 1h")?,
        timeout: bounded(object, names::HEALTH_CHECK_TIMEOUT, TIMEOUT, TIMEOUT_MAX, "1s to 5m")?,
    }))
}

fn problem(object: &Object, problem: String) -> Error {
    Error::Probe { object: object.id.to_string(), problem }
}

fn has(object: &Object, key: &'static str) -> bool {
    first(object, &[key]).is_some()
}

/// Refuses annotations that begin as those of a probe and are none.
fn refuse_unknown(object: &Object) -> Result<(), Error> {
    let annotations = object.body.pointer("/metadata/annotations").and_then(Value::as_object);
    let mut keys = annotations.into_iter().flat_map(serde_json::Map::keys).map(String::as_str);
    let unknown = |key: &&str| {
        key.starts_with(names::HEALTH_CHECK) && *key != names::HEALTH_CHECK && !SETTINGS.contains(key)
    };
    let Some(key) = keys.find(unknown) else { return Ok(()) };
    let known = SETTINGS.map(|known| known.trim_start_matches(names::HEALTH_CHECK)).join(", ");
    let text =
        format!("the annotation `{key}` means nothing: what may follow `{}` is {known}", names::HEALTH_CHECK);
    Err(problem(object, text))
}

/// Whether a probe is switched on. Settings of a probe that no annotation switches are a mistake; "false" switches off what is
/// written beside it.
fn is_asked_for(object: &Object) -> Result<bool, Error> {
    if truth(object, names::HEALTH_CHECK)? {
        return Ok(true);
    }
    match SETTINGS.iter().find(|key| has(object, key)) {
        Some(key) if object.annotation(names::HEALTH_CHECK).is_none() => {
            let text = format!(
                "the annotation `{key}` says how to probe, but `{}` is not \"true\"",
                names::HEALTH_CHECK
            );
            Err(problem(object, text))
        }
        _ => Ok(false),
    }
}

/// Whom the probe of this object asks.
fn probed(object: &Object) -> Result<Target, Error> {
    if first(object, &[names::HOOK, names::HELM_HOOK]).is_some() {
        let text = format!(
            "the annotation `{}` is for ordinary objects: a hook is done when its own health rule says so",
            names::HEALTH_CHECK
        );
        return Err(problem(object, text));
    }
    target(object).ok_or_else(|| {
        let text = format!(
            "the annotation `{}` is for a Pod, Deployment, StatefulSet, DaemonSet, ReplicaSet or Service",
            names::HEALTH_CHECK
        );
        problem(object, text)
    })
}

fn check(object: &Object, target: Target) -> Result<Check, Error> {
    let commands = runs_command(object)?;
    let (sort, foreign) =
        if commands { ("a command", &HTTP_ONLY[..]) } else { ("an http", &COMMAND_ONLY[..]) };
    if let Some(key) = foreign.iter().find(|key| has(object, key)) {
        return Err(problem(object, format!("the annotation `{key}` does not belong to {sort} probe")));
    }
    if commands && target == Target::Service {
        let text = "no command runs in a Service: probe its pods, or use an http probe";
        return Err(problem(object, text.to_owned()));
    }
    let required = |key: &'static str| {
        let value = first(object, &[key]).map(|(_, value)| value.trim());
        value.ok_or_else(|| problem(object, format!("{sort} probe needs the annotation `{key}`")))
    };
    Ok(if commands {
        Check::Command {
            command: command(object, required(names::HEALTH_CHECK_COMMAND)?)?,
            container: container(object)?,
        }
    } else {
        Check::Http(Http {
            path: path(object, required(names::HEALTH_CHECK_PATH)?)?,
            port: port(object, required(names::HEALTH_CHECK_PORT)?)?,
            scheme: scheme(object)?,
            statuses: statuses(object)?,
        })
    })
}

/// Whether the probe is a command. A command that is written needs no word for that.
fn runs_command(object: &Object) -> Result<bool, Error> {
    match first(object, &[names::HEALTH_CHECK_TYPE]) {
        None => Ok(has(object, names::HEALTH_CHECK_COMMAND)),
        Some((_, word)) if word.trim().eq_ignore_ascii_case("http") => Ok(false),
        Some((_, word)) if word.trim().eq_ignore_ascii_case("command") => Ok(true),
        Some((key, word)) => Err(wrong(&object.id, key, word, "http or command")),
    }
}

fn target(object: &Object) -> Option<Target> {
    match (object.id.group.as_str(), object.id.kind.as_str()) {
        ("", "Pod") => Some(Target::Pod),
        ("apps", "Deployment" | "StatefulSet" | "DaemonSet" | "ReplicaSet") => Some(Target::Pods),
        ("", "Service") => Some(Target::Service),
        _ => None,
    }
}

fn bounded(
    object: &Object,
    key: &'static str,
    default: Duration,
    longest: Duration,
    range: &'static str,
) -> Result<Duration, Error> {
    let Some(time) = time(object, key)? else { return Ok(default) };
    if (SHORTEST..=longest).contains(&time) {
        return Ok(time);
    }
    let problem = format!("the annotation `{key}` is `{}`, not from {range}", duration::format(time));
    Err(Error::Probe { object: object.id.to_string(), problem })
}

fn command(object: &Object, value: &str) -> Result<Vec<String>, Error> {
    let wanted = "a command, or a JSON list of program and arguments, of at most 2048 characters";
    let wrong = || wrong(&object.id, names::HEALTH_CHECK_COMMAND, value, wanted);
    if value.is_empty() || value.len() > TEXT_MAX {
        return Err(wrong());
    }
    if !value.starts_with('[') {
        return Ok(["sh", "-c", value].map(str::to_owned).to_vec());
    }
    let words: Vec<String> = serde_json::from_str(value).map_err(|_| wrong())?;
    if words.first().is_none_or(String::is_empty) { Err(wrong()) } else { Ok(words) }
}

fn container(object: &Object) -> Result<Option<String>, Error> {
    let Some((key, value)) = first(object, &[names::HEALTH_CHECK_CONTAINER]) else { return Ok(None) };
    let name = value.trim();
    if !names::is_dns_label(name) {
        return Err(wrong(&object.id, key, value, "the name of a container"));
    }
    Ok(Some(name.to_owned()))
}

fn path(object: &Object, value: &str) -> Result<String, Error> {
    let before_query = value.split('?').next().unwrap_or_default().to_ascii_lowercase().replace("%2e", ".");
    // Behind the API server's proxy they would lead out of the Service.
    let climbs = before_query.split('/').any(|part| part == "." || part == "..");
    let plain = value.bytes().all(|byte| byte.is_ascii_alphanumeric() || PATH.contains(&byte));
    if value.starts_with('/') && plain && !climbs && value.len() <= TEXT_MAX {
        return Ok(value.to_owned());
    }
    let wanted = "a path that starts with /, of letters that a URL may hold, without the parts . and ..";
    Err(wrong(&object.id, names::HEALTH_CHECK_PATH, value, wanted))
}

fn port(object: &Object, value: &str) -> Result<Port, Error> {
    let number = value.bytes().all(|byte| byte.is_ascii_digit());
    let port = if number {
        value.parse().ok().filter(|number| *number > 0).map(Port::Number)
    } else {
        let letters =
            |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_uppercase() || byte.is_ascii_digit();
        // Ports of Services may have names of 63 characters.
        let named = value.len() <= 63 && value.bytes().all(|byte| letters(byte) || byte == b'-');
        named.then(|| Port::Name(value.to_owned()))
    };
    port.ok_or_else(|| wrong(&object.id, names::HEALTH_CHECK_PORT, value, "a port, by number or name"))
}

fn scheme(object: &Object) -> Result<Scheme, Error> {
    match first(object, &[names::HEALTH_CHECK_SCHEME]) {
        None => Ok(Scheme::Http),
        Some((_, word)) if word.trim().eq_ignore_ascii_case("http") => Ok(Scheme::Http),
        Some((_, word)) if word.trim().eq_ignore_ascii_case("https") => Ok(Scheme::Https),
        Some((key, word)) => Err(wrong(&object.id, key, word, "http or https")),
    }
}

fn statuses(object: &Object) -> Result<Vec<RangeInclusive<u16>>, Error> {
    let Some((key, value)) = first(object, &[names::HEALTH_CHECK_STATUS]) else { return Ok(vec![STATUSES]) };
    let code = |text: &str| text.trim().parse().ok().filter(|code| (100..=599).contains(code));
    let range = |part: &str| {
        let (from, to) = part.split_once('-').unwrap_or((part, part));
        let range = code(from)?..=code(to)?;
        (!range.is_empty()).then_some(range)
    };
    let wanted = "a comma-separated list of status codes such as 200, and ranges such as 200-399";
    list(value).map(range).collect::<Option<_>>().ok_or_else(|| wrong(&object.id, key, value, wanted))
}

#[cfg(test)]
#[path = "probes_tests.rs"]
mod tests;
