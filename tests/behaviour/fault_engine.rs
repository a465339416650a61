//! Hooks and waves with an API server that refuses, is overloaded, or forgets: the same end, and nothing twice.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::json;

use super::crash_engine::plain;
use super::crash_story::one_in;
use crate::support::packs::{config_map, hook};
use crate::support::wire::Request;
use crate::support::{Effect, Fault, Harness, Pack, tell};

/// One write in three is refused like this; gives all that was sent.
async fn refused(name: &str, code: u16, effect: Effect) -> Vec<Request> {
    let h = Harness::new(name).await;
    // Chance may spare the hooks.
    let hooks = |request: &Request| request.verb == "create" && request.is_about("jobs");
    h.wire.fault(Fault::new(effect.clone(), hooks).times(2));
    h.wire.fault(one_in(3, effect));
    plain(&h, json!({})).await;
    let sent = h.wire.writes_since(0);
    let refused = |about: &str| {
        let about = |request: &&Request| request.code == code && request.is_about(about);
        sent.iter().filter(about).count()
    };
    let (secrets, jobs) = (refused("secrets"), refused("jobs"));
    tell(&format!("{name}: {secrets} writes of records and {jobs} of hooks were refused with {code}"));
    assert!(secrets > 2 && jobs > 0, "{secrets} and {jobs} refused: {sent:#?}");
    sent
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn conflicts_on_one_write_in_three_run_no_hook_twice() {
    refused("engine-409", 409, Effect::Answer(409)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn server_errors_on_one_write_in_three_run_no_hook_twice() {
    refused("engine-500", 500, Effect::Answer(500)).await;
}

/// How many requests were sent again after they had been refused, and each not before the time that was asked for.
fn waited(sent: &[Request], asked: Duration) -> usize {
    let mut again = 0;
    for (at, refused) in sent.iter().enumerate().filter(|(_, request)| request.code == 429) {
        let same = |next: &&Request| next.verb == refused.verb && next.path == refused.path;
        if let Some(next) = sent[at + 1..].iter().find(same) {
            let pause = next.at - refused.at;
            assert!(pause >= asked, "{} was sent again after {pause:?}, not {asked:?}", refused.line());
            again += 1;
        }
    }
    again
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn overload_on_one_write_in_three_runs_no_hook_twice_and_the_wait_is_kept() {
    let sent = refused("engine-429", 429, Effect::Overloaded(1)).await;
    let again = waited(&sent, Duration::from_secs(1));
    tell(&format!("engine-429: {again} were sent again, none before the Retry-After of 1 s was over"));
    assert!(again > 10, "{again}");
}

/// More refusals than one call takes: the passes that follow keep to it as well.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hook_that_is_refused_on_and_on_is_not_created_before_the_wait_is_over() {
    let h = Harness::new("engine-429-hook").await;
    let create = |request: &Request| request.verb == "create" && request.is_about("jobs");
    h.wire.fault(Fault::new(Effect::Overloaded(2), create).times(5));
    let pack = Pack::new("web", "1.0.0")
        .object(config_map("settings", json!({"color": "blue"})))
        .object(hook("before", "pre-install"));
    h.deploy("web", &pack, json!({})).await;
    let sent: Vec<Request> = h.wire.writes_since(0).into_iter().filter(create).collect();
    assert_eq!(waited(&sent, Duration::from_secs(2)), 5, "{sent:#?}");
    let codes: Vec<u16> = sent.iter().map(|request| request.code).collect();
    assert_eq!(codes, [429, 429, 429, 429, 429, 201]);
    h.shows_states("web", &["1 deployed"]).await;
}

/// Every watch is broken off as soon as a hook runs or a workload is waited for, `cuts` times. With `forgets` the API
/// server has forgotten what happened since: each watch is told so once, and has to list.
async fn watches_broken(name: &str, cuts: usize, forgets: bool) {
    let h = Harness::new(name).await;
    let (forgotten, cut) = (Arc::new(AtomicUsize::new(0)), AtomicUsize::new(0));
    let breaking = async {
        let mut seen = 0;
        while cut.load(Ordering::SeqCst) < cuts {
            let news = h.wire.since(seen);
            seen += news.len();
            if news.iter().any(is_waited_for) {
                if forgets {
                    h.wire.heal();
                    h.wire.fault(each_watch_once(&forgotten));
                }
                h.wire.cut_watches();
                cut.fetch_add(1, Ordering::SeqCst);
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        std::future::pending::<()>().await;
    };
    tokio::select! {
        () = plain(&h, json!({})) => {}
        () = breaking => {}
    }
    let cut = cut.into_inner();
    let forgotten = forgotten.load(Ordering::SeqCst);
    tell(&format!("{name}: all watches were cut {cut} times, and {forgotten} were told 410"));
    assert_eq!(cut, cuts);
    assert!(!forgets || forgotten > cuts, "{forgotten}");
}

fn is_waited_for(request: &Request) -> bool {
    let hook = request.verb == "create" && request.is_about("jobs");
    hook || (request.verb == "apply" && request.is_about("deployments"))
}

fn each_watch_once(told: &Arc<AtomicUsize>) -> Fault {
    let (told, paths) = (Arc::clone(told), Mutex::new(BTreeSet::new()));
    Fault::new(Effect::Expired, move |request: &Request| {
        let selector = request.query.split('&').find(|part| part.starts_with("labelSelector"));
        let which = format!("{} {}", request.path, selector.unwrap_or_default());
        let first = request.verb == "watch" && paths.lock().unwrap().insert(which);
        told.fetch_add(usize::from(first), Ordering::SeqCst);
        first
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn watches_that_are_cut_while_hooks_run_and_waves_wait_miss_nothing() {
    watches_broken("engine-cut", 4, false).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn watches_that_have_to_list_while_hooks_run_and_waves_wait_miss_nothing() {
    watches_broken("engine-410", 2, true).await;
}
