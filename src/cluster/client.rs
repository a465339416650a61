//! The one Kubernetes client of the process: how it is configured and what happens to each request.
//!
//! From the caller to the wire:
//! `deadline` (no call lasts longer than [`DEADLINE`]) > `retry` (three short tries of what is
//! safe to repeat) > `pause` (nothing is sent again before the time in a `Retry-After`) > `guard` (nothing is sent
//! without [`Permission`]) > `count` (every try is told to an [`ApiObserver`]) > the test seam > kube's own stack
//! (authentication, headers, connection pool).
//!
//! kube's default retry is switched off: it repeats POST too, so that a create may answer
//! `AlreadyExists` for our own write, and it may hold one call for minutes.
//!
//! kube speaks HTTP/1.1 and keeps every idle connection for 90 s without a limit on their number, so
//! a steady concurrency of N settles at N connections plus one for each watch, and none is churned. Clients that act
//! as service accounts ([`acting_as`]) send through this one, so their number changes nothing.
//!
//! Imports nothing of this crate. Invariant: no other code of the crate builds a `kube::Client`.

mod count;
mod deadline;
mod guard;
mod impersonate;
mod pause;
mod proxy;
mod retry;
#[cfg(test)]
mod scripted;
mod verb;

use std::path::Path;
use std::sync::Arc;

use http::header::{HeaderValue, USER_AGENT};
use kube::client::{Body, ClientBuilder, DynBody};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use tower::buffer::Buffer;
use tower::util::{BoxCloneSyncService, BoxService};
use tower::{BoxError, layer::layer_fn};

pub use deadline::{DEADLINE, DeadlineExceeded};
pub use guard::{NotPermitted, Permission, is_not_permitted};
pub use impersonate::{acting_as, acting_as_nobody};
pub use proxy::Proxies;
pub use verb::verb;

/// A request on its way to the API server.
pub type Call = http::Request<Body>;
/// Its answer.
pub type Answer = http::Response<Box<DynBody>>;
/// Anything that carries a call to the API server and brings its answer back.
pub type Transport = BoxCloneSyncService<Call, Answer, BoxError>;
/// The test seam: puts something between the client's own layers and the wire.
///
/// What it answers is what the client sees: an injected 429 is retried and counted like a real one,
/// and an error made of a `std::io::Error` counts as a broken connection. To drop a request *after*
/// it took effect, call the inner transport and throw the answer away.
///
/// ```
/// # use std::sync::Arc;
/// # use sherpack_operator::cluster::client::{Call, Transport, Wrap};
/// # use tower::{ServiceExt, util::BoxCloneSyncService};
/// let cut_after_send: Wrap = Arc::new(|inner: Transport| {
///     BoxCloneSyncService::new(tower::service_fn(move |call: Call| {
///         let inner = inner.clone();
///         async move {
///             let _answer = inner.oneshot(call).await?;
///             Err(std::io::Error::from(std::io::ErrorKind::ConnectionReset).into())
///         }
///     }))
/// });
/// ```
pub type Wrap = Arc<dyn Fn(Transport) -> Transport + Send + Sync>;

/// Hears of every request that is sent, retries one by one.
pub trait ApiObserver: Send + Sync {
    /// One request is over.
    ///
    /// `verb` is one of get, list, watch, create, update, patch, apply, delete, other. `code` is the
    /// HTTP status; 0 means that no answer came (broken connection, deadline, caller gone).
    /// `seconds` runs until the head of the answer, so that a watch does not count as slow.
    fn record(&self, verb: &'static str, code: u16, seconds: f64);
}

/// Calls that the queue in front of the connection pool holds before callers wait.
const QUEUED_CALLS: usize = 1024;

/// Finds the API server and the credentials.
///
/// Without arguments as kubectl does it: `$KUBECONFIG`, `~/.kube/config`, else the service account of
/// the pod. `kubeconfig` names one file instead, `context` another context than the current one. The API server is asked
/// through the proxy that the kubeconfig names, else through the one of `proxies`.
///
/// # Errors
/// A file that is missing or unreadable, an unknown context, no configuration anywhere, or a proxy of an unknown kind.
pub async fn load_config(
    kubeconfig: Option<&Path>,
    context: Option<&str>,
    proxies: &Proxies,
) -> kube::Result<Config> {
    let options = KubeConfigOptions { context: context.map(str::to_owned), ..KubeConfigOptions::default() };
    let (mut config, file) = match kubeconfig {
        Some(path) => {
            let file = Kubeconfig::read_from(path)?;
            (Config::from_custom_kubeconfig(file.clone(), &options).await?, Some(file))
        }
        None if context.is_some() => (Config::from_kubeconfig(&options).await?, Kubeconfig::read().ok()),
        // Without a file it is the pod's service account.
        None => (Config::infer().await.map_err(kube::Error::InferConfig)?, Kubeconfig::read().ok()),
    };
    config.proxy_url = match file.and_then(|file| proxy::named(&file, context)) {
        Some(named) => Some(named),
        None => proxies.to_api_server(&config.cluster_url)?,
    };
    Ok(config)
}

/// Builds the client.
///
/// # Errors
/// Credentials or certificates that cannot be used. Nothing is sent yet.
pub fn build(config: Config, observer: Arc<dyn ApiObserver>) -> kube::Result<Client> {
    build_through(config, observer, None, None)
}

/// As [`build`], with something of the caller's between client and server, see [`Wrap`], and sending only what
/// `permission` allows.
///
/// # Errors
/// As [`build`].
pub fn build_through(
    mut config: Config,
    observer: Arc<dyn ApiObserver>,
    through: Option<Wrap>,
    permission: Option<Arc<dyn Permission>>,
) -> kube::Result<Client> {
    config.default_retry = false;
    let impersonated = impersonate::take_configured(&mut config)?;
    config.headers.push((
        USER_AGENT,
        HeaderValue::from_static(concat!("sherpack-operator/", env!("CARGO_PKG_VERSION"))),
    ));
    let layers = layer_fn(move |stack: BoxService<Call, Answer, BoxError>| {
        // kube's stack cannot be cloned, and a retry needs it twice: the queue makes it cloneable.
        let wire = Transport::new(Buffer::new(stack, QUEUED_CALLS));
        let wire = match &through {
            Some(wrap) => wrap(wire),
            None => wire,
        };
        let wire = impersonate::layer(wire, Arc::clone(&impersonated));
        let counted = count::layer(wire, Arc::clone(&observer));
        let guarded = match &permission {
            Some(permission) => guard::layer(counted, Arc::clone(permission)),
            None => counted,
        };
        deadline::layer(retry::layer(pause::layer(guarded)))
    });
    Ok(ClientBuilder::try_from(config)?.with_layer(&layers).build())
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;
    use tower::ServiceExt;

    use super::*;

    #[derive(Default)]
    struct Heard(Mutex<Vec<(&'static str, u16)>>);

    impl ApiObserver for Heard {
        fn record(&self, verb: &'static str, code: u16, _seconds: f64) {
            self.0.lock().unwrap().push((verb, code));
        }
    }

    /// A server that answers every request with `{}` and remembers.
    struct Listening {
        uri: http::Uri,
        heads: Arc<Mutex<Vec<String>>>,
        connections: Arc<AtomicUsize>,
    }

    async fn listen() -> Listening {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let uri = format!("http://{}", listener.local_addr().unwrap()).parse().unwrap();
        let listening = Listening { uri, heads: Arc::default(), connections: Arc::default() };
        let (heads, connections) = (Arc::clone(&listening.heads), Arc::clone(&listening.connections));
        tokio::spawn(async move {
            while let Ok((mut socket, _)) = listener.accept().await {
                connections.fetch_add(1, Ordering::Relaxed);
                let heads = Arc::clone(&heads);
                tokio::spawn(async move {
                    let mut buffer = vec![0; 4096];
                    while let Ok(read @ 1..) = socket.read(&mut buffer).await {
                        heads.lock().unwrap().push(String::from_utf8_lossy(&buffer[..read]).into_owned());
                        let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}";
                        socket.write_all(answer).await.unwrap();
                    }
                });
            }
        });
        listening
    }

    #[tokio::test]
    async fn every_request_names_this_program_and_its_version() {
        let Listening { uri, heads, .. } = listen().await;
        let client = build(Config::new(uri), Arc::new(Heard::default())).unwrap();
        client.request_text(http::Request::get("/version").body(Vec::new()).unwrap()).await.unwrap();
        let expected = format!("user-agent: sherpack-operator/{}", env!("CARGO_PKG_VERSION"));
        assert!(heads.lock().unwrap()[0].contains(&expected), "{heads:?}");
    }

    #[tokio::test]
    async fn an_injected_refusal_is_retried_and_counted_like_a_real_one() {
        let Listening { uri, heads, .. } = listen().await;
        let heard = Arc::new(Heard::default());
        let once = Arc::new(Mutex::new(true));
        let refuse_first: Wrap = Arc::new(move |inner: Transport| {
            let once = Arc::clone(&once);
            Transport::new(tower::service_fn(move |call: Call| {
                let (inner, first) = (inner.clone(), std::mem::take(&mut *once.lock().unwrap()));
                async move {
                    if first {
                        return Ok(scripted::answer(503, &[]));
                    }
                    inner.oneshot(call).await
                }
            }))
        });
        let observer = Arc::clone(&heard) as Arc<dyn ApiObserver>;
        let client = build_through(Config::new(uri), observer, Some(refuse_first), None).unwrap();
        let get = http::Request::get("/api/v1/pods").body(Vec::new()).unwrap();
        assert_eq!(client.request_text(get).await.unwrap(), "{}");
        assert_eq!(*heard.0.lock().unwrap(), [("list", 503), ("list", 200)]);
        assert_eq!(heads.lock().unwrap().len(), 1);
    }

    #[tokio::test]
    async fn connections_are_kept_at_the_concurrency_of_a_busy_operator() {
        let Listening { uri, heads, connections } = listen().await;
        let client = build(Config::new(uri), Arc::new(Heard::default())).unwrap();
        for _ in 0..20 {
            let calls = (0..32)
                .map(|_| client.request_text(http::Request::get("/api/v1/pods").body(Vec::new()).unwrap()));
            futures::future::try_join_all(calls).await.unwrap();
        }
        assert_eq!(heads.lock().unwrap().len(), 640);
        // A call that finds no idle connection dials and takes what comes first: a few more are normal.
        let connections = connections.load(Ordering::Relaxed);
        assert!(connections <= 64, "{connections} connections for 640 requests, 32 at a time");
    }

    #[tokio::test]
    async fn accounts_share_the_connections_of_the_one_client() {
        let Listening { uri, heads, connections } = listen().await;
        let client = build(Config::new(uri), Arc::new(Heard::default())).unwrap();
        let get = || http::Request::get("/api/v1/pods").body(Vec::new()).unwrap();
        for number in 0..200 {
            let user = HeaderValue::try_from(format!("system:serviceaccount:apps:a{number}")).unwrap();
            acting_as(&client, &user).request_text(get()).await.unwrap();
            client.request_text(get()).await.unwrap();
        }
        let heads = heads.lock().unwrap();
        for number in 0..200 {
            let user = format!("impersonate-user: system:serviceaccount:apps:a{number}\r\n");
            assert!(heads[2 * number].contains(&user), "{}", heads[2 * number]);
            assert!(!heads[2 * number + 1].contains("impersonate"), "{}", heads[2 * number + 1]);
        }
        assert_eq!(connections.load(Ordering::Relaxed), 1, "400 requests one after the other, 200 accounts");
    }

    #[tokio::test]
    async fn whom_the_kubeconfig_impersonates_is_not_added_to_an_account() {
        let Listening { uri, heads, .. } = listen().await;
        let mut config = Config::new(uri);
        config.auth_info.impersonate = Some("admin".to_owned());
        config.auth_info.impersonate_groups = Some(vec!["one".to_owned(), "two".to_owned()]);
        let extra = [("example.com/a b".to_owned(), vec!["x".to_owned()])];
        config.auth_info.impersonate_user_extra = Some(extra.into());
        let client = build(config, Arc::new(Heard::default())).unwrap();
        let get = || http::Request::get("/api/v1/pods").body(Vec::new()).unwrap();
        client.request_text(get()).await.unwrap();
        let account = HeaderValue::from_static("system:serviceaccount:apps:deployer");
        acting_as(&client, &account).request_text(get()).await.unwrap();
        let heads = heads.lock().unwrap();
        let impersonated = |head: &str| {
            let mut lines: Vec<String> =
                head.lines().filter(|line| line.starts_with("impersonate-")).map(str::to_owned).collect();
            lines.sort();
            lines
        };
        let configured = [
            "impersonate-extra-example.com%2fa%20b: x",
            "impersonate-group: one",
            "impersonate-group: two",
            "impersonate-user: admin",
        ];
        assert_eq!(impersonated(&heads[0]), configured);
        assert_eq!(impersonated(&heads[1]), ["impersonate-user: system:serviceaccount:apps:deployer"]);
    }

    #[tokio::test]
    async fn nobody_sends_nothing() {
        let Listening { uri, heads, .. } = listen().await;
        let client = build(Config::new(uri), Arc::new(Heard::default())).unwrap();
        let nobody = acting_as_nobody(&client);
        let get = http::Request::get("/api/v1/pods").body(Vec::new()).unwrap();
        let error = nobody.request_text(get).await.unwrap_err();
        assert!(format!("{error:?}").contains("no service account acts"), "{error:?}");
        assert!(heads.lock().unwrap().is_empty());
    }

    #[tokio::test]
    async fn a_kubeconfig_that_is_not_there_is_named_in_the_error() {
        let error = load_config(Some(Path::new("/nonexistent/kubeconfig")), None, &Proxies::default())
            .await
            .unwrap_err();
        assert!(format!("{error:?}").contains("/nonexistent/kubeconfig"), "{error:?}");
    }
}
