use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures::StreamExt;
use futures::channel::mpsc::{self, UnboundedReceiver};
use kube::Client;
use kube::client::Body;
use serde_json::json;
use tower::BoxError;

use super::*;
use crate::manifest::Object;
use crate::plan::probes::probe;

/// Statuses that a Service gives one after another; then it does not answer any more.
#[derive(Default)]
struct Service {
    statuses: Mutex<Vec<u16>>,
    asked: AtomicUsize,
    /// Requests that wait for an answer now.
    waiting: Arc<AtomicUsize>,
}

struct Waits(Arc<AtomicUsize>);

impl Drop for Waits {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Service {
    fn answering(statuses: &[u16]) -> Arc<Self> {
        let statuses = Mutex::new(statuses.iter().rev().copied().collect());
        Arc::new(Self { statuses, ..Self::default() })
    }

    fn cluster(self: &Arc<Self>) -> Arc<Cluster> {
        let service = Arc::clone(self);
        let transport = tower::service_fn(move |_: http::Request<Body>| {
            let service = Arc::clone(&service);
            async move {
                service.asked.fetch_add(1, Ordering::SeqCst);
                let status = service.statuses.lock().unwrap().pop();
                let Some(status) = status else {
                    service.waiting.fetch_add(1, Ordering::SeqCst);
                    let _waits = Waits(Arc::clone(&service.waiting));
                    return std::future::pending().await;
                };
                let answer = http::Response::builder().status(status).body(Body::empty()).unwrap();
                Ok::<_, BoxError>(answer)
            }
        });
        Arc::new(Cluster::new(Client::new(transport, "default")))
    }

    fn waiting(&self) -> usize {
        self.waiting.load(Ordering::SeqCst)
    }
}

fn prober() -> (Prober, UnboundedReceiver<ReleaseKey>) {
    let (wake_tx, wake_rx) = mpsc::unbounded();
    (Prober::new(StatusClient::new(&[]), wake_tx), wake_rx)
}

fn ask(revision: u32) -> Ask {
    let object = Object::from_value(json!({"apiVersion": "v1", "kind": "Service", "metadata": {
    "name": "web", "namespace": "apps", "annotations": {
        "sherpack.io/health-check": "true",
        "sherpack.io/health-check-path": "/healthz",
        "sherpack.io/health-check-port": "80",
        "sherpack.io/health-check-timeout": "3s",
    }}}))
    .unwrap();
    Ask {
        release: ReleaseKey { namespace: "apps".to_owned(), name: "web".to_owned() },
        probe: Arc::new(probe(&object).unwrap().unwrap()),
        id: object.id,
        revision,
        pods: None,
    }
}

/// Lets everything happen that needs no time.
async fn settle() {
    tokio::time::sleep(Duration::from_millis(1)).await;
}

#[tokio::test(start_paused = true)]
async fn an_object_is_asked_until_it_answers_and_only_news_wake_its_release() {
    let service = Service::answering(&[500, 500, 204]);
    let (prober, mut woken) = prober();
    let cluster = service.cluster();
    assert_eq!(prober.look(ask(1), &cluster), None);
    assert_eq!(woken.next().await, Some(ask(1).release));
    let said = "GET http://:80/healthz: status 500".to_owned();
    assert_eq!(prober.look(ask(1), &cluster), Some(Seen::Failed(said.clone())));
    tokio::time::sleep(Duration::from_secs(11)).await;
    assert_eq!(service.asked.load(Ordering::SeqCst), 2);
    assert!(woken.try_recv().is_err(), "the same again is no news");
    assert_eq!(prober.look(ask(1), &cluster), Some(Seen::Failed(said)));
    assert_eq!(woken.next().await, Some(ask(1).release));
    assert_eq!(prober.look(ask(1), &cluster), Some(Seen::Passed));
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(service.asked.load(Ordering::SeqCst), 3, "who has answered is not asked again");
}

#[tokio::test(start_paused = true)]
async fn one_that_does_not_answer_fails_after_its_timeout() {
    let service = Service::answering(&[]);
    let (prober, mut woken) = prober();
    assert_eq!(prober.look(ask(1), &service.cluster()), None);
    let began = tokio::time::Instant::now();
    assert_eq!(woken.next().await, Some(ask(1).release));
    assert_eq!(began.elapsed().as_secs(), 3);
    let seen = prober.look(ask(1), &service.cluster());
    assert_eq!(seen, Some(Seen::Failed("GET http://:80/healthz: no answer within 3s".to_owned())));
    assert_eq!(service.waiting(), 0);
}

#[tokio::test(start_paused = true)]
async fn another_revision_is_asked_anew_and_nobody_waits_for_the_old_one() {
    let (old, new) = (Service::answering(&[]), Service::answering(&[200]));
    let (prober, mut woken) = prober();
    prober.look(ask(1), &old.cluster());
    settle().await;
    assert_eq!(old.waiting(), 1);
    assert_eq!(prober.look(ask(2), &new.cluster()), None);
    assert_eq!(woken.next().await, Some(ask(2).release));
    assert_eq!(prober.look(ask(2), &new.cluster()), Some(Seen::Passed));
    assert_eq!(old.waiting(), 0);
}

#[tokio::test(start_paused = true)]
async fn whom_a_release_does_not_wait_for_is_not_asked() {
    let service = Service::answering(&[]);
    let (prober, mut woken) = prober();
    for end in 0..3 {
        prober.look(ask(1), &service.cluster());
        prober.retain(&ask(1).release, |_| true);
        settle().await;
        assert_eq!(service.waiting(), 1, "{end}");
        match end {
            0 => prober.leave(&ask(1).release, &ask(1).id),
            _ => prober.retain(&ask(1).release, |_| false),
        }
        settle().await;
        assert_eq!(service.waiting(), 0, "{end}");
    }
    prober.look(ask(1), &service.cluster());
    settle().await;
    assert_eq!(service.waiting(), 1);
    drop(prober);
    settle().await;
    assert_eq!(service.waiting(), 0, "the process has ended");
    assert!(woken.try_recv().is_err());
}

#[tokio::test(start_paused = true)]
async fn more_objects_than_are_asked_at_a_time_take_turns() {
    let services: Vec<Arc<Service>> = (0..ROUNDS_EACH + 1).map(|_| Service::answering(&[])).collect();
    let (prober, _woken) = prober();
    for (number, service) in services.iter().enumerate() {
        let mut ask = ask(1);
        ask.release.name = number.to_string();
        prober.look(ask, &service.cluster());
    }
    settle().await;
    let waiting = || services.iter().map(|service| service.waiting()).sum::<usize>();
    assert_eq!(waiting(), ROUNDS_EACH as usize);
    let mut other = ask(1);
    other.release.namespace = "other".to_owned();
    let quick = Service::answering(&[200]);
    prober.look(other.clone(), &quick.cluster());
    settle().await;
    assert_eq!(prober.look(other, &quick.cluster()), Some(Seen::Passed), "it is kept from nothing");
    tokio::time::sleep(Duration::from_secs(4)).await;
    assert_eq!(waiting(), 1, "the last one has its turn");
}
