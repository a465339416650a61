//! `make compare`: the last scale run beside what the peers take, each figure with where it comes from.

use std::fmt::Write as _;

use serde_json::Value;

use crate::cluster::root;
use crate::failure::{During, Failure, Result};

/// Measured by hand on a machine of two cores with the same control plane and a workload of the same shape.
const SAME: &str = "measured 2026-11-21, two cores shared with control plane 1.36.3";
/// What 1,000 releases by bare applies took there, seconds.
const BARE_THERE: f64 = 22.0;
/// Published with flux-benchmark, Flux 2.9: 16 cores, kind.
const PUBLISHED: &str = "published: flux-benchmark, Flux 2.9, 16 cores";

/// What a peer takes.
struct Peer {
    who: &'static str,
    /// For so many releases; 0 where it does not depend on that.
    releases: u32,
    value: f64,
    source: &'static str,
}

const fn peer(who: &'static str, releases: u32, value: f64, source: &'static str) -> Peer {
    Peer { who, releases, value, source }
}

/// A field of the report, what it says, and the peers' figures of the same thing.
const ROWS: &[(&str, &str, &[Peer])] = &[
    (
        "ready_s",
        "install of all, seconds",
        &[
            peer("bare apply", 100, 2.1, SAME),
            peer("bare apply", 1000, BARE_THERE, SAME),
            peer("bare apply with records and status", 1000, 25.3, SAME),
            peer("Flux helm-controller 1.6.3", 100, 15.9, SAME),
            peer("Flux helm-controller 1.6.3", 500, 86.4, SAME),
            peer("Flux helm-controller 1.6.3", 1000, 162.8, SAME),
            peer("Flux", 100, 26.0, PUBLISHED),
            peer("Flux", 1000, 279.0, PUBLISHED),
        ],
    ),
    (
        "upgrade_s",
        "upgrade of all, seconds",
        &[
            peer("Flux helm-controller 1.6.3", 100, 27.1, SAME),
            peer("Flux helm-controller 1.6.3", 500, 115.5, SAME),
        ],
    ),
    (
        "rss_peak_mib",
        "memory at its highest, MiB",
        &[
            peer("Flux helm-controller 1.6.3", 100, 200.0, SAME),
            peer("Flux helm-controller 1.6.3", 1000, 249.0, SAME),
            peer("Flux", 1000, 361.0, PUBLISHED),
            peer("helm-locker", 20, 71.0, SAME),
            peer("helm-locker, 10,000 objects of others", 20, 160.0, SAME),
            peer("Argo CD, 12 apps", 12, 753.0, "reported: argo-cd issue 3282"),
        ],
    ),
    (
        "writes_per_release",
        "writes for an install (peers: all requests)",
        &[
            peer("Flux helm-controller 1.6.3", 0, 48.9, SAME),
            peer("helm 4.2.1 install --wait", 0, 25.0, SAME),
        ],
    ),
    (
        "idle_reads_per_min",
        "requests a minute when nothing happens",
        &[
            peer("Flux helm-controller 1.6.3, interval 1m", 100, 1500.0, SAME),
            peer("helm-locker (lease apart)", 20, 0.0, SAME),
        ],
    ),
    (
        "drift_p50_ms",
        "an edited Deployment is back, p50 ms",
        &[
            peer("helm-locker", 20, 30.0, SAME),
            peer("Flux helm-controller 1.6.3, interval 1m", 100, 25_700.0, SAME),
        ],
    ),
    ("drift_service_p50_ms", "an edited Service is back, p50 ms", &[peer("helm-locker", 20, 12.0, SAME)]),
    (
        "drift_20_at_once_p50_ms",
        "20 Deployments edited at once, p50 ms",
        &[peer("helm-locker", 20, 393.0, SAME)],
    ),
];

/// What the edits of a drift took alone, in the same run.
const EDITS: [(&str, &str); 3] = [
    ("drift_p50_ms", "edit_p50_ms"),
    ("drift_service_p50_ms", "edit_service_p50_ms"),
    ("drift_20_at_once_p50_ms", "edit_20_at_once_p50_ms"),
];

pub(crate) fn run() -> Result<()> {
    let file = root().join("target/scale.json");
    let text = std::fs::read_to_string(&file)
        .during(format!("{} (`make scale N=1000` writes it)", file.display()))?;
    let report: Value = serde_json::from_str(&text).during(file.display())?;
    println!("{}", table(&report)?);
    Ok(())
}

fn table(report: &Value) -> Result<String> {
    let n = report["n"]
        .as_u64()
        .ok_or_else(|| Failure::new("the last run does not say of how many releases it was"))?;
    let mut table = format!("The last scale run: {n} releases, everything on this machine.\n");
    if let Some(bare) = report["bare_s"].as_f64() {
        let there = BARE_THERE * n as f64 / 1000.0;
        // Writing to a String cannot fail.
        let _ = writeln!(
            table,
            "Bare applies of as many took {bare} s in this run; where the peers were measured, {there:.1} s."
        );
    }
    for (field, what, peers) in ROWS {
        // A run of an older program has no such field.
        let ours =
            report[field].as_f64().map_or_else(|| "not measured".to_owned(), |value| value.to_string());
        // Writing to a String cannot fail.
        let _ = write!(table, "\n{what}\n  {ours:>12}  sherpack-operator, {n} releases\n");
        let edit = EDITS.iter().find(|(drift, _)| drift == field).and_then(|(_, edit)| report[edit].as_f64());
        if let Some(edit) = edit {
            let _ = writeln!(table, "  {edit:>12}  of them the edit itself");
        }
        for Peer { who, releases, value, source } in *peers {
            let of = if *releases == 0 { String::new() } else { format!(", {releases} releases") };
            let _ = writeln!(table, "  {value:>12}  {who}{of} ({source})");
        }
    }
    Ok(table)
}
