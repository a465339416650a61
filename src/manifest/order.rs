/// Rank of a kind in the order of creation.
#[must_use]
pub fn rank(group: &str, kind: &str) -> u16 {
    let _ = (group, kind);
    0
}
