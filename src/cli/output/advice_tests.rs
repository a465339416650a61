use std::path::Path;

use super::*;

fn about() -> About {
    About {
        tool: "kubectl sherpack",
        namespace: "apps".to_owned(),
        name: "web".to_owned(),
        target_namespace: "prod".to_owned(),
        account: Some("deployer".to_owned()),
        object: Some(("deployment.apps/web".to_owned(), Some("prod".to_owned()))),
        dependency: Some(("data".to_owned(), "db".to_owned())),
    }
}

fn source(file: &str) -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("src").join(file)).unwrap()
}

/// The texts in double quotes that directly follow `before`.
fn quoted(text: &str, before: &str) -> Vec<String> {
    let rest = text.split(before).skip(1);
    let found = rest.filter_map(|rest| rest.strip_prefix('"')?.split('"').next());
    let is_reason = |word: &&str| {
        word.starts_with(|c: char| c.is_ascii_uppercase()) && word.chars().all(|c| c.is_ascii_alphanumeric())
    };
    found.filter(is_reason).map(str::to_owned).collect()
}

#[test]
fn every_reason_has_an_advice_of_its_own() {
    let text = source("api/reasons.rs");
    let (_, reasons) = text.split_once("// ---- work").unwrap();
    let mut all = quoted(reasons, ": &str = ");
    assert!(all.len() > 50, "only {} reasons were found: does the search still work?", all.len());
    let errors = ["source", "pack/render", "manifest", "pack", "storage", "cluster", "reconcile/context"];
    let of_errors: Vec<String> =
        errors.iter().flat_map(|folder| quoted(&source(&format!("{folder}/error.rs")), "=> ")).collect();
    assert!(of_errors.len() > 50, "only {} reasons of errors were found", of_errors.len());
    all.extend(of_errors);
    let without: Vec<&String> = all.iter().filter(|reason| known(reason).is_none()).collect();
    assert!(without.is_empty(), "no advice for {without:?}: add them to `known`");
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let written = std::fs::read_to_string(root.join(PAGE)).unwrap();
    for reason in all {
        let heading = format!("\n### {reason}\n");
        assert!(written.contains(&heading), "{PAGE} has no {reason}");
        assert_eq!(page(&reason), Some(format!("{PAGE}#{}", reason.to_lowercase())));
    }
    assert_eq!(page("FromTheFuture"), None);
}

#[test]
fn an_unknown_reason_has_an_advice_too() {
    let advice = advice("FromTheFuture", &About { tool: "sherpack-operator", ..about() });
    assert_eq!(advice.command, "kubectl describe sherpackrelease/web -n apps");
}

#[test]
fn the_command_can_be_typed_as_it_stands() {
    for (reason, command) in [
        (r::UPGRADE_SUCCEEDED, "kubectl sherpack history web -n apps"),
        (r::PROGRESSING, "kubectl sherpack wait web -n apps"),
        (r::RETRIES_EXCEEDED, "kubectl sherpack reset web -n apps"),
        (r::SUSPENDED, "kubectl sherpack resume web -n apps"),
        (r::DEPENDENCY_NOT_READY, "kubectl sherpack status db -n data"),
        (r::RELEASE_NAME_TAKEN, "kubectl sherpack list -A"),
        (r::FOREIGN_PENDING, "kubectl sherpack list --stale -n apps"),
        (r::HEALTH_TIMEOUT, "kubectl describe deployment.apps/web -n prod"),
        (r::FORBIDDEN, "kubectl auth can-i --list -n prod --as=system:serviceaccount:apps:deployer"),
        (r::NAMESPACE_NOT_FOUND, "kubectl create namespace prod"),
        (r::INVALID_SPEC, "kubectl edit sherpackrelease/web -n apps"),
        (r::SOURCE_NOT_FOUND, "kubectl get sherpackrelease/web -n apps -o jsonpath='{.spec.pack}'"),
        (
            r::PAUSED,
            r#"kubectl patch sherpackrelease/web -n apps --type=merge -p '{"spec":{"upgrade":{"paused":null}}}'"#,
        ),
        (r::AWAITING_APPROVAL, "kubectl sherpack approve web -n apps"),
    ] {
        assert_eq!(advice(reason, &about()).command, command, "{reason}");
    }
}

#[test]
fn what_is_not_known_of_a_release_leads_to_a_command_all_the_same() {
    let about = About { object: None, dependency: None, ..about() };
    assert_eq!(advice(r::HEALTH_FAILED, &about).command, "kubectl describe sherpackrelease/web -n apps");
    assert_eq!(advice(r::DEPENDENCY_NOT_READY, &about).command, "kubectl sherpack list -A");
}
