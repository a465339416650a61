//! The client and the objects of releases. IO only: what to apply and in which order is decided elsewhere.

pub mod client;

mod account;
mod capabilities;
mod crowded;
mod error;
mod kinds;
mod objects;
mod pods;
mod reviews;
mod rights;
mod services;
mod turns;

pub use account::Account;
pub use capabilities::capabilities;
pub use error::{Error, Holder, Instead, describe, namespace_terminating, status_code};
pub use kinds::{Kind, Kinds};
pub use objects::{
    Applied, Cluster, Contents, Created, FluxArtifact, FluxCondition, FluxSource, FluxStatus, LOOK_DEADLINE,
    LookError, Meta, Mode, NoFluxSource, Propagation, Reference, Referent, Unread, fingerprint_of, is_hidden,
    version_of,
};
pub use pods::{Proxied, Ran, ReadyPod, Workload, proxied_name};
pub use reviews::{Visitor, may_get};
pub use rights::Rules;
pub use services::service_networks;
pub use turns::Turns;
