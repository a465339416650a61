//! Packs in registries and repositories by the command line, against a real registry: `push`, `pull`, `show versions`.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use sherpack_operator::source::cache;

use crate::support::Pack;
use crate::support::http_server::{HttpServer, Route};
use crate::support::packs::config_map;
use crate::support::registry::{Artifact, Auth, Options, PASSWORD, Registry, USER};
use crate::support::sourced::harness;

const IMAGE: &str = "application/vnd.oci.image.layer.v1.tar+gzip";

/// A directory of a test alone, with a directory for the docker config in it, and the commands that run there.
pub(super) struct Place {
    pub(super) directory: PathBuf,
}

impl Place {
    pub(super) fn new(name: &str) -> Self {
        let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        let _ = fs::remove_dir_all(&directory);
        fs::create_dir_all(directory.join("docker")).unwrap();
        Self { directory }
    }

    pub(super) fn path(&self, name: &str) -> String {
        self.directory.join(name).to_str().unwrap().to_owned()
    }

    /// Writes a pack and gives its directory.
    pub(super) fn pack(&self, version: &str, color: &str) -> String {
        let root = self.directory.join(format!("web-{version}-{color}"));
        fs::create_dir_all(root.join("templates")).unwrap();
        let definition = format!("apiVersion: sherpack/v1\nmetadata: {{name: web, version: {version}}}\n");
        fs::write(root.join("Pack.yaml"), definition).unwrap();
        let object = config_map("settings", json!({"color": color}));
        fs::write(root.join("templates/settings.yaml"), object.to_string()).unwrap();
        root.to_str().unwrap().to_owned()
    }

    pub(super) fn logs_in(&self, config: &Value) {
        fs::write(self.directory.join("docker/config.json"), config.to_string()).unwrap();
    }

    /// A program that can be run by its name.
    pub(super) fn program(&self, name: &str, script: &str) {
        let file = self.directory.join(name);
        fs::write(&file, script).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
    }

    pub(super) fn run(&self, arguments: &[&str]) -> Output {
        let path = std::env::var("PATH").unwrap();
        Command::new(env!("CARGO_BIN_EXE_sherpack-operator"))
            .args(arguments)
            .current_dir(&self.directory)
            .env("DOCKER_CONFIG", self.directory.join("docker"))
            .env("PATH", format!("{}:{path}", self.directory.display()))
            .stdin(Stdio::null())
            .output()
            .unwrap()
    }

    /// What a command prints that succeeds, without the line break.
    pub(super) fn done(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        assert_eq!(output.status.code(), Some(0), "{arguments:?}: {}", err(&output));
        String::from_utf8(output.stdout).unwrap().trim_end().to_owned()
    }

    /// What a command says that fails with this code.
    pub(super) fn refused(&self, code: i32, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {}", err(&output));
        assert!(output.stdout.is_empty(), "{arguments:?}: {output:?}");
        err(&output)
    }
}

fn err(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

fn with<'a>(arguments: &[&'a str], more: &[&'a str]) -> Vec<&'a str> {
    [arguments, more].concat()
}

fn login() -> Value {
    json!({"auth": STANDARD.encode(format!("{USER}:{PASSWORD}"))})
}

/// What was asked of a registry since it had been asked so many times, by method and the part of the path that tells.
async fn asked_since(registry: &Registry, count: usize) -> Vec<String> {
    let short = |line: &String| {
        let mut parts = line.split([' ', '/']).filter(|part| !part.is_empty());
        let method = parts.next().unwrap_or_default();
        let kind = ["manifests", "uploads", "blobs", "tags"].into_iter().find(|kind| line.contains(kind));
        format!("{method} {} {}", kind.unwrap_or("token"), line.rsplit(' ').next().unwrap())
    };
    registry.requests().await[count..].iter().map(short).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_pushed_is_listed_pulled_and_installed() {
    let h = harness("oci-commands").await;
    let (registry, place) = (Registry::start(Options::default()).await, Place::new("oci-commands"));
    let repository = format!("oci://{}/packs/web", registry.address);
    let pack = place.pack("1.0.0", "blue");
    let pushed = place.done(&["push", &pack, &repository, "--plain-http"]);
    let (name, digest) = pushed.split_once('@').unwrap();
    assert_eq!(name, format!("{repository}:1.0.0"));
    let first = asked_since(&registry, 0).await;
    let blob = ["HEAD blobs 404", "POST uploads 202", "PUT uploads 201"];
    let whole = [&["HEAD manifests 404"][..], &blob, &blob, &["PUT manifests 201"]].concat();
    assert_eq!(first, whole);

    // The same again costs one look, and a blob that is there is not sent again.
    assert_eq!(place.done(&["push", &pack, &repository, "--plain-http"]), pushed);
    assert_eq!(asked_since(&registry, first.len()).await, ["HEAD manifests 200"]);
    let count = registry.requests().await.len();
    let stable = format!("{repository}:stable");
    place.done(&["push", &pack, &stable, "--plain-http"]);
    let again = ["HEAD manifests 404", "HEAD blobs 200", "HEAD blobs 200", "PUT manifests 201"];
    assert_eq!(asked_since(&registry, count).await, again);

    for version in ["1.10.0", "1.9.0-rc.1", "1.9.0+build.5"] {
        place.done(&["push", &place.pack(version, "blue"), &repository, "--plain-http"]);
    }
    let shown = place.done(&["show", "versions", &repository, "--plain-http"]);
    assert_eq!(shown, "1.10.0\n1.9.0_build.5\n1.9.0-rc.1\n1.0.0");
    let json = place.done(&["show", "versions", &repository, "--plain-http", "-o", "json"]);
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json[1], json!({"version": "1.9.0+build.5", "tag": "1.9.0_build.5"}));

    let file = place.path("web-1.0.0.tgz");
    let by_digest = format!("{repository}@{digest}");
    let pulled = place.done(&["pull", &by_digest, "--plain-http", "-d", &place.path("")]);
    assert_eq!(fs::canonicalize(pulled).unwrap(), fs::canonicalize(&file).unwrap());
    place.done(&["package", &pack, "-o", &place.path("packaged.tgz")]);
    assert_eq!(fs::read(&file).unwrap(), fs::read(place.path("packaged.tgz")).unwrap());

    let oci = json!({"repository": repository, "insecure": true, "tag": "1.0.0"});
    h.release("web", json!({"pack": {"oci": oci}})).await;
    let ready = h.ready("web").await;
    assert_eq!(ready["status"]["pack"]["version"], "1.0.0");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_archive_is_pushed_as_it_is_and_a_tag_is_not_moved_unasked() {
    let (registry, place) = (Registry::start(Options::default()).await, Place::new("oci-moved"));
    let repository = format!("oci://{}/web", registry.address);
    let archive = place.path("blue.tgz");
    place.done(&["package", &place.pack("1.0.0", "blue"), "-o", &archive]);
    let blue = place.done(&["push", &archive, &repository, "--plain-http"]);
    let green = place.pack("1.0.0", "green");
    let said = place.refused(1, &["push", &green, &repository, "--plain-http"]);
    let digest = blue.split_once('@').unwrap().1;
    assert!(said.contains(digest) && said.contains("--force"), "{said}");
    place.done(&["pull", &repository, "--plain-http"]);
    assert_eq!(fs::read(place.path("web-1.0.0.tgz")).unwrap(), fs::read(&archive).unwrap());

    let moved = place.done(&["push", &green, &repository, "--plain-http", "--force"]);
    assert_ne!(moved, blue);
    place.done(&["pull", &format!("{repository}:1.0.0"), "--plain-http", "--force"]);
    let manifest = |bytes: &[u8]| cache::digest(bytes);
    assert_ne!(
        manifest(&fs::read(place.path("web-1.0.0.tgz")).unwrap()),
        manifest(&fs::read(&archive).unwrap())
    );

    // What is no pack is not pushed, and neither is anything to what is no repository.
    fs::write(place.path("other.tgz"), "no archive").unwrap();
    let count = registry.requests().await.len();
    place.refused(1, &["push", &place.path("other.tgz"), &repository, "--plain-http"]);
    place.refused(2, &["push", &place.path("nowhere"), &repository, "--plain-http"]);
    place.refused(2, &["push", &archive, "oci://nowhere", "--plain-http"]);
    place.refused(2, &["push", &archive, &format!("{repository}@{digest}"), "--plain-http"]);
    assert_eq!(registry.requests().await.len(), count);
    registry.refuse_next(1000, 500, None).await;
    let said = place.refused(2, &["push", &archive, &repository, "--plain-http"]);
    assert!(said.contains("500"), "{said}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_version_of_a_range_is_pulled_and_nothing_is_overwritten_unasked() {
    let (registry, place) = (Registry::start(Options::default()).await, Place::new("oci-pulled"));
    let repository = format!("oci://{}/web", registry.address);
    for version in ["1.0.0", "1.1.0", "2.0.0-rc.1"] {
        place.done(&["push", &place.pack(version, "blue"), &repository, "--plain-http"]);
    }
    place.done(&["push", &place.pack("0.9.0", "blue"), &format!("{repository}:old"), "--plain-http"]);
    let pull = ["pull", &repository, "--plain-http"];
    for (version, file) in [
        ("*", "web-1.1.0.tgz"),
        ("<1.1", "web-1.0.0.tgz"),
        ("2.0.0-rc.1", "web-2.0.0-rc.1.tgz"),
        ("old", "web-0.9.0.tgz"),
    ] {
        assert_eq!(place.done(&with(&pull, &["--version", version])), format!("./{file}"));
        assert!(Path::new(&place.path(file)).is_file());
    }
    let said = place.refused(1, &with(&pull, &["--version", "3.x"]));
    assert!(said.contains("no version matches `3.x`"), "{said}");
    place.refused(1, &["pull", &format!("{repository}:nowhere"), "--plain-http"]);
    let both = format!("{repository}:1.0.0");
    place.refused(2, &["pull", &both, "--plain-http", "--version", "1.0.0"]);

    let said = place.refused(2, &pull);
    assert!(said.contains("web-1.1.0.tgz") && said.contains("--force"), "{said}");
    fs::write(place.path("web-1.1.0.tgz"), "changed").unwrap();
    place.done(&with(&pull, &["--force"]));
    assert_ne!(fs::read(place.path("web-1.1.0.tgz")).unwrap(), b"changed");

    fs::create_dir(place.path("below")).unwrap();
    let untar = with(&pull, &["--untar", "--destination", "below"]);
    assert_eq!(place.done(&untar), "below/web");
    let there = |file: &str| Path::new(&place.path("below/web")).join(file).exists();
    assert!(there("Pack.yaml") && there("templates/settings.yaml"));
    place.refused(2, &untar);
    fs::write(place.path("below/web/stale"), "").unwrap();
    place.done(&with(&untar, &["--force"]));
    assert!(there("Pack.yaml") && !there("stale"));
    let names: Vec<_> =
        fs::read_dir(place.path("below")).unwrap().map(|of| of.unwrap().file_name()).collect();
    assert_eq!(names, ["web"], "nothing else is left");
    // What is no pack is somebody's.
    fs::remove_file(place.path("below/web/Pack.yaml")).unwrap();
    let said = place.refused(2, &with(&untar, &["--force"]));
    assert!(said.contains("no pack") && there("templates"), "{said}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_no_pack_is_not_written() {
    let (registry, place) = (Registry::start(Options::default()).await, Place::new("oci-no-pack"));
    let image = Artifact {
        config_media_type: "application/vnd.oci.image.config.v1+json".to_owned(),
        config: b"{}".to_vec(),
        layers: vec![(IMAGE.to_owned(), Pack::new("web", "1.0.0").archive())],
        ..Artifact::default()
    };
    registry.push("web", "image", &image).await;
    let layer = ("application/vnd.sherpack.pack.v1.tar+gzip".to_owned(), b"\x1f\x8b no pack".to_vec());
    registry.push("web", "1.0.0", &Artifact { layers: vec![layer], ..image }).await;
    let repository = format!("oci://{}/web", registry.address);
    for tag in ["image", "1.0.0"] {
        place.refused(1, &["pull", &format!("{repository}:{tag}"), "--plain-http"]);
    }
    let files = fs::read_dir(&place.directory).unwrap().count();
    assert_eq!(files, 1, "only the directory of the docker config is there");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_registry_is_shown_what_docker_login_has_stored() {
    let options = Options { auth: Auth::Tokens(300), tls: true, ..Options::default() };
    let (registry, place) = (Registry::start(options).await, Place::new("oci-login"));
    let repository = format!("oci://{}/packs/web", registry.address);
    let (pack, ca) = (place.pack("1.0.0", "blue"), place.path("ca.pem"));
    let said = place.refused(2, &["push", &pack, &repository]);
    assert!(said.contains("--ca-file"), "{said}");
    fs::write(&ca, registry.ca.clone().unwrap()).unwrap();
    let push = ["push", &pack, &repository, "--ca-file", &ca];
    let said = place.refused(2, &push);
    assert!(said.contains(&format!("docker login {}", registry.address)), "{said}");

    let host = registry.address.to_string();
    place.logs_in(&json!({"auths": {host.clone(): {"username": USER, "password": "wr0ng"}}}));
    let said = place.refused(2, &push);
    assert!(said.contains("renew it") && !said.contains("wr0ng"), "{said}");
    place.logs_in(&json!({"auths": {host.clone(): login()}}));
    place.done(&push);
    assert_eq!(place.done(&["show", "versions", &repository, "--ca-file", &ca]), "1.0.0");

    // The program that has the password.
    let printed = json!({"ServerURL": host, "Username": USER, "Secret": PASSWORD});
    place.program(
        "docker-credential-test",
        &format!("#!/bin/sh\nread server\n[ \"$1 $server\" = \"get {host}\" ] && echo '{printed}'\n"),
    );
    place.logs_in(&json!({"auths": {host.clone(): {}}, "credsStore": "test"}));
    let pull = ["pull", &repository, "--ca-file", &ca];
    place.done(&pull);
    // One that knows nothing is as none, and one that fails is told.
    place.program(
        "docker-credential-empty",
        "#!/bin/sh\necho 'credentials not found in native keychain'\nexit 1\n",
    );
    place.logs_in(&json!({"auths": {host.clone(): login()}, "credHelpers": {host.clone(): "empty"}}));
    place.done(&with(&pull, &["--force"]));
    place.program("docker-credential-broken", "#!/bin/sh\necho 'no session'\nexit 3\n");
    place.logs_in(&json!({"auths": {host.clone(): login()}, "credHelpers": {host: "broken"}}));
    let said = place.refused(2, &pull);
    assert!(said.contains("docker-credential-broken") && said.contains("no session"), "{said}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_name_and_a_password_are_enough_for_a_registry_without_tokens() {
    let options = Options { auth: Auth::Basic, ..Options::default() };
    let (registry, place) = (Registry::start(options).await, Place::new("oci-basic-login"));
    let repository = format!("oci://{}/web", registry.address);
    place.logs_in(&json!({"auths": {registry.address.to_string(): login()}}));
    place.done(&["push", &place.pack("1.0.0", "blue"), &repository, "--plain-http"]);
    place.done(&["pull", &repository, "--plain-http"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_upload_that_leads_elsewhere_or_nowhere_is_refused() {
    let (registry, place) = (HttpServer::start().await, Place::new("oci-elsewhere"));
    let pack = place.pack("1.0.0", "blue");
    let repository = format!("oci://{}/web", registry.address);
    // A registry that takes an upload and says of no place.
    registry.serve("/v2/web/blobs/uploads/", Route::Status(202));
    let said = place.refused(2, &["push", &pack, &repository, "--plain-http"]);
    assert!(said.contains("does not say where to upload to"), "{said}");
    let other = HttpServer::start().await;
    registry.serve("/v2/web/blobs/uploads/", Route::Redirect(307, other.url("/v2/web/blobs/uploads/")));
    let said = place.refused(2, &["push", &pack, &repository, "--plain-http"]);
    assert!(said.contains("redirects"), "{said}");
    assert!(other.asked("/v2/web/blobs/uploads/").is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_repository_is_listed_and_pulled_from() {
    let (server, place) = (HttpServer::start().await, Place::new("oci-repository"));
    let archive = |version: &str| Pack::new("web", version).archive();
    let mut entries = Vec::new();
    for version in ["1.0.0", "1.10.0", "1.9.0"] {
        let bytes = archive(version);
        entries.push(json!({
            "name": "web", "version": version, "urls": [format!("web-{version}.tgz")],
            "digest": cache::digest(&bytes),
        }));
        server.serve(&format!("/stable/web-{version}.tgz"), Route::File(bytes));
    }
    let index = json!({"apiVersion": "v1", "entries": {"web": entries}});
    server.serve("/stable/index.yaml", Route::File(index.to_string().into_bytes()));
    let url = server.url("/stable");
    let shown = place.done(&["show", "versions", "web", "--repository", &url]);
    assert_eq!(shown, "1.10.0\n1.9.0\n1.0.0");
    let said = place.refused(1, &["show", "versions", "wep", "--repository", &url]);
    assert!(said.contains("no pack `wep`"), "{said}");

    place.done(&["pull", "web", "--repository", &url, "--version", "<1.10"]);
    assert_eq!(fs::read(place.path("web-1.9.0.tgz")).unwrap(), archive("1.9.0"));
    // The index says what it has to be.
    server.serve("/stable/web-1.10.0.tgz", Route::File(archive("1.0.0")));
    place.refused(1, &["pull", "web", "--repository", &url]);
    assert!(!Path::new(&place.path("web-1.10.0.tgz")).exists());
    place.refused(2, &["pull", "web", "--repository", &url, "--plain-http"]);
    place.refused(2, &["pull", "oci://r/web", "--repository", &url]);
    place.refused(2, &["pull", "web"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pack_of_a_registry_is_rendered_checked_and_planned_as_a_directory_is() {
    let h = harness("oci-tried").await;
    let options = Options { auth: Auth::Basic, tls: true, ..Options::default() };
    let (registry, place) = (Registry::start(options).await, Place::new("oci-tried"));
    let (repository, ca) = (format!("oci://{}/web", registry.address), place.path("ca.pem"));
    fs::write(&ca, registry.ca.clone().unwrap()).unwrap();
    let (old, new) = (place.pack("1.0.0", "blue"), place.pack("1.1.0", "green"));
    let trusted = ["--ca-file", &ca];
    let said = place.refused(2, &with(&["render", &repository], &trusted));
    assert!(said.contains("docker login"), "{said}");
    place.logs_in(&json!({"auths": {registry.address.to_string(): login()}}));
    for pack in [&old, &new] {
        place.done(&with(&["push", pack, &repository], &trusted));
    }
    let of_registry = place.done(&with(&["render", &repository], &trusted));
    assert_eq!(of_registry, place.done(&["render", &new]), "the newest version");
    let tagged = format!("{repository}:1.0.0");
    assert_eq!(place.done(&with(&["render", &tagged], &trusted)), place.done(&["render", &old]));
    place.done(&with(&["lint", &tagged], &trusted));
    assert_eq!(place.done(&with(&["plan", &tagged], &trusted)), place.done(&["plan", &old]));
    let cluster = ["--against-cluster", "--namespace", &h.namespace, "--kubeconfig"];
    let kubeconfig = h.control_plane.kubeconfig.to_str().unwrap();
    let told = place.done(&with(&with(&["plan", &tagged], &trusted), &with(&cluster, &[kubeconfig])));
    assert!(told.contains("ConfigMap"), "{told}");

    let pinned = with(&["render", &repository, "--version", "~1.0"], &trusted);
    assert_eq!(place.done(&pinned), place.done(&["render", &old]));
    // A repository, and the archive itself.
    let server = HttpServer::start().await;
    place.done(&["package", &old, "-o", &place.path("web.tgz")]);
    let archive = fs::read(place.path("web.tgz")).unwrap();
    let index = json!({"apiVersion": "v1", "entries": {"web": [{"name": "web", "version": "1.0.0", "urls": ["web.tgz"],
        "digest": cache::digest(&archive).trim_start_matches("sha256:")}]}});
    server.serve("/index.yaml", Route::File(index.to_string().into_bytes()));
    server.serve("/web.tgz", Route::File(archive));
    let (url, file) = (server.url("/"), server.url("/web.tgz"));
    for named in [&["render", "web", "--repository", &url, "--version", "1.x"][..], &["render", &file]] {
        assert_eq!(place.done(named), place.done(&["render", &old]), "{named:?}");
    }
    for wrong in [
        &["render", &old, "--version", "1.x"][..],
        &["render", &tagged, "--version", "1.x"],
        &["render", "web/x", "--repository", &url],
        &["render", "https://"],
    ] {
        place.refused(2, wrong);
    }

    // What is there and is no pack is a finding of `lint`.
    let layer = ("application/vnd.sherpack.pack.v1.tar+gzip".to_owned(), b"\x1f\x8b no pack".to_vec());
    let config = "application/vnd.sherpack.pack.config.v1+json".to_owned();
    let broken = Artifact {
        config_media_type: config,
        config: b"{}".to_vec(),
        layers: vec![layer],
        ..Artifact::default()
    };
    registry.push("web", "broken", &broken).await;
    let broken = format!("{repository}:broken");
    let found = place.run(&with(&["lint", &broken], &trusted));
    assert_eq!(found.status.code(), Some(1), "{found:?}");
    assert!(String::from_utf8(found.stdout).unwrap().contains("PackNotAnArchive"));
    place.refused(1, &with(&["render", &broken], &trusted));
    place.refused(1, &with(&["plan", &format!("{repository}:nowhere")], &trusted));
}

/// The tools themselves, as the project builds them for its tests.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn charts_that_helm_pushes_are_listed_and_known_for_charts() {
    let h = harness("oci-helm").await;
    let (registry, place) = (Registry::start(Options::default()).await, Place::new("oci-helm"));
    let helm = |program: &str, arguments: &[&str]| {
        let mut command = Command::new(h.control_plane.bin.join(program));
        let output = command.args(arguments).current_dir(&place.directory).output().unwrap();
        assert!(output.status.success(), "{program} {arguments:?}: {}", err(&output));
    };
    helm("helm", &["create", "shop"]);
    helm("helm", &["package", "shop"]);
    for (program, path) in [("helm", "four"), ("helm3", "three")] {
        let repository = format!("oci://{}/{path}", registry.address);
        helm(program, &["push", "shop-0.1.0.tgz", &repository, "--plain-http"]);
        let chart = format!("{repository}/shop");
        assert_eq!(place.done(&["show", "versions", &chart, "--plain-http"]), "0.1.0");
        let said = place.refused(1, &["pull", &chart, "--plain-http"]);
        assert!(said.contains("it is a Helm chart"), "{said}");
        let oci = json!({"repository": chart, "insecure": true, "tag": "0.1.0"});
        h.release(path, json!({"pack": {"oci": oci}})).await;
        h.condition(path, "Ready", "False", Some("HelmEngineMissing")).await;
    }
}
