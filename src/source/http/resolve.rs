//! Names to addresses, off the threads that others need.

use std::net::{SocketAddr, ToSocketAddrs};
use std::time::Duration;

use tokio::sync::oneshot;

use super::fair::Fair;

/// Look-ups at a time: each holds a thread until the system gives up, whether anybody waits for it or not.
const LOOKUPS: u32 = 32;
const LOOKUPS_EACH: u32 = 8;
const DEADLINE: Duration = Duration::from_secs(10);
/// The C library's resolver needs little.
const STACK: usize = 512 << 10;

pub(super) struct Resolver {
    lookups: Fair,
}

impl Resolver {
    pub(super) fn new() -> Self {
        Self { lookups: Fair::new(LOOKUPS, LOOKUPS_EACH) }
    }

    /// All addresses of a host. The error says what the system says.
    pub(super) async fn resolve(
        &self,
        namespace: &str,
        host: &str,
        port: u16,
    ) -> Result<Vec<SocketAddr>, String> {
        if let Ok(address) = host.parse() {
            return Ok(vec![SocketAddr::new(address, port)]);
        }
        let permit = self.lookups.acquire(namespace, 1).await;
        let (found_tx, found_rx) = oneshot::channel();
        let name = host.to_owned();
        // Not one of the runtime's threads: a slow name server would keep renders waiting.
        let started =
            std::thread::Builder::new().name("resolve".to_owned()).stack_size(STACK).spawn(move || {
                let _permit = permit;
                let found = (name.as_str(), port).to_socket_addrs().map(Iterator::collect::<Vec<_>>);
                let _ = found_tx.send(found);
            });
        started.map_err(|error| error.to_string())?;
        match tokio::time::timeout(DEADLINE, found_rx).await {
            Ok(Ok(Ok(found))) if found.is_empty() => Err(format!("`{host}` has no address")),
            Ok(Ok(Ok(found))) => Ok(found),
            Ok(Ok(Err(error))) => Err(format!("`{host}` cannot be resolved: {error}")),
            Ok(Err(_)) => Err(format!("`{host}` cannot be resolved")),
            Err(_) => Err(format!("`{host}` cannot be resolved within {} s", DEADLINE.as_secs())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn literals_and_names_are_resolved() {
        let resolver = Resolver::new();
        let literal = resolver.resolve("a", "2001:db8::1", 80).await.unwrap();
        assert_eq!(literal, ["[2001:db8::1]:80".parse().unwrap()]);
        let named = resolver.resolve("a", "localhost", 81).await.unwrap();
        assert!(named.iter().all(|address| address.ip().is_loopback() && address.port() == 81));
        // The C library understands spellings that no parser of ours does; what counts is what it makes of them.
        let odd = resolver.resolve("a", "2130706433", 82).await.unwrap();
        assert_eq!(odd, ["127.0.0.1:82".parse().unwrap()]);
        let missing = resolver.resolve("a", "no-such-host.invalid", 80).await.unwrap_err();
        assert!(missing.contains("no-such-host.invalid"), "{missing}");
    }
}
