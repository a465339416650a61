//! From what a user wrote to what the rest of the crate acts on.

mod attempts;
mod dependencies;
mod drift;
mod fallback;
mod history;
mod lock;
mod policy;
mod resolved;
pub mod sources;
mod tenancy;
mod validate;
mod values;

pub use dependencies::{DependsOn, dependencies};
pub use lock::{lock_named, lock_of};
pub use policy::{ActsAs, LockPolicy, Policy, Tenancy, is_account_name};
pub use resolved::{
    CrdSettings, DriftPause, Installer, LockOf, Requests, Settings, TestSettings, UninstallSettings,
    ValuesFrom, WAVE_TIMEOUT, WaveSettings,
};
pub use sources::PackFrom;
pub use tenancy::acts_as;
pub use validate::{uninstall_settings, validate};
