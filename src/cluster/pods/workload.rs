//! The pods of a workload, to see why it does not get on.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, ListParams, LogParams};
use serde_json::Value;

use super::ready::pod_selector;
use crate::cluster::{Cluster, Error};
use crate::health;
use crate::manifest::ObjectId;

const DEADLINE: Duration = Duration::from_secs(10);
/// Pods that are looked at; one that fails is seldom alone.
const PAGE: u32 = 100;
/// A log tells why something failed, if it does so quickly.
const LOG_DEADLINE: Duration = Duration::from_secs(5);
const LOG_LINES: i64 = 3;
const LOG_BYTES: i64 = 1024;

impl Cluster {
    /// Up to a hundred pods of the newest revision of a live workload; none when its controller has made none yet.
    ///
    /// # Errors
    /// What the API server answered, or `Timeout`.
    pub async fn newest_pods(&self, id: &ObjectId, live: &Value) -> Result<Vec<Value>, Error> {
        let (Some(namespace), Some(selector)) = (&id.namespace, selector(live)) else {
            return Ok(Vec::new());
        };
        Ok(newest(self.pods(id, namespace, &selector).await?))
    }

    /// Up to a hundred pods of a Job.
    ///
    /// # Errors
    /// What the API server answered, or `Timeout`.
    pub async fn job_pods(&self, id: &ObjectId) -> Result<Vec<Value>, Error> {
        let Some(namespace) = &id.namespace else { return Ok(Vec::new()) };
        // Longer names are no label values; such a Job has no pods either.
        self.pods(id, namespace, &format!("job-name={}", id.name)).await
    }

    /// What the pod of a Job that failed last said: exit code and message, or the end of its log.
    ///
    /// # Errors
    /// What the API server answered, or `Timeout`.
    pub async fn last_words(&self, id: &ObjectId, now: Timestamp) -> Result<Option<String>, Error> {
        let mut pods = self.job_pods(id).await?;
        pods.sort_by_key(|pod| text(pod, "/metadata/creationTimestamp").unwrap_or_default().to_owned());
        let failed = pods.iter().rev().find(|pod| text(pod, "/status/phase") == Some("Failed"));
        let Some(pod) = failed else { return Ok(None) };
        let Some(health) = health::workload_failure(std::slice::from_ref(pod), now) else { return Ok(None) };
        let log = self.end_of_log(id, pod).await;
        Ok(Some(log.map_or_else(|| health.message.clone(), |log| format!("{}: {log}", health.message))))
    }

    /// The last lines of a failed container that left no message of its own. An account that may not read logs gets none.
    async fn end_of_log(&self, id: &ObjectId, pod: &Value) -> Option<String> {
        let containers = |key: &str| pod.pointer(key).and_then(Value::as_array).cloned().unwrap_or_default();
        let mut all = containers("/status/initContainerStatuses");
        all.extend(containers("/status/containerStatuses"));
        let failed = all.iter().find(|container| {
            let ended = container.pointer("/state/terminated");
            ended
                .and_then(|ended| ended.get("exitCode"))
                .and_then(Value::as_i64)
                .is_some_and(|code| code != 0)
        })?;
        if text(failed, "/state/terminated/message").is_some_and(|message| !message.trim().is_empty()) {
            return None;
        }
        let api: Api<Pod> = Api::namespaced(self.client().clone(), id.namespace.as_ref()?);
        let params = LogParams {
            container: text(failed, "/name").map(str::to_owned),
            tail_lines: Some(LOG_LINES),
            limit_bytes: Some(LOG_BYTES),
            ..LogParams::default()
        };
        let log = api.logs(text(pod, "/metadata/name")?, &params);
        let log = tokio::time::timeout(LOG_DEADLINE, log).await.ok()?.ok()?;
        let lines: Vec<&str> = log.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
        (!lines.is_empty()).then(|| lines.join(" | "))
    }

    async fn pods(&self, id: &ObjectId, namespace: &str, selector: &str) -> Result<Vec<Value>, Error> {
        let api: Api<Pod> = Api::namespaced(self.client().clone(), namespace);
        let params = ListParams::default().labels(selector).limit(PAGE);
        let pods = match tokio::time::timeout(DEADLINE, api.list(&params)).await {
            Ok(Ok(pods)) => pods.items,
            Ok(Err(source)) => {
                return Err(Error::Api { verb: "list pods of", id: id.clone(), source: Box::new(source) });
            }
            Err(_) => return Err(Error::Timeout { verb: "list pods of", id: id.clone(), after: DEADLINE }),
        };
        Ok(pods.into_iter().filter_map(|pod| serde_json::to_value(pod).ok()).collect())
    }
}

fn text<'a>(value: &'a Value, pointer: &str) -> Option<&'a str> {
    value.pointer(pointer).and_then(Value::as_str)
}

/// The label selector of a workload whose newest revision has pods already: before that, the failed pods of the old
/// one say nothing.
fn selector(live: &Value) -> Option<String> {
    let count = |pointer| live.pointer(pointer).and_then(Value::as_i64).unwrap_or(0);
    if count("/status/updatedReplicas") == 0 && count("/status/updatedNumberScheduled") == 0 {
        return None;
    }
    if live.pointer("/spec/selector/matchExpressions").is_some() {
        return None;
    }
    pod_selector(live)
}

/// Those with the revision of the pod that was created last.
fn newest(pods: Vec<Value>) -> Vec<Value> {
    let revision = |pod: &Value| {
        let label = |key| pod.get("metadata")?.get("labels")?.get(key)?.as_str().map(str::to_owned);
        label("pod-template-hash").or_else(|| label("controller-revision-hash"))
    };
    let created =
        |pod: &&Value| pod.pointer("/metadata/creationTimestamp").and_then(Value::as_str).map(str::to_owned);
    let Some(last) = pods.iter().max_by_key(created).map(revision) else { return Vec::new() };
    pods.into_iter().filter(|pod| revision(pod) == last).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_pods_of_the_newest_revision_count() {
        let pod = |name: &str, at: u32, hash: &str| {
            json!({"metadata": {
                "name": name, "creationTimestamp": format!("2026-01-01T00:00:{at:02}Z"),
                "labels": {"pod-template-hash": hash},
            }})
        };
        let pods =
            vec![pod("old", 1, "a"), pod("new", 9, "b"), pod("also-new", 8, "b"), pod("older", 0, "a")];
        let names: Vec<Value> = newest(pods).into_iter().map(|pod| pod["metadata"]["name"].clone()).collect();
        assert_eq!(names, ["new", "also-new"]);
        assert!(newest(Vec::new()).is_empty());
    }

    #[test]
    fn a_workload_whose_new_revision_has_no_pod_is_not_looked_into() {
        let workload = |updated| json!({"spec": {"selector": {"matchLabels": {"app": "web", "tier": "front"}}}, "status": {"updatedReplicas": updated}});
        assert_eq!(selector(&workload(0)), None);
        assert_eq!(selector(&workload(1)).as_deref(), Some("app=web,tier=front"));
    }
}
