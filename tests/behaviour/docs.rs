//! The YAML of the documentation and of the samples: the API server and the operator take each block as it stands.
//!
//! A block with `apiVersion` is an object. Any other block is the spec of a SherpackRelease, or fields of one. What is
//! neither is marked as text in the documentation.

use std::fs;
use std::path::{Path, PathBuf};

use kube::api::{DynamicObject, Patch, PatchParams, ValidationDirective};
use serde_json::{Value, json};
use sherpack_operator::api::{Policy, SherpackRelease, validate};
use sherpack_operator::manifest::yaml::{parse_documents, parse_value};
use sherpack_operator::manifest::{group_of, is_cluster_scoped};

use crate::support::Harness;

/// A block of YAML, and where it stands: file and line.
struct Block {
    at: String,
    text: String,
}

fn project() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn walk(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            walk(&path, found);
        } else {
            found.push(path);
        }
    }
}

/// The blocks of one page.
fn blocks(page: &Path) -> Vec<Block> {
    let text = fs::read_to_string(page).unwrap();
    let name = page.strip_prefix(project()).unwrap().display();
    let mut found = Vec::new();
    let mut lines = text.lines().zip(1..);
    while let Some((fence, at)) = lines.next() {
        let Some(language) = fence.trim_start().strip_prefix("```") else { continue };
        let block: Vec<&str> = lines
            .by_ref()
            .map(|(line, _)| line)
            .take_while(|line| !line.trim_start().starts_with("```"))
            .collect();
        if matches!(language, "yaml" | "yml") {
            found.push(Block { at: format!("{name}:{at}"), text: block.join("\n") });
        }
    }
    found
}

/// All blocks of the documentation, and the samples.
fn documented() -> Vec<Block> {
    let mut pages: Vec<PathBuf> = ["README.md", "CONTRIBUTING.md", "SECURITY.md", "config/samples/README.md"]
        .map(|page| project().join(page))
        .into();
    walk(&project().join("docs"), &mut pages);
    pages.retain(|page| page.extension().is_some_and(|extension| extension == "md"));
    pages.sort();
    let mut found: Vec<Block> = pages.iter().flat_map(|page| blocks(page)).collect();
    let samples = fs::read_dir(project().join("config/samples")).unwrap().map(|entry| entry.unwrap().path());
    for sample in samples.filter(|path| path.extension().is_some_and(|extension| extension == "yaml")) {
        // Read by kubectl and never sent.
        if !sample.ends_with("kustomization.yaml") {
            let text = fs::read_to_string(&sample).unwrap();
            found.push(Block { at: sample.strip_prefix(project()).unwrap().display().to_string(), text });
        }
    }
    found
}

/// The objects that a block describes.
fn objects(block: &Block) -> Result<Vec<Value>, String> {
    if block.text.lines().any(|line| line.starts_with("apiVersion:")) {
        return parse_documents(&block.text, &block.at).map_err(|error| error.to_string());
    }
    let value = parse_value(&block.text, &block.at).map_err(|error| error.to_string())?;
    let mut spec = if value["spec"].is_object() { value["spec"].clone() } else { value };
    if spec["lock"].is_null() && spec["pack"].is_null() {
        spec["pack"] = json!({"configMap": {"name": "web-pack"}});
    }
    let release = json!({
        "apiVersion": "sherpack.io/v1alpha1",
        "kind": "SherpackRelease",
        "metadata": {"name": "web"},
        "spec": spec,
    });
    Ok(vec![release])
}

/// Sends an object as a dry run, and asks the operator's own rules.
async fn take(h: &Harness, object: &Value) -> Result<(), String> {
    let (kind, name) = (object["kind"].as_str(), object["metadata"]["name"].as_str());
    let (Some(kind), Some(name)) = (kind, name) else { return Err("no kind or no name".to_owned()) };
    let mut object = object.clone();
    let group = group_of(object["apiVersion"].as_str().unwrap_or_default()).to_owned();
    if is_cluster_scoped(&group, kind) != Some(true) {
        object["metadata"]["namespace"] = json!(h.namespace);
    }
    let params = PatchParams {
        dry_run: true,
        force: true,
        field_manager: Some("documentation".to_owned()),
        field_validation: Some(ValidationDirective::Strict),
    };
    let sent: DynamicObject = serde_json::from_value(object).map_err(|error| error.to_string())?;
    let answer = h.objects.api(kind).patch(name, &params, &Patch::Apply(&sent)).await;
    let answer = answer.map_err(|error| error.to_string())?;
    if kind == "SherpackRelease" {
        let answer = serde_json::to_value(answer).map_err(|error| error.to_string())?;
        let release: SherpackRelease = serde_json::from_value(answer).map_err(|error| error.to_string())?;
        // The page says which flag a block needs.
        let policy = Policy { pack_dir_enabled: true, ..Policy::default() };
        validate(&release, &policy).map_err(|error| format!("{}: {}", error.field, error.message))?;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_yaml_block_is_taken_by_the_api_server() {
    let h = Harness::without_operator("docs").await;
    let blocks = documented();
    assert!(blocks.len() > 10, "only {} blocks were found: does the search still work?", blocks.len());
    let mut refused = Vec::new();
    for block in &blocks {
        match objects(block) {
            Err(error) => refused.push(format!("{}: {error}", block.at)),
            Ok(objects) => {
                for object in &objects {
                    if let Err(error) = take(&h, object).await {
                        refused.push(format!("{}: {error}", block.at));
                    }
                }
            }
        }
    }
    assert!(refused.is_empty(), "these blocks of the documentation are refused:\n{}", refused.join("\n"));
}
