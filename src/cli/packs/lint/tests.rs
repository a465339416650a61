use clap::Parser as _;

use super::*;

#[derive(Debug, clap::Parser)]
struct Line {
    #[command(flatten)]
    args: Args,
}

/// A directory that goes away with the value.
struct Scratch(std::path::PathBuf);

impl Scratch {
    fn new(name: &str, files: &[(&str, &str)]) -> Self {
        let root = std::env::temp_dir().join(format!("sherpack-lint-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&root);
        for (path, text) in files {
            let path = root.join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        Self(root)
    }

    fn lint(&self) -> Vec<Finding> {
        let line = Line::parse_from(["lint", self.0.to_str().unwrap()]);
        lint(&line.args.render).unwrap()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

const PACK: &str = "apiVersion: sherpack/v1\nkind: application\nmetadata: {name: web, version: 1.0.0}\n";
const OBJECT: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n";
const CRD: &str = "apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: as.b.c}
spec:
  group: b.c
  scope: Namespaced
  names: {plural: as, singular: a, kind: A, listKind: AList}
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}]
";

/// The same with two versions that disagree about the type of a field.
fn disagreeing() -> String {
    let version = |name: &str, storage: bool, of: &str| {
        format!(
            "{{name: {name}, served: true, storage: {storage}, schema: {{openAPIV3Schema: \
             {{type: object, properties: {{on: {{type: {of}}}}}}}}}}}"
        )
    };
    let both = format!("{}, {}", version("v1", true, "boolean"), version("v2", false, "string"));
    let one = "{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}";
    CRD.replace(one, &both)
}

/// `code file:line` of what is found in a pack with one more file.
fn found(name: &str, file: (&str, &str)) -> Vec<String> {
    let scratch = Scratch::new(name, &[("Pack.yaml", PACK), file]);
    scratch.lint().iter().map(|one| format!("{} {}:{}", one.code, one.file, one.line)).collect()
}

#[test]
fn a_job_that_is_no_hook_and_goes_by_itself_is_told_of() {
    let job = |annotations: &str| {
        format!(
            "apiVersion: batch/v1\nkind: Job\nmetadata: {{name: j, annotations: {{{annotations}}}}}\nspec: \
             {{ttlSecondsAfterFinished: 5, template: {{spec: {{restartPolicy: Never}}}}}}\n"
        )
    };
    assert_eq!(found("job-ttl", ("templates/a.yaml", &job(""))), ["JobTtl templates/a.yaml:0"]);
    let hook = job("sherpack.io/hook: post-install");
    assert_eq!(found("job-hook", ("templates/a.yaml", &hook)), [""; 0], "a hook has no ttl anyway");
}

#[test]
fn a_sound_pack_has_no_findings() {
    assert_eq!(found("sound", ("templates/a.yaml", OBJECT)), [""; 0]);
}

#[test]
fn every_mistake_is_found_with_its_place() {
    for (index, (file, text, expected)) in [
        ("templates/a.yaml", "a: 1\nb: {{ x | nothing }}", "RenderFailed templates/a.yaml:2"),
        ("templates/a.yaml", "a: {{ values.gone }}", "RenderFailed templates/a.yaml:1"),
        ("templates/a.yaml", "a: [", "InvalidYaml templates/a.yaml:0"),
        ("templates/a.yaml", "- a", "InvalidManifest templates/a.yaml:0"),
        ("templates/a.yaml", "kind: Pod\napiVersion: v1", "InvalidManifest templates/a.yaml:0"),
        ("values.yaml", "a: 1\na: 2", "ValuesInvalid values.yaml:2"),
        ("values.schema.json", "{", "SchemaInvalid values.schema.json:0"),
        (
            "values.schema.yaml",
            "type: object\n$ref: http://x/y",
            "SchemaReferenceRefused values.schema.yaml:0",
        ),
        ("values.schema.yaml", "type: object\nrequired: [a]", "ValuesInvalid values.schema.yaml:0"),
        ("values.schema.yaml", "properties: {a: {type: any, tpye: 1}}", "UnknownKey values.schema.yaml:0"),
        ("Pack.yaml", "apiVersion: v9", "PackInvalid Pack.yaml:0"),
        ("Pack.yaml", &format!("{PACK}extra: 1"), "UnknownKey Pack.yaml:0"),
        (
            "Pack.yaml",
            &format!("{PACK}dependencies: [{{name: db, version: '1', repository: x}}]"),
            "DependencyMissing Pack.yaml:0",
        ),
        ("charts/db/Pack.yaml", "x: 1", "DependencyInvalid Pack.yaml:0"),
        ("crds/a.yaml", OBJECT, "NonCrdInCrdsDir crds/a.yaml:1"),
        ("crds/a.yaml", "\n{{ values.a }}", "TemplatedInCrdsDir crds/a.yaml:2"),
        ("crds/a.yaml", "a: [", "InvalidYaml crds/a.yaml:1"),
        ("crds/a.yaml", CRD, "MissingPolicy crds/a.yaml:1"),
        ("crds/a.yaml", &CRD.replace("type: object", "type: text"), "CrdInvalid crds/a.yaml:1"),
        ("crds/a.yaml", &CRD.replace("io/v1", "io/v1beta1"), "CrdApiRemoved crds/a.yaml:1"),
        ("crds/a.yaml", &format!("{CRD}---\n{CRD}"), "DuplicateObject crds/a.yaml:0"),
        (
            "crds/a.yaml",
            &CRD.replace("{name: as.b.c}", "{name: as.b.c, annotations: {sherpack.io/drft: x}}"),
            "UnknownAnnotation crds/a.yaml:0",
        ),
        ("crds/a.yaml", &disagreeing(), "LossyVersion crds/a.yaml:1"),
        ("templates/_crd.yaml", &disagreeing(), "LossyVersion templates/_crd.yaml:0"),
        ("crds/README.md", "{{ x }}", "FileIgnored crds/README.md:0"),
        ("templates/a.yaml", CRD, "StaticInTemplates templates/a.yaml:2"),
        ("templates/_crd.yaml", CRD, "StaticInTemplates templates/_crd.yaml:2"),
        (
            "templates/_crd.yaml",
            &CRD.replace("type: object", "type: {{ 'object' }}"),
            "TemplatedInTemplates templates/_crd.yaml:2",
        ),
        (
            "templates/_crd.yaml",
            &CRD.replace("type: object", "type: text"),
            "CrdInvalid templates/_crd.yaml:0",
        ),
        ("templates/a.yaml", &format!("{OBJECT}---\n{OBJECT}"), "DuplicateObject templates/a.yaml:0"),
    ]
    .into_iter()
    .enumerate()
    {
        let found = found(&format!("mistake-{index}"), (file, text));
        assert!(found.iter().any(|one| one == expected), "{text}: {found:?}");
    }
}

#[test]
fn one_mistake_does_not_hide_another() {
    let scratch = Scratch::new(
        "several",
        &[
            ("Pack.yaml", PACK),
            ("values.schema.yaml", "type: object\nrequired: [a]"),
            ("templates/a.yaml", "{{ values.x }}"),
            ("templates/b.yaml", "\n{% if %}"),
            ("templates/c.yaml", "a: ["),
        ],
    );
    let found: Vec<(String, u64)> = scratch.lint().into_iter().map(|one| (one.file, one.line)).collect();
    let expected = [
        ("templates/a.yaml", 1),
        ("templates/b.yaml", 2),
        ("templates/c.yaml", 0),
        ("values.schema.yaml", 0),
    ];
    assert_eq!(found, expected.map(|(file, line)| (file.to_owned(), line)));
}

#[test]
fn annotations_are_held_to_their_table() {
    for (index, (key, value, expected)) in [
        ("sherpack.io/hook", "pre-install, post-upgrade", None),
        ("sherpack.io/hook", "pre-instal", Some("AnnotationInvalid")),
        ("helm.sh/hook", "crd-install", Some("AnnotationInvalid")),
        ("helm.sh/hook-weight", "-5", None),
        ("helm.sh/hook-weight", "first", Some("AnnotationInvalid")),
        ("sherpack.io/hook-delete-policy", "hook-succeeded,hook-failed", None),
        ("sherpack.io/hook-delete-policy", "never", Some("AnnotationInvalid")),
        ("sherpack.io/hook-failure-policy", "ignore", Some("AnnotationInvalid")),
        ("sherpack.io/hook-timeout", "5m", None),
        ("sherpack.io/hook-timeout", "5", Some("AnnotationInvalid")),
        ("sherpack.io/hook-retries", "-1", Some("AnnotationInvalid")),
        ("sherpack.io/sync-wave", "-1", None),
        ("sherpack.io/sync-wave", "1.5", Some("AnnotationInvalid")),
        ("sherpack.io/wait-for", "ConfigMap/a", Some("WaitForInvalid")),
        ("sherpack.io/wait-for", "ConfigMap", Some("AnnotationInvalid")),
        ("sherpack.io/wait-for", "Job/gone", Some("WaitForInvalid")),
        ("sherpack.io/skip-wait", "yes", Some("AnnotationInvalid")),
        ("sherpack.io/resource-policy", "keep", None),
        ("helm.sh/resource-policy", "delete", Some("AnnotationInvalid")),
        ("sherpack.io/crd-policy", "Shared", None),
        ("sherpack.io/drift", "ignored", Some("AnnotationInvalid")),
        ("sherpack.io/health-check-type", "tcp", Some("AnnotationInvalid")),
        ("sherpack.io/health-check-port", "70000", Some("AnnotationInvalid")),
        // Right by themselves, but nothing says that there is a probe, or what it asks.
        ("sherpack.io/health-check-port", "http", Some("AnnotationInvalid")),
        ("sherpack.io/health-check-status", "200-399", Some("AnnotationInvalid")),
        ("sherpack.io/health-check", "true", Some("AnnotationInvalid")),
        ("sherpack.io/health-check", "false", None),
        ("sherpack.io/health-check-timeout", "soon", Some("AnnotationInvalid")),
        ("sherpack.io/helth-check", "true", Some("UnknownAnnotation")),
        ("helm.sh/chart", "web-1.0.0", None),
        ("example.com/hook", "x", None),
    ]
    .into_iter()
    .enumerate()
    {
        let object = format!("{OBJECT}  \n")
            .replace("{name: a}", &format!("{{name: a, annotations: {{{key}: '{value}'}}}}"));
        let found = found(&format!("annotation-{index}"), ("templates/a.yaml", &object));
        let codes: Vec<&str> = found
            .iter()
            .filter_map(|one| one.split(' ').next())
            .filter(|code| *code != "NotSupported")
            .collect();
        assert_eq!(codes, expected.into_iter().collect::<Vec<_>>(), "{key}: {value}: {found:?}");
    }
    let number = OBJECT.replace("{name: a}", "{name: a, annotations: {sherpack.io/sync-wave: 1}}");
    assert!(
        found("annotation-number", ("templates/a.yaml", &number))
            .iter()
            .any(|one| one.starts_with("AnnotationInvalid"))
    );
}

#[test]
fn policies_of_definitions_are_looked_at() {
    let with = |policy: &str| {
        CRD.replace(
            "{name: as.b.c}",
            &format!("{{name: as.b.c, annotations: {{sherpack.io/crd-policy: {policy}}}}}"),
        )
    };
    for (index, (path, policy, expected)) in [
        ("crds/a.yaml", "managed", vec![]),
        ("crds/a.yaml", "Shared", vec![]),
        ("crds/a.yaml", "external", vec!["ExternalInPack"]),
        ("crds/a.yaml", "mine", vec!["AnnotationInvalid"]),
        ("templates/a.yaml", "managed", vec!["StaticInTemplates"]),
        ("templates/a.yaml", "external", vec!["ExternalInPack", "StaticInTemplates"]),
        ("templates/a.yaml", "mine", vec!["AnnotationInvalid", "StaticInTemplates"]),
    ]
    .into_iter()
    .enumerate()
    {
        let found = found(&format!("policy-{index}"), (path, &with(policy)));
        let codes: Vec<&str> = found.iter().filter_map(|one| one.split(' ').next()).collect();
        assert_eq!(codes, expected, "{path} {policy}");
    }
}

#[test]
fn a_missing_policy_is_worth_knowing_and_no_finding() {
    let scratch = Scratch::new("info", &[("Pack.yaml", PACK), ("crds/a.yaml", CRD)]);
    let found = scratch.lint();
    assert_eq!((found[0].code, found[0].severity), ("MissingPolicy", Severity::Info));
    assert_eq!(found.len(), 1);
    let line = Line::parse_from(["lint", scratch.0.to_str().unwrap()]);
    assert_eq!(format!("{:?}", run(line.args)), format!("{:?}", ExitCode::SUCCESS));
}

#[test]
fn definitions_of_packs_inside_are_looked_at_where_they_stand() {
    let scratch = Scratch::new(
        "inside",
        &[
            ("Pack.yaml", PACK),
            ("charts/db/Pack.yaml", &PACK.replace("web", "db")),
            ("charts/db/crds/a.yaml", "{{ values.a }}"),
            ("charts/db/crds/b.yaml", CRD),
            (
                "charts/db/templates/_crd.yaml",
                &CRD.replace("as", "xs").replace(": a,", ": x,").replace('A', "X"),
            ),
            ("templates/a.yaml", "a: {{ values.gone }}"),
        ],
    );
    let found = serde_json::to_value(scratch.lint()).unwrap();
    let rows: Vec<(&str, &str, u64)> = found
        .as_array()
        .unwrap()
        .iter()
        .map(|one| {
            (one["code"].as_str().unwrap(), one["file"].as_str().unwrap(), one["line"].as_u64().unwrap())
        })
        .collect();
    // Neither mistake hides the other.
    assert!(rows.contains(&("TemplatedInCrdsDir", "charts/db/crds/a.yaml", 1)), "{rows:?}");
    assert!(rows.contains(&("MissingPolicy", "charts/db/crds/b.yaml", 1)), "{rows:?}");
    assert!(rows.contains(&("RenderFailed", "templates/a.yaml", 1)), "{rows:?}");
    assert_eq!((&found[0]["location"], &found[0]["dependency"]), (&"dependency".into(), &"db".into()));

    std::fs::remove_file(scratch.0.join("templates/a.yaml")).unwrap();
    let found = scratch.lint();
    let places: Vec<String> =
        found.iter().map(|one| format!("{} {}:{}", one.code, one.file, one.line)).collect();
    assert!(places.contains(&"StaticInTemplates charts/db/templates/_crd.yaml:2".to_owned()), "{places:?}");
}

#[test]
fn a_pack_that_is_not_there_is_no_finding() {
    let line = Line::parse_from(["lint", "/no/such/pack"]);
    assert!(lint(&line.args.render).is_err());
}

#[test]
fn the_samples_are_sound() {
    for name in ["webapp", "database", "podinfo", "shop"] {
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/packs").join(name);
        let line = Line::parse_from(["lint", path.to_str().unwrap()]);
        assert_eq!(lint(&line.args.render).unwrap(), [], "{name}");
    }
}
