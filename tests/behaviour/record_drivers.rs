//! Every driver of records that needs an API server does what all of them do.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use futures::TryStreamExt;
use serde_json::json;
use sherpack_operator::manifest::adoption::Adopted;
use sherpack_operator::manifest::{InventoryEntry, ObjectId};
use sherpack_operator::release::{
    Action, Operation, OperationPhase, Owner, PRIVATE_VERSION, Private, Record, ReleaseKey, State,
};
use sherpack_operator::storage::{
    Compression, ConfigMapRecords, Head, Large, MacKey, Meta, Records, SecretRecords, Stored,
};

use crate::support::Harness;

#[path = "../../src/storage/round_trip.rs"]
mod round_trip;
#[path = "../../src/storage/samples.rs"]
#[allow(clippy::unwrap_used)]
mod samples;

use samples::{owner, private, record};

/// Nothing is left of the releases in the namespace.
async fn empty(h: &Harness) {
    for kind in ["Secret", "ConfigMap"] {
        let left = h.objects.list(kind, "app.kubernetes.io/managed-by=sherpack").await;
        assert!(left.is_empty(), "left behind: {left:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn records_in_secrets_do_what_every_driver_does() {
    let h = Harness::without_operator("driver-secret").await;
    let driver = || SecretRecords::new(h.client.clone(), MacKey::new([7; 32]));
    for compression in [Compression::Zstd, Compression::Gzip, Compression::None] {
        round_trip::round_trip(&driver().compressing(compression), "driver-secret", "web").await;
        empty(&h).await;
    }
    let separate = driver().splitting(Large::SeparateManifests);
    round_trip::round_trip(&separate, "driver-secret", &"x".repeat(53)).await;
    // In a namespace that is not the release's own.
    round_trip::round_trip(&driver().within("driver-secret"), "elsewhere", "web").await;
    empty(&h).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn records_in_config_maps_do_what_every_driver_does() {
    let h = Harness::without_operator("driver-configmap").await;
    let driver = || ConfigMapRecords::new(h.client.clone(), MacKey::new([7; 32]));
    for large in [Large::Chunked, Large::SeparateManifests] {
        round_trip::round_trip(&driver().splitting(large), "driver-configmap", "web").await;
        empty(&h).await;
    }
    round_trip::round_trip(&driver().within("driver-configmap"), "elsewhere", "web").await;
    empty(&h).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_record_in_a_config_map_has_the_published_shape() {
    let h = Harness::without_operator("driver-shape").await;
    let records = ConfigMapRecords::new(h.client.clone(), MacKey::new([7; 32]));
    let small = Record { namespace: "driver-shape".into(), state: State::Deployed, ..record(7) };
    records.create(&small, &private(7)).await.unwrap();
    let found = h.objects.get("ConfigMap/sh.sherpack.release.v1.web.v7").await;
    let labels = &found["metadata"]["labels"];
    assert_eq!(labels["sherpack.io/storage-driver"], "configmap");
    assert_eq!(labels["sherpack.io/release-version"], "7");
    assert!(found["data"]["release"].as_str().unwrap().is_ascii());
    assert!(found["binaryData"].is_null());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_list_of_large_secrets_is_read_in_small_pages() {
    let h = Harness::without_operator("driver-large").await;
    let records = SecretRecords::new(h.client.clone(), MacKey::new([7; 32]));
    let ours = Record { namespace: "driver-large".into(), state: State::Deployed, ..record(1) };
    records.create(&ours, &private(1)).await.unwrap();
    // Anybody's, and more than one page may hold.
    let bulk = STANDARD.encode(vec![b'x'; 1_000_000]);
    for number in 0..14 {
        let labels =
            json!({"app.kubernetes.io/managed-by": "sherpack", "sherpack.io/release-name": ours.name});
        let name = format!("a-{number}");
        let large = json!({"apiVersion": "v1", "kind": "Secret", "data": {"bulk": bulk},
            "metadata": {"name": name, "labels": labels}});
        h.objects.create("kubectl-create", large).await;
    }
    let found: Vec<Head> = records.history("driver-large", &ours.name).try_collect().await.unwrap();
    let stored = found.iter().filter_map(Head::stored).count();
    assert_eq!((found.len(), stored), (15, 1));
}
