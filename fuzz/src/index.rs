//! The index of a repository: the first line is a range of versions, the rest the index.

use sherpack_operator::source::http::Url;
use sherpack_operator::source::repository::{self, MAX_ENTRIES};
use sherpack_operator::source::versions::version_of_tag;

/// What is kept is bounded and can be used, and what is chosen is a version of that pack.
pub fn index(bytes: &[u8]) {
    let end = bytes.iter().position(|byte| *byte == b'\n').unwrap_or(bytes.len());
    let (range, rest) = bytes.split_at(end);
    let range = String::from_utf8_lossy(range);
    let Ok(index) = repository::parse(rest) else { return };
    assert!(index.versions() <= MAX_ENTRIES);
    let base = Url::parse("https://example.com/charts?token=x").expect("it is a URL");
    for name in index.names() {
        assert!((1..=253).contains(&name.len()), "{name:?}");
        for entry in index.entries(name) {
            assert!((1..=128).contains(&entry.version.len()), "{entry:?}");
            assert!((1..=2048).contains(&entry.url.len()), "{entry:?}");
            let Ok(url) = repository::resolve(&base, &entry.url) else { continue };
            let absolute = Url::parse(entry.url.trim()).is_ok();
            let own = url.authority() == base.authority();
            assert!(absolute || !own || url.target().ends_with("?token=x"), "{entry:?} {url:?}");
        }
        for range in [None, Some(&*range)] {
            match index.find(name, range) {
                Ok(found) => {
                    assert!(version_of_tag(&found.version).is_some(), "{found:?}");
                    assert!(index.entries(name).contains(found), "{found:?}");
                }
                Err(error) => assert!(error.to_string().len() < 10_000, "{error}"),
            }
        }
    }
}
