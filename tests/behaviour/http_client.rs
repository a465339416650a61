//! One fetch against a real server: what is sent, what is refused, and what is said when it goes wrong.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use k8s_openapi::ByteString;
use sherpack_operator::api::Class;
use sherpack_operator::pack::Limits;
use sherpack_operator::release::ReleaseKey;
use sherpack_operator::source::Error;
use sherpack_operator::source::cache::{self, Cache};
use sherpack_operator::source::fetch::{Access, Ask, Fetcher, Location, Look, SourceId};
use sherpack_operator::source::http::{
    Answer, Client, Credentials, Options, Proxies, Timing, Url, Validators,
};

use crate::support::http_proxy::HttpProxy;
use crate::support::http_server::{Authority, HttpServer, Route};

pub(super) const BYTES: &[u8] = b"any bytes do";

/// Answers that never come are not waited for as long as in real life.
pub(super) fn impatient() -> Timing {
    let short = Duration::from_secs(2);
    Timing { head: short, idle: short, ..Timing::default() }
}

fn client(allow: &[&str]) -> Client {
    through(Proxies::default(), allow)
}

pub(super) fn through(proxies: Proxies, allow: &[&str]) -> Client {
    let allow = allow.iter().map(|host| host.parse().unwrap()).collect();
    let options = Options { allow, proxies, ..Options::default() };
    Client::new(&options, impatient(), &Limits { compressed: 100_000, ..Limits::default() })
}

pub(super) fn credentials(data: &[(&str, &str)]) -> Credentials {
    let data = data.iter().map(|(key, value)| ((*key).to_owned(), ByteString(value.as_bytes().to_vec())));
    Credentials::read(&data.collect::<BTreeMap<_, _>>()).unwrap()
}

pub(super) async fn get_with(
    client: &Client,
    url: &str,
    credentials: &Credentials,
) -> Result<Vec<u8>, Error> {
    let url = Url::parse(url).unwrap();
    match client.get("apps", &url, credentials, &Validators::default()).await? {
        Answer::Fetched { bytes, .. } => Ok(bytes),
        Answer::Unchanged => panic!("unchanged since nothing"),
    }
}

pub(super) async fn get(client: &Client, url: &str) -> Result<Vec<u8>, Error> {
    get_with(client, url, &Credentials::default()).await
}

#[track_caller]
pub(super) fn refused(result: Result<Vec<u8>, Error>, reason: &str, says: &str) -> Error {
    let error = result.expect_err("it is refused");
    assert_eq!(error.reason(), reason, "{error}");
    assert!(error.to_string().contains(says), "{error} does not say `{says}`");
    error
}

#[tokio::test]
async fn a_file_is_fetched_as_it_is_served_and_asked_for_conditionally_from_then_on() {
    let server = HttpServer::start().await;
    let client = client(&["127.0.0.1"]);
    server.serve("/pack.tgz", Route::File(BYTES.to_vec()));
    let url = Url::parse(&server.url("/pack.tgz?a=b")).unwrap();
    let none = Credentials::default();
    let first = client.get("apps", &url, &none, &Validators::default()).await.unwrap();
    let Answer::Fetched { bytes, validators } = first else { panic!("{first:?}") };
    assert_eq!(bytes, BYTES);
    assert_eq!(client.get("apps", &url, &none, &validators).await, Ok(Answer::Unchanged));
    server.serve("/pack.tgz", Route::File(b"other".to_vec()));
    let changed = client.get("apps", &url, &none, &validators).await.unwrap();
    assert!(matches!(changed, Answer::Fetched { bytes, .. } if bytes == b"other"));
    let asked = server.asked("/pack.tgz?a=b");
    assert_eq!(server.answers("/pack.tgz?a=b"), [200, 304, 200]);
    assert_eq!(asked[0].headers["host"], server.address.to_string());
    assert_eq!(asked[0].headers["accept-encoding"], "identity");
    assert!(asked[0].headers["user-agent"].starts_with("sherpack-operator/"));
    assert!(!asked[0].headers.contains_key("authorization"));
    // Archives are often labelled so; the digest is that of what is served.
    server.serve("/labelled.tgz", Route::Encoded(BYTES.to_vec()));
    assert_eq!(get(&client, &server.url("/labelled.tgz")).await.unwrap(), BYTES);
}

#[tokio::test]
async fn every_bad_answer_has_its_own_reason() {
    let server = HttpServer::start().await;
    let client = client(&["127.0.0.1"]);
    for (path, route, reason, says, class) in [
        ("/gone", Route::Status(410), "SourceNotFound", "does not exist", Class::Retry),
        (
            "/401",
            Route::Status(401),
            "SourceUnauthorized",
            "answers 401; put credentials into a Secret",
            Class::FixCluster,
        ),
        ("/403", Route::Status(403), "SourceAccessDenied", "answers 403", Class::FixCluster),
        ("/500", Route::Status(500), "SourceUnavailable", "answers 500", Class::Retry),
        ("/204", Route::Status(204), "SourceUnavailable", "answers 204", Class::Retry),
        ("/304", Route::Status(304), "SourceUnavailable", "answers 304", Class::Retry),
        ("/silent", Route::Silent, "SourceUnreachable", "no answer within", Class::Retry),
        ("/stalls", Route::Stalling(vec![1; 1000]), "SourceUnreachable", "came to a halt", Class::Retry),
        ("/cut", Route::Truncated(vec![1; 1000]), "SourceUnreachable", "broke off", Class::Retry),
        ("/endless", Route::Endless, "PackTooLarge", "larger than 100000 bytes", Class::FixSpec),
        ("/large", Route::Promising(100_001), "PackTooLarge", "larger than 100000 bytes", Class::FixSpec),
        ("/huge", Route::Promising(1 << 50), "PackTooLarge", "larger than 100000 bytes", Class::FixSpec),
    ] {
        server.serve(path, route);
        let url = server.url(path);
        let error = refused(get(&client, &url).await, reason, says);
        assert!(error.to_string().contains(&url), "{error}");
        assert_eq!(error.class(), class, "{error}");
    }
    refused(get(&client, &server.url("/missing")).await, "SourceNotFound", "/missing");
    let nobody = format!("http://{}/a", free_address());
    refused(get(&client, &nobody).await, "SourceUnreachable", "refused");
    refused(get(&client, "http://no-such-host.invalid/a").await, "SourceUnreachable", "no-such-host.invalid");
    // Plain HTTP where TLS is expected.
    let url = server.url("/missing").replace("http:", "https:");
    refused(get(&client, &url).await, "SourceUnreachable", "does not speak TLS");
    let secret = server.url("/gone?token=s3cret");
    assert!(
        !refused(get(&client, &secret).await, "SourceNotFound", "/gone?...").to_string().contains("s3cret")
    );
}

pub(super) fn free_address() -> std::net::SocketAddr {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

#[tokio::test]
async fn what_only_the_operator_can_reach_is_refused_before_anything_is_sent() {
    let server = HttpServer::start().await;
    server.serve("/a", Route::File(BYTES.to_vec()));
    let port = server.address.port();
    let strict = client(&[]);
    for host in
        ["127.0.0.1", "localhost", "[::1]", "[::ffff:127.0.0.1]", "2130706433", "127.1", "0.0.0.0", "0"]
    {
        let error = refused(
            get(&strict, &format!("http://{host}:{port}/a")).await,
            "SourceForbidden",
            "--allow-source",
        );
        assert_eq!(error.class(), Class::FixSpec);
    }
    for host in ["169.254.169.254", "[fd00:ec2::254]", "100.100.100.200", "224.0.0.1"] {
        refused(
            get(&strict, &format!("http://{host}/latest/meta-data")).await,
            "SourceForbidden",
            host.trim_matches(['[', ']']),
        );
    }
    assert!(server.asked("/a").is_empty());
    // Allowed is what is named, and nothing that merely leads to the same place.
    let one = client(&[&format!("127.0.0.1:{port}")]);
    assert_eq!(get(&one, &server.url("/a")).await.unwrap(), BYTES);
    refused(get(&one, &server.named_url("/a")).await, "SourceForbidden", "localhost");
    refused(get(&one, "http://127.0.0.1:1/a").await, "SourceForbidden", "127.0.0.1");
}

#[tokio::test]
async fn redirects_are_followed_within_bounds_and_each_is_judged() {
    let server = HttpServer::start().await;
    let here = format!("127.0.0.1:{}", server.address.port());
    let client = client(&[&here]);
    server.serve("/files/pack.tgz", Route::File(BYTES.to_vec()));
    server.serve("/a/1", Route::Redirect(301, "2".to_owned()));
    server.serve("/a/2", Route::Redirect(302, "/a/3?token=s3cret".to_owned()));
    server.serve("/a/3", Route::Redirect(303, server.url("/a/4")));
    server.serve("/a/4", Route::Redirect(307, "../a/5".to_owned()));
    server.serve("/a/5", Route::Redirect(308, "../files/pack.tgz".to_owned()));
    assert_eq!(get(&client, &server.url("/a/1")).await.unwrap(), BYTES);
    server.serve("/a/0", Route::Redirect(302, "/a/1".to_owned()));
    refused(get(&client, &server.url("/a/0")).await, "SourceRedirectRefused", "more than 5 times");
    server.serve("/loop/1", Route::Redirect(302, "/loop/2".to_owned()));
    server.serve("/loop/2", Route::Redirect(302, "/loop/1".to_owned()));
    refused(get(&client, &server.url("/loop/1")).await, "SourceRedirectRefused", "loop");
    for (to, reason) in [
        ("http://169.254.169.254/latest/meta-data", "SourceForbidden"),
        ("http://localhost:1/", "SourceForbidden"),
        ("//[::1]/", "SourceForbidden"),
        ("file:///etc/passwd", "SourceRedirectRefused"),
        ("http://user:s3cret@127.0.0.1/", "SourceRedirectRefused"),
    ] {
        server.serve("/away", Route::Redirect(302, to.to_owned()));
        let error = refused(get(&client, &server.url("/away")).await, reason, "/away");
        assert!(!error.to_string().contains("s3cret"), "{error}");
    }
    server.serve("/nowhere", Route::Status(302));
    refused(get(&client, &server.url("/nowhere")).await, "SourceUnavailable", "302");
}

#[tokio::test]
async fn credentials_stay_with_their_host() {
    let (server, other) = (HttpServer::start().await, HttpServer::start().await);
    let client = client(&["127.0.0.1", "localhost"]);
    let basic = credentials(&[("username", "aladdin"), ("password", "open sesame")]);
    let expected = "Basic YWxhZGRpbjpvcGVuIHNlc2FtZQ==";
    server.serve("/a", Route::Guarded(expected.to_owned(), BYTES.to_vec()));
    assert_eq!(get_with(&client, &server.url("/a"), &basic).await.unwrap(), BYTES);
    let wrong = credentials(&[("bearerToken", "s3cret")]);
    let error = refused(
        get_with(&client, &server.url("/a"), &wrong).await,
        "SourceUnauthorized",
        "check the credentials",
    );
    assert!(!error.to_string().contains("s3cret"));

    // Within the host they go along, elsewhere they do not, and not back again either.
    server.serve("/within", Route::Redirect(302, "/a".to_owned()));
    assert_eq!(get_with(&client, &server.url("/within"), &basic).await.unwrap(), BYTES);
    other.serve("/b", Route::File(BYTES.to_vec()));
    other.serve("/back", Route::Redirect(302, server.url("/a")));
    server.serve("/port", Route::Redirect(302, other.url("/b")));
    server.serve("/name", Route::Redirect(302, server.named_url("/a")));
    server.serve("/and-back", Route::Redirect(302, other.url("/back")));
    assert_eq!(get_with(&client, &server.url("/port"), &basic).await.unwrap(), BYTES);
    refused(get_with(&client, &server.url("/name"), &basic).await, "SourceUnauthorized", "401");
    refused(get_with(&client, &server.url("/and-back"), &basic).await, "SourceUnauthorized", "401");
    assert!(
        other
            .asked("/b")
            .iter()
            .chain(&other.asked("/back"))
            .all(|asked| !asked.headers.contains_key("authorization"))
    );

    // From https they do not even follow to http.
    let authority = Authority::new();
    let safe = HttpServer::start_tls(&authority, &[], None).await;
    safe.serve("/down", Route::Redirect(302, other.url("/b")));
    let ca = authority.pem();
    let both = credentials(&[("bearerToken", "s3cret"), ("ca.crt", &ca)]);
    refused(
        get_with(&client, &safe.url("/down"), &both).await,
        "SourceRedirectRefused",
        "from https to http",
    );
    let only_ca = credentials(&[("ca.crt", &ca)]);
    assert_eq!(get_with(&client, &safe.url("/down"), &only_ca).await.unwrap(), BYTES);
}

#[tokio::test]
async fn a_private_authority_and_client_certificates_are_asked_for_by_their_keys() {
    let (authority, stranger) = (Authority::new(), Authority::new());
    let server = HttpServer::start_tls(&authority, &[], None).await;
    let client = client(&["127.0.0.1", "localhost"]);
    server.serve("/a", Route::File(BYTES.to_vec()));
    let (url, ca) = (server.url("/a"), authority.pem());
    refused(get(&client, &url).await, "SourceUntrusted", "put its certificate as `ca.crt`");
    assert_eq!(get_with(&client, &url, &credentials(&[("ca.crt", &ca)])).await.unwrap(), BYTES);
    let other = credentials(&[("ca.crt", &stranger.pem())]);
    refused(get_with(&client, &url, &other).await, "SourceUntrusted", "not the one in `ca.crt`");

    let guarded = HttpServer::start_tls(&authority, &[], Some(&authority)).await;
    guarded.serve("/a", Route::File(BYTES.to_vec()));
    let url = guarded.named_url("/a");
    let nobody = credentials(&[("ca.crt", &ca)]);
    refused(get_with(&client, &url, &nobody).await, "SourceUntrusted", "put `tls.crt` and `tls.key`");
    let (certificate, key) = authority.client();
    let known = credentials(&[("ca.crt", &ca), ("tls.crt", &certificate), ("tls.key", &key)]);
    assert_eq!(get_with(&client, &url, &known).await.unwrap(), BYTES);
    let (certificate, key) = stranger.client();
    let unknown = credentials(&[("ca.crt", &ca), ("tls.crt", &certificate), ("tls.key", &key)]);
    refused(
        get_with(&client, &url, &unknown).await,
        "SourceUntrusted",
        "does not accept the client certificate",
    );
    // The certificate is shown to its own host only.
    server.serve("/to-guarded", Route::Redirect(302, guarded.url("/a")));
    refused(get_with(&client, &server.url("/to-guarded"), &known).await, "SourceUntrusted", "");
}

#[tokio::test]
async fn a_certificate_for_another_name_is_refused() {
    let authority = Authority::new();
    let server = HttpServer::start_tls(&authority, &[], None).await;
    let ca = credentials(&[("ca.crt", &authority.pem())]);
    let proxy = HttpProxy::start(server.address, None).await;
    let proxies = Proxies { https: format!("http://{}", proxy.address), ..Proxies::default() };
    let misled = through(proxies, &["charts.invalid"]);
    refused(get_with(&misled, "https://charts.invalid/a", &ca).await, "SourceUntrusted", "charts.invalid");
}

#[tokio::test]
async fn a_proxy_is_used_unless_the_host_is_excepted() {
    let authority = Authority::new();
    let server = HttpServer::start_tls(&authority, &["charts.invalid"], None).await;
    let plain = HttpServer::start().await;
    server.serve("/a", Route::File(BYTES.to_vec()));
    plain.serve("/a", Route::File(BYTES.to_vec()));
    let tunnel = HttpProxy::start(server.address, Some("Basic dXNlcjpwYXNz")).await;
    let forward = HttpProxy::start(plain.address, None).await;
    let proxies = Proxies {
        https: format!("http://user:pass@{}", tunnel.address),
        http: format!("http://{}", forward.address),
        no: "direct.invalid".to_owned(),
        ..Proxies::default()
    };
    let client = through(proxies, &["charts.invalid"]);
    let secret = credentials(&[("ca.crt", &authority.pem()), ("bearerToken", "s3cret")]);
    assert_eq!(get_with(&client, "https://charts.invalid/a", &secret).await.unwrap(), BYTES);
    assert_eq!(tunnel.asked(), ["CONNECT charts.invalid:443"]);
    assert_eq!(server.asked("/a")[0].headers["authorization"], "Bearer s3cret");
    assert!(!server.asked("/a")[0].headers.contains_key("proxy-authorization"));
    assert_eq!(get(&client, "http://charts.invalid:81/a?b=c").await.unwrap(), BYTES);
    assert_eq!(forward.asked(), ["GET http://charts.invalid:81/a?b=c"]);
    assert_eq!(plain.asked("/a?b=c")[0].headers["host"], "charts.invalid:81");
    refused(get(&client, "http://direct.invalid/a").await, "SourceUnreachable", "direct.invalid");
    // The proxy is the operator's, the target is still the release's.
    refused(get(&client, "http://169.254.169.254/a").await, "SourceForbidden", "metadata");
    refused(get(&client, "https://localhost/a").await, "SourceForbidden", "localhost");
    assert_eq!((forward.asked().len(), tunnel.asked().len()), (1, 1));
    let refusing = Proxies { https: format!("http://user:wrong@{}", tunnel.address), ..Proxies::default() };
    let error = refused(
        get(&through(refusing, &["charts.invalid"]), "https://charts.invalid/a").await,
        "SourceUnreachable",
        "the operator's proxy",
    );
    assert!(!error.to_string().contains("wrong"), "{error}");
}

#[tokio::test]
async fn a_hundred_releases_of_one_source_cost_one_request_and_all_are_woken() {
    let server = HttpServer::start().await;
    server.serve("/a", Route::File(BYTES.to_vec()));
    let (wake_tx, wake_rx) = futures::channel::mpsc::unbounded();
    let cache = Arc::new(Cache::open(None, 0, 100_000));
    let fetcher = Fetcher::new(client(&["127.0.0.1"]), cache, wake_tx, Arc::new(|_, _| {}));
    let id = SourceId {
        location: Location::Archive(Url::parse(&server.url("/a")).unwrap()),
        scope: String::new(),
        signed: String::new(),
    };
    let none = Access::default();
    let releases: Vec<ReleaseKey> =
        (0..100).map(|index| ReleaseKey { namespace: "apps".into(), name: format!("r{index}") }).collect();
    let look = async |release: &ReleaseKey, digest: Option<&str>| {
        let interval = Duration::from_mins(60);
        let ask = Ask { release, digest, interval, changed: false, request: None };
        fetcher.look(&id, &none, &ask).await
    };
    for release in &releases {
        assert!(matches!(look(release, None).await, Look::Fetching { .. }));
    }
    let mut woken: Vec<ReleaseKey> = wake_rx.take(100).collect().await;
    woken.sort_by_key(|release| release.name[1..].parse::<u32>().unwrap());
    assert_eq!(woken, releases);
    let digest = cache::digest(BYTES);
    for release in &releases {
        assert_eq!(look(release, None).await, Look::At(digest.clone()));
        assert_eq!(look(release, Some(&digest)).await, Look::At(digest.clone()));
    }
    assert_eq!(fetcher.cache().get(&digest).as_deref(), Some(BYTES));
    assert_eq!(server.answers("/a"), [200]);
    // With the last release the source is forgotten.
    releases.iter().for_each(|release| fetcher.leave(release));
    assert!(fetcher.access(&id).is_none());
}
