//! `make attack MINUTES=5 DEEDS=renders,waits`: a tenant with rights in one namespace does all that it can to the operator, at once.
//!
//! Beside it stand 20 locked releases of another namespace. Held: what is edited there is put back with p99 under a second;
//! the operator's memory at its highest stays below a bound, also in the process after a restart; it never ends by itself; its
//! probes answer; nothing outside of the tenant's namespace is changed; no password is told.

mod deeds;
mod dump;
mod forged;

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use kube::Client;
use kube::api::{Api, ApiResource, DynamicObject, ListParams, Patch, PatchParams};
use kube::core::GroupVersionKind;
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::cluster::Cluster;
use crate::failure::{During, Failure, Result, check};
use crate::http;
use crate::operator::{self, Operator, Settings, package_directory};
use crate::release;
use crate::scale::accounts;
use crate::scale::drift::Latencies;
use crate::scale::process::memory;
use crate::sight::Sight;
use deeds::Tenant;

/// The tenant's.
const EVIL: &str = "evil";
/// Of the releases that have to stay locked.
const VICTIM: &str = "victim";
/// Of records that are nobody's business.
const ELSEWHERE: &str = "elsewhere";
/// Locks of what Helm and another Sherpack tool installed for the victim.
const LOCKED: [&str; 2] = ["db", "tool"];
const PASSWORD: &str = "pa\"ss\\word1 x";

const RELEASES: usize = 20;
/// An object that is edited twice in a row is put back later by design: each is edited once.
const OBJECTS: usize = 40;
const BETWEEN_EDITS: Duration = Duration::from_millis(300);
const PUT_BACK_WITHIN: Duration = Duration::from_secs(60);

/// What has to hold.
const P99_MS: f64 = 1_000.0;
const MEMORY_MIB: f64 = 256.0;

fn say(text: impl std::fmt::Display) {
    eprintln!("attack: {text}");
}

pub(crate) async fn run() -> Result<()> {
    let minutes: u64 = match std::env::var("MINUTES") {
        Ok(text) if !text.is_empty() => text.parse().during(format!("MINUTES={text}"))?,
        _ => 5,
    };
    let cluster = Cluster::start(&[]).await?;
    say(format!("{minutes} minutes on {}", cluster.version().await?));
    let mut settings = Settings::new(&cluster.kubeconfig, "sherpack-system", None, "attack.log")?;
    settings.arguments = vec!["--tenancy".to_owned(), "multi".to_owned()];
    let result = attack(&cluster, &settings, Duration::from_secs(minutes * 60)).await;
    result.map_err(|failure| {
        Failure::new(format!("{failure}\nlog of the operator: {}", settings.log.display()))
    })?;
    cluster.end().await
}

/// What was measured.
#[derive(Default)]
struct Seen {
    reverts: Vec<Duration>,
    /// Of each process, in MiB.
    memory: Vec<f64>,
}

async fn attack(cluster: &Cluster, settings: &Settings, lasts: Duration) -> Result<()> {
    let client = &cluster.client;
    let mut operator = scenery(client, settings).await?;
    let tenant = Tenant { client: client.clone() };
    tenant.prepare().await?;
    let before = dump::outside_of(client, EVIL).await?;
    say(format!("{} objects outside of the tenant's namespace; the attack begins", before.len()));
    let closed = closed_address()?;
    let mut seen = Seen::default();
    let mut next = 0;
    let mut edits = 0;
    let only = std::env::var("DEEDS").unwrap_or_default();
    let only: Vec<String> = only.split(',').filter(|name| !name.is_empty()).map(str::to_owned).collect();
    // The first half on a process that starts with what the tenant prepared, the second on one that starts amid everything.
    for (number, half) in ["first", "second"].into_iter().enumerate() {
        operator.kill_and_restart().await?;
        operator.ready().await?;
        let mut deeds = JoinSet::new();
        for deed in tenant.deeds(operator.address(), closed, &only) {
            deeds.spawn(deed);
        }
        let until = Instant::now() + lasts / 2;
        while Instant::now() < until {
            seen.reverts.push(edit(client, &edited(next)).await?);
            next += 1;
            edits += 1;
            operator.lives()?;
            let (status, _) = http::get(operator.address(), "/livez").await?;
            check(status == 200, || format!("/livez answers {status}"))?;
            sleep(BETWEEN_EDITS).await;
        }
        // Late, when whatever would take a lock away has had its time.
        for lock in LOCKED {
            seen.reverts.push(edit(client, &format!("{lock}-{number}")).await?);
            edits += 1;
        }
        let (now, most) = memory(operator.pid()?)?;
        let metrics = operator.metrics().await?.len();
        say(format!(
            "{half} half: {edits} edits so far, memory {now} MiB, at its highest {most} MiB, /metrics {metrics} bytes"
        ));
        seen.memory.push(most);
        deeds.shutdown().await;
    }
    let after = dump::outside_of(client, EVIL).await?;
    let told = if only.is_empty() { told(client, settings).await? } else { Vec::new() };
    judge(&seen, &dump::differences(&before, &after), &told)?;
    operator.stop().await?;
    Ok(())
}

/// The victims, locked and ready.
async fn scenery(client: &Client, settings: &Settings) -> Result<Operator> {
    release::install_crd(client, &operator::output(&["crd"]).await?, None).await?;
    for namespace in ["sherpack-system", EVIL, VICTIM, ELSEWHERE] {
        release::create_namespace(client, namespace).await?;
    }
    let verbs = ["get", "list", "watch", "create", "patch", "delete"];
    let rules = json!([
        {"apiGroups": [""], "resources": ["configmaps", "secrets", "pods"], "verbs": verbs},
        {"apiGroups": ["apps"], "resources": ["deployments"], "verbs": verbs},
        {"apiGroups": ["batch"], "resources": ["jobs"], "verbs": verbs},
    ]);
    for namespace in [EVIL, VICTIM] {
        accounts::make_with(client, namespace, 1, &rules).await?;
    }
    deeds::records_of_others(client).await?;
    let template = "{% for i in range(values.count) %}\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: \"{{ release.name }}-{{ i }}\"}\ndata: {a: right}\n{% endfor %}";
    let files = [
        ("templates/cm.yaml".to_owned(), template.to_owned()),
        ("values.yaml".to_owned(), format!("count: {OBJECTS}\n")),
    ];
    let archive = package_directory(&forged::write_pack("victim", &files)?, "attack-victim").await?;
    release::store_pack(client, VICTIM, "pack", archive).await?;
    let api = release::api(client, VICTIM);
    for index in 0..RELEASES {
        let mut object = release::release(&format!("c{index}"), "pack", &json!({}))?;
        accounts::name_one(&mut object, index, 1);
        api.create(&Default::default(), &object).await.during("a release")?;
    }
    let bulk = template.replace("{a: right}", &format!("{{a: right, b: {}}}", "b".repeat(10_000)));
    let files =
        [("templates/cm.yaml".to_owned(), bulk), ("values.yaml".to_owned(), format!("count: {OBJECTS}\n"))];
    let archive = package_directory(&forged::write_pack("bulk", &files)?, "attack-bulk").await?;
    release::store_pack(client, VICTIM, "bulk", archive).await?;
    let mut object = release::release("bulk", "bulk", &json!({}))?;
    accounts::name_one(&mut object, 0, 1);
    api.create(&Default::default(), &object).await.during("the large release")?;
    deeds::locked_by_others(client).await?;
    let mut operator = settings.spawn()?;
    operator.ready().await?;
    let began = Instant::now();
    loop {
        let list = api.list(&ListParams::default()).await.during("releases")?;
        let ready = list.items.iter().filter(|object| release::is_ready_at(object, 1)).count();
        if ready == RELEASES + 1 + LOCKED.len() {
            return Ok(operator);
        }
        check(began.elapsed() < Duration::from_secs(120), || {
            format!("{ready} of {} releases are ready", list.items.len())
        })?;
        sleep(Duration::from_millis(200)).await;
    }
}

/// The object that an edit is for: of each small release in turn, and now and then of the large one.
fn edited(number: usize) -> String {
    if number % 10 == 9 {
        return format!("bulk-{}", number / 10 % OBJECTS);
    }
    format!("c{}-{}", number % RELEASES, number / RELEASES % OBJECTS)
}

/// Edits one object of a victim and waits until it is put back.
async fn edit(client: &Client, name: &str) -> Result<Duration> {
    let name = name.to_owned();
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("", "v1", "ConfigMap"));
    let api = Api::<DynamicObject>::namespaced_with(client.clone(), VICTIM, &resource);
    let mut sight = Sight::open(api.clone()).await?;
    let is = |value: &'static str, name: String| {
        move |change: &crate::sight::Change| {
            change.present().is_some_and(|object| {
                object.metadata.name.as_deref() == Some(&name) && object.data["data"]["a"] == value
            })
        }
    };
    let send = async {
        let params = PatchParams { field_manager: Some("kubectl-edit".to_owned()), ..Default::default() };
        let patch = json!({"data": {"a": "wrong"}});
        api.patch(&name, &params, &Patch::Merge(&patch)).await.during(&name)?;
        Ok(())
    };
    let what = format!("{VICTIM}/{name} as it was");
    let back =
        sight.put_back(&what, PUT_BACK_WITHIN, send, is("wrong", name.clone()), is("right", name.clone()));
    Ok(back.await?.since_sent)
}

/// Where the password was told: in a status, an Event or the log.
async fn told(client: &Client, settings: &Settings) -> Result<Vec<String>> {
    let quoted = json!(PASSWORD).to_string().trim_matches('"').to_owned();
    let hidden = [PASSWORD.to_owned(), quoted, STANDARD_NO_PAD.encode(PASSWORD)];
    let tells = |text: &str| hidden.iter().any(|secret| text.contains(secret));
    let mut found = Vec::new();
    for name in ["leaks", "leaks-encoded"] {
        let release = release::api(client, EVIL).get(name).await.during(format!("release {name}"))?;
        let status: &Value = &release.data["status"];
        let words = strings(status);
        found.extend(words.iter().any(|text| tells(text)).then(|| format!("the status of evil/{name}")));
        // It was refused, so there was something to tell.
        let refused = status["conditions"].as_array().is_some_and(|all| {
            all.iter().any(|condition| condition["type"] == "Ready" && condition["status"] == "False")
        });
        check(refused, || format!("evil/{name} is not refused: {status}"))?;
    }
    let events: Api<k8s_openapi::api::events::v1::Event> = Api::namespaced(client.clone(), EVIL);
    let events = events.list(&ListParams::default()).await.during("events")?;
    found.extend(
        events
            .items
            .iter()
            .any(|event| event.note.as_deref().is_some_and(tells))
            .then(|| "an Event".to_owned()),
    );
    let log = std::fs::read_to_string(&settings.log).during(settings.log.display())?;
    found.extend(tells(&log).then(|| "the log".to_owned()));
    Ok(found)
}

/// All texts in a value.
fn strings(value: &Value) -> Vec<String> {
    match value {
        Value::String(text) => vec![text.clone()],
        Value::Array(list) => list.iter().flat_map(strings).collect(),
        Value::Object(map) => map.values().flat_map(strings).collect(),
        _ => Vec::new(),
    }
}

fn judge(seen: &Seen, changed: &[String], told: &[String]) -> Result<()> {
    let reverts = Latencies::new(seen.reverts.clone());
    let [p50, p90, p99, max] = [50, 90, 99, 100].map(|percent| reverts.percentile(percent));
    println!(
        "{}",
        json!({"edits": reverts.count(), "revert_ms": {"p50": p50, "p90": p90, "p99": p99, "max": max},
            "memory_mib": seen.memory, "changed_elsewhere": changed, "told": told})
    );
    let most = seen.memory.iter().copied().fold(0.0, f64::max);
    let held = [
        (p99 < P99_MS, format!("p99 of the reverts is {p99} ms, not under {P99_MS}")),
        (most < MEMORY_MIB, format!("the operator took {most} MiB, not under {MEMORY_MIB}")),
        (changed.is_empty(), format!("changed elsewhere: {}", changed.join("; "))),
        (told.is_empty(), format!("the password is told in {}", told.join(", "))),
    ];
    let broken: Vec<String> = held.into_iter().filter(|(holds, _)| !holds).map(|(_, text)| text).collect();
    check(broken.is_empty(), || broken.join("; "))
}

/// A port of this machine on which nothing listens.
fn closed_address() -> Result<SocketAddr> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).during("a free port")?;
    Ok(listener.local_addr()?)
}
