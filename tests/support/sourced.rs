//! A release with one ConfigMap, `settings`, whose pack comes from a server of this machine. The color in it tells which one.

use serde_json::{Value, json};
use sherpack_operator::source::http::Options;

use super::Harness;
use super::harness::condition;

/// What an operator needs to fetch from this machine.
#[must_use]
pub fn sources() -> Options {
    Options { allow: vec!["127.0.0.1".parse().unwrap()], cache_bytes: 64 << 20, ..Options::default() }
}

/// A harness whose operator fetches from this machine.
pub async fn harness(name: &str) -> Harness {
    let mut h = Harness::without_operator(name).await;
    h.settings.sources = sources();
    h.start();
    h
}

/// The message of the condition Ready.
#[must_use]
pub fn message(release: &Value) -> String {
    condition(release, "Ready")["message"].as_str().unwrap_or_default().to_owned()
}

pub async fn colored(h: &Harness, color: &str) {
    h.shows("ConfigMap/settings", "/data/color", color).await;
}

/// Another field manager changes what is deployed, and the operator puts it back.
pub async fn assert_locked(h: &Harness, color: &str) {
    h.objects.edit("ConfigMap/settings", "kubectl-edit", json!({"data": {"color": "pink"}})).await;
    colored(h, color).await;
}
