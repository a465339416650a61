//! Dependencies: pairs of releases, one of each waiting for the other, and how soon it starts once that is Ready.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use futures::{StreamExt, TryStreamExt, stream};
use kube::api::{Api, ApiResource, DynamicObject, PostParams};
use kube::core::GroupVersionKind;
use kube::{Client, ResourceExt};
use serde_json::json;

use super::drift::Latencies;
use super::{CONCURRENCY, PACK, STANDSTILL, say, workload};
use crate::failure::{During, Failure, Result};
use crate::objects::set;
use crate::sight::Sight;
use crate::{operator, release};

const NAMESPACE: &str = "pairs";

fn names(pair: usize) -> (String, String) {
    (format!("db-{pair:03}"), format!("web-{pair:03}"))
}

/// All pairs at once: the dependents first, and when all of them wait, what they wait for.
pub(crate) async fn measure(client: &Client, pairs: usize) -> Result<Latencies> {
    release::create_namespace(client, NAMESPACE).await?;
    release::store_pack(client, NAMESPACE, PACK, operator::package(PACK).await?).await?;
    let api = release::api(client, NAMESPACE);
    let secrets = ApiResource::from_gvk(&GroupVersionKind::gvk("", "v1", "Secret"));
    let secrets = Api::<DynamicObject>::namespaced_with(client.clone(), NAMESPACE, &secrets);
    let mut releases = Sight::open(api.clone()).await?;
    let mut records = Sight::open(secrets).await?;

    create(&api, (0..pairs).map(|pair| (names(pair).1, Some(names(pair).0)))).await?;
    let waits = |object: &DynamicObject| {
        let ready = release::condition(object, "Ready")?;
        (ready["reason"] == "DependencyNotReady").then(|| object.name_any())
    };
    collect(&mut releases, "dependents that wait", pairs, waits).await?;

    let create = create(&api, (0..pairs).map(|pair| (names(pair).0, None)));
    let ready = |object: &DynamicObject| {
        let dependency = object.name_any().starts_with("db-") && release::is_ready_at(object, 1);
        dependency.then(|| object.name_any())
    };
    let ready = collect(&mut releases, "dependencies that are Ready", pairs, ready);
    let begins = |object: &DynamicObject| {
        let record = object.name_any();
        let release = record.strip_prefix("sh.sherpack.release.v1.")?.strip_suffix(".v1")?;
        release.starts_with("web-").then(|| release.to_owned())
    };
    let begun = collect(&mut records, "dependents that begin", pairs, begins);
    let ((), ready, begun) = tokio::try_join!(create, ready, begun)?;

    let mut latencies = Vec::with_capacity(pairs);
    for pair in 0..pairs {
        let (db, web) = names(pair);
        let (ready, begun) = ready.get(&db).zip(begun.get(&web)).ok_or_else(|| Failure::new(db.clone()))?;
        latencies.push(begun.saturating_duration_since(*ready));
    }
    let latencies = Latencies::new(latencies);
    let [p50, p99] = [50, 99].map(|percent| latencies.percentile(percent));
    say(format!(
        "dependents, {pairs} pairs at once: begun p50 {p50}, p99 {p99} ms after the dependency was Ready"
    ));
    let done = |object: &DynamicObject| {
        let dependent = object.name_any().starts_with("web-") && release::is_ready_at(object, 1);
        dependent.then(|| object.name_any())
    };
    collect(&mut releases, "dependents that are Ready", pairs, done).await?;
    tokio::time::sleep(Duration::from_secs(1)).await;
    Ok(latencies)
}

async fn create(
    api: &Api<DynamicObject>,
    releases: impl Iterator<Item = (String, Option<String>)>,
) -> Result<()> {
    let create = |(name, depends_on): (String, Option<String>)| async move {
        let mut object = release::release(&name, PACK, &workload::values("first"))?;
        if let Some(other) = depends_on {
            set(&mut object.data, &["spec", "dependsOn"], json!([{"name": other}]));
        }
        api.create(&PostParams::default(), &object).await.during(&name)?;
        Ok::<_, Failure>(())
    };
    stream::iter(releases.map(create)).buffer_unordered(CONCURRENCY).try_collect::<Vec<()>>().await?;
    Ok(())
}

/// When each of `n` objects was first seen as `wanted`, by the name that it gives.
async fn collect(
    sight: &mut Sight,
    what: &str,
    n: usize,
    wanted: impl Fn(&DynamicObject) -> Option<String>,
) -> Result<BTreeMap<String, Instant>> {
    let mut seen: BTreeMap<String, Instant> = BTreeMap::new();
    while seen.len() < n {
        let missing = format!("{} of {n} {what}", seen.len());
        let (at, name) = sight
            .until(&missing, STANDSTILL, |change| {
                let name = change.present().and_then(&wanted)?;
                (!seen.contains_key(&name)).then_some(name)
            })
            .await?;
        seen.insert(name, at);
    }
    Ok(seen)
}
