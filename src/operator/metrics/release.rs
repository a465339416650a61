//! The metrics that name a release, one entry per release.
//!
//! Kept and written by hand rather than as vectors of the `prometheus` crate: a release's series change
//! their labels with every revision and condition and must go with it, which a vector does only when
//! each old label set is remembered and removed; here the entry *is* the series. It also takes a tenth
//! of the memory, which counts with a thousand releases.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::Duration;

/// What is true of a release now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// Name of the pack; empty while none was read.
    pub pack: String,
    /// Version of the pack.
    pub version: String,
    /// Newest revision; 0: none yet.
    pub revision: u32,
    /// State of the newest revision in the words of the stored record, such as `deployed`.
    pub state: Option<&'static str>,
    /// The conditions as status shows them.
    pub conditions: Vec<Condition>,
}

/// One condition of a release.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition {
    /// `Ready`, `Drifted`, …
    pub kind: String,
    /// `True`, `False` or `Unknown`.
    pub status: String,
    /// The PascalCase reason.
    pub reason: String,
}

/// Upper bounds of an operation's duration, in seconds. Few: they are multiplied by every release.
const BOUNDS: [f64; 6] = [0.25, 1.0, 5.0, 30.0, 120.0, 600.0];
/// (kind, manager) pairs of one release that are counted apart; what comes later counts as `other`.
const PAIRS: usize = 20;
/// Longer names of managers are cut: anyone who may write to the cluster chooses them.
const MANAGER_LENGTH: usize = 40;

#[derive(Debug, Default)]
pub(super) struct Releases {
    entries: BTreeMap<(String, String), Entry>,
}

#[derive(Debug, Default)]
pub(super) struct Entry {
    pub(super) snapshot: Snapshot,
    pub(super) contended: usize,
    operations: BTreeMap<(&'static str, &'static str, &'static str), Durations>,
    reverted: BTreeMap<(String, String), u64>,
    hooks: BTreeMap<(&'static str, &'static str), u64>,
    crd_changes: BTreeMap<&'static str, u64>,
}

#[derive(Debug, Default)]
struct Durations {
    /// Not cumulative; the last one holds what is above every bound.
    buckets: [u64; BOUNDS.len() + 1],
    sum: f64,
}

impl Releases {
    /// The entry of a release, made when it is not there.
    pub(super) fn of(&mut self, namespace: &str, name: &str) -> &mut Entry {
        self.entries.entry((namespace.to_owned(), name.to_owned())).or_default()
    }

    pub(super) fn forget(&mut self, namespace: &str, name: &str) {
        self.entries.remove(&(namespace.to_owned(), name.to_owned()));
    }

    /// Appends every family in the text format.
    pub(super) fn write(&self, text: &mut String) {
        for family in FAMILIES {
            let Family { name, kind, help, write } = family;
            // Writing into a String cannot fail.
            let _ = write!(text, "# HELP sherpack_{name} {help}\n# TYPE sherpack_{name} {kind}\n");
            for ((namespace, release), entry) in &self.entries {
                let labels = format!(r#"namespace="{}",name="{}""#, escaped(namespace), escaped(release));
                write(entry, &mut |suffix, more, value| {
                    let _ = writeln!(text, "sherpack_{name}{suffix}{{{labels}{more}}} {value}");
                });
            }
        }
    }
}

/// Takes a suffix of the family's name, more labels (each with a comma before it) and a value.
type Line<'a> = dyn FnMut(&str, &str, f64) + 'a;

struct Family {
    name: &'static str,
    kind: &'static str,
    help: &'static str,
    write: fn(&Entry, &mut Line<'_>),
}

const FAMILIES: &[Family] = &[
    Family {
        name: "release_info",
        kind: "gauge",
        help: "1 for the pack and revision that a release has now.",
        write: |entry, line| {
            let Snapshot { pack, version, revision, .. } = &entry.snapshot;
            let (pack, version) = (escaped(pack), escaped(version));
            line("", &format!(r#",pack="{pack}",version="{version}",revision="{revision}""#), 1.0);
        },
    },
    Family {
        name: "release_condition",
        kind: "gauge",
        help: "1 for the status and reason that a condition has now.",
        write: |entry, line| {
            for Condition { kind, status, reason } in &entry.snapshot.conditions {
                let (kind, status, reason) = (escaped(kind), escaped(status), escaped(reason));
                line("", &format!(r#",type="{kind}",status="{status}",reason="{reason}""#), 1.0);
            }
        },
    },
    Family {
        name: "revision_state",
        kind: "gauge",
        help: "1 for the state that the newest revision has now.",
        write: |entry, line| {
            if let Some(state) = entry.snapshot.state {
                line("", &format!(r#",state="{state}""#), 1.0);
            }
        },
    },
    Family {
        name: "operation_duration_seconds",
        kind: "histogram",
        help: "How long the phases of operations took.",
        write: |entry, line| {
            for ((action, phase, outcome), durations) in &entry.operations {
                let labels = format!(r#",action="{action}",phase="{phase}",outcome="{outcome}""#);
                durations.write(&labels, line);
            }
        },
    },
    Family {
        name: "hook_results_total",
        kind: "counter",
        help: "Runs of hooks that ended, by how.",
        write: |entry, line| {
            for ((phase, outcome), count) in &entry.hooks {
                line("", &format!(r#",phase="{phase}",outcome="{outcome}""#), number(*count));
            }
        },
    },
    Family {
        name: "crd_changes_total",
        kind: "counter",
        help: "Changes of definitions that revisions of the release asked for, by how bad they are.",
        write: |entry, line| {
            for (severity, count) in &entry.crd_changes {
                line("", &format!(r#",severity="{severity}""#), number(*count));
            }
        },
    },
    Family {
        name: "drift_reverted_total",
        kind: "counter",
        help: "Objects that were put back, by the field manager that had changed them.",
        write: |entry, line| {
            for ((kind, manager), count) in &entry.reverted {
                let (kind, manager) = (escaped(kind), escaped(manager));
                line("", &format!(r#",kind="{kind}",manager="{manager}""#), number(*count));
            }
        },
    },
    Family {
        name: "drift_contended",
        kind: "gauge",
        help: "Objects of the release that another field manager keeps changing back.",
        write: |entry, line| line("", "", number(u64::try_from(entry.contended).unwrap_or(u64::MAX))),
    },
];

impl Entry {
    pub(super) fn operation(
        &mut self,
        action: &'static str,
        phase: &'static str,
        outcome: &'static str,
        took: Duration,
    ) {
        let seconds = took.as_secs_f64();
        let durations = self.operations.entry((action, phase, outcome)).or_default();
        let bucket = BOUNDS.iter().position(|bound| seconds <= *bound).unwrap_or(BOUNDS.len());
        durations.buckets[bucket] += 1;
        durations.sum += seconds;
    }

    pub(super) fn crd_changes(&mut self, severity: &'static str, count: usize) {
        *self.crd_changes.entry(severity).or_default() += count as u64;
    }

    pub(super) fn hook_ended(&mut self, phase: &'static str, outcome: &'static str) {
        *self.hooks.entry((phase, outcome)).or_default() += 1;
    }

    pub(super) fn drift_reverted(&mut self, kind: &str, manager: &str) {
        let mut pair = (kind.to_owned(), bounded(manager));
        if self.reverted.len() >= PAIRS && !self.reverted.contains_key(&pair) {
            pair = ("other".to_owned(), "other".to_owned());
        }
        *self.reverted.entry(pair).or_default() += 1;
    }
}

impl Durations {
    fn write(&self, labels: &str, line: &mut Line<'_>) {
        let mut below = 0;
        for (bound, count) in BOUNDS.iter().zip(&self.buckets) {
            below += count;
            line("_bucket", &format!(r#"{labels},le="{bound}""#), number(below));
        }
        let all = self.buckets.iter().sum();
        line("_bucket", &format!(r#"{labels},le="+Inf""#), number(all));
        line("_sum", labels, self.sum);
        line("_count", labels, number(all));
    }
}

/// Counts stay exact up to 2^53; Prometheus keeps its numbers in the same way.
#[allow(clippy::cast_precision_loss)]
fn number(count: u64) -> f64 {
    count as f64
}

/// A manager's name as a label: what it may contain and how long it may be is bounded.
fn bounded(manager: &str) -> String {
    let cut = manager.chars().take(MANAGER_LENGTH);
    let name: String = cut
        .map(|letter| if letter.is_ascii_alphanumeric() || "-_./:".contains(letter) { letter } else { '_' })
        .collect();
    if name.is_empty() { "unknown".to_owned() } else { name }
}

/// A label value with the three characters escaped that the text format gives a meaning.
fn escaped(value: &str) -> String {
    value.replace('\\', r"\\").replace('"', r#"\""#).replace('\n', r"\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(releases: &Releases) -> Vec<String> {
        let mut text = String::new();
        releases.write(&mut text);
        text.lines().filter(|line| !line.starts_with('#')).map(str::to_owned).collect()
    }

    fn condition(status: &str, reason: &str) -> Condition {
        Condition { kind: "Ready".to_owned(), status: status.to_owned(), reason: reason.to_owned() }
    }

    #[test]
    fn a_new_snapshot_leaves_nothing_of_the_old_one() {
        let mut releases = Releases::default();
        releases.of("a", "web").snapshot = Snapshot {
            pack: "podinfo".to_owned(),
            version: "1.0.0".to_owned(),
            revision: 1,
            state: Some("pending-install"),
            conditions: vec![condition("False", "Progressing")],
        };
        releases.of("a", "web").snapshot = Snapshot {
            pack: "podinfo".to_owned(),
            version: "1.1.0".to_owned(),
            revision: 2,
            state: Some("deployed"),
            conditions: vec![condition("True", "Succeeded")],
        };
        assert_eq!(
            lines(&releases),
            [
                r#"sherpack_release_info{namespace="a",name="web",pack="podinfo",version="1.1.0",revision="2"} 1"#,
                r#"sherpack_release_condition{namespace="a",name="web",type="Ready",status="True",reason="Succeeded"} 1"#,
                r#"sherpack_revision_state{namespace="a",name="web",state="deployed"} 1"#,
                r#"sherpack_drift_contended{namespace="a",name="web"} 0"#,
            ]
        );
    }

    #[test]
    fn durations_are_cumulative_and_bounds_include_themselves() {
        let mut releases = Releases::default();
        for milliseconds in [100, 250, 900, 700_000] {
            let took = Duration::from_millis(milliseconds);
            releases.of("a", "web").operation("install", "apply", "success", took);
        }
        let lines = lines(&releases);
        let count = |le: &str| {
            let le = format!(r#"le="{le}""#);
            lines.iter().find(|line| line.contains(&le)).unwrap().rsplit(' ').next().unwrap().to_owned()
        };
        assert_eq!([count("0.25"), count("1"), count("600"), count("+Inf")], ["2", "3", "3", "4"]);
        assert!(lines.iter().any(|line| line.contains("_sum{") && line.ends_with(" 701.25")), "{lines:?}");
    }

    #[test]
    fn managers_cannot_blow_up_the_number_or_the_size_of_series() {
        let mut entry = Entry::default();
        for number in 0..1000 {
            entry.drift_reverted("v1/ConfigMap", &format!("curl/{number}"));
        }
        entry.drift_reverted("v1/ConfigMap", "curl/0");
        assert_eq!(entry.reverted.len(), PAIRS + 1);
        assert_eq!(entry.reverted[&("v1/ConfigMap".to_owned(), "curl/0".to_owned())], 2);
        assert_eq!(entry.reverted[&("other".to_owned(), "other".to_owned())], 1000 - PAIRS as u64);
        assert_eq!(bounded("kubectl-client-side apply\"}\n"), "kubectl-client-side_apply___");
        assert_eq!(bounded(&"é".repeat(200)), "_".repeat(MANAGER_LENGTH));
        assert_eq!(bounded(""), "unknown");
    }
}
