//! Where one fetch may lead, directly and behind a proxy, and what is told when it may not.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use sherpack_operator::api::Class;
use sherpack_operator::pack::Limits;
use sherpack_operator::release::ReleaseKey;
use sherpack_operator::source::Error;
use sherpack_operator::source::cache::{Cache, digest};
use sherpack_operator::source::fetch::{Access, Ask, Fetcher, Location, Look, SourceId};
use sherpack_operator::source::http::{Client, Options, Proxies, Url};
use sherpack_operator::source::oci::{Artifact, Wanted};
use sherpack_operator::source::repository::Listed;

use super::http_client::{BYTES, credentials, free_address, get, get_with, impatient, refused, through};
use crate::support::http_proxy::HttpProxy;
use crate::support::http_server::{Authority, HttpServer, Route};
use crate::support::signing::{Cosign, Minisign};

/// Names of 203.0.113.7 and 10.0.0.7 that the system resolves without asking a server.
const WORLD: &str = "0xcb007107";
const INSIDE: &str = "0x0a000007";

#[tokio::test]
async fn a_proxy_is_told_the_address_that_was_checked_and_never_a_name_that_only_it_knows() {
    let authority = Authority::new();
    let server = HttpServer::start_tls(&authority, &[WORLD], None).await;
    let plain = HttpServer::start().await;
    server.serve("/a", Route::File(BYTES.to_vec()));
    plain.serve("/a", Route::File(BYTES.to_vec()));
    plain.serve("/away", Route::Redirect(302, "http://metadata.google.invalid/".to_owned()));
    let (tunnel, forward) =
        (HttpProxy::start(server.address, None).await, HttpProxy::start(plain.address, None).await);
    let proxies = Proxies {
        https: format!("http://{}", tunnel.address),
        all: format!("http://{}", forward.address),
        ..Proxies::default()
    };
    let client = through(proxies, &[]);
    let ca = credentials(&[("ca.crt", &authority.pem())]);
    assert_eq!(get_with(&client, &format!("https://{WORLD}/a"), &ca).await.unwrap(), BYTES);
    assert_eq!(tunnel.asked(), ["CONNECT 203.0.113.7:443"]);
    assert_eq!(get(&client, &format!("http://{WORLD}:81/a?b=c")).await.unwrap(), BYTES);
    assert_eq!(forward.asked(), ["GET http://203.0.113.7:81/a?b=c"]);
    assert_eq!(plain.asked("/a?b=c")[0].headers["host"], format!("{WORLD}:81"));
    for name in ["metadata.google.invalid/computeMetadata/v1/", "charts.invalid/a"] {
        for scheme in ["http", "https"] {
            let url = format!("{scheme}://{name}");
            refused(get(&client, &url).await, "SourceUnreachable", "unless its flag --allow-source names");
        }
    }
    // Nor by a name that leads where nothing may lead.
    for url in ["http://0xa9fea9fe/latest/meta-data", "https://0x7f000001/"] {
        refused(get(&client, url).await, "SourceForbidden", "--allow-source");
    }
    refused(get(&client, &format!("http://{WORLD}/away")).await, "SourceUnreachable", "--allow-source");
    assert_eq!((tunnel.asked().len(), forward.asked().len()), (1, 2));
}

/// Whoever writes a release must not learn through the operator what listens where only the operator is let in.
#[tokio::test]
async fn of_a_private_address_nothing_is_told_but_whether_it_gave_an_archive() {
    let gone = free_address();
    let (plain, closed) = (HttpServer::start().await, HttpProxy::start(gone, None).await);
    let forward = HttpProxy::start(plain.address, None).await;
    let behind = |proxy: &HttpProxy, allow: &[&str]| {
        through(Proxies { all: format!("http://{}", proxy.address), ..Proxies::default() }, allow)
    };
    let (client, nobody) = (behind(&forward, &[]), behind(&closed, &[]));
    plain.serve("/loop", Route::Redirect(302, "/loop".to_owned()));
    plain.serve("/own", Route::Redirect(302, "http://127.0.0.1/".to_owned()));
    plain.serve("/inside", Route::Redirect(302, format!("http://{INSIDE}/401")));
    plain.serve("/web", Route::File(b"<html>".to_vec()));
    plain.serve("/401", Route::Status(401));
    plain.serve("/500", Route::Status(500));
    plain.serve("/silent", Route::Silent);
    plain.serve("/cut", Route::Truncated(vec![1; 1000]));
    plain.serve("/large", Route::Promising(1 << 50));
    let told = |error: &Error, url: &str| {
        assert!(error.in_full() != error.to_string(), "the log tells no more: {error}");
        (error.reason(), error.class(), error.to_string().replace(url, "URL"))
    };
    let at = |scheme: &str, path: &str| format!("{scheme}://10.0.0.7{path}");
    let url = at("http", "/missing");
    let first = told(&get(&nobody, &url).await.unwrap_err(), &url);
    assert_eq!((first.0, first.1), ("SourceUnreachable", Class::Retry));
    assert!(first.2.contains("--allow-source"), "{first:?}");
    for path in ["/missing", "/loop", "/own", "/web", "/401", "/500", "/silent", "/cut", "/large"] {
        let url = at("http", path);
        assert_eq!(told(&get(&client, &url).await.unwrap_err(), &url), first, "{path}");
    }
    for client in [&client, &nobody] {
        let url = at("https", "/missing");
        assert_eq!(told(&get(client, &url).await.unwrap_err(), &url), first, "TLS");
    }
    // A public server that leads inside tells no more than one that is asked there.
    let url = format!("http://{WORLD}/inside");
    assert_eq!(told(&get(&client, &url).await.unwrap_err(), &url), first);

    let archive = [&[0x1f, 0x8b][..], BYTES].concat();
    plain.serve("/a", Route::File(archive.clone()));
    assert_eq!(get(&client, &at("http", "/a")).await.unwrap(), archive);
    // In full for the public, and where an administrator says so.
    refused(get(&client, &format!("http://{WORLD}/500")).await, "SourceUnavailable", "answers 500");
    let open = behind(&forward, &["10.0.0.7"]);
    refused(get(&open, &at("http", "/500")).await, "SourceUnavailable", "answers 500");
    refused(get(&open, &at("http", "/401")).await, "SourceUnauthorized", "answers 401");
}

#[tokio::test]
async fn private_addresses_and_services_are_not_asked_where_they_are_denied() {
    let plain = HttpServer::start().await;
    plain.serve("/a", Route::File(BYTES.to_vec()));
    let forward = HttpProxy::start(plain.address, None).await;
    let denying = |allow: &[&str]| {
        let allow = allow.iter().map(|host| host.parse().unwrap()).collect();
        let proxies = Proxies { all: format!("http://{}", forward.address), ..Proxies::default() };
        let options = Options { allow, deny_private: true, proxies, ..Options::default() };
        Client::new(&options, impatient(), &Limits::default())
    };
    let client = denying(&[]);
    for host in
        ["10.0.0.7", INSIDE, "172.16.0.1", "192.168.1.1", "100.64.0.1", "[fd00::1]", "[::ffff:10.0.0.7]"]
    {
        let error = refused(get(&client, &format!("http://{host}/a")).await, "SourceForbidden", "address");
        assert_eq!(error.class(), Class::FixSpec, "{error}");
        assert!(error.to_string().contains("--allow-source"), "{error}");
    }
    plain.serve("/inside", Route::Redirect(302, "http://10.0.0.7/a".to_owned()));
    refused(get(&client, &format!("http://{WORLD}/inside")).await, "SourceForbidden", "10.0.0.7");
    assert_eq!(forward.asked(), ["GET http://203.0.113.7:80/inside"]);
    for host in ["10.0.0.7", INSIDE, "charts.apps.svc"] {
        let allowed = denying(&["10.0.0.7", INSIDE, "charts.apps.svc:80"]);
        assert_eq!(get(&allowed, &format!("http://{host}/a")).await.unwrap(), BYTES);
    }
}

/// How the first look at a source ends.
async fn looked_at(client: Client, location: Location, access: &Access) -> Look {
    let (wake_tx, mut wake_rx) = futures::channel::mpsc::unbounded();
    let cache = Arc::new(Cache::open(None, 0, 100_000));
    let fetcher = Fetcher::new(client, cache, wake_tx, Arc::new(|_, _| {}));
    let release = &ReleaseKey { namespace: "apps".to_owned(), name: "web".to_owned() };
    let (scope, signed) = Default::default();
    let id = SourceId { location, scope, signed };
    let interval = Duration::from_mins(60);
    let ask = Ask { release, digest: None, interval, changed: false, request: None };
    assert!(matches!(fetcher.look(&id, access, &ask).await, Look::Fetching { .. }));
    wake_rx.next().await;
    fetcher.look(&id, access, &ask).await
}

#[tokio::test]
async fn what_is_inside_is_not_asked_on_the_word_of_a_server_that_would_see_the_answer() {
    let plain = HttpServer::start().await;
    let hex = "0a".repeat(32);
    let inside = |path: &str| Route::Redirect(302, format!("http://{INSIDE}{path}"));
    for path in ["/v2/web/manifests/1.0.0".to_owned(), format!("/v2/web/manifests/sha256:{hex}")] {
        plain.serve(&path, inside("/secret"));
    }
    plain.serve("/v2/web/tags/list", inside("/secret"));
    plain.serve("/charts/index.yaml", inside("/secret"));
    plain.serve("/secret", Route::File(b"{}".to_vec()));
    let artifact =
        |wanted| Location::Oci(Artifact::parse(&format!("oci://{WORLD}/web"), wanted, true).unwrap());
    let listed = Location::Repository(Listed {
        repository: Url::parse(&format!("http://{WORLD}/charts")).unwrap(),
        name: "web".to_owned(),
        range: None,
        pass_credentials: false,
    });
    for location in [
        artifact(Wanted::Tag("1.0.0".to_owned())),
        artifact(Wanted::Range("1.x".to_owned())),
        artifact(Wanted::Digest(format!("sha256:{hex}"))),
        listed,
    ] {
        let forward = HttpProxy::start(plain.address, None).await;
        let proxies = Proxies { all: format!("http://{}", forward.address), ..Proxies::default() };
        let options = Options { proxies, ..Options::default() };
        let client = Client::new(&options, impatient(), &Limits::default());
        let Look::Failed(error) = looked_at(client, location.clone(), &Access::default()).await else {
            panic!("{location}")
        };
        assert_eq!(error.reason(), "SourceUnreachable", "{error}");
        assert!(error.in_full().contains("another server leads there"), "{}", error.in_full());
        assert!(!forward.asked().iter().any(|line| line.contains("secret")), "{:?}", forward.asked());
    }
}

/// A signature that is missing, or there and wrong, must not tell what a private address answers.
#[tokio::test]
async fn signatures_are_only_looked_for_beside_what_may_be_told() {
    let plain = HttpServer::start().await;
    plain.serve("/web", Route::File(b"<html>".to_vec()));
    plain.serve("/v2/web/manifests/stable", Route::File(b"{}".to_vec()));
    let hex = digest(b"{}");
    plain.serve(&format!("/v2/web/manifests/{hex}"), Route::File(b"{}".to_vec()));
    plain.serve("/a", Route::File([&[0x1f, 0x8b][..], BYTES].concat()));
    plain.serve("/a.minisig", Route::Redirect(302, format!("http://{INSIDE}/secret")));
    plain.serve("/secret", Route::File(b"secret".to_vec()));
    let archive =
        |host: &str, path: &str| Location::Archive(Url::parse(&format!("http://{host}{path}")).unwrap());
    let oci = format!("oci://{INSIDE}/web");
    let oci = Location::Oci(Artifact::parse(&oci, Wanted::Tag("stable".to_owned()), true).unwrap());
    for (location, keys) in [
        (archive(INSIDE, "/web"), Minisign::default().keys()),
        (archive(WORLD, "/a"), Minisign::default().keys()),
        (oci, Cosign::default().keys()),
    ] {
        let forward = HttpProxy::start(plain.address, None).await;
        let proxies = Proxies { all: format!("http://{}", forward.address), ..Proxies::default() };
        let options = Options { proxies, ..Options::default() };
        let client = Client::new(&options, impatient(), &Limits::default());
        let access = Access { keys: Some(Arc::new(keys)), ..Access::default() };
        let Look::Failed(error) = looked_at(client, location.clone(), &access).await else {
            panic!("{location}")
        };
        assert_eq!(error.reason(), "SourceUnreachable", "{error}");
        let asked = forward.asked();
        let told = |line: &String| {
            ["secret", "web.minisig", "sha256-", "referrers"].iter().any(|at| line.contains(at))
        };
        assert!(!asked.iter().any(told), "{asked:?}");
    }
}
