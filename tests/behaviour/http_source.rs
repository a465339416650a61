//! Packs behind URLs, with the operator running: how they are installed, what is told when they cannot be had, and that
//! nobody else notices.

use std::path::PathBuf;

use k8s_openapi::api::networking::v1::ServiceCIDR;
use kube::api::{Api, PostParams};
use serde_json::{Value, json};
use sherpack_operator::source::cache;
use sherpack_operator::source::http::{Options, Proxies};

use crate::support::harness::condition;
use crate::support::http_proxy::HttpProxy;
use crate::support::http_server::{Authority, HttpServer, Route};
use crate::support::packs::{config_map, secret};
use crate::support::process::{Process, command};
use crate::support::sourced::{assert_locked, colored, harness, message, sources};
use crate::support::wait::{eventually, wait_for};
use crate::support::{Harness, Pack};

fn pack(color: &str) -> Pack {
    Pack::new("web", "1.0.0").object(config_map("settings", json!({"color": color})))
}

fn file(color: &str) -> Route {
    Route::File(pack(color).archive())
}

fn digest(color: &str) -> String {
    cache::digest(&pack(color).archive())
}

fn http(url: &str) -> Value {
    json!({"pack": {"http": {"url": url}}})
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pack_behind_a_url_is_installed_and_looked_for_again_on_request() {
    let h = harness("http-install").await;
    let server = HttpServer::start().await;
    server.serve("/web.tgz", file("blue"));
    h.release("web", http(&server.url("/web.tgz"))).await;
    let ready = h.ready("web").await;
    assert_eq!(ready["status"]["pack"]["digest"], pack("blue").digest());
    h.pass("web").await;
    assert_eq!(server.answers("/web.tgz"), [200, 304], "an unchanged pack costs no more than that");
    h.shows_states("web", &["1 deployed"]).await;
    server.serve("/web.tgz", file("green"));
    h.pass("web").await;
    h.shows_states("web", &["1 superseded", "2 deployed"]).await;
    colored(&h, "green").await;
    assert_eq!(server.answers("/web.tgz"), [200, 304, 200]);
    for (outcome, count) in [("success", 2.0), ("unchanged", 1.0), ("failure", 0.0)] {
        let labels = [r#"kind="http""#, &format!("outcome=\"{outcome}\"")];
        assert_eq!(h.metric("sherpack_source_fetch_total", &labels).await, count, "{outcome}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_new_archive_is_rolled_out_when_the_interval_has_passed() {
    let h = harness("http-interval").await;
    let server = HttpServer::start().await;
    server.serve("/web.tgz", file("blue"));
    let mut spec = http(&server.url("/web.tgz"));
    spec["interval"] = json!("10s");
    h.release("web", spec).await;
    h.ready("web").await;
    eventually("it is looked for again", async || server.answers("/web.tgz").contains(&304)).await;
    server.serve("/web.tgz", file("green"));
    colored(&h, "green").await;
    h.shows_states("web", &["1 superseded", "2 deployed"]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_digest_is_refused_and_the_right_one_is_taken_when_it_comes() {
    let h = harness("http-digest").await;
    let server = HttpServer::start().await;
    server.serve("/web.tgz", file("blue"));
    let url = server.url("/web.tgz");
    let pinned = |color| json!({"pack": {"http": {"url": url, "digest": digest(color)}}});
    h.release("web", pinned("blue")).await;
    h.ready("web").await;
    // Such an archive cannot change: it is fetched once, whatever is asked.
    h.pass("web").await;
    assert_eq!(server.answers("/web.tgz"), [200]);

    h.release("web", pinned("green")).await;
    let held = h.condition("web", "Ready", "False", Some("DigestMismatch")).await;
    for known in [digest("blue"), digest("green")] {
        assert!(message(&held).contains(&known), "{held}");
    }
    assert_eq!(condition(&held, "Released")["status"], "True");
    eventually("an Event tells it", async || h.events("web", "DigestMismatch").await.len() == 1).await;
    assert_locked(&h, "blue").await;
    server.serve("/web.tgz", file("green"));
    h.ready("web").await;
    colored(&h, "green").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_comes_up_late_is_found_without_being_told() {
    let h = harness("http-late").await;
    let server = HttpServer::start().await;
    let (address, url) = (server.address, server.url("/web.tgz"));
    drop(server);
    h.release("web", http(&url)).await;
    let held = h.condition("web", "Ready", "False", Some("SourceUnreachable")).await;
    assert!(message(&held).contains(&url), "{held}");
    assert_eq!(condition(&held, "Reconciling")["status"], "True", "it goes on by itself: {held}");
    assert!(h.records("web").await.is_empty());
    let server = HttpServer::start_at(address).await;
    h.condition("web", "Ready", "False", Some("SourceNotFound")).await;
    server.serve("/web.tgz", Route::File(b"<html>Not quite ready</html>".to_vec()));
    let held = h.condition("web", "Ready", "False", Some("PackNotAnArchive")).await;
    assert!(message(&held).contains(&url), "{held}");
    server.serve("/web.tgz", file("blue"));
    h.ready("web").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn while_the_source_is_down_what_is_deployed_stays_locked() {
    let h = harness("http-down").await;
    let server = HttpServer::start().await;
    server.serve("/web.tgz", file("blue"));
    let (address, mut spec) = (server.address, http(&server.url("/web.tgz")));
    spec["interval"] = json!("10s");
    h.release("web", spec).await;
    h.ready("web").await;
    drop(server);
    let held = h.condition("web", "Ready", "False", Some("SourceUnreachable")).await;
    assert_eq!(condition(&held, "Released")["status"], "True");
    assert_locked(&h, "blue").await;
    let server = HttpServer::start_at(address).await;
    server.serve("/web.tgz", file("blue"));
    h.ready("web").await;
    h.shows_states("web", &["1 deployed"]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_private_authority_is_trusted_once_its_certificate_is_in_the_secret() {
    let h = harness("http-private-ca").await;
    let authority = Authority::new();
    let server = HttpServer::start_tls(&authority, &[], None).await;
    server.serve("/web.tgz", file("blue"));
    let mut spec = http(&server.url("/web.tgz"));
    h.release("web", spec.clone()).await;
    let held = h.condition("web", "Ready", "False", Some("SourceUntrusted")).await;
    assert!(message(&held).contains("`ca.crt`"), "{held}");
    spec["pack"]["http"]["secretRef"] = json!({"name": "trust"});
    h.release("web", spec).await;
    let held = h.condition("web", "Ready", "False", Some("CredentialsNotFound")).await;
    assert!(message(&held).contains("Secret http-private-ca/trust"), "{held}");
    h.objects.create("test-person", secret("trust", json!({"other": "x"}))).await;
    let held = h.condition("web", "Ready", "False", Some("CredentialsInvalid")).await;
    assert!(message(&held).contains("none of the keys"), "{held}");
    h.objects.edit("Secret/trust", "test-person", json!({"stringData": {"ca.crt": authority.pem()}})).await;
    h.ready("web").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn credentials_are_taken_from_the_secret_and_a_change_of_it_is_seen_at_once() {
    let h = harness("http-login").await;
    let server = HttpServer::start().await;
    let guarded =
        |authorization: &str, color| Route::Guarded(authorization.to_owned(), pack(color).archive());
    server.serve("/basic.tgz", guarded("Basic YWxhZGRpbjpvcGVuIHNlc2FtZQ==", "blue"));
    server.serve("/bearer.tgz", guarded("Bearer t0ken", "green"));
    let spec = |path: &str, name: &str| json!({"pack": {"http": {"url": server.url(path), "secretRef": {"name": name}}}});
    let login = json!({"username": "aladdin", "password": "open sesame"});
    h.objects.create("test-person", secret("login", login)).await;
    h.release("web", spec("/basic.tgz", "login")).await;
    h.ready("web").await;
    h.objects.edit("Secret/login", "test-person", json!({"stringData": {"password": "0pen s3same"}})).await;
    let held = h.condition("web", "Ready", "False", Some("SourceUnauthorized")).await;
    assert_eq!(condition(&held, "Released")["status"], "True");
    assert!(!held.to_string().contains("s3same"), "{held}");
    assert_locked(&h, "blue").await;
    h.objects.edit("Secret/login", "test-person", json!({"stringData": {"password": "open sesame"}})).await;
    h.ready("web").await;

    h.objects.create("test-person", secret("token", json!({"bearerToken": "t0ken\n"}))).await;
    h.release("web", spec("/bearer.tgz", "token")).await;
    colored(&h, "green").await;
    h.ready("web").await;
    // Who knows the digest of what others may see cannot have it without what they show.
    let mut stolen = spec("/bearer.tgz", "token");
    stolen["pack"]["http"]["digest"] = json!(digest("green"));
    stolen["pack"]["http"].as_object_mut().unwrap().remove("secretRef");
    stolen["releaseName"] = json!("thief");
    h.release("thief", stolen).await;
    h.condition("thief", "Ready", "False", Some("SourceUnauthorized")).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_address_of_the_operator_itself_is_refused_unless_its_host_is_allowed() {
    let mut h = Harness::without_operator("http-forbidden").await;
    h.start();
    let server = HttpServer::start().await;
    server.serve("/web.tgz", file("blue"));
    for (name, url) in [
        ("by-address", server.url("/web.tgz")),
        ("by-name", server.named_url("/web.tgz")),
        ("metadata", "http://169.254.169.254/latest/meta-data/".to_owned()),
        ("mapped", "http://[::ffff:169.254.169.254]/".to_owned()),
    ] {
        h.release(name, http(&url)).await;
        let held = h.condition(name, "Ready", "False", Some("SourceForbidden")).await;
        assert_eq!(condition(&held, "Stalled")["status"], "True", "{held}");
        assert!(message(&held).contains("--allow-source"), "{held}");
    }
    assert!(server.asked("/web.tgz").is_empty());
    h.kill();
    h.settings.sources = sources();
    h.start();
    h.ready("by-address").await;
    h.pass("by-name").await;
    h.condition("by-name", "Ready", "False", Some("SourceForbidden")).await;
}

/// An operator that fetches through a proxy, which leads to the server whatever it is asked for.
async fn proxied(name: &str, allow: &[&str]) -> (Harness, HttpServer, HttpProxy) {
    let mut h = Harness::without_operator(name).await;
    let server = HttpServer::start().await;
    server.serve("/web.tgz", file("blue"));
    let proxy = HttpProxy::start(server.address, None).await;
    let proxies = Proxies { http: format!("http://{}", proxy.address), ..Proxies::default() };
    let allow = allow.iter().map(|host| host.parse().unwrap()).collect();
    h.settings.sources = Options { allow, proxies, ..Options::default() };
    (h, server, proxy)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_proxy_leads_to_hosts_that_only_it_knows_when_they_are_allowed() {
    let (h, _server, proxy) = proxied("http-proxy", &["charts.invalid"]).await;
    h.start();
    let unknown = "http://metadata.google.invalid/computeMetadata/v1/";
    h.release("metadata", http(unknown)).await;
    let held = h.condition("metadata", "Ready", "False", Some("SourceUnreachable")).await;
    assert!(message(&held).contains("--allow-source"), "{held}");
    h.release("web", http("http://charts.invalid/web.tgz")).await;
    h.ready("web").await;
    assert_eq!(proxy.asked(), ["GET http://charts.invalid:80/web.tgz"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_release_cannot_find_out_what_listens_at_a_private_address() {
    let (h, server, _proxy) = proxied("http-scanner", &[]).await;
    h.start();
    server.serve("/web", Route::File(b"<html>".to_vec()));
    server.serve("/401", Route::Status(401));
    let mut said = Vec::new();
    for (name, url) in [
        ("missing", "http://10.0.0.7/missing"),
        ("login", "http://10.0.0.7/401"),
        ("page", "http://10.0.0.7/web"),
        ("closed", "https://127.0.0.1.invalid/"),
    ] {
        h.release(name, http(url)).await;
        let held = h.condition(name, "Ready", "False", Some("SourceUnreachable")).await;
        said.push(message(&held).replace(url, "URL"));
    }
    // The last one is another matter: a name that does not exist is told.
    assert!(said.pop().is_some_and(|unknown| unknown.contains("cannot be resolved")));
    assert!(said.iter().all(|text| *text == said[0]), "{said:#?}");
    h.release("archive", http("http://10.0.0.7/web.tgz")).await;
    h.ready("archive").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn private_addresses_are_refused_by_the_flag_until_they_are_allowed() {
    let (mut h, _server, proxy) = proxied("http-private", &[]).await;
    h.settings.sources.deny_private = true;
    h.start();
    for (name, host) in [("address", "10.0.0.7"), ("name", "0x0a000007")] {
        h.release(name, http(&format!("http://{host}/web.tgz"))).await;
        let held = h.condition(name, "Ready", "False", Some("SourceForbidden")).await;
        assert_eq!(condition(&held, "Stalled")["status"], "True", "{held}");
        assert!(message(&held).contains(host) && message(&held).contains("--allow-source"), "{held}");
        assert_eq!(message(&held).contains("10.0.0.7"), host == "10.0.0.7", "{held}");
    }
    assert!(proxy.asked().is_empty());
    h.kill();
    h.settings.sources.allow = vec!["10.0.0.7:80".parse().unwrap()];
    h.start();
    h.ready("address").await;
    h.pass("name").await;
    h.condition("name", "Ready", "False", Some("SourceForbidden")).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_address_of_a_service_is_private_whatever_it_looks_like() {
    let (mut h, _server, proxy) = proxied("http-services", &[]).await;
    // Some clouds take public addresses for them.
    let network = json!({
        "apiVersion": "networking.k8s.io/v1", "kind": "ServiceCIDR", "metadata": {"name": "http-services"},
        "spec": {"cidrs": ["198.51.100.0/28"]},
    });
    let networks: Api<ServiceCIDR> = Api::all(h.client.clone());
    networks.create(&PostParams::default(), &serde_json::from_value(network).unwrap()).await.unwrap();
    h.settings.sources.deny_private = true;
    h.start();
    for (name, host) in [("address", "198.51.100.7"), ("named", "web.apps.svc.cluster.local")] {
        h.release(name, http(&format!("http://{host}/web.tgz"))).await;
    }
    let held = h.condition("address", "Ready", "False", Some("SourceForbidden")).await;
    assert!(message(&held).contains("198.51.100.7 is a Service of the cluster"), "{held}");
    // Nobody resolves it here, and nobody has to.
    h.condition("named", "Ready", "False", Some("SourceForbidden")).await;
    h.release("public", http("http://198.51.100.17/web.tgz")).await;
    h.ready("public").await;
    assert_eq!(proxy.asked(), ["GET http://198.51.100.17:80/web.tgz"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_several_tenants_private_addresses_are_refused_without_a_word() {
    let h = Harness::without_operator("http-tenants").await;
    h.account("tenant").await;
    let arguments = ["--tenancy=multi", "--default-service-account=tenant"];
    let process = Process::of(command(&h, &arguments)).await;
    h.release("web", http("http://10.0.0.7/web.tgz")).await;
    h.condition("web", "Ready", "False", Some("SourceForbidden")).await;
    process.stop().await;
    let process =
        Process::of(command(&h, &[&arguments[..], &["--deny-private-sources=false"]].concat())).await;
    h.pass("web").await;
    let told = h.status("web").await["conditions"].to_string();
    assert!(!told.contains("SourceForbidden"), "{told}");
    process.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hundred_sources_that_do_not_answer_keep_nobody_waiting() {
    const MANY: usize = 100;
    let h = harness("http-crowd").await;
    let server = HttpServer::start().await;
    let paths: Vec<String> = (0..MANY).map(|index| format!("/{index}.tgz")).collect();
    for (index, path) in paths.iter().enumerate() {
        server.serve(path, Route::Dripping);
        h.release(&format!("slow-{index}"), http(&server.url(path))).await;
    }
    let attempts = || paths.iter().map(|path| server.asked(path).len()).collect::<Vec<_>>();
    wait_for("all of them are being fetched", async || {
        let attempts = attempts();
        if attempts.iter().all(|count| *count > 0) { Ok(()) } else { Err(format!("{attempts:?}")) }
    })
    .await;
    // More than there are workers, from either kind of source.
    server.serve("/web.tgz", file("blue"));
    h.release("by-url", http(&server.url("/web.tgz"))).await;
    let other = Pack::new("other", "1.0.0").object(config_map("other", json!({"a": "b"})));
    h.deploy("by-config-map", &other, json!({})).await;
    h.ready("by-url").await;
    assert_eq!(attempts(), vec![1; MANY], "all of them still wait for their first answer");
    for index in 0..MANY {
        let status = h.status(&format!("slow-{index}")).await;
        let told = condition(&json!({"status": status}), "Ready")["reason"].clone();
        assert!(told.is_null() || told == "Fetching", "{told}");
    }
}

/// A directory that goes away with the value.
struct Scratch(PathBuf);

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restart_costs_one_conditional_request_for_a_url_and_none_for_a_digest() {
    const MANY: usize = 12;
    let scratch = Scratch(std::env::temp_dir().join(format!("sherpack-http-restart-{}", std::process::id())));
    let mut h = Harness::without_operator("http-restart").await;
    h.settings.sources = Options { cache_dir: Some(scratch.0.clone()), ..sources() };
    h.start();
    let server = HttpServer::start().await;
    let named = |color: &str| {
        Pack::new("web", "1.0.0").object(config_map("{{ release.name }}", json!({"color": color}))).archive()
    };
    let archive = named("blue");
    server.serve("/web.tgz", Route::File(archive.clone()));
    server.serve("/pinned.tgz", Route::File(archive.clone()));
    for index in 0..MANY {
        h.release(&format!("r{index}"), http(&server.url("/web.tgz"))).await;
        let pinned = json!({"url": server.url("/pinned.tgz"), "digest": cache::digest(&archive)});
        h.release(&format!("p{index}"), json!({"pack": {"http": pinned}})).await;
    }
    for index in 0..MANY {
        h.ready(&format!("r{index}")).await;
        h.ready(&format!("p{index}")).await;
    }
    h.stop().await;
    let (before, pinned) = (server.answers("/web.tgz").len(), server.answers("/pinned.tgz").len());
    let mark = h.wire.mark();
    h.start();
    h.operator_ready().await;
    eventually("every release had a pass", async || {
        let passes = h.metric("sherpack_reconcile_duration_seconds_count", &[]).await;
        // It notes a request first, and then what it answers.
        let answered = server.answers("/web.tgz").iter().skip(before).any(|status| *status > 0);
        passes >= 2.0 * MANY as f64 && answered
    })
    .await;
    assert_eq!(server.answers("/web.tgz")[before..], [304]);
    assert_eq!(server.answers("/pinned.tgz").len(), pinned);
    let writes: Vec<String> =
        h.wire.writes_since(mark).iter().map(crate::support::wire::Request::line).collect();
    assert!(writes.iter().all(|line| !line.contains("sherpackreleases")), "{writes:#?}");

    // A damaged archive is fetched again, by whoever finds it first.
    h.stop().await;
    let whole = || {
        let answers = [server.answers("/web.tgz"), server.answers("/pinned.tgz")].concat();
        answers.into_iter().filter(|status| *status == 200).count()
    };
    let before = whole();
    let kept = scratch.0.join("packs-v1/archives");
    for entry in std::fs::read_dir(&kept).unwrap() {
        std::fs::write(entry.unwrap().path(), "damaged").unwrap();
    }
    h.start();
    h.pass("p0").await;
    assert!(whole() > before, "it was acted on");
    h.ready("p0").await;
    h.shows_states("p0", &["1 deployed"]).await;
}
