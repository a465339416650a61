//! The open connections of the port: how many there may be, how long each may take, and which one makes room.
//!
//! Invariant: a new connection is always taken. One that has no place gets the place of another one, so that clients which
//! open connections and send nothing keep out neither the kubelet nor each other.

use std::collections::{BTreeMap, HashMap};
use std::io::ErrorKind;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::Router;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower::ServiceExt;

use super::certificate::Certificate;

/// Connections at a time. Much less than the 1,024 files that a process may have open where nothing else is said.
const OPEN: usize = 128;
/// Until the whole head of a request is there, and so long for TLS before it.
const HEAD: Duration = Duration::from_secs(10);
/// Everything together. One connection is for one request.
const WHOLE: Duration = Duration::from_secs(30);
/// A head is larger than this for no honest client.
const HEAD_BYTES: usize = 16 << 10;
/// How long nothing is accepted after the system refused to.
const RECOVER: Duration = Duration::from_millis(100);

/// Answers until `shutdown`, then finishes the answers under way, for `last` at most.
pub(super) async fn answer(
    listener: TcpListener,
    certificate: Option<Certificate>,
    routes: Router,
    shutdown: CancellationToken,
    last: Duration,
) {
    let open = Arc::new(Open::new(OPEN));
    let tasks = TaskTracker::new();
    let certificate = certificate.map(Arc::new);
    loop {
        let accepted = tokio::select! {
            () = shutdown.cancelled() => break,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, peer)) => {
                let seat = open.enter(peer.ip());
                tasks.spawn(converse(stream, seat, certificate.clone(), routes.clone()));
                // So that it reads what its client has sent before the next one may need its place.
                tokio::task::yield_now().await;
            }
            // Its client has gone already.
            Err(error) if error.kind() == ErrorKind::ConnectionAborted => {}
            Err(error) => {
                // The process has no file left.
                tracing::debug!(%error, "a connection could not be taken");
                open.make_room();
                tokio::time::sleep(RECOVER).await;
            }
        }
    }
    drop(listener);
    tasks.close();
    open.leave_those_without_request();
    let _ = tokio::time::timeout(last, tasks.wait()).await;
    open.leave_all();
}

/// One request and its answer, unless its place is needed before.
async fn converse(stream: TcpStream, seat: Seat, certificate: Option<Arc<Certificate>>, routes: Router) {
    let closed = seat.closed.clone();
    let talk = async {
        let Some(certificate) = certificate else { return serve(stream, &seat, routes).await };
        let Some(config) = certificate.config().await else { return };
        let shaken = tokio::time::timeout(HEAD, TlsAcceptor::from(config).accept(stream)).await;
        if let Ok(Ok(stream)) = shaken {
            serve(stream, &seat, routes).await;
        }
    };
    tokio::select! {
        () = closed.cancelled() => {}
        _ = tokio::time::timeout(WHOLE, talk) => {}
    }
}

async fn serve(stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static, seat: &Seat, routes: Router) {
    let answer = service_fn(|request: hyper::Request<Incoming>| {
        seat.asked();
        routes.clone().oneshot(request)
    });
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD)
        .max_buf_size(HEAD_BYTES)
        .keep_alive(false)
        .serve_connection(TokioIo::new(stream), answer)
        .await;
    if let Err(error) = served {
        tracing::trace!(%error, "a connection ended early");
    }
}

/// The connections that are open.
struct Open {
    limit: usize,
    table: Mutex<Table>,
}

#[derive(Default)]
struct Table {
    next: u64,
    /// By order of arrival.
    seats: BTreeMap<u64, Taken>,
}

struct Taken {
    peer: IpAddr,
    /// Its request is there.
    asked: bool,
    close: CancellationToken,
}

/// The place of one connection; free when it is dropped.
struct Seat {
    open: Arc<Open>,
    number: u64,
    closed: CancellationToken,
}

impl Open {
    fn new(limit: usize) -> Self {
        Self { limit, table: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        // Valid at every step, so a panic elsewhere while it was held does no harm.
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A place, that of another connection if there is none left.
    fn enter(self: &Arc<Self>, peer: IpAddr) -> Seat {
        let mut table = self.lock();
        while table.seats.len() >= self.limit {
            table.close_one();
        }
        let (number, closed) = (table.next, CancellationToken::new());
        table.next += 1;
        table.seats.insert(number, Taken { peer, asked: false, close: closed.clone() });
        drop(table);
        Seat { open: Arc::clone(self), number, closed }
    }

    fn make_room(&self) {
        self.lock().close_one();
    }

    fn leave_those_without_request(&self) {
        self.lock().seats.values().filter(|taken| !taken.asked).for_each(|taken| taken.close.cancel());
    }

    fn leave_all(&self) {
        self.lock().seats.values().for_each(|taken| taken.close.cancel());
    }
}

impl Table {
    fn close_one(&mut self) {
        if let Some(taken) = surplus(&self.seats).and_then(|number| self.seats.remove(&number)) {
            taken.close.cancel();
        }
    }
}

/// Which connection makes room: of the address with the most of them the oldest without a whole request, else the oldest.
fn surplus(seats: &BTreeMap<u64, Taken>) -> Option<u64> {
    let mut counts: HashMap<IpAddr, usize> = HashMap::new();
    for taken in seats.values() {
        *counts.entry(taken.peer).or_default() += 1;
    }
    let most = counts.values().max().copied()?;
    let crowd = || seats.iter().filter(|(_, taken)| counts.get(&taken.peer) == Some(&most));
    let chosen = crowd().find(|(_, taken)| !taken.asked).or_else(|| crowd().next());
    chosen.map(|(number, _)| *number)
}

impl Seat {
    fn asked(&self) {
        if let Some(taken) = self.open.lock().seats.get_mut(&self.number) {
            taken.asked = true;
        }
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.open.lock().seats.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seats(of: &[(u8, bool)]) -> BTreeMap<u64, Taken> {
        let taken = |(last, asked): &(u8, bool)| Taken {
            peer: [10, 0, 0, *last].into(),
            asked: *asked,
            close: CancellationToken::new(),
        };
        (0..).zip(of.iter().map(taken)).collect()
    }

    #[test]
    fn the_oldest_that_sent_nothing_makes_room_among_those_of_the_address_with_the_most() {
        for (of, closed) in [
            (&[][..], None),
            (&[(1, false)], Some(0)),
            (&[(1, true), (1, false), (1, false)], Some(1)),
            (&[(1, true), (1, true)], Some(0)),
            // The kubelet's are the oldest, and another client has more.
            (&[(9, false), (1, false), (1, false)], Some(1)),
            (&[(9, false), (9, true), (1, true), (1, true), (1, true)], Some(2)),
            (&[(9, true), (1, false)], Some(1)),
        ] {
            assert_eq!(surplus(&seats(of)), closed, "{of:?}");
        }
    }

    #[test]
    fn a_new_connection_always_has_a_place_and_a_closed_one_gives_it_back() {
        let open = Arc::new(Open::new(2));
        let enter = |last: u8| open.enter([10, 0, 0, last].into());
        let (first, second) = (enter(1), enter(1));
        second.asked();
        let third = enter(2);
        assert!(first.closed.is_cancelled() && !second.closed.is_cancelled() && !third.closed.is_cancelled());
        drop(first);
        assert_eq!(open.lock().seats.len(), 2, "the place was given away already");
        drop(third);
        let fourth = enter(3);
        assert!(!second.closed.is_cancelled() && !fourth.closed.is_cancelled());
        open.leave_those_without_request();
        assert!(!second.closed.is_cancelled() && fourth.closed.is_cancelled());
        open.leave_all();
        assert!(second.closed.is_cancelled());
    }
}
