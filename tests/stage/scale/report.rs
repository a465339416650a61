//! The result: one JSON object for programs, one table for people.

use std::fmt::Write as _;
use std::time::Duration;

use serde::Serialize;

use super::ByHand;
use crate::failure::Result;

/// The names are an API: tools compare runs by them. Seconds, MiB, milliseconds, counts.
#[derive(Serialize)]
pub(crate) struct Report {
    pub(crate) n: usize,
    /// As so many accounts the releases are worked on; 0: as the operator.
    pub(crate) service_accounts: usize,
    pub(crate) other_definitions: usize,
    pub(crate) other_objects: usize,
    pub(crate) objects_per_release: usize,
    /// First create sent to the event that completes the set.
    pub(crate) ready_s: f64,
    /// The same objects by bare server-side apply, the same concurrency, on control planes with nothing else: the mean of before and
    /// after.
    pub(crate) bare_s: f64,
    pub(crate) ratio: f64,
    /// Open connections to the API server, watches included, after the install.
    pub(crate) connections: usize,
    /// With no release at all.
    pub(crate) rss_empty_mib: f64,
    /// With the first ten, and all that comes with the first one.
    pub(crate) rss_first_mib: f64,
    pub(crate) rss_idle_mib: f64,
    /// What each further release adds, between the two.
    pub(crate) rss_per_release_mib: f64,
    pub(crate) rss_peak_mib: f64,
    pub(crate) writes_per_release: f64,
    pub(crate) reads_per_release: f64,
    pub(crate) idle_reads_per_min: f64,
    pub(crate) idle_writes_per_min: f64,
    pub(crate) upgrade_s: f64,
    pub(crate) restart_reads: u64,
    pub(crate) restart_writes: u64,
    /// A Deployment's env value: edit sent to old value seen; and of that, edit sent to edit seen.
    pub(crate) drift_p50_ms: f64,
    pub(crate) drift_p99_ms: f64,
    pub(crate) edit_p50_ms: f64,
    /// A Service's port name.
    pub(crate) drift_service_p50_ms: f64,
    pub(crate) edit_service_p50_ms: f64,
    /// The edits: sent to answered.
    pub(crate) drift_20_at_once_p50_ms: f64,
    pub(crate) edit_20_at_once_p50_ms: f64,
    /// One edit of a Service in every release, 100 under way at once: first sent to last answered, first sent to last old value seen;
    /// and as many bare applies.
    pub(crate) storm_edits_s: f64,
    pub(crate) storm_s: f64,
    pub(crate) storm_bare_s: f64,
    pub(crate) storm_ratio: f64,
    /// A release is seen to be Ready; the revision of one that depends on it is seen to begin.
    pub(crate) dependent_p50_ms: f64,
    pub(crate) dependent_p99_ms: f64,
    pub(crate) crowd: Crowd,
}

/// Seconds in which one release gets Ready: create sent to event seen, the median of a few. Four are worked on at once.
#[derive(Serialize)]
pub(crate) struct Crowd {
    /// With nothing else to do.
    pub(crate) alone: f64,
    /// While as many releases as these wait for something that never comes.
    pub(crate) beside: f64,
    pub(crate) unhealthy: usize,
    pub(crate) unreachable: usize,
}

impl Report {
    /// Compares with what it takes without an operator, before and after.
    pub(crate) fn compare(&mut self, before: &ByHand, after: &ByHand) {
        let rounded = |number: f64| (number * 100.0).round() / 100.0;
        let mean = |one: Duration, other: Duration| rounded((one + other).as_secs_f64() / 2.0);
        self.bare_s = mean(before.bare.took, after.bare.took);
        self.ratio = rounded(self.ready_s / self.bare_s);
        self.storm_bare_s = mean(before.storm, after.storm);
        self.storm_ratio = rounded(self.storm_s / self.storm_bare_s);
    }

    /// One line.
    pub(crate) fn json(&self) -> Result<String> {
        Ok(serde_json::to_string(self)?)
    }

    /// Target and measurement side by side. A missed target is no failure: machines differ.
    pub(crate) fn table(&self) -> String {
        let rows = [
            ("ratio", self.ratio, 1.7),
            ("upgrade/install", (self.upgrade_s / self.ready_s * 100.0).round() / 100.0, 1.0),
            ("writes_per_release", self.writes_per_release, 9.0),
            ("reads_per_release", self.reads_per_release, 6.0),
            ("rss_peak_mib", self.rss_peak_mib, 80.0),
            ("rss_empty_mib", self.rss_empty_mib, 25.0),
            ("rss_per_release_mib", self.rss_per_release_mib, 0.03),
            ("idle_writes_per_min", self.idle_writes_per_min, 0.0),
            ("idle_reads_per_min", self.idle_reads_per_min, 5.0),
            ("drift_p50_ms", self.drift_p50_ms, 30.0),
            ("drift_p99_ms", self.drift_p99_ms, 250.0),
            ("drift_service_p50_ms", self.drift_service_p50_ms, 12.0),
            ("drift_20_at_once_p50_ms", self.drift_20_at_once_p50_ms, 100.0),
            ("storm_ratio", self.storm_ratio, 1.7),
            ("restart_reads", self.restart_reads as f64, 59.0),
            ("restart_writes", self.restart_writes as f64, 0.0),
            ("dependent_p99_ms", self.dependent_p99_ms, 1000.0),
            ("crowd beside/alone", (self.crowd.beside / self.crowd.alone * 100.0).round() / 100.0, 1.5),
        ];
        let mut table = format!("\n{:<24}{:>10}{:>10}\n", "", "measured", "target");
        for (name, measured, target) in rows {
            let verdict = if measured <= target { "" } else { "  missed" };
            // Writing to a String cannot fail.
            let _ = writeln!(table, "{name:<24}{measured:>10}{:>10}{verdict}", format!("<= {target}"));
        }
        table
    }
}
