//! What befalls the operator and the control plane while people work.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde::Deserialize;
use serde_json::json;
use tokio::time::sleep;

use super::calls::Calls;
use crate::cluster::Cluster;
use crate::failure::{During, Failure, Result, check};
use crate::objects::is_record;
use crate::operator::Operator;
use crate::random::Random;
use crate::scale::process;
use kube::ResourceExt;

#[derive(Deserialize)]
struct Children {
    pids: BTreeMap<String, u32>,
}

/// The operator, and the processes around it.
pub(super) struct Disturber {
    pub(super) operator: Operator,
    /// Where the launcher says which processes it has now.
    children: PathBuf,
    pub(super) counts: BTreeMap<&'static str, usize>,
    /// The most memory that any of the operator's processes had, in MiB.
    pub(super) peak: f64,
    /// What was done, with times, for the report of a violation.
    pub(super) told: Vec<String>,
}

/// A process that stands still until this value goes, however it goes.
struct Frozen(u32);

impl Drop for Frozen {
    fn drop(&mut self) {
        // One that ended meanwhile needs no sign.
        let _ = signal("CONT", self.0);
    }
}

impl Disturber {
    pub(super) fn new(operator: Operator, cluster: &Cluster) -> Self {
        let directory = cluster.kubeconfig.parent().unwrap_or_else(|| Path::new("."));
        let children = directory.join("cluster.json");
        Self { operator, children, counts: BTreeMap::new(), peak: 0.0, told: Vec::new() }
    }

    /// Disturbs for this long.
    pub(super) async fn disturb(&mut self, random: &mut Random, lasts: Duration) -> Result<()> {
        self.told.clear();
        let began = Instant::now();
        loop {
            let pause = random.moment(lasts.div_f64(2.0));
            if began.elapsed() + pause > lasts {
                return Ok(());
            }
            sleep(pause).await;
            match random.below(6) {
                0..=2 => self.kill_operator(random).await?,
                3 => self.kill_server()?,
                4 => self.freeze_etcd(random).await?,
                _ => self.note("nothing"),
            }
        }
    }

    fn note(&mut self, what: &'static str) {
        *self.counts.entry(what).or_default() += 1;
        self.told.push(format!("{} {what}", jiff::Timestamp::now().strftime("%H:%M:%S")));
    }

    /// Up to three times in a row: a new process may be killed while it starts.
    async fn kill_operator(&mut self, random: &mut Random) -> Result<()> {
        for _ in 0..=random.below(3) {
            self.measure()?;
            self.operator.kill_and_restart().await?;
            self.note("operator killed");
            sleep(random.moment(Duration::from_secs(2))).await;
        }
        Ok(())
    }

    /// The launcher starts it again on the same port.
    fn kill_server(&mut self) -> Result<()> {
        let Some(pid) = self.pid("kube-apiserver")? else { return Ok(()) };
        signal("KILL", pid)?;
        self.note("API server killed");
        Ok(())
    }

    async fn freeze_etcd(&mut self, random: &mut Random) -> Result<()> {
        let Some(pid) = self.pid("etcd")? else { return Ok(()) };
        signal("STOP", pid)?;
        let frozen = Frozen(pid);
        self.note("etcd stopped for seconds");
        sleep(Duration::from_secs(1) + random.moment(Duration::from_secs(5))).await;
        drop(frozen);
        Ok(())
    }

    /// A child of the launcher, unless it is away just now: then its number may be that of somebody else's process.
    fn pid(&self, name: &str) -> Result<Option<u32>> {
        let text = std::fs::read_to_string(&self.children).during(self.children.display())?;
        let children: Children = serde_json::from_str(&text).during(self.children.display())?;
        let pid = children.pids.get(name).copied();
        let pid = pid.ok_or_else(|| Failure::new(format!("{} has no {name}", self.children.display())))?;
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let line = String::from_utf8_lossy(&line);
        let directory = self.children.parent().unwrap_or_else(|| Path::new("/")).display().to_string();
        Ok((line.contains(name) && line.contains(&directory)).then_some(pid))
    }

    /// Notes the peak of memory; the operator must live.
    pub(super) fn measure(&mut self) -> Result<()> {
        self.operator.lives()?;
        let (_, peak) = process::memory(self.operator.pid()?)?;
        self.peak = self.peak.max(peak);
        Ok(())
    }
}

fn signal(name: &str, pid: u32) -> Result<()> {
    let mut kill = Command::new("kill");
    let status = kill.args([&format!("-{name}"), &pid.to_string()]).stderr(Stdio::null()).status();
    let status = status.during("kill")?;
    check(status.success(), || format!("SIG{name} to {pid} failed: {status}"))
}

/// Another writer: touches records and objects of random releases, so that others' writes meet conflicts.
pub(super) async fn rival(calls: &Calls, random: &mut Random, lasts: Duration) -> Result<usize> {
    let began = Instant::now();
    let mut touched = 0;
    while began.elapsed() < lasts {
        sleep(random.moment(Duration::from_secs(1))).await;
        let kind = if random.one_in(2) { "Secret" } else { "ConfigMap" };
        let objects = calls.labelled(kind).await?;
        for _ in 0..5 {
            let Some(object) = objects.get(random.below(objects.len())) else { break };
            let what = if is_record(object) { "record" } else { "object" };
            let patch = json!({"metadata": {"annotations": {"soak/rival": format!("{what} {touched}")}}});
            let namespace = object.namespace().unwrap_or_default();
            touched +=
                usize::from(calls.edit(&namespace, &format!("{kind}/{}", object.name_any()), &patch).await?);
        }
    }
    Ok(touched)
}
