//! Answers `POST /hook/<token>`: who pushed something asks for a look at the sources of packs that it may concern.
//!
//! A webhook is a hint. It says nothing that is believed: the operator looks at the sources itself, with their own credentials, and
//! not more often than the sources let it. A hint that is lost costs the rest of `spec.interval`.
//!
//! Invariants: nothing of a body is read before its token is known, and what is read is bounded.

mod payload;
mod rate;
mod tokens;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::{Path, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use futures::channel::mpsc::UnboundedSender;
use kube::runtime::reflector::Store;

use super::metrics::Metrics;
use crate::api::{PackSource, SherpackRelease};
use crate::reconcile::{Context, PathLooks};
use crate::release::ReleaseKey;
use crate::source::fetch::{About, Hints};
use payload::Named;
use rate::Rate;
use tokens::Scope;
pub(super) use tokens::Tokens;

/// Bytes of a body that are read for what it names. What is larger names nothing.
const BODY: usize = 128 << 10;

/// What webhooks reach: the sources of the operator that leads.
pub(super) struct Target {
    hints: Hints,
    paths: PathLooks,
    releases: Store<SherpackRelease>,
    wake_tx: UnboundedSender<ReleaseKey>,
}

/// What the port of webhooks knows.
pub(super) struct Webhook {
    tokens: Tokens,
    rate: Rate<Scope>,
    /// `None`: this process does not lead, or has not begun.
    target: Mutex<Option<Arc<Target>>>,
    metrics: Arc<Metrics>,
}

/// Webhooks reach the target as long as this lives.
pub(super) struct Reached(Arc<Webhook>);

impl Drop for Reached {
    fn drop(&mut self) {
        *self.0.target.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

impl Webhook {
    pub(super) fn new(tokens: Tokens, metrics: Arc<Metrics>) -> Arc<Self> {
        Arc::new(Self { tokens, rate: Rate::default(), target: Mutex::default(), metrics })
    }

    /// From now on webhooks reach this.
    pub(super) fn reaches(self: &Arc<Self>, target: Target) -> Reached {
        *self.target.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(target));
        Reached(Arc::clone(self))
    }

    pub(super) fn routes(self: Arc<Self>) -> Router {
        Router::new().route("/hook/{token}", post(receive)).with_state(self)
    }

    async fn answer(&self, token: &str, body: Body) -> Result<String, Refused> {
        let scope = self.tokens.scope(token).await.ok_or(Refused::Unknown)?;
        if !self.rate.admits(&scope, Instant::now()) {
            return Err(Refused::TooMany);
        }
        let target = self.target.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let target = target.ok_or(Refused::StandingBy)?;
        let named = to_bytes(body, BODY).await.map_or(Named::All, |bytes| payload::named(&bytes));
        let looks = target.look(scope.namespace(), &named);
        let scope = scope.namespace().unwrap_or("all namespaces");
        tracing::info!(scope, looks, "a webhook asks for a look at the sources of packs");
        Ok(format!("{looks} sources are looked at\n"))
    }
}

impl Target {
    pub(super) fn of(ctx: &Context, wake_tx: UnboundedSender<ReleaseKey>) -> Self {
        let (hints, paths) = (ctx.fetcher.hints(), ctx.packs.paths());
        Self { hints, paths, releases: ctx.releases.clone(), wake_tx }
    }

    /// Has sources looked at that releases of the namespace use; gives how many. `None`: of all namespaces.
    fn look(&self, namespace: Option<&str>, named: &Named) -> usize {
        match named {
            Named::Nothing => 0,
            Named::Repositories(names) => self.hints.look(namespace, About::Repositories(names)),
            Named::All => self.hints.look(namespace, About::All) + self.look_at_paths(namespace),
        }
    }

    /// Directories are looked at in the passes of their releases.
    fn look_at_paths(&self, namespace: Option<&str>) -> usize {
        let has_path = |release: &SherpackRelease| {
            release.spec.pack.as_ref().is_some_and(|PackSource { path, .. }| path.is_some())
        };
        let keys: Vec<ReleaseKey> = self
            .releases
            .state()
            .iter()
            .filter(|release| has_path(release))
            .map(|release| ReleaseKey::of(release))
            .filter(|key| namespace.is_none_or(|namespace| key.namespace == namespace))
            .collect();
        if !keys.is_empty() {
            self.paths.look_again(Instant::now());
        }
        let looks = keys.len();
        for key in keys {
            let _ = self.wake_tx.unbounded_send(key);
        }
        looks
    }
}

/// Why a webhook has no effect.
#[derive(Clone, Copy, Debug)]
enum Refused {
    Unknown,
    TooMany,
    StandingBy,
}

impl Refused {
    /// The label `outcome` of the metric of webhooks.
    fn outcome(self) -> &'static str {
        match self {
            Self::Unknown => "unknown_token",
            Self::TooMany => "too_many",
            Self::StandingBy => "standing_by",
        }
    }
}

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        let again = [(header::RETRY_AFTER, "2")];
        match self {
            Self::Unknown => (StatusCode::NOT_FOUND, "no webhook has this token\n").into_response(),
            Self::TooMany => {
                let text = "too many webhooks with this token: one in a second is enough\n";
                (StatusCode::TOO_MANY_REQUESTS, again, text).into_response()
            }
            Self::StandingBy => {
                let text = "this replica stands by: send it again, or wait for spec.interval\n";
                (StatusCode::SERVICE_UNAVAILABLE, again, text).into_response()
            }
        }
    }
}

async fn receive(State(webhook): State<Arc<Webhook>>, Path(token): Path<String>, body: Body) -> Response {
    let answer = webhook.answer(&token, body).await;
    webhook.metrics.webhook(answer.as_ref().map_or_else(|refused| refused.outcome(), |_| "accepted"));
    match answer {
        Ok(text) => (StatusCode::ACCEPTED, text).into_response(),
        Err(refused) => refused.into_response(),
    }
}
