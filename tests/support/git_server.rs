//! A git server over HTTP: a bare repository behind the `git http-backend` of this machine.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::Request;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::header::{AUTHORIZATION, CONTENT_LENGTH, CONTENT_TYPE, WWW_AUTHENTICATE};
use http::{HeaderMap, Response, StatusCode};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpListener;
use tokio::process::Command;
use tokio::task::AbortHandle;

/// The only user of a server that knows one.
pub const USER: &str = "admin";
pub const PASSWORD: &str = "open:sesame";

/// The branch that commits are made on.
pub const BRANCH: &str = "main";

/// More than a test fetches.
const LARGEST_REQUEST: usize = 16 << 20;

/// A running server of one repository. It ends when the value is dropped, and the repository goes with it.
pub struct GitServer {
    pub address: SocketAddr,
    home: PathBuf,
    asked: Arc<Mutex<Vec<String>>>,
    task: AbortHandle,
}

impl GitServer {
    /// For everybody. The repository has no commit yet.
    pub async fn start() -> Self {
        Self::run(false).await
    }

    /// For [`USER`], with the password in each request.
    pub async fn start_guarded() -> Self {
        Self::run(true).await
    }

    async fn run(guarded: bool) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let home = std::env::temp_dir().join(format!("git-server-{}-{}", std::process::id(), address.port()));
        std::fs::create_dir_all(&home).unwrap();
        let repository = home.join("app.git");
        let branch = format!("--initial-branch={BRANCH}");
        git(&home, &["init", "--quiet", "--bare", &branch, &repository.to_string_lossy()], b"").await;

        let asked: Arc<Mutex<Vec<String>>> = Arc::default();
        let (root, told) = (home.clone(), Arc::clone(&asked));
        let router = Router::new().fallback(async move |request: Request| {
            let line = format!("{} {}", request.method(), request.uri());
            let allowed =
                !guarded || request.headers().get(AUTHORIZATION).is_some_and(|sent| sent == &basic());
            let answer = if allowed { backend(&root, request).await } else { unauthorized() };
            told.lock().unwrap().push(format!("{line} {}", answer.status().as_u16()));
            answer
        });
        let task = tokio::spawn(async move { axum::serve(listener, router).await.unwrap() }).abort_handle();
        Self { address, home, asked, task }
    }

    /// What `spec.url` of a GitRepository is.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}/app.git", self.address)
    }

    /// Commits these files and no others; gives the revision as Flux writes it: `main@sha1:…`.
    pub async fn commit(&self, files: &BTreeMap<String, Vec<u8>>) -> String {
        let repository = self.home.join("app.git");
        let reference = format!("refs/heads/{BRANCH}");
        let mut stream = format!(
            "commit {reference}\ncommitter Test <test@example.com> 1700000000 +0000\ndata <<END\ntest\nEND\n"
        )
        .into_bytes();
        if repository.join(&reference).exists() {
            stream.extend(format!("from {reference}^0\n").bytes());
        }
        stream.extend(b"deleteall\n");
        for (path, bytes) in files {
            stream.extend(format!("M 100644 inline {path}\ndata {}\n", bytes.len()).bytes());
            stream.extend(bytes);
            stream.push(b'\n');
        }
        git(&repository, &["fast-import", "--quiet"], &stream).await;
        let hash = git(&repository, &["rev-parse", &reference], b"").await;
        format!("{BRANCH}@sha1:{}", String::from_utf8(hash).unwrap().trim())
    }

    /// What it was asked, oldest first: `GET /app.git/info/refs?service=git-upload-pack 200`.
    #[must_use]
    pub fn requests(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }
}

impl Drop for GitServer {
    fn drop(&mut self) {
        self.task.abort();
        let _ = std::fs::remove_dir_all(&self.home);
    }
}

fn basic() -> String {
    format!("Basic {}", STANDARD.encode(format!("{USER}:{PASSWORD}")))
}

fn unauthorized() -> Response<Body> {
    let answer = Response::builder().status(StatusCode::UNAUTHORIZED).header(WWW_AUTHENTICATE, "Basic");
    answer.body(Body::empty()).unwrap()
}

/// Runs git in a directory with this input, without the configuration of the person who runs the tests.
async fn git(directory: &Path, arguments: &[&str], input: &[u8]) -> Vec<u8> {
    output(command(directory).args(arguments), input).await
}

fn command(directory: &Path) -> Command {
    let mut command = Command::new("git");
    command.current_dir(directory).env("GIT_CONFIG_NOSYSTEM", "1").env("GIT_CONFIG_GLOBAL", "/dev/null");
    command
}

async fn output(command: &mut Command, input: &[u8]) -> Vec<u8> {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .expect("git is on the PATH");
    let mut stdin = child.stdin.take().unwrap();
    let (written, output) =
        tokio::join!(async move { stdin.write_all(input).await }, child.wait_with_output());
    let output = output.unwrap();
    assert!(output.status.success(), "git: {}", String::from_utf8_lossy(&output.stderr));
    written.unwrap();
    output.stdout
}

/// Asks `git http-backend`, which is a CGI program.
async fn backend(root: &Path, request: Request) -> Response<Body> {
    let (head, body) = request.into_parts();
    let body = to_bytes(body, LARGEST_REQUEST).await.unwrap();
    let header = |name: &str| text(&head.headers, name).to_owned();
    let mut command = command(root);
    command
        .arg("http-backend")
        .env("GIT_PROJECT_ROOT", root)
        .env("GIT_HTTP_EXPORT_ALL", "1")
        .env("REQUEST_METHOD", head.method.as_str())
        .env("PATH_INFO", head.uri.path())
        .env("QUERY_STRING", head.uri.query().unwrap_or_default())
        .env("CONTENT_TYPE", header(CONTENT_TYPE.as_str()))
        .env("CONTENT_LENGTH", body.len().to_string())
        .env("HTTP_CONTENT_ENCODING", header("content-encoding"))
        .env("GIT_PROTOCOL", header("git-protocol"));
    let said = output(&mut command, &body).await;
    let end = said.windows(4).position(|four| four == b"\r\n\r\n").expect("headers and a body");
    let mut answer = Response::builder();
    for line in String::from_utf8_lossy(&said[..end]).lines() {
        let (name, value) = line.split_once(": ").expect("a header");
        answer = match name {
            "Status" => answer.status(&value[..3]),
            _ => answer.header(name, value),
        };
    }
    let body = said[end + 4..].to_vec();
    answer.header(CONTENT_LENGTH, body.len()).body(Body::from(body)).unwrap()
}

fn text<'a>(headers: &'a HeaderMap, name: &str) -> &'a str {
    headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
}
