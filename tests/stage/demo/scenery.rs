//! What the story needs before its first line, and how it is taken away after the last.

use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::ResourceExt;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams};
use serde_json::json;
use tokio::time::sleep;

use super::Narrator;
use crate::cluster::Cluster;
use crate::failure::{During, Failure, Result, check};
use crate::operator::{self, Settings};
use crate::{random, release};

/// On a CRD that a demo installed into somebody's cluster: the next demo may take it over.
const DEMO_LABEL: &str = "sherpack.io/installed-by-demo";

pub(crate) struct Scenery {
    pub(crate) cluster: Cluster,
    /// Where the release and its objects live.
    pub(crate) namespace: String,
    pub(crate) settings: Settings,
    /// The cluster is somebody's: take away all that was put there.
    borrowed: bool,
}

/// The name of the pack and of the ConfigMap that holds it.
pub(crate) const PACK: &str = "webapp";

impl Scenery {
    /// Cluster, CRD, namespaces, pack. The operator is not started yet.
    pub(crate) async fn build(narrator: &Narrator) -> Result<Self> {
        let began = Instant::now();
        let borrowed = std::env::var("CLUSTER").is_ok_and(|which| which == "current");
        let cluster = if borrowed { Cluster::current().await? } else { Cluster::start(&[]).await? };
        let version = cluster.version().await?;
        let whose = if borrowed { "found" } else { "up" };
        narrator.tell(format!("cluster {whose}: Kubernetes {version}"), began);
        let (namespace, system) = if borrowed {
            refuse_foreign_crd(&cluster).await?;
            let namespace = format!("sherpack-demo-{:08x}", random::seed()?);
            (namespace.clone(), format!("{namespace}-system"))
        } else {
            ("apps".to_owned(), "sherpack-system".to_owned())
        };
        // In somebody's cluster releases elsewhere are none of our business.
        let watch = borrowed.then_some(namespace.as_str());
        let settings = Settings::new(&cluster.kubeconfig, &system, watch, "demo.log")?;
        let scenery = Self { cluster, namespace, settings, borrowed };
        match scenery.furnish(&system).await {
            Ok(()) => Ok(scenery),
            Err(failure) => {
                // The first failure is the one to tell.
                let _ = scenery.strike(false).await;
                Err(failure)
            }
        }
    }

    async fn furnish(&self, system: &str) -> Result<()> {
        let client = &self.cluster.client;
        let mark = self.borrowed.then_some((DEMO_LABEL, "true"));
        release::install_crd(client, &operator::output(&["crd"]).await?, mark).await?;
        for namespace in [self.namespace.as_str(), system] {
            release::create_namespace(client, namespace).await?;
        }
        release::store_pack(client, &self.namespace, PACK, operator::package(PACK).await?).await
    }

    /// Takes everything away. `tidy`: the story reached its end, so nothing of a release should be there.
    pub(crate) async fn strike(self, tidy: bool) -> Result<()> {
        if self.borrowed {
            let clearing = self.clear(tidy);
            let limit = Duration::from_secs(120);
            tokio::time::timeout(limit, clearing).await.during("clearing the cluster")??;
        }
        self.cluster.end().await
    }

    async fn clear(&self, tidy: bool) -> Result<()> {
        let client = &self.cluster.client;
        let releases = release::api(client, &self.namespace);
        if !tidy {
            // No operator runs any more that would take its finalizer off.
            for release in
                releases.list(&ListParams::default()).await.map(|list| list.items).unwrap_or_default()
            {
                let bare = json!({"metadata": {"finalizers": null}});
                let _ =
                    releases.patch(&release.name_any(), &PatchParams::default(), &Patch::Merge(bare)).await;
            }
        }
        let namespaces: Api<Namespace> = Api::all(client.clone());
        let crds: Api<CustomResourceDefinition> = Api::all(client.clone());
        for namespace in [self.namespace.clone(), format!("{}-system", self.namespace)] {
            let _ = namespaces.delete(&namespace, &DeleteParams::default()).await;
            while namespaces.get_opt(&namespace).await?.is_some() {
                sleep(Duration::from_millis(200)).await;
            }
        }
        let _ = crds.delete(release::CRD, &DeleteParams::default()).await;
        while crds.get_opt(release::CRD).await?.is_some() {
            sleep(Duration::from_millis(200)).await;
        }
        Ok(())
    }
}

/// Two operators on one cluster would act on the same release.
async fn refuse_foreign_crd(cluster: &Cluster) -> Result<()> {
    let crds: Api<CustomResourceDefinition> = Api::all(cluster.client.clone());
    let Some(crd) = crds.get_opt(release::CRD).await? else {
        return Ok(());
    };
    check(crd.labels().contains_key(DEMO_LABEL), || {
        Failure::new(format!(
            "CRD {} is installed already, so an operator may be running here and would act on the demo's \
             release too; run the demo without CLUSTER=current, or on another cluster",
            release::CRD
        ))
        .to_string()
    })
}
