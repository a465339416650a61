//! Releases that a pending revision holds: whose it is, and until when it is respected.

use std::path::PathBuf;

use futures::{StreamExt as _, stream};
use jiff::Timestamp;
use kube::Client;
use serde_json::{Value, json};

use crate::api::SherpackRelease;
use crate::cli::cluster::keeping;
use crate::cli::output::table::{age, columns, moment};
use crate::storage::Stores;
use crate::storage::unverified::{self, Claim, Found};

/// Releases that are looked at at once.
const PARALLEL: usize = 8;

/// Where records are that are kept in files.
#[derive(Clone, Debug, clap::Args)]
pub(in crate::cli) struct Records {
    /// Directory of revisions that are kept in files, as given to the operator
    #[arg(long, env = "SHERPACK_STORAGE_DIR", value_name = "DIR")]
    storage_dir: Option<PathBuf>,
}

impl Records {
    pub(in crate::cli) fn stores(&self, client: &Client) -> Stores {
        Stores::new(client.clone(), unverified::no_key(), self.storage_dir.clone())
    }
}

/// A release that a pending revision of another writer holds.
#[derive(Clone, Debug)]
pub(in crate::cli) struct Held {
    namespace: String,
    name: String,
    revision: u32,
    state: &'static str,
    claim: Claim,
    until: Timestamp,
}

/// Those that are held, and those that cannot be told, with the reason.
pub(in crate::cli) async fn among(
    client: &Client,
    records: &Records,
    releases: &[SherpackRelease],
    now: Timestamp,
) -> (Vec<Held>, Vec<String>) {
    let stores = records.stores(client);
    let stores = &stores;
    let looks = releases.iter().map(|release| async move {
        let meta = &release.metadata;
        let (namespace, name) =
            (meta.namespace.clone().unwrap_or_default(), meta.name.clone().unwrap_or_default());
        let told = |message: String| format!("{namespace}/{name}: {message}");
        let of = (release.target_namespace(), release.release_name());
        let keeping = keeping(release);
        let found = unverified::find(&stores.of(&keeping), of.0, of.1, None).await;
        match found.map_err(|error| told(error.to_string()))? {
            Found::Nothing => Ok(None),
            Found::Unreadable(unreadable) => Err(told(unreadable.to_string())),
            Found::Record(stored) => {
                let record = &stored.record;
                let Some(until) = record.state.deadline() else { return Ok(None) };
                let claim = unverified::claim(client, keeping.storage, &stored).await;
                let claim = claim.map_err(|error| told(error.to_string()))?;
                // Ours, and it still has time: nothing holds it.
                let held = claim.foreign || until <= now;
                let (revision, state) = (record.version, record.state.name());
                Ok(held.then_some(Held { namespace, name, revision, state, claim, until }))
            }
        }
    });
    let found: Vec<_> = stream::iter(looks.collect::<Vec<_>>()).buffered(PARALLEL).collect().await;
    let (mut held, mut unknown) = (Vec::new(), Vec::new());
    for result in found {
        match result {
            Ok(found) => held.extend(found),
            Err(message) => unknown.push(message),
        }
    }
    (held, unknown)
}

fn whose(claim: &Claim) -> String {
    match (claim.foreign, &claim.holder) {
        (true, None) => "another tool".to_owned(),
        (true, Some(tool)) => format!("another tool ({tool})"),
        (false, None) => "this operator".to_owned(),
        (false, Some(holder)) => holder.clone(),
    }
}

pub(in crate::cli) fn table(held: &[Held], now: Timestamp) -> String {
    let rows: Vec<[String; 7]> = held
        .iter()
        .map(|held| {
            let Held { namespace, name, revision, state, claim, until } = held;
            let left = if *until <= now {
                format!("{} ago", age(Some(*until), now))
            } else {
                format!(
                    "in {}",
                    crate::cli::output::table::span(until.as_second().saturating_sub(now.as_second()))
                )
            };
            let (revision, state) = (revision.to_string(), (*state).to_owned());
            [namespace.clone(), name.clone(), revision, state, whose(claim), moment(Some(*until)), left]
        })
        .collect();
    columns(["NAMESPACE", "NAME", "REVISION", "STATE", "HELD BY", "UNTIL", "WHICH IS"], &rows)
}

pub(in crate::cli) fn json(held: &Held, now: Timestamp) -> Value {
    let Held { namespace, name, revision, state, claim, until } = held;
    json!({
        "namespace": namespace, "name": name, "revision": revision, "state": state,
        "foreign": claim.foreign, "heldBy": claim.holder, "until": moment(Some(*until)), "expired": *until <= now,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_tells_whose_it_is_and_until_when() {
        let now: Timestamp = "2026-01-01T12:00:00Z".parse().unwrap();
        let held = |name: &str, foreign, holder: Option<&str>, until: &str| Held {
            namespace: "apps".to_owned(),
            name: name.to_owned(),
            revision: 4,
            state: "pending-upgrade",
            claim: Claim { foreign, holder: holder.map(str::to_owned) },
            until: until.parse().unwrap(),
        };
        let all = [
            held("a", true, Some("sherpack"), "2026-01-01T12:05:00Z"),
            held("b", true, None, "2026-01-01T11:59:00Z"),
            held("c", false, Some("operator-1"), "2026-01-01T11:00:00Z"),
        ];
        let expected = "\
NAMESPACE  NAME  REVISION  STATE            HELD BY                  UNTIL                 WHICH IS
apps       a     4         pending-upgrade  another tool (sherpack)  2026-01-01T12:05:00Z  in 5m
apps       b     4         pending-upgrade  another tool             2026-01-01T11:59:00Z  60s ago
apps       c     4         pending-upgrade  operator-1               2026-01-01T11:00:00Z  60m ago
";
        assert_eq!(table(&all, now), expected);
        assert_eq!(json(&all[0], now)["expired"], false);
        assert_eq!(json(&all[2], now)["heldBy"], "operator-1");
    }
}
