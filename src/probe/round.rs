//! One round of a probe: everybody whom it concerns is asked once.

use std::net::SocketAddr;
use std::time::Duration;

use futures::{StreamExt, TryStreamExt, future, stream};

use super::{Ask, Seen};
use crate::api::{Class, duration, reasons};
use crate::cluster::{Cluster, Error, Proxied, Ran, ReadyPod};
use crate::plan::probes::{Check, Http, Port, Probe, Scheme, Target};
use crate::source::http::{StatusClient, StatusError};

/// Pods of one object that are asked at the same time.
const PARALLEL: usize = 4;

/// Asks the object, or its pods until one of them does not answer as it should.
pub(super) async fn round(cluster: &Cluster, http: &StatusClient, ask: &Ask) -> Seen {
    let asked = match (ask.probe.target, &ask.probe.check) {
        (Target::Service, Check::Http(check)) => {
            let answer = within(&ask.probe, cluster.get_proxied(&ask.id, check)).await;
            answer.and_then(|answer| proxied(&ask.probe, check, answer))
        }
        // No such probe is ever planned.
        (Target::Service, Check::Command { .. }) => Ok(()),
        (Target::Pod | Target::Pods, _) => match pods(cluster, ask).await {
            Ok(pods) => {
                // One that fails is enough to know; in their order, so that it is the same one each time.
                let asks = pods.iter().map(|pod| pod_answers(cluster, http, &ask.probe, pod));
                let asks: Vec<_> = asks.collect();
                stream::iter(asks).buffered(PARALLEL).try_for_each(|()| future::ready(Ok(()))).await
            }
            Err(seen) => Err(seen),
        },
    };
    asked.err().unwrap_or(Seen::Passed)
}

/// Whom a round asks. None only of a workload that wants no pods.
async fn pods(cluster: &Cluster, ask: &Ask) -> Result<Vec<ReadyPod>, Seen> {
    if ask.probe.target == Target::Pod {
        let live = cluster.get("v1", &ask.id).await.map_err(of_error)?;
        let pod = live.and_then(|live| ReadyPod::of(&live.value()));
        return pod.map(|pod| vec![pod]).ok_or_else(|| Seen::Failed("it is not ready".to_owned()));
    }
    let Some(workload) = &ask.pods else { return Ok(Vec::new()) };
    let pods = cluster.ready_pods(&ask.id, workload).await.map_err(of_error)?;
    if pods.is_empty() { Err(Seen::Failed("none of its pods is ready".to_owned())) } else { Ok(pods) }
}

async fn pod_answers(
    cluster: &Cluster,
    http: &StatusClient,
    probe: &Probe,
    pod: &ReadyPod,
) -> Result<(), Seen> {
    let failed = |problem: String| Seen::Failed(format!("pod {}: {problem}", pod.id.name));
    let answer = match &probe.check {
        Check::Http(check) => {
            let address = address(pod, &check.port).map_err(failed)?;
            direct(http, probe, check, address).await
        }
        Check::Command { command, container } => {
            let container = container.as_deref().unwrap_or(&pod.container);
            within(probe, cluster.exec(&pod.id, container, command)).await.and_then(|ran| ended(probe, ran))
        }
    };
    answer.map_err(|seen| match seen {
        Seen::Failed(problem) => failed(problem),
        other => other,
    })
}

fn address(pod: &ReadyPod, port: &Port) -> Result<SocketAddr, String> {
    let number = pod.port(port).ok_or_else(|| format!("it has no port called `{port}`"))?;
    let address = pod.address.ok_or("it has no address")?;
    Ok(SocketAddr::new(address, number))
}

async fn direct(http: &StatusClient, probe: &Probe, check: &Http, address: SocketAddr) -> Result<(), Seen> {
    let url = format!("{}://{address}{}", check.scheme.as_str(), check.path);
    let get = http.get(address, check.scheme == Scheme::Https, &check.path);
    match tokio::time::timeout(probe.timeout, get).await {
        Err(_) => Err(Seen::Failed(format!("GET {url}: {}", late(probe.timeout)))),
        Ok(Err(error @ StatusError::Forbidden { .. })) => {
            Err(Seen::Hopeless(reasons::PROBE_REFUSED, error.to_string()))
        }
        Ok(Err(StatusError::Failed(problem))) => Err(Seen::Failed(format!("GET {url}: {problem}"))),
        Ok(Ok(status)) if check.accepts(status) => Ok(()),
        Ok(Ok(status)) => Err(Seen::Failed(format!("GET {url}: status {status}"))),
    }
}

fn proxied(probe: &Probe, check: &Http, answer: Proxied) -> Result<(), Seen> {
    let Proxied { status, explanation } = answer;
    match explanation {
        None if check.accepts(status) => Ok(()),
        None => Err(Seen::Failed(format!("{probe}: status {status}"))),
        // The API server's own answer is none of the Service.
        Some(explanation) => Err(Seen::Failed(format!("{probe}: status {status}: {explanation}"))),
    }
}

fn ended(probe: &Probe, ran: Ran) -> Result<(), Seen> {
    match ran {
        Ran::Exited { code: 0, .. } => Ok(()),
        Ran::Exited { code, said } => {
            let said = said.map(|said| format!(": {said}")).unwrap_or_default();
            Err(Seen::Failed(format!("{probe}: exit code {code}{said}")))
        }
        Ran::Broke(why) => Err(Seen::Failed(format!("{probe}: {why}"))),
    }
}

/// The answer, if it comes in the time of the probe.
async fn within<T>(probe: &Probe, call: impl Future<Output = Result<T, Error>>) -> Result<T, Seen> {
    match tokio::time::timeout(probe.timeout, call).await {
        Ok(answer) => answer.map_err(of_error),
        Err(_) => Err(Seen::Failed(format!("{probe}: {}", late(probe.timeout)))),
    }
}

fn late(timeout: Duration) -> String {
    format!("no answer within {}", duration::format(timeout))
}

/// A right that is missing is told at once; everything else may pass.
fn of_error(error: Error) -> Seen {
    if error.class() == Class::FixCluster && error.reason() == reasons::FORBIDDEN {
        return Seen::Hopeless(reasons::FORBIDDEN, error.to_string());
    }
    Seen::Failed(error.to_string())
}
