//! What tests of a source stand on: a release, and an API server that gives one answer.

use std::convert::Infallible;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use http::{Request, Response};
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};

use super::{Freshness, LookUp, LookedUp, source};
use crate::api::sources::Signatures;
use crate::api::{PackFrom, Policy, SherpackRelease, validate};
use crate::cluster::Cluster;
use crate::pack::{Files, Limits, write_archive};
use crate::reconcile::Error;
use crate::reconcile::context::packs::Packs;
use crate::release::ReleaseKey;
use crate::source::cache::Cache;
use crate::source::fetch::Fetcher;
use crate::source::http as fetching;
use crate::watch::ReferenceWatch;

pub(super) struct Stand {
    pub key: ReleaseKey,
    pub reader: Cluster,
    pub packs: Packs,
    pub references: ReferenceWatch,
    pub fetcher: Fetcher,
    pub pack_dir: Option<PathBuf>,
    pub signatures: Signatures,
    reads: Arc<AtomicUsize>,
}

impl Stand {
    /// Every read is refused so.
    pub(super) fn refusing(code: u16, reason: &str) -> Self {
        let status = json!({
            "apiVersion": "v1", "kind": "Status", "metadata": {}, "status": "Failure", "code": code,
            "reason": reason, "message": "it is refused",
        });
        Self::answering(code, &status)
    }

    /// Every read gives this object.
    pub(super) fn holding(object: &Value) -> Self {
        Self::answering(200, object)
    }

    /// The watches never hear anything.
    fn answering(code: u16, body: &Value) -> Self {
        let (wake_tx, _) = futures::channel::mpsc::unbounded();
        let (reads, body) = (Arc::new(AtomicUsize::new(0)), body.to_string());
        let counted = Arc::clone(&reads);
        let answers = tower::service_fn(move |_: Request<Body>| {
            counted.fetch_add(1, Ordering::Relaxed);
            let answer =
                Response::builder().status(code).body(Body::from(body.clone().into_bytes())).unwrap();
            async { Ok::<_, Infallible>(answer) }
        });
        let silent = tower::service_fn(|_: Request<Body>| {
            std::future::pending::<Result<Response<Body>, Infallible>>()
        });
        let client = fetching::Client::new(&Default::default(), Default::default(), &Limits::default());
        let cache = Arc::new(Cache::open(None, 0, 1000));
        Self {
            key: ReleaseKey { namespace: "apps".to_owned(), name: "web".to_owned() },
            reader: Cluster::new(Client::new(answers, "apps")),
            packs: Packs::new(10, wake_tx.clone()),
            references: ReferenceWatch::new(Client::new(silent, "apps"), wake_tx.clone(), Arc::new(|_| {})),
            fetcher: Fetcher::new(client, cache, wake_tx, Arc::new(|_, _| {})),
            pack_dir: None,
            signatures: Signatures::Unasked,
            reads,
        }
    }

    /// Calls of the API server.
    pub(super) fn reads(&self) -> usize {
        self.reads.load(Ordering::Relaxed)
    }

    /// As a pass looks the pack up: what the source names is watched before. `request` asks for a new look.
    pub(super) async fn look_up(&self, from: &PackFrom, request: Option<&str>) -> Result<LookedUp, Error> {
        let source = source(from);
        let _in_pass = self.packs.turns.in_pass(&self.key);
        self.references.refer(&self.key, source.references(&self.key.namespace).into_iter().collect());
        let fresh = Freshness {
            interval: Duration::from_mins(10),
            changed: false,
            request: request.map(str::to_owned),
        };
        let Self { key, reader, packs, references, fetcher, pack_dir, signatures, reads: _ } = self;
        let (fresh, pack_dir) = (&fresh, pack_dir.as_deref());
        source.look_up(&LookUp { key, reader, fresh, packs, references, fetcher, pack_dir, signatures }).await
    }
}

/// What `spec.pack` means to an operator that has a pack directory.
pub(super) fn pack_from(pack: &Value) -> PackFrom {
    let release: SherpackRelease = serde_json::from_value(json!({
        "apiVersion": "sherpack.io/v1alpha1", "kind": "SherpackRelease",
        "metadata": {"name": "web", "namespace": "apps"}, "spec": {"pack": pack},
    }))
    .unwrap();
    let policy = Policy { pack_dir_enabled: true, ..Policy::default() };
    validate(&release, &policy).unwrap().pack
}

/// The archive of a pack without templates.
pub(super) fn pack(name: &str) -> Vec<u8> {
    let text = format!("apiVersion: sherpack/v1\nmetadata: {{name: {name}, version: 1.0.0}}\n");
    write_archive(&Files::from([("Pack.yaml".to_owned(), text.into_bytes())])).unwrap()
}
