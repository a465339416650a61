//! Dependencies: pairs of releases, one of each waiting for the other, and how soon it starts once that is Ready.

use std::collections::BTreeMap;
use std::time::Instant;

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

/// The dependents first; when all of them wait, what they wait for, one pair after the other.
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

    let mut latencies = Vec::with_capacity(pairs);
    for pair in 0..pairs {
        let (db, web) = names(pair);
        let record = format!("sh.sherpack.release.v1.{web}.v1");
        let ready = |object: &DynamicObject| {
            let name = object.name_any();
            ((name == db || name == web) && release::is_ready_at(object, 1)).then_some(name)
        };
        let begins = |object: &DynamicObject| (object.name_any() == record).then(|| record.clone());
        let (both, begin) = (format!("{db} and {web} are Ready"), format!("{web} begins"));
        let ((), ready, begun) = tokio::try_join!(
            create(&api, [(db.clone(), None)].into_iter()),
            collect(&mut releases, &both, 2, ready),
            collect(&mut records, &begin, 1, begins),
        )?;
        let (ready, begun) =
            ready.get(&db).zip(begun.get(&record)).ok_or_else(|| Failure::new(db.clone()))?;
        latencies.push(begun.saturating_duration_since(*ready));
    }
    let latencies = Latencies::new(latencies);
    let [p50, p99] = [50, 99].map(|percent| latencies.percentile(percent));
    say(format!(
        "dependents, {pairs} times: p50 {p50}, p99 {p99} ms from Ready of the dependency to the first write"
    ));
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
        let missing = format!("{what} ({} of {n} seen)", seen.len());
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
