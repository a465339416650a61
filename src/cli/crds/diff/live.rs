//! What the cluster has is the old side, and its objects and its API server have a say.

use serde_json::Value;

use crate::api::Class;
use crate::cli::cluster::Connection;
use crate::cli::output::answer::{Failure, story};
use crate::cluster::{self, Applied, Cluster, describe};
use crate::crd::{Analysis, Definition, Evidence, Severity, analyze, introduce};
use crate::manifest::{Defined, ObjectId};

/// Every definition against the one of its name in the cluster.
///
/// What cannot be found out about the objects, or by a dry run, is told on stderr and changes nothing.
pub(super) async fn compare(
    connection: &Connection,
    new: Vec<(Definition, Value)>,
    evidence: bool,
) -> Result<Vec<Analysis>, Failure> {
    let (client, _) = connection.open().await?;
    let cluster = Cluster::new(client);
    let mut analyses = Vec::with_capacity(new.len());
    for (definition, document) in new {
        analyses.push(one(&cluster, &definition, document, evidence).await?);
    }
    Ok(analyses)
}

async fn one(
    cluster: &Cluster,
    new: &Definition,
    document: Value,
    evidence: bool,
) -> Result<Analysis, Failure> {
    let id = ObjectId::definition(&new.name);
    let live = cluster.get("apiextensions.k8s.io/v1", &id).await.map_err(|error| error.to_string())?;
    let Some(live) = live else {
        return Ok(tried(cluster, document, None, introduce(new)).await);
    };
    if live.is_leaving() {
        story(&format!("{} is being deleted", new.name));
    }
    let body = live.value();
    let old = Definition::from_value(&body).map_err(|error| format!("the cluster's {error}"))?;
    let mut analysis = analyze(&old, new);
    if analysis.changes.is_empty() {
        return Ok(analysis);
    }
    if evidence {
        analysis = weighed(cluster, (&old, new), &body, analysis).await;
    }
    Ok(tried(cluster, document, Some(&live), analysis).await)
}

/// The analysis as the objects that exist make it.
async fn weighed(
    cluster: &Cluster,
    (old, new): (&Definition, &Definition),
    live: &Value,
    analysis: Analysis,
) -> Analysis {
    let evidence = Evidence::new(&analysis);
    let Some(defined) = Defined::of(live).filter(|_| evidence.is_wanted()) else { return analysis };
    let (evidence, error) = cluster.hear(&defined, (old, new), evidence).await;
    if let Some(error) = error {
        story(&format!("the objects of {} cannot all be looked at: {error}", new.name));
    }
    evidence.weigh(analysis)
}

/// Asks the API server, too: it knows rules that only it can compile, and other admission.
async fn tried(cluster: &Cluster, document: Value, live: Option<&Applied>, analysis: Analysis) -> Analysis {
    let Err(error) = cluster.try_definition(&analysis.name, document, live).await else { return analysis };
    match &error {
        cluster::Error::Api { source, .. } if error.class() == Class::FixSpec => {
            // It is said already, and at its place.
            if analysis.verdict() == Severity::Blocked {
                return analysis;
            }
            let path = field(source).unwrap_or_else(|| "spec".to_owned());
            analysis.refused(&path, &describe(source))
        }
        _ => {
            story(&format!("a dry run of {} was not possible: {error}", analysis.name));
            analysis
        }
    }
}

/// The first field that an answer blames.
fn field(error: &kube::Error) -> Option<String> {
    let kube::Error::Api(status) = error else { return None };
    let causes = status.details.iter().flat_map(|details| &details.causes);
    causes.map(|cause| cause.field.clone()).find(|field| !field.is_empty())
}
