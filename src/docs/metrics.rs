//! `metrics.md`, from what a scrape of a busy operator says of each metric.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::cluster::client::ApiObserver as _;
use crate::operator::metrics::Metrics;

pub(super) fn page() -> String {
    let metrics = Metrics::new().unwrap();
    metrics.busy("apps", "shop");
    metrics.reconciled("Upgrade", Duration::from_millis(20));
    metrics.reconcile_failed("PackInvalid");
    metrics.source_fetched("ConfigMap", "success");
    metrics.webhook("accepted");
    metrics.watch_restarted("apps/Deployment");
    metrics.record("get", 200, 0.004);
    let text = metrics.encode();
    let mut help = BTreeMap::new();
    let mut kinds = BTreeMap::new();
    let mut labels: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for line in text.lines() {
        if let Some((name, text)) = line.strip_prefix("# HELP ").and_then(|rest| rest.split_once(' ')) {
            help.insert(name.to_owned(), text.to_owned());
        } else if let Some((name, kind)) = line.strip_prefix("# TYPE ").and_then(|rest| rest.split_once(' '))
        {
            kinds.insert(name.to_owned(), kind.to_owned());
        } else if let Some((series, rest)) = line.split_once('{') {
            let family = ["_bucket", "_sum", "_count"]
                .iter()
                .find_map(|end| series.strip_suffix(end))
                .unwrap_or(series);
            let names = rest.split(',').filter_map(|label| label.split_once('=')).map(|(name, _)| name);
            let all = labels.entry(family.to_owned()).or_default();
            all.extend(names.filter(|name| *name != "le").map(str::to_owned));
        }
    }
    let mut body = String::from(
        "Series that name a release go with it. Names and labels are an API.\n\n| metric | type | labels | |\n|---|---|---|---|\n",
    );
    for (name, text) in help.iter().filter(|(name, _)| name.starts_with("sherpack_")) {
        let labels: Vec<String> =
            labels.get(name).into_iter().flatten().map(|label| format!("`{label}`")).collect();
        body.push_str(&format!(
            "| `{name}` | {} | {} | {} |\n",
            kinds[name],
            labels.join(", "),
            super::cell(text)
        ));
    }
    super::page("Metrics", "what `/metrics` says", &body)
}
