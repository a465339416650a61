//! Names a request by the verb that Kubernetes' own authorisation and metrics use.

use http::Method;

/// The verb of a request: get, list, watch, create, update, patch, apply, delete or other.
///
/// A server-side apply, told by its content type, is told apart from other patches. Deleting a
/// collection counts as delete. Paths that name no resource (discovery, `/version`, `/readyz`) are get.
/// `path` starts at the API server's root: a base path of the cluster's URL is added later.
#[must_use]
pub fn verb(method: &Method, path: &str, query: Option<&str>, content_type: Option<&str>) -> &'static str {
    match method.as_str() {
        "GET" | "HEAD" if is_watch(query) => "watch",
        "GET" | "HEAD" if names_a_collection(path) => "list",
        "GET" | "HEAD" => "get",
        "POST" => "create",
        "PUT" => "update",
        "PATCH" if content_type.is_some_and(|kind| kind.starts_with("application/apply-patch")) => "apply",
        "PATCH" => "patch",
        "DELETE" => "delete",
        _ => "other",
    }
}

/// Whether the query asks for a watch.
pub(super) fn is_watch(query: Option<&str>) -> bool {
    has_flag(query, "watch")
}

/// Whether the answer is meant to stay open: a watch, or a log that is followed.
pub(super) fn is_stream(query: Option<&str>) -> bool {
    is_watch(query) || has_flag(query, "follow")
}

fn has_flag(query: Option<&str>, name: &str) -> bool {
    query
        .unwrap_or_default()
        .split('&')
        .filter_map(|pair| pair.split_once('='))
        .any(|(key, value)| key == name && matches!(value, "true" | "1"))
}

fn names_a_collection(path: &str) -> bool {
    let mut segments: Vec<&str> = path.split('/').filter(|segment| !segment.is_empty()).collect();
    let prefix = match segments.first() {
        Some(&"api") => 2,  // api/v1
        Some(&"apis") => 3, // apis/apps/v1
        _ => return false,
    };
    if segments.len() <= prefix {
        return false;
    }
    segments.drain(..prefix);
    match segments.as_slice() {
        // The two subresources of a Namespace look like collections inside it.
        ["namespaces", _, "status" | "finalize"] => false,
        ["namespaces", _, _resource] | [_resource] => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_of_request_has_its_verb() {
        let apply = Some("application/apply-patch+yaml");
        let table = [
            ("GET", "/api/v1/namespaces/a/pods/p", None, None, "get"),
            ("GET", "/api/v1/namespaces/a/pods/p/status", None, None, "get"),
            ("GET", "/api/v1/namespaces/a/pods/p/log", Some("follow=true"), None, "get"),
            ("GET", "/api/v1/namespaces/a", None, None, "get"),
            ("GET", "/api/v1/namespaces/a/status", None, None, "get"),
            ("GET", "/apis/apps/v1/namespaces/a/deployments/d/scale", None, None, "get"),
            ("GET", "/api/v1/nodes/n", None, None, "get"),
            ("GET", "/api/v1", None, None, "get"),
            ("GET", "/apis", None, None, "get"),
            ("GET", "/apis/apps/v1", None, None, "get"),
            ("GET", "/version", None, None, "get"),
            ("GET", "/readyz", None, None, "get"),
            ("GET", "/openapi/v3", None, None, "get"),
            ("GET", "/api/v1/pods", None, None, "list"),
            ("GET", "/api/v1/namespaces", None, None, "list"),
            ("GET", "/api/v1/namespaces/a/pods", Some("limit=500&watch=false"), None, "list"),
            ("GET", "/apis/apps/v1/namespaces/a/deployments", Some("labelSelector=x"), None, "list"),
            ("GET", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/", None, None, "list"),
            ("GET", "/api/v1/namespaces/a/pods", Some("watch=true&resourceVersion=1"), None, "watch"),
            ("GET", "/api/v1/pods", Some("allowWatchBookmarks=true&watch=1"), None, "watch"),
            ("POST", "/api/v1/namespaces/a/secrets", None, None, "create"),
            ("POST", "/api/v1/namespaces/a/pods/p/eviction", None, None, "create"),
            ("PUT", "/api/v1/namespaces/a/secrets/s", None, None, "update"),
            ("PATCH", "/api/v1/namespaces/a/secrets/s", Some("force=true"), apply, "apply"),
            ("PATCH", "/api/v1/namespaces/a/secrets/s", Some("fieldManager=x"), None, "patch"),
            ("PATCH", "/api/v1/namespaces/a/secrets/s", None, Some("application/json-patch+json"), "patch"),
            ("DELETE", "/api/v1/namespaces/a/secrets/s", None, None, "delete"),
            ("DELETE", "/api/v1/namespaces/a/secrets", None, None, "delete"),
            ("OPTIONS", "/api", None, None, "other"),
        ];
        for (method, path, query, content_type, expected) in table {
            let method = method.parse::<Method>().unwrap();
            assert_eq!(verb(&method, path, query, content_type), expected, "{method} {path} {query:?}");
        }
    }

    #[test]
    fn a_watch_and_a_followed_log_stay_open_and_nothing_else_does() {
        assert!(is_stream(Some("resourceVersion=1&watch=true")));
        assert!(is_stream(Some("follow=true")));
        assert!(!is_stream(Some("watch=false")));
        assert!(!is_stream(Some("labelSelector=watch")));
        assert!(!is_stream(None));
    }
}
