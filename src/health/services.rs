use super::Health;
use super::live::Live;

/// The address of a load balancer is not waited for: on bare metal there is never one.
pub(super) fn service(live: &Live<'_>) -> Health {
    if live.text("/spec/type") == Some("LoadBalancer") && live.text("/spec/clusterIP").is_none() {
        return Health::in_progress("NoIPAssigned", "has no cluster IP yet");
    }
    Health::current("exists")
}

pub(super) fn volume_claim(live: &Live<'_>) -> Health {
    match live.text("/status/phase") {
        Some("Bound") => Health::current("is bound"),
        phase => Health::in_progress("NotBound", format!("is {}", phase.unwrap_or("not bound"))),
    }
}

pub(super) fn definition(live: &Live<'_>) -> Health {
    if let Some(names) = live.condition("NamesAccepted").filter(|c| c.is_false()) {
        return Health::failed(names.reason_or("NamesNotAccepted"), names.message());
    }
    match live.condition("Established") {
        Some(c) if c.is_true() => Health::current("is established"),
        Some(c) if c.is_false() && c.reason() != "Installing" => {
            Health::failed(c.reason_or("NotEstablished"), c.message())
        }
        _ => Health::in_progress("Installing", "is being installed"),
    }
}

pub(super) fn api_service(live: &Live<'_>) -> Health {
    match live.condition("Available") {
        Some(available) if available.is_true() => Health::current("is available"),
        Some(available) => Health::in_progress(available.reason_or("NotAvailable"), available.message()),
        None => Health::in_progress("NotAvailable", "was not observed yet"),
    }
}
