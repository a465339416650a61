use serde_json::Value;

use super::Health;
use super::live::Live;

/// Done only when Complete. A suspended Job is Current: its spec asks for nothing to run.
pub(super) fn job(live: &Live<'_>) -> Health {
    let succeeded = live.count("/status/succeeded");
    let wanted = live.int("/spec/completions").unwrap_or(1);
    let is = |type_: &str| live.condition(type_).filter(|condition| condition.is_true());
    if is("Complete").is_some() {
        return Health::current("is complete").with_progress(succeeded, wanted);
    }
    if let Some(failed) = is("Failed") {
        let parts = [failed.reason(), failed.message()].into_iter().filter(|part| !part.is_empty());
        let why = parts.collect::<Vec<_>>().join(": ");
        return Health::failed(super::JOB_FAILED, if why.is_empty() { "has failed".to_owned() } else { why })
            .with_progress(succeeded, wanted);
    }
    let suspend = live.value("/spec/suspend").and_then(Value::as_bool) == Some(true);
    if suspend && is("Suspended").is_some() {
        return Health::current("is suspended").with_progress(succeeded, wanted);
    }
    if live.text("/status/startTime").is_none() {
        return Health::in_progress("JobNotStarted", "has not started").with_progress(0, wanted);
    }
    let message = format!(
        "{} active, {succeeded} of {wanted} succeeded, {} failed",
        live.count("/status/active"),
        live.count("/status/failed")
    );
    Health::in_progress("JobInProgress", message).with_progress(succeeded, wanted)
}
