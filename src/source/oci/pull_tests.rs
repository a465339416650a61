use http::HeaderValue;

use super::*;

#[test]
fn a_list_goes_on_where_the_link_called_next_leads_on_the_same_host() {
    let url = Url::parse("https://r/v2/a/tags/list?n=1000").unwrap();
    let next = |links: &[&'static str]| {
        let headers = links.iter().map(|link| (LINK, HeaderValue::from_static(link))).collect();
        next_page(&url, &headers)
            .map(|next| next.map(|next| next.uri().to_string()))
            .map_err(|error| error.reason())
    };
    let found = Ok(Some("https://r/v2/a/tags/list?last=x".to_owned()));
    for links in [
        &["</v2/a/tags/list?last=x>; rel=\"next\""][..],
        &["<https://r/v2/a/tags/list?last=x>;rel=next"],
        &["</v2/a/tags/list?last=0>; rel=\"prev\", </v2/a/tags/list?last=x>; rel=\"next\""],
        &["</v2/a/tags/list?last=0>; rel=prev", "</v2/a/tags/list?last=x>; title=a; REL=Next"],
    ] {
        assert_eq!(next(links), found, "{links:?}");
    }
    for links in [&[][..], &["</x>; rel=prev"], &["</x>; rel=nextfoo"], &["nothing"]] {
        assert_eq!(next(links), Ok(None), "{links:?}");
    }
    for link in ["<https://other/x>; rel=next", "<http://r/x>; rel=next", "<https://u:p@r/x>; rel=next"] {
        assert_eq!(next(&[link]), Err("SourceRedirectRefused"), "{link}");
    }
}
