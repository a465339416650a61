//! Breaks an operator at the writes of a story, and notes where. A story is the life of one release.
//!
//! Two ways. [`at_each_write`] lives the story once for each of its writes and breaks one write in each life: everything, and
//! slow. [`in_each_operation`] breaks several writes of every operation in a life, so that few lives are enough; a
//! break moves what comes after it, so it is chance which writes are hit, but no *kind* of write is left out.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::Value;

use super::wire::Request;
use super::{Effect, Fault, Harness, tell};

/// Lives side by side; each has an operator.
const LANES: usize = 4;
/// The operation that has no revision of its own.
const UNINSTALL: usize = usize::MAX;

/// Where stories were broken: operation (`revision 2`) and kind of write (`update records`).
#[derive(Debug, Default)]
pub struct Breaks(Vec<(String, String)>);

impl Breaks {
    /// Makes sure that there are at least so many, and tells.
    pub fn at_least(&self, least: usize, name: &str) {
        let mut numbers: BTreeMap<&str, usize> = BTreeMap::new();
        for (operation, _) in &self.0 {
            *numbers.entry(operation).or_default() += 1;
        }
        tell(&format!("{name}: broken at {} writes {numbers:?}", self.0.len()));
        assert!(self.0.len() >= least, "{name}: the story has fewer writes than it must have: {numbers:?}");
    }

    /// Makes sure that each of these kinds of writes was broken.
    pub fn none_left_out(&self, kinds: &[&str]) {
        let broken: BTreeSet<&str> = self.0.iter().map(|(_, kind)| kind.as_str()).collect();
        let left_out: Vec<_> = kinds.iter().filter(|kind| !broken.contains(**kind)).collect();
        assert!(left_out.is_empty(), "never broken: {left_out:?}; broken: {broken:?}");
    }

    /// Makes sure that each of these kinds was broken in the operation of every revision up to this one.
    pub fn none_left_out_of(&self, revisions: usize, kinds: &[&str]) {
        let operations = (1..=revisions).map(|revision| format!("revision {revision}"));
        let all = operations
            .flat_map(|operation| kinds.iter().map(move |kind| (operation.clone(), (*kind).to_owned())));
        let left_out: Vec<_> = all.filter(|one| !self.0.contains(one)).collect();
        assert!(left_out.is_empty(), "never broken: {left_out:?}; broken: {:#?}", self.0);
    }
}

/// Breaks every operation of the story at its n-th write and again and again after `stride` more, for each n of `starts` in a
/// life of its own. The life of the last start also breaks each kind of write that no life has broken in that operation so far.
pub async fn in_each_operation(
    effect: Effect,
    name: &str,
    (stride, starts): (usize, &[usize]),
    story: impl AsyncFn(&Harness),
) -> Breaks {
    let breaks: Arc<Mutex<Breaks>> = Arc::default();
    let (effect, story, told) = (&effect, &story, &breaks);
    let lanes = (0..LANES).map(async |lane| {
        for start in starts.iter().skip(lane).step_by(LANES) {
            let (start, last) = (*start, starts.last() == Some(start));
            let h = Harness::without_operator(&format!("{name}-{start}")).await;
            let (operations, breaks) = (Operations::of(&h), Arc::clone(told));
            let next = Mutex::new((0, start));
            h.wire.fault(Fault::new(effect.clone(), move |request: &Request| {
                let Some((operation, write)) = operations.count(request) else { return false };
                let mut breaks = lock(&breaks);
                let this = (label(operation), kind_of(request));
                let mut next = lock(&next);
                if write == 1 {
                    *next = (0, start);
                }
                let here = write == next.1 || (last && !breaks.0.contains(&this));
                if here {
                    breaks.0.push(this);
                    // Ever more apart: a process that begins with as many repeated writes would never get on.
                    *next = (next.0 + 1, write + stride + next.0);
                }
                here
            }));
            h.start();
            supervised(&h, story(&h)).await;
        }
    });
    futures::future::join_all(lanes).await;
    std::mem::take(&mut *lock(&breaks))
}

/// Breaks one write of the story, in a life for each of its writes.
pub async fn at_each_write(effect: Effect, name: &str, story: impl AsyncFn(&Harness)) -> Breaks {
    let breaks: Arc<Mutex<Breaks>> = Arc::default();
    let (effect, story, told) = (&effect, &story, &breaks);
    let lanes = (1..=LANES).map(async |mut write| {
        while broken_at(effect.clone(), &format!("{name}-{write}"), write, told, story).await {
            write += LANES;
        }
    });
    futures::future::join_all(lanes).await;
    std::mem::take(&mut *lock(&breaks))
}

/// One life, broken at this write. `false`: it never was, because the story has fewer of them.
async fn broken_at(
    effect: Effect,
    name: &str,
    write: usize,
    told: &Arc<Mutex<Breaks>>,
    story: &impl AsyncFn(&Harness),
) -> bool {
    let h = Harness::without_operator(name).await;
    let (operations, breaks) = (Operations::of(&h), Arc::clone(told));
    let (seen, reached) = (Mutex::new(0), Arc::new(AtomicBool::new(false)));
    let reaches = Arc::clone(&reached);
    h.wire.fault(
        Fault::new(effect, move |request: &Request| {
            let Some((operation, _)) = operations.count(request) else { return false };
            let mut seen = lock(&seen);
            *seen += 1;
            let here = *seen == write;
            if here {
                lock(&breaks).0.push((label(operation), kind_of(request)));
                reaches.store(true, Ordering::SeqCst);
            }
            here
        })
        .once(),
    );
    h.start();
    supervised(&h, story(&h)).await;
    reached.load(Ordering::SeqCst)
}

/// Starts an operator again whenever one has died, as a kubelet does.
pub async fn supervised(h: &Harness, story: impl Future<Output = ()>) {
    let supervisor = async {
        loop {
            if h.wire.is_dead() {
                h.start();
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::select! {
        () = story => {}
        () = supervisor => {}
    }
}

/// Which operation of a release a write belongs to. What comes before the first revision is operation 0.
struct Operations {
    uninstalls: Arc<AtomicBool>,
    /// Operation, and writes in it so far.
    at: Mutex<(usize, usize)>,
}

impl Operations {
    fn of(h: &Harness) -> Self {
        Self { uninstalls: Arc::clone(&h.uninstalls), at: Mutex::default() }
    }

    /// The operation, and which of its writes this is; `None` for what is no write of it. To be called for every
    /// request, in order.
    fn count(&self, request: &Request) -> Option<(usize, usize)> {
        if !request.is_write() || request.is_about("leases") {
            return None;
        }
        let mut at = lock(&self.at);
        let operation = if self.uninstalls.load(Ordering::SeqCst) {
            UNINSTALL
        } else {
            at.0.max(begun_by(request).unwrap_or(0))
        };
        *at = if operation == at.0 { (operation, at.1 + 1) } else { (operation, 1) };
        Some(*at)
    }
}

fn label(operation: usize) -> String {
    match operation {
        0 => "begin".to_owned(),
        UNINSTALL => "uninstall".to_owned(),
        revision => format!("revision {revision}"),
    }
}

/// The revision whose first write this may be.
fn begun_by(request: &Request) -> Option<usize> {
    let name = request.body.pointer("/metadata/name")?.as_str().filter(|_| request.verb == "create")?;
    let (_, revision) = name.strip_prefix("sh.sherpack.release.v1.")?.split_once(".v")?;
    revision.split('.').next()?.parse().ok()
}

/// `apply sherpackreleases/status`; Secrets of revisions are `records`, and those with pieces of one `chunks`.
fn kind_of(request: &Request) -> String {
    let parts: Vec<&str> = request.path.split('/').collect();
    let at = parts.iter().position(|part| *part == "namespaces").map_or(parts.len() - 1, |at| at + 2);
    let plural = parts.get(at).copied().unwrap_or("namespaces");
    let part = parts.get(at + 2).map(|part| format!("/{part}")).unwrap_or_default();
    let name = request.body.pointer("/metadata/name").and_then(Value::as_str).unwrap_or(&request.path);
    let plural = match plural {
        "secrets" if name.contains(".chunk.") => "chunks",
        "secrets" if name.contains("sh.sherpack.release") => "records",
        plural => plural,
    };
    format!("{} {plural}{part}", request.verb)
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap()
}
