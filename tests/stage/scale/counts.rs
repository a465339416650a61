//! Requests: the operator's own count, and what the API server saw of them.

use std::collections::BTreeMap;
use std::fmt;
use std::time::{Duration, Instant};

use kube::Client;

use super::{STANDSTILL, say};
use crate::failure::{During, Result, check};
use crate::operator;

/// No request for this long: the operator is quiet.
const QUIET: Duration = Duration::from_secs(8);

const READS: &[&str] = &["get", "list", "watch"];
const WRITES: &[&str] = &["create", "update", "patch", "apply", "delete"];

/// `sherpack_api_requests_total` by verb, all codes together.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Operator(BTreeMap<String, u64>);

impl Operator {
    pub(crate) async fn read(operator: &operator::Operator) -> Result<Self> {
        let text = operator.metrics().await?;
        let mut counts = BTreeMap::new();
        for sample in samples(&text, "sherpack_api_requests_total") {
            *counts.entry(sample.label("verb").to_owned()).or_default() += sample.value;
        }
        check(!counts.is_empty(), || "the operator counts no request at all".to_owned())?;
        Ok(Self(counts))
    }

    pub(crate) fn minus(&self, earlier: &Self) -> Self {
        let rest = |(verb, count): (&String, &u64)| (verb.clone(), count.saturating_sub(earlier.of(verb)));
        Self(self.0.iter().map(rest).collect())
    }

    pub(crate) fn reads(&self) -> u64 {
        READS.iter().map(|verb| self.of(verb)).sum()
    }

    pub(crate) fn writes(&self) -> u64 {
        WRITES.iter().map(|verb| self.of(verb)).sum()
    }

    fn of(&self, verb: &str) -> u64 {
        self.0.get(verb).copied().unwrap_or_default()
    }
}

impl fmt::Display for Operator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counts: Vec<_> = self.0.iter().filter(|(_, count)| **count > 0).collect();
        let counts: Vec<_> = counts.iter().map(|(verb, count)| format!("{verb} {count}")).collect();
        let counts = if counts.is_empty() { "none".to_owned() } else { counts.join(", ") };
        write!(f, "{counts} (reads {}, writes {})", self.reads(), self.writes())
    }
}

/// Waits until the operator asks nothing for a while; gives its counts then.
pub(crate) async fn quiet(operator: &operator::Operator) -> Result<Operator> {
    let began = Instant::now();
    let mut last = Operator::read(operator).await?;
    let mut since = Instant::now();
    while since.elapsed() < QUIET {
        check(began.elapsed() < STANDSTILL + QUIET, || {
            format!("the operator does not come to rest; requests so far: {last}")
        })?;
        tokio::time::sleep(Duration::from_millis(500)).await;
        let now = Operator::read(operator).await?;
        if now != last {
            (last, since) = (now, Instant::now());
        }
    }
    Ok(last)
}

/// `apiserver_request_total` of requests that only the operator and this program make: verb and resource.
pub(crate) struct Server(BTreeMap<(String, String), u64>);

/// What the API server counts.
pub(crate) async fn server(client: &Client) -> Result<Server> {
    let request = http::Request::get("/metrics").body(Vec::new()).during("GET /metrics")?;
    let text = client.request_text(request).await.during("metrics of the API server")?;
    let mut counts = BTreeMap::new();
    for sample in samples(&text, "apiserver_request_total") {
        let (verb, group) = (sample.label("verb"), sample.label("group"));
        let resource = match sample.label("resource") {
            // Legacy events are the controllers'.
            "events" if group == "events.k8s.io" => "events.k8s.io".to_owned(),
            "events" => continue,
            resource => resource.to_owned(),
        };
        *counts.entry((verb.to_owned(), resource)).or_default() += sample.value;
    }
    Ok(Server(counts))
}

impl Server {
    pub(crate) fn minus(&self, earlier: &Self) -> Self {
        let rest = |(key, count): (&(String, String), &u64)| {
            (key.clone(), count.saturating_sub(earlier.0.get(key).copied().unwrap_or_default()))
        };
        Self(self.0.iter().map(rest).filter(|(_, count)| *count > 0).collect())
    }

    fn sum(&self, verbs: &[&str], resources: &[&str]) -> u64 {
        let wanted = |(verb, resource): &(String, String)| {
            verbs.contains(&verb.as_str()) && (resources.is_empty() || resources.contains(&resource.as_str()))
        };
        self.0.iter().filter(|(key, _)| wanted(key)).map(|(_, count)| count).sum()
    }
}

/// What was asked for, what was most first.
impl fmt::Display for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut counts: Vec<_> = self.0.iter().collect();
        counts.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
        let counts: Vec<_> =
            counts.iter().map(|((verb, what), count)| format!("{verb} {what} {count}")).collect();
        f.write_str(&counts.join(", "))
    }
}

/// Compares both counts of the install.
///
/// The API server does not say who asked, so only resources are taken that nobody else writes here: every
/// apply, and other writes of records, releases and their Events. `n` creates of releases are this program's.
/// Watches are left out: the API server counts a watch when it ends.
pub(crate) fn cross_check(own: &Operator, server: &Server, n: usize) -> Result<()> {
    let resources = &["secrets", "sherpackreleases", "events.k8s.io", "selfsubjectrulesreviews"];
    let writes = server.sum(&["APPLY"], &[])
        + server.sum(&["POST", "PUT", "PATCH", "DELETE"], resources).saturating_sub(n as u64);
    let read = &[
        "secrets",
        "sherpackreleases",
        "configmaps",
        "namespaces",
        "deployments",
        "services",
        "serviceaccounts",
        "ingresses",
        "horizontalpodautoscalers",
    ];
    let reads = server.sum(&["GET", "LIST"], read);
    say(format!("the API server saw of them: reads {reads} (without watches), writes {writes}"));
    agree("writes", own.writes(), writes)?;
    agree("reads", own.of("get") + own.of("list"), reads)
}

/// Within a tenth, or within a handful that the cluster itself may have made.
fn agree(what: &str, own: u64, server: u64) -> Result<()> {
    let difference = own.abs_diff(server);
    check(difference <= 30 || difference * 10 <= own.max(server), || {
        format!("the operator counts {own} {what}, the API server {server}: more than a tenth apart")
    })
}

struct Sample<'a> {
    labels: &'a str,
    value: u64,
}

impl<'a> Sample<'a> {
    /// The value of a label; values here never contain quotes or commas.
    fn label(&self, name: &str) -> &'a str {
        let of = |pair: &'a str| pair.strip_prefix(name)?.strip_prefix("=\"")?.strip_suffix('"');
        self.labels.split(',').find_map(of).unwrap_or_default()
    }
}

/// The samples of one counter in Prometheus' text format.
fn samples<'a>(text: &'a str, name: &str) -> impl Iterator<Item = Sample<'a>> {
    let parse = move |line: &'a str| {
        let (labels, value) = line.strip_prefix(name)?.strip_prefix('{')?.rsplit_once("} ")?;
        let value = value.trim().parse::<f64>().ok()?;
        Some(Sample { labels, value: value as u64 })
    };
    text.lines().filter_map(parse).collect::<Vec<_>>().into_iter()
}
