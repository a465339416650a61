//! A GET to a Service through the API server's proxy: it reaches what only the cluster's own network can.

use http::header::{ACCEPT, CONTENT_TYPE};
use http_body_util::{BodyExt, Limited};
use kube::client::Body;
use kube::core::Status;

use crate::cluster::{Cluster, Error};
use crate::manifest::ObjectId;
use crate::plan::probes::Http;

/// Bytes of an answer that are looked at: an explanation of the API server is short.
const EXPLANATION: usize = 16 << 10;
/// Characters of it that are told.
const TOLD: usize = 200;

/// An answer through the proxy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proxied {
    pub status: u16,
    /// What the API server says when the answer is its own and not the Service's.
    pub explanation: Option<String>,
}

/// The name by which the API server knows a port of a Service in requests, and in rights.
#[must_use]
pub fn proxied_name(service: &str, http: &Http) -> String {
    format!("{}:{service}:{}", http.scheme.as_str(), http.port)
}

impl Cluster {
    /// Asks a Service. Redirects are not followed, and the body is thrown away.
    ///
    /// # Errors
    /// The API server refused it, or was not reached.
    pub async fn get_proxied(&self, service: &ObjectId, http: &Http) -> Result<Proxied, Error> {
        let failed = |source: kube::Error| Error::Api {
            verb: "proxy to",
            id: service.clone(),
            source: Box::new(source),
        };
        let name = proxied_name(&service.name, http);
        let namespace = service.namespace.as_deref().unwrap_or_default();
        let uri = format!("/api/v1/namespaces/{namespace}/services/{name}/proxy{}", http.path);
        let request = http::Request::get(uri).header(ACCEPT, "*/*").body(Body::empty());
        let request = request.map_err(|error| failed(kube::Error::HttpError(error)))?;
        let answer = self.client().send(request).await.map_err(failed)?;
        let status = answer.status().as_u16();
        let json = answer
            .headers()
            .get(CONTENT_TYPE)
            .is_some_and(|kind| kind.to_str().is_ok_and(|kind| kind.starts_with("application/json")));
        if status < 400 || !json {
            return Ok(Proxied { status, explanation: None });
        }
        let Ok(body) = Limited::new(answer.into_body(), EXPLANATION).collect().await else {
            return Ok(Proxied { status, explanation: None });
        };
        let Some(explained) = explained(&body.to_bytes(), status) else {
            return Ok(Proxied { status, explanation: None });
        };
        if is_refusal(&explained, &name) {
            return Err(failed(kube::Error::Api(Box::new(explained))));
        }
        let explanation = explained.message.chars().filter(|c| !c.is_control()).take(TOLD).collect();
        Ok(Proxied { status, explanation: Some(explanation) })
    }
}

/// An answer in the API server's own form. A Service could answer so too, and would only deceive about itself.
fn explained(body: &[u8], status: u16) -> Option<Status> {
    let value: serde_json::Value = serde_json::from_slice(body).ok()?;
    if value["kind"] != "Status" || value["apiVersion"] != "v1" {
        return None;
    }
    let explained: Status = serde_json::from_value(value).ok()?;
    (explained.code == status && !explained.message.is_empty()).then_some(explained)
}

/// The account that asks may not: said of this very name, and not by what stands behind it.
fn is_refusal(status: &Status, name: &str) -> bool {
    let about = status.details.as_ref();
    status.code == 403 && about.is_some_and(|about| about.kind == "services" && about.name == name)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_the_api_server_s_own_words_are_an_explanation() {
        let own = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 503,
            "message": "no endpoints available for service \"http:web:80\"", "reason": "ServiceUnavailable"});
        let found = explained(own.to_string().as_bytes(), 503).unwrap();
        assert!(found.message.starts_with("no endpoints"));
        assert!(!is_refusal(&found, "http:web:80"));
        for other in [json!({"status": "down"}), json!({"kind": "Status", "apiVersion": "v1"}), json!([])] {
            assert!(explained(other.to_string().as_bytes(), 503).is_none(), "{other}");
        }
        assert!(explained(own.to_string().as_bytes(), 500).is_none());
        assert!(explained(b"Service Unavailable", 503).is_none());
    }

    #[test]
    fn a_missing_right_is_told_from_a_service_that_refuses() {
        let status = |name: &str, kind: &str| {
            let status = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 403,
                "message": "no", "reason": "Forbidden", "details": {"name": name, "kind": kind}});
            explained(status.to_string().as_bytes(), 403).unwrap()
        };
        assert!(is_refusal(&status("http:web:80", "services"), "http:web:80"));
        assert!(!is_refusal(&status("web", "pods"), "http:web:80"));
        assert!(!is_refusal(&status("http:other:80", "services"), "http:web:80"));
    }
}
