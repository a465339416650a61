//! What the process tells Prometheus: one method for each thing that happens.
//!
//! Names and labels are an API. Imports the client's observer trait only. Invariants: every label that is
//! not a release's own is bounded (`&'static str`, kinds, HTTP codes), and [`Metrics::forget`] leaves no
//! series of that release behind.

mod release;

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use prometheus::core::Collector;
use prometheus::{
    Gauge, Histogram, HistogramOpts, HistogramVec, IntCounterVec, IntGauge, Opts, Registry, TextEncoder,
};

use release::Releases;
pub use release::{Condition, Snapshot};

use crate::cluster::client::ApiObserver;

/// An API call or a revert: milliseconds matter.
const FAST: &[f64] = &[0.002, 0.005, 0.01, 0.02, 0.03, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 30.0];
/// A reconcile: most do nothing, some render and apply.
const PASS: &[f64] = &[0.001, 0.005, 0.02, 0.1, 0.5, 1.0, 5.0, 30.0];

/// The metrics of one operator.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    releases: Mutex<Releases>,
    drift_revert_seconds: Histogram,
    reconcile_duration_seconds: HistogramVec,
    reconcile_errors_total: IntCounterVec,
    queue_depth: IntGauge,
    queue_age_seconds: Gauge,
    api_requests_total: IntCounterVec,
    api_request_seconds: HistogramVec,
    source_fetch_total: IntCounterVec,
    webhooks_total: IntCounterVec,
    watch_restarts_total: IntCounterVec,
    leader: IntGauge,
}

/// Makes metrics, each of which is in the registry from the beginning.
struct Register(Registry);

impl Register {
    fn added<M: Collector + Clone + 'static>(&self, metric: M) -> Result<M, prometheus::Error> {
        self.0.register(Box::new(metric.clone()))?;
        Ok(metric)
    }

    fn counter(&self, name: &str, help: &str, labels: &[&str]) -> Result<IntCounterVec, prometheus::Error> {
        self.added(IntCounterVec::new(Opts::new(name, help), labels)?)
    }

    fn gauge(&self, name: &str, help: &str) -> Result<IntGauge, prometheus::Error> {
        self.added(IntGauge::new(name, help)?)
    }

    fn seconds(&self, name: &str, help: &str, buckets: &[f64]) -> Result<Histogram, prometheus::Error> {
        self.added(Histogram::with_opts(HistogramOpts::new(name, help).buckets(buckets.to_vec()))?)
    }

    fn seconds_by(
        &self,
        name: &str,
        help: &str,
        label: &str,
        buckets: &[f64],
    ) -> Result<HistogramVec, prometheus::Error> {
        self.added(HistogramVec::new(HistogramOpts::new(name, help).buckets(buckets.to_vec()), &[label])?)
    }
}

impl Metrics {
    /// Registers everything, in a registry of its own.
    ///
    /// # Errors
    /// Two metrics with one name: a mistake in this file.
    pub fn new() -> Result<Self, prometheus::Error> {
        let register = Register(Registry::new());
        #[cfg(target_os = "linux")]
        register.0.register(Box::new(prometheus::process_collector::ProcessCollector::for_self()))?;
        Ok(Self {
            releases: Mutex::default(),
            drift_revert_seconds: register.seconds(
                "sherpack_drift_revert_seconds",
                "From the watch event that showed a change to the answer of the apply that put it back.",
                FAST,
            )?,
            reconcile_duration_seconds: register.seconds_by(
                "sherpack_reconcile_duration_seconds",
                "One pass for one release, by what was decided.",
                "decision",
                PASS,
            )?,
            reconcile_errors_total: register.counter(
                "sherpack_reconcile_errors_total",
                "Passes that ended in an error, by its reason.",
                &["reason"],
            )?,
            queue_depth: register.gauge("sherpack_queue_depth", "Releases that wait for a free worker.")?,
            queue_age_seconds: register.added(Gauge::new(
                "sherpack_queue_age_seconds",
                "How long the release that waits longest for a free worker has waited.",
            )?)?,
            api_requests_total: register.counter(
                "sherpack_api_requests_total",
                "Requests to the API server, each try counted; code 0: no answer.",
                &["verb", "code"],
            )?,
            api_request_seconds: register.seconds_by(
                "sherpack_api_request_seconds",
                "Until the head of the API server's answer.",
                "verb",
                FAST,
            )?,
            source_fetch_total: register.counter(
                "sherpack_source_fetch_total",
                "Packs looked up at their source.",
                &["kind", "outcome"],
            )?,
            webhooks_total: register.counter(
                "sherpack_webhooks_total",
                "Webhooks received, by what became of them.",
                &["outcome"],
            )?,
            watch_restarts_total: register.counter(
                "sherpack_watch_restarts_total",
                "Watches that had to list again.",
                &["kind"],
            )?,
            leader: register.gauge("sherpack_leader", "1 while this process may write.")?,
            registry: register.0,
        })
    }

    /// The state of one release, in place of what was known of it before.
    pub fn release(&self, namespace: &str, name: &str, snapshot: Snapshot) {
        self.releases().of(namespace, name).snapshot = snapshot;
    }

    /// A phase of an operation ended. All three words are fixed ones, such as `upgrade`, `apply`, `success`.
    pub fn operation(
        &self,
        namespace: &str,
        name: &str,
        action: &'static str,
        phase: &'static str,
        outcome: &'static str,
        took: Duration,
    ) {
        self.releases().of(namespace, name).operation(action, phase, outcome, took);
    }

    /// A definition of the release was compared with the one in the cluster.
    pub fn crd_changes(&self, namespace: &str, name: &str, severity: &'static str, count: usize) {
        self.releases().of(namespace, name).crd_changes(severity, count);
    }

    /// A run of a hook ended. Both words are fixed ones, such as `pre-install` and `success`.
    pub fn hook_ended(&self, namespace: &str, name: &str, phase: &'static str, outcome: &'static str) {
        self.releases().of(namespace, name).hook_ended(phase, outcome);
    }

    /// An object was put back. `manager` is the field manager that had changed it, as it calls itself;
    /// `took` is the time since its change was seen, if it was.
    pub fn drift_reverted(
        &self,
        namespace: &str,
        name: &str,
        kind: &str,
        manager: &str,
        took: Option<Duration>,
    ) {
        if let Some(took) = took {
            self.drift_revert_seconds.observe(took.as_secs_f64());
        }
        self.releases().of(namespace, name).drift_reverted(kind, manager);
    }

    /// How many objects of the release are fought over right now.
    pub fn drift_contended(&self, namespace: &str, name: &str, objects: usize) {
        self.releases().of(namespace, name).contended = objects;
    }

    /// The release is gone: so is every series that names it.
    pub fn forget(&self, namespace: &str, name: &str) {
        self.releases().forget(namespace, name);
    }

    /// A pass ended, with or without an error.
    pub fn reconciled(&self, decision: &'static str, took: Duration) {
        self.reconcile_duration_seconds.with_label_values(&[decision]).observe(took.as_secs_f64());
    }

    /// A pass ended in an error with this `reason()`.
    pub fn reconcile_failed(&self, reason: &'static str) {
        self.reconcile_errors_total.with_label_values(&[reason]).inc();
    }

    /// What waits for a free worker, and how long the oldest of it has waited.
    pub fn queue(&self, depth: usize, oldest: Duration) {
        self.queue_depth.set(i64::try_from(depth).unwrap_or(i64::MAX));
        self.queue_age_seconds.set(oldest.as_secs_f64());
    }

    /// A pack was looked up at a source of this kind (`ConfigMap`, `path`, …).
    pub fn source_fetched(&self, kind: &'static str, outcome: &'static str) {
        self.source_fetch_total.with_label_values(&[kind, outcome]).inc();
    }

    /// A webhook came: `accepted`, or why it has no effect.
    pub fn webhook(&self, outcome: &'static str) {
        self.webhooks_total.with_label_values(&[outcome]).inc();
    }

    /// The watch of a kind (`apps/Deployment`) lost its place and listed again.
    pub fn watch_restarted(&self, kind: &str) {
        self.watch_restarts_total.with_label_values(&[kind]).inc();
    }

    /// Whether this process may write.
    pub fn leader(&self, leads: bool) {
        self.leader.set(i64::from(leads));
    }

    /// Everything in Prometheus' text format.
    #[must_use]
    pub fn encode(&self) -> String {
        let mut text = String::new();
        self.releases().write(&mut text);
        if let Err(error) = TextEncoder::new().encode_utf8(&self.registry.gather(), &mut text) {
            tracing::error!(%error, "some metrics could not be written");
        }
        text
    }

    fn releases(&self) -> MutexGuard<'_, Releases> {
        // A panic in between leaves at worst one release with an old number.
        self.releases.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ApiObserver for Metrics {
    fn record(&self, verb: &'static str, code: u16, seconds: f64) {
        let mut digits = [0; 3];
        self.api_requests_total.with_label_values(&[verb, code_label(code, &mut digits)]).inc();
        self.api_request_seconds.with_label_values(&[verb]).observe(seconds);
    }
}

/// A label without an allocation: this runs for every request.
fn code_label(code: u16, digits: &mut [u8; 3]) -> &str {
    if code < 100 {
        return "0";
    }
    for (place, power) in digits.iter_mut().zip([100, 10, 1]) {
        *place = b'0' + u8::try_from(code / power % 10).unwrap_or(0);
    }
    std::str::from_utf8(digits).unwrap_or("0")
}

#[cfg(test)]
impl Metrics {
    /// All that one release can tell.
    pub(crate) fn busy(&self, namespace: &str, name: &str) {
        let snapshot = Snapshot {
            pack: "podinfo".to_owned(),
            version: "1.2.3".to_owned(),
            revision: 4,
            state: Some("deployed"),
            conditions: vec![Condition {
                kind: "Ready".to_owned(),
                status: "True".to_owned(),
                reason: "Succeeded".to_owned(),
            }],
        };
        self.release(namespace, name, snapshot);
        self.operation(namespace, name, "install", "apply", "success", Duration::from_secs(2));
        self.drift_reverted(
            namespace,
            name,
            "apps/Deployment",
            "kubectl-edit",
            Some(Duration::from_millis(7)),
        );
        self.drift_contended(namespace, name, 1);
        self.crd_changes(namespace, name, "Safe", 1);
        self.hook_ended(namespace, name, "pre-install", "success");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forgetting_a_release_leaves_no_series_that_names_it() {
        let metrics = Metrics::new().unwrap();
        metrics.busy("apps", "web");
        metrics.busy("apps", "web-2");
        let before = metrics.encode();
        for family in [
            "release_info",
            "release_condition",
            "revision_state",
            "operation_duration_seconds_bucket",
            "operation_duration_seconds_sum",
            "operation_duration_seconds_count",
            "drift_reverted_total",
            "drift_contended",
        ] {
            let series = format!(r#"sherpack_{family}{{namespace="apps",name="web""#);
            assert!(before.contains(&series), "{series}\n{before}");
        }
        metrics.forget("apps", "web");
        let after = metrics.encode();
        assert!(!after.contains(r#"name="web""#), "{after}");
        assert!(after.contains(r#"name="web-2""#), "{after}");
    }

    #[test]
    fn requests_are_counted_by_verb_and_code() {
        let metrics = Metrics::new().unwrap();
        metrics.record("get", 200, 0.004);
        metrics.record("get", 200, 0.004);
        metrics.record("apply", 0, 30.0);
        let text = metrics.encode();
        assert!(text.contains("sherpack_api_requests_total{code=\"200\",verb=\"get\"} 2\n"), "{text}");
        assert!(text.contains("sherpack_api_requests_total{code=\"0\",verb=\"apply\"} 1\n"), "{text}");
        assert!(text.contains("sherpack_api_request_seconds_count{verb=\"get\"} 2\n"), "{text}");
    }

    #[test]
    fn every_code_is_its_own_label() {
        for code in [100, 200, 404, 429, 503, 599] {
            assert_eq!(code_label(code, &mut [0; 3]), code.to_string());
        }
        assert_eq!(code_label(0, &mut [0; 3]), "0");
    }

    #[test]
    fn each_thing_that_happens_has_its_metric() {
        let metrics = Metrics::new().unwrap();
        metrics.reconciled("Upgrade", Duration::from_millis(20));
        metrics.reconcile_failed("PackInvalid");
        metrics.queue(3, Duration::from_millis(1500));
        metrics.source_fetched("ConfigMap", "success");
        metrics.webhook("accepted");
        metrics.watch_restarted("apps/Deployment");
        metrics.leader(true);
        let text = metrics.encode();
        for line in [
            r#"sherpack_reconcile_duration_seconds_count{decision="Upgrade"} 1"#,
            r#"sherpack_reconcile_errors_total{reason="PackInvalid"} 1"#,
            "sherpack_queue_depth 3",
            "sherpack_queue_age_seconds 1.5",
            r#"sherpack_source_fetch_total{kind="ConfigMap",outcome="success"} 1"#,
            r#"sherpack_webhooks_total{outcome="accepted"} 1"#,
            r#"sherpack_watch_restarts_total{kind="apps/Deployment"} 1"#,
            "sherpack_leader 1",
        ] {
            assert!(text.lines().any(|have| have == line), "{line}\n{text}");
        }
        #[cfg(target_os = "linux")]
        assert!(text.contains("\nprocess_resident_memory_bytes "), "{text}");
    }

    #[test]
    fn the_text_is_what_prometheus_reads() {
        let metrics = Metrics::new().unwrap();
        metrics.busy("apps", "web");
        metrics.busy("apps", "odd\"\\\nname");
        metrics.record("list", 200, 0.1);
        let mut families = std::collections::BTreeSet::new();
        for line in metrics.encode().lines() {
            if let Some(comment) = line.strip_prefix("# ") {
                let family = comment.split(' ').take(2).collect::<Vec<_>>().join(" ");
                assert!(families.insert(family), "twice: {line}");
                continue;
            }
            let (series, value) = line.rsplit_once(' ').unwrap();
            value.parse::<f64>().unwrap();
            let name = series.split('{').next().unwrap();
            assert!(name.starts_with("sherpack_") || name.starts_with("process_"), "{line}");
            assert_eq!(series.contains('{'), series.ends_with('}'), "{line}");
        }
    }
}
