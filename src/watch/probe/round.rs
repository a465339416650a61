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
            if pod.on_node {
                http.may_ask_node(address).map_err(refused)?;
            }
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
        Ok(Err(error @ StatusError::Forbidden { .. })) => Err(refused(error)),
        Ok(Err(StatusError::Failed(problem))) => Err(Seen::Failed(format!("GET {url}: {problem}"))),
        Ok(Ok(status)) if check.accepts(status) => Ok(()),
        Ok(Ok(status)) => Err(Seen::Failed(format!("GET {url}: status {status}"))),
    }
}

fn refused(error: StatusError) -> Seen {
    Seen::Hopeless(reasons::PROBE_REFUSED, error.to_string())
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::manifest::Object;
    use crate::plan::probes::probe;

    fn of(settings: &[(&str, &str)]) -> Probe {
        let mut annotations = json!({"sherpack.io/health-check": "true"});
        for (key, value) in settings {
            annotations[format!("sherpack.io/health-check-{key}")] = json!(value);
        }
        let pod =
            json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "annotations": annotations}});
        probe(&Object::from_value(pod).unwrap()).unwrap().unwrap()
    }

    fn failed(seen: Result<(), Seen>) -> String {
        match seen {
            Err(Seen::Failed(said)) => said,
            other => panic!("{other:?}"),
        }
    }

    /// The kubelet of the test cluster tells no exit codes, a real one does.
    #[test]
    fn an_exit_code_is_told_with_the_last_line() {
        let command = of(&[("command", "pg_isready")]);
        let exited = |code, said: Option<&str>| Ran::Exited { code, said: said.map(str::to_owned) };
        assert_eq!(ended(&command, exited(0, Some("accepting connections"))), Ok(()));
        let said = failed(ended(&command, exited(2, Some("no response"))));
        assert_eq!(said, "run `pg_isready`: exit code 2: no response");
        assert_eq!(failed(ended(&command, exited(137, None))), "run `pg_isready`: exit code 137");
        let broke = Ran::Broke("exec: \"sh\": not found".to_owned());
        assert_eq!(failed(ended(&command, broke)), "run `pg_isready`: exec: \"sh\": not found");
    }

    #[test]
    fn the_api_server_s_own_answer_is_none_of_the_service() {
        let http = of(&[("path", "/"), ("port", "80"), ("status", "503")]);
        let Check::Http(check) = &http.check else { panic!("{http:?}") };
        let answer =
            |explanation: Option<&str>| Proxied { status: 503, explanation: explanation.map(str::to_owned) };
        assert_eq!(proxied(&http, check, answer(None)), Ok(()), "the Service itself says what is wanted");
        let said = failed(proxied(&http, check, answer(Some("no endpoints available"))));
        assert_eq!(said, "GET http://:80/: status 503: no endpoints available");
        let other = Proxied { status: 200, explanation: None };
        assert_eq!(failed(proxied(&http, check, other)), "GET http://:80/: status 200");
    }

    #[test]
    fn a_port_or_an_address_that_is_not_there_is_named() {
        let pod = |ip: &str| {
            let pod = json!({"metadata": {"name": "a"}, "status": {"podIP": ip,
                "conditions": [{"type": "Ready", "status": "True"}]}});
            ReadyPod::of(&pod).unwrap()
        };
        assert_eq!(address(&pod("fd00::1"), &Port::Number(80)).unwrap().to_string(), "[fd00::1]:80");
        let named = Port::Name("http".to_owned());
        assert_eq!(address(&pod("10.0.0.1"), &named).unwrap_err(), "it has no port called `http`");
        assert_eq!(address(&pod(""), &Port::Number(80)).unwrap_err(), "it has no address");
    }

    #[test]
    fn only_a_missing_right_is_hopeless() {
        let error = |code: u16, reason: &str| {
            let status = json!({"status": "Failure", "code": code, "reason": reason, "message": "pods/exec"});
            let source = Box::new(kube::Error::Api(Box::new(serde_json::from_value(status).unwrap())));
            let id =
                Object::from_value(json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}}));
            of_error(Error::Api { verb: "exec in", id: id.unwrap().id, source })
        };
        let Seen::Hopeless(reason, said) = error(403, "Forbidden") else { panic!("a right may be missing") };
        assert_eq!(reason, reasons::FORBIDDEN);
        assert!(said.contains("exec in Pod a: pods/exec"), "{said}");
        for (code, reason) in
            [(404, "NotFound"), (400, "BadRequest"), (500, "InternalError"), (429, "TooMany")]
        {
            assert!(matches!(error(code, reason), Seen::Failed(_)), "{code}");
        }
    }
}
