//! Pods and what reaches into them: why a workload does not get on, probes, commands, the proxy of the API server.

mod exec;
mod proxied;
mod ready;
mod workload;

pub use exec::Ran;
pub use proxied::{Proxied, proxied_name};
pub use ready::{ReadyPod, Workload};
