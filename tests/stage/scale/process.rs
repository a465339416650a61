//! Memory, connections and CPU time of processes, from `/proc`.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use crate::cluster::Cluster;
use crate::failure::{During, Failure, Result};

/// Clock ticks a second in `/proc/<pid>/stat`: the same on every Linux that Rust supports.
const TICKS: f64 = 100.0;

/// Resident memory now and at its highest, in MiB.
pub(crate) fn memory(pid: u32) -> Result<(f64, f64)> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).during("memory of the operator")?;
    let field = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        let kib = line.and_then(|text| text.trim().strip_suffix(" kB")?.parse::<f64>().ok());
        let kib = kib.ok_or_else(|| Failure::new(format!("no {name} in /proc/{pid}/status")))?;
        Ok::<_, Failure>((kib / 1024.0 * 10.0).round() / 10.0)
    };
    Ok((field("VmRSS")?, field("VmHWM")?))
}

/// How fast one core is while another is as busy: steps of some arithmetic in a microsecond. Means something only beside another
/// figure of the same program.
pub(crate) fn speed() -> f64 {
    const LASTS: Duration = Duration::from_millis(100);
    let count = || {
        let began = Instant::now();
        let (mut steps, mut number) = (0_u32, 1_u64);
        while began.elapsed() < LASTS {
            for _ in 0..10_000 {
                number = std::hint::black_box(number.wrapping_mul(6_364_136_223_846_793_005).rotate_left(7));
            }
            steps += 10_000;
        }
        f64::from(steps) / began.elapsed().as_micros() as f64
    };
    std::thread::scope(|scope| {
        let other = scope.spawn(count);
        let own = count();
        // It cannot panic.
        (own + other.join().unwrap_or(own)) / 2.0
    })
}

/// Open TCP connections of a process.
pub(crate) fn connections(pid: u32) -> Result<usize> {
    /// State of an established connection in `/proc/<pid>/net/tcp`.
    const ESTABLISHED: &str = "01";
    let mut open = BTreeSet::new();
    for family in ["tcp", "tcp6"] {
        let table = std::fs::read_to_string(format!("/proc/{pid}/net/{family}")).unwrap_or_default();
        for line in table.lines().skip(1) {
            let fields: Vec<&str> = line.split_ascii_whitespace().collect();
            if let (Some(&ESTABLISHED), Some(inode)) = (fields.get(3), fields.get(9)) {
                open.insert(format!("socket:[{inode}]"));
            }
        }
    }
    let files = std::fs::read_dir(format!("/proc/{pid}/fd")).during("files of the operator")?;
    let links = files.filter_map(|file| std::fs::read_link(file.ok()?.path()).ok());
    Ok(links.filter(|link| open.contains(&*link.to_string_lossy())).count())
}

/// Reads the CPU time of the control plane, this program and the operator.
pub(crate) struct Clock(BTreeMap<String, u32>);

/// CPU seconds used so far, by process.
pub(crate) struct Reading(BTreeMap<String, f64>);

impl Clock {
    pub(crate) fn new(cluster: &Cluster) -> Self {
        let mut pids = cluster.pids.clone();
        pids.insert("load".to_owned(), std::process::id());
        Self(pids)
    }

    /// A process that cannot be read is left out: these numbers only explain the others.
    pub(crate) fn read(&self, operator: Option<u32>) -> Reading {
        let operator = operator.map(|pid| ("operator".to_owned(), pid));
        let pids = self.0.clone().into_iter().chain(operator);
        Reading(pids.filter_map(|(name, pid)| Some((name, cpu(pid)?))).collect())
    }
}

fn cpu(pid: u32) -> Option<f64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name, in brackets, may contain blanks; utime and stime are the 14th and 15th field.
    let mut fields = stat.rsplit_once(") ")?.1.split(' ').skip(11);
    let user: f64 = fields.next()?.parse().ok()?;
    let system: f64 = fields.next()?.parse().ok()?;
    Some((user + system) / TICKS)
}

impl Reading {
    /// What was used in between, as text: `etcd 1.2 s, kube-apiserver 3.4 s`.
    pub(crate) fn since(&self, earlier: &Self) -> String {
        let used = |(name, now): (&String, &f64)| {
            let used = now - earlier.0.get(name).copied().unwrap_or_default();
            format!("{name} {used:.1} s")
        };
        self.0.iter().map(used).collect::<Vec<_>>().join(", ")
    }
}
