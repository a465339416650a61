//! A crowd of releases that wait for what never comes, and how long another release takes beside them.

use std::collections::HashSet;
use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use kube::api::{Api, DynamicObject, PostParams};
use kube::{Client, ResourceExt};
use serde_json::json;
use tokio::net::TcpListener;

use super::counts::quiet;
use super::report::Crowd;
use super::{PACK, STANDSTILL, say, workload};
use crate::cluster::root;
use crate::failure::{During, Result, check};
use crate::objects::set;
use crate::operator::{self, Settings};
use crate::release;
use crate::sight::Sight;

/// Releases of each of the two kinds.
pub(crate) const SIZE: usize = 100;
/// Releases that are measured, one after the other, each time.
const MEASURED: usize = 11;
const NAMESPACE: &str = "crowd";

/// A pack whose pods no scheduler may look at, so that nothing calls them failed either.
const NEVER: &str = "never";
const METADATA: &str =
    "apiVersion: sherpack/v1\nkind: application\nmetadata: {name: never, version: 1.0.0}\n";
const DEPLOYMENT: &str = r#"
apiVersion: apps/v1
kind: Deployment
metadata: {name: "{{ release.name }}"}
spec:
  replicas: 1
  progressDeadlineSeconds: 3600
  selector: {matchLabels: {app: "{{ release.name }}"}}
  template:
    metadata: {labels: {app: "{{ release.name }}"}}
    spec:
      schedulingGates: [{name: example.com/never}]
      containers: [{name: app, image: "registry.example.com/app:1.0.0"}]
"#;

/// Half of the crowd has a Deployment whose pods never get ready; the other half has its pack behind a server
/// that takes connections and never says a word.
pub(crate) async fn measure(client: &Client, settings: &Settings, size: usize) -> Result<Crowd> {
    let silent = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    let address = silent.local_addr()?;
    // Whoever connects is kept until the end.
    let server = tokio::spawn(async move {
        let mut kept = Vec::new();
        while let Ok((connection, _)) = silent.accept().await {
            kept.push(connection);
        }
    });
    let settings =
        Settings { concurrency: 4, arguments: vec![format!("--allow-source={address}")], ..settings.clone() };
    let mut operator = settings.spawn()?;
    operator.ready().await?;
    quiet(&operator).await?;
    release::create_namespace(client, NAMESPACE).await?;
    release::store_pack(client, NAMESPACE, PACK, operator::package(PACK).await?).await?;
    release::store_pack(client, NAMESPACE, NEVER, never().await?).await?;
    let api = release::api(client, NAMESPACE);

    // The first one also opens watches and renders templates for the first time.
    installs(&api, "first", 1).await?;
    let alone = installs(&api, "alone", MEASURED).await?;
    for index in 0..size {
        let name = format!("unhealthy-{index:03}");
        let mut object = release::release(&name, NEVER, &json!({}))?;
        set(&mut object.data, &["spec", "timeout"], json!("1h"));
        api.create(&PostParams::default(), &object).await.during(&name)?;
        let name = format!("unreachable-{index:03}");
        let mut object = release::release(&name, PACK, &workload::values("never"))?;
        let url = format!("http://{address}/{index}.tgz");
        set(&mut object.data, &["spec", "pack"], json!({"http": {"url": url}}));
        api.create(&PostParams::default(), &object).await.during(&name)?;
    }
    wait(&api, 2 * size).await?;
    let beside = installs(&api, "beside", MEASURED).await?;
    check(waiting(&api).await?.len() == 2 * size, || "the crowd does not wait any more".to_owned())?;
    say(format!(
        "crowd: a release is Ready after {alone} s alone, {beside} s beside {size} unhealthy and {size} unreachable ones"
    ));
    operator.stop().await?;
    server.abort();
    Ok(Crowd { alone, beside, unhealthy: size, unreachable: size })
}

/// The archive of the pack that never gets healthy.
async fn never() -> Result<Vec<u8>> {
    let directory = root().join("target/stage").join(NEVER);
    std::fs::create_dir_all(directory.join("templates")).during(directory.display())?;
    std::fs::write(directory.join("Pack.yaml"), METADATA).during(directory.display())?;
    std::fs::write(directory.join("templates/deployment.yaml"), DEPLOYMENT).during(directory.display())?;
    operator::package_directory(&directory, NEVER).await
}

/// The median time from a create to the event that says Ready.
async fn installs(api: &Api<DynamicObject>, prefix: &str, count: usize) -> Result<f64> {
    let mut sight = Sight::open(api.clone()).await?;
    let mut took = Vec::with_capacity(count);
    for index in 0..count {
        let name = format!("{prefix}-{index}");
        let object = release::release(&name, PACK, &workload::values("first"))?;
        let began = Instant::now();
        api.create(&PostParams::default(), &object).await.during(&name)?;
        let what = format!("{name} is Ready");
        let ready = sight.until(&what, STANDSTILL, |change| {
            let object = change.present()?;
            (object.name_any() == name && release::is_ready_at(object, 1)).then_some(())
        });
        took.push(ready.await?.0 - began);
    }
    took.sort_unstable();
    let median = took.get(count / 2).copied().unwrap_or_default();
    Ok((median.as_secs_f64() * 1000.0).round() / 1000.0)
}

/// Waits until so many of the crowd wait.
async fn wait(api: &Api<DynamicObject>, crowd: usize) -> Result<()> {
    let began = Instant::now();
    loop {
        let waiting = waiting(api).await?.len();
        if waiting == crowd {
            return Ok(());
        }
        check(began.elapsed() < STANDSTILL, || format!("only {waiting} of {crowd} wait"))?;
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
}

/// Those of the crowd that were worked on and are not Ready.
async fn waiting(api: &Api<DynamicObject>) -> Result<HashSet<String>> {
    let list = api.list(&Default::default()).await?;
    let waits = |object: &DynamicObject| {
        let fetches = release::condition(object, "Ready").is_some_and(|ready| ready["status"] != "True");
        match object.name_any() {
            name if name.starts_with("unreachable-") => fetches.then_some(name),
            name if name.starts_with("unhealthy-") => {
                (object.data["status"]["operation"]["phase"] == "Wait").then_some(name)
            }
            _ => None,
        }
    };
    Ok(list.iter().filter_map(waits).collect())
}
