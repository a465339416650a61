use clap::Parser;

use super::*;
use crate::operator::config::{MetricsAuth, Webhook};

#[derive(Debug, clap::Parser)]
struct Line {
    #[command(flatten)]
    args: Args,
}

fn parse(line: &[&str]) -> Result<Config, String> {
    let line = Line::try_parse_from([&["run"], line].concat()).map_err(|error| error.to_string())?;
    config(line.args, Proxies::default(), || "me".to_owned()).map_err(|error| error.to_string())
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table: each flag, and the setting that it reaches")]
fn every_flag_reaches_its_setting() {
    let config = parse(&[
        "--watch-namespace=apps",
        "--operator-namespace=ops",
        "--pack-dir=/packs",
        "--allow-source=charts.internal:8080",
        "--allow-source=localhost,[::1]:80",
        "--deny-private-sources",
        "--cache-dir=/cache",
        "--cache-size=2Gi",
        "--storage-dir=/records",
        "--allow-storage-namespace=vault",
        "--allow-storage-namespace=*",
        "--allow-lookup=shared,infra",
        "--allow-lookup=*",
        "--default-service-account=deployer",
        "--tenancy=multi",
        "--require-signatures",
        "--memory-budget=64Mi",
        "--lock-objects=7",
        "--allow-lock-as-operator",
        "--concurrency=3",
        "--listen=127.0.0.1:0",
        "--metrics-auth=token",
        "--metrics-listen=127.0.0.1:8444",
        "--metrics-cert-dir=/certs",
        "--webhook-listen=127.0.0.1:9292",
        "--webhook-tokens=/tokens",
        "--kubeconfig=/kube",
        "--context=prod",
        "--leader-elect",
        "--leader-elect-lease-duration=1m",
        "--leader-elect-renew-deadline=40s",
        "--leader-elect-retry-period=3s",
        "--leader-elect-request-timeout=1500ms",
        "--holder=us",
    ])
    .unwrap();
    assert_eq!(config.watch_namespace.as_deref(), Some("apps"));
    assert_eq!(config.operator_namespace, "ops");
    assert_eq!(config.pack_dir, Some(PathBuf::from("/packs")));
    let allowed = ["charts.internal:8080", "localhost", "[::1]:80"].map(|text| text.parse().unwrap());
    assert_eq!(config.sources.allow, allowed);
    assert_eq!(config.sources.cache_dir, Some(PathBuf::from("/cache")));
    assert_eq!(config.sources.cache_bytes, 2 << 30);
    assert_eq!(config.storage_dir, Some(PathBuf::from("/records")));
    assert_eq!(config.storage_namespaces, ["vault", "*"]);
    assert_eq!(config.allow_lookup, ["shared", "infra", "*"]);
    assert_eq!(config.default_service_account.as_deref(), Some("deployer"));
    assert_eq!(config.tenancy, api::Tenancy::Multi);
    assert!(config.require_signatures);
    assert_eq!(config.memory_budget, 64 << 20);
    assert_eq!(config.lock, api::LockPolicy { objects: 7, as_operator: true });
    assert_eq!(config.concurrency.get(), 3);
    assert_eq!(config.listen, "127.0.0.1:0".parse().unwrap());
    let certificates = Some(PathBuf::from("/certs"));
    let token = MetricsAuth::Token { listen: "127.0.0.1:8444".parse().unwrap(), certificates };
    assert_eq!(config.metrics_auth, token);
    let (listen, tokens) = ("127.0.0.1:9292".parse().unwrap(), PathBuf::from("/tokens"));
    assert_eq!(config.webhook, Some(Webhook { listen, tokens }));
    assert!(config.sources.deny_private);
    assert_eq!(config.cluster.kubeconfig, Some(PathBuf::from("/kube")));
    assert_eq!(config.cluster.context.as_deref(), Some("prod"));
    let timing = config.leader_election.unwrap();
    assert_eq!(timing.lease_duration(), Duration::from_secs(60));
    assert_eq!(timing.renew_deadline(), Duration::from_secs(40));
    assert_eq!(timing.retry_period(), Duration::from_secs(3));
    assert_eq!(timing.request_timeout(), Duration::from_millis(1500));
    assert_eq!(config.holder, "us");
    assert!(config.through.is_none());
}

#[test]
fn without_flags_all_namespaces_are_watched_and_local_packs_are_off() {
    let config = parse(&["--operator-namespace=sherpack-system"]).unwrap();
    assert_eq!(config.watch_namespace, None);
    assert_eq!(config.watch_labels, None);
    assert!(config.sources.allow.is_empty());
    assert_eq!(config.sources.cache_dir, Some(std::env::temp_dir().join("sherpack-operator")));
    assert_eq!(config.sources.cache_bytes, 256 << 20);
    assert_eq!((config.pack_dir, config.storage_dir), (None, None));
    assert!(config.storage_namespaces.is_empty());
    assert!(config.allow_lookup.is_empty());
    assert_eq!(config.default_service_account, None);
    assert_eq!(config.tenancy, api::Tenancy::Single);
    assert!(!config.require_signatures);
    assert_eq!(config.memory_budget, 128 << 20);
    assert_eq!(config.lock, api::LockPolicy { objects: 1000, as_operator: false });
    assert_eq!(config.concurrency.get(), 10);
    assert_eq!(config.listen, "0.0.0.0:8080".parse().unwrap());
    assert_eq!(config.metrics_auth, MetricsAuth::None);
    assert_eq!(config.webhook, None);
    assert!(!config.sources.deny_private);
    assert_eq!(config.leader_election, None);
    assert_eq!(config.holder, "me");
}

#[test]
fn private_sources_are_denied_with_several_tenants_unless_that_is_said() {
    for (line, denied) in [
        (&["--tenancy=multi"][..], true),
        (&["--tenancy=multi", "--deny-private-sources=false"], false),
        (&["--tenancy=single", "--deny-private-sources=true"], true),
        (&["--deny-private-sources=false"], false),
    ] {
        assert_eq!(parse(line).unwrap().sources.deny_private, denied, "{line:?}");
    }
    let auth = parse(&["--metrics-auth=token"]).unwrap().metrics_auth;
    let listen = "0.0.0.0:8443".parse().unwrap();
    assert_eq!(auth, MetricsAuth::Token { listen, certificates: None });
}

#[test]
fn values_that_cannot_work_are_refused() {
    for wrong in [
        "--watch-namespace=Apps",
        "--watch-namespace=-a",
        "--watch-label-selector=",
        "--watch-label-selector=shard of (a)",
        "--operator-namespace=",
        "--allow-storage-namespace=Vault",
        "--allow-lookup=a*",
        "--default-service-account=",
        "--default-service-account=apps/deployer",
        "--tenancy=none",
        "--memory-budget=1Mi",
        "--lock-objects=0",
        "--concurrency=0",
        "--worker-threads=0",
        "--listen=8080",
        "--metrics-auth=basic",
        "--metrics-listen=8443",
        "--deny-private-sources=perhaps",
        "--holder=a b",
        "--log-format=xml",
        "--allow-source=https://a",
        "--cache-size=1Mi",
        "--cache-size=99999999999Ti",
        "--cache-size=256MB",
        "--cache-size=",
        "--leader-elect-lease-duration=14s",
        "--leader-elect-lease-duration=soon",
        "--leader-elect-retry-period=10s",
        "--leader-elect-request-timeout=0s",
    ] {
        parse(&[wrong]).unwrap_err();
    }
}

#[test]
fn proxies_are_read_from_capitals_and_then_from_small_letters() {
    let variable = |name: &str| {
        let value = match name {
            "HTTPS_PROXY" => "http://a:1",
            "https_proxy" => "http://b:1",
            "HTTP_PROXY" => "",
            "http_proxy" => "http://c:1",
            "no_proxy" => "d",
            _ => return None,
        };
        Some(value.to_owned())
    };
    let Proxies { all, http, https, no } = Proxies::of(variable);
    assert_eq!([&*all, &*http, &*https, &*no], ["", "http://c:1", "http://a:1", "d"]);
}

#[test]
fn an_error_is_told_with_its_cause_and_without_repetition() {
    let source = std::io::Error::other("in use");
    let address = "127.0.0.1:1".parse().unwrap();
    let text = explain(&operator::Error::Listen { address, flag: "--listen", source });
    assert_eq!(text, "cannot listen on 127.0.0.1:1: in use; choose another address with --listen");
}
