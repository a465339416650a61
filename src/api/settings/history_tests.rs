use serde_json::{Value, json};

use super::super::validate::tests::release;
use super::super::validate::validate;
use super::*;

#[test]
fn revisions_go_only_where_the_operator_was_told_that_they_may() {
    let with = |storage_dir_enabled, allowed: &[&str], history: Value| {
        let policy = Policy {
            storage_dir_enabled,
            storage_namespaces: allowed.iter().map(|&name| name.to_owned()).collect(),
            ..Policy::default()
        };
        validate(&release(json!({"spec": {"history": history}})), &policy)
            .map(|settings| (settings.history_storage, settings.history_namespace))
            .map_err(|invalid| (invalid.field.clone(), invalid.to_string()))
    };
    let vault = || json!({"namespace": "vault"});
    for allowed in [&["vault"][..], &["*"], &["other", "vault"]] {
        assert_eq!(with(false, allowed, vault()), Ok((HistoryStorage::Secret, "vault".to_owned())));
    }
    for allowed in [&[][..], &["other"]] {
        let (field, text) = with(true, allowed, vault()).unwrap_err();
        assert_eq!(field, "spec.history.namespace");
        assert!(text.contains("--allow-storage-namespace=vault"), "{text}");
    }
    // The target needs no permission.
    assert_eq!(
        with(false, &[], json!({"namespace": "apps"})),
        Ok((HistoryStorage::Secret, "apps".to_owned()))
    );
    let file = || json!({"storage": "File"});
    assert_eq!(with(true, &[], file()), Ok((HistoryStorage::File, "apps".to_owned())));
    let (field, text) = with(false, &["*"], file()).unwrap_err();
    assert!(field == "spec.history.storage" && text.contains("--storage-dir"), "{text}");
    let (field, _) = with(true, &["*"], json!({"storage": "File", "namespace": "vault"})).unwrap_err();
    assert_eq!(field, "spec.history.namespace");
}
