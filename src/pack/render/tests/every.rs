//! Every filter, function and test by name, and each of them with arguments that nobody means.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use serde_json::Value;

use super::input;
use crate::pack::render::engine::Session;
use crate::pack::render::engine::compiled::settings;
use crate::pack::render::{Lookup, NoCluster, Secrets, Stop};

const FILTERS: &str = "toyaml tojson tojson_pretty fromjson fromyaml b64encode b64decode quote squote nindent indent \
    required empty haskey keys merge sha256 trunc trimprefix trimsuffix snakecase kebabcase tostrings semver_match int float abs \
    basename dirname extname cleanpath regex_match regex_replace regex_find regex_find_all values pick omit append prepend concat \
    without compact floor ceil sha1 sha512 md5 repeat camelcase pascalcase substr wrap hasprefix hassuffix safe escape e lower \
    upper title capitalize replace length count dictsort items reverse trim join split lines default d round attr first last min \
    max sort list string bool batch slice sum select reject selectattr rejectattr map groupby unique chain zip pprint format \
    urlencode";
const FUNCTIONS: &str = "fail dict list get set unset dig coalesce ternary uuidv4 tostring toint tofloat now printf tpl tpl_ctx \
    lookup fromjson fromyaml generate_secret range debug namespace";
const TESTS: &str = "defined undefined none safe escaped boolean odd even divisibleby number integer int float string sequence \
    iterable mapping startingwith endingwith lower upper sameas eq ne lt le gt ge in true false filter test";

const INPUTS: [&str; 19] = [
    "none",
    "missing",
    "true",
    "0",
    "-1",
    "9223372036854775807",
    "(-9223372036854775807 - 1)",
    "170141183460469231731687303715884105727",
    "1e308 * 10",
    "-0.5",
    "''",
    "'äöü€\u{1f600} x'",
    "('é\n' * 3000)",
    "'{{ 1 }}'",
    "[]",
    "[1, 'a', none, [2], {'b': missing}]",
    "{'ä': {'b': [1]}, 3: 4}",
    "range(70)",
    "files.get_bytes('bytes')",
];

const ARGUMENTS: [&str; 21] = [
    "",
    "-1",
    "0",
    "1",
    "3",
    "9223372036854775807",
    "18446744073709551615",
    "-1e300",
    "'ü'",
    "''",
    "'(('",
    "'%'",
    "none",
    "missing",
    "[1, 'ä']",
    "{'a': 1}",
    "'a', 'b'",
    "1, 2, 3, 4, 5",
    "'a', 'é' * 2000",
    "attribute='ä'",
    "nope=1",
];

/// Evaluates in a pack with a file of bytes; each call has its own budget.
struct Engine(Session, bool);

impl Engine {
    fn new(strict: bool) -> Self {
        let none: Arc<dyn Lookup> = Arc::new(NoCluster);
        Self(Session::new(&input(&Value::Null, &none, &Secrets::new(), &Stop::default())), strict)
    }

    fn environment(&self) -> minijinja::Environment<'static> {
        let budget = self.0.budget(self.1);
        let mut engine = self.0.equipped(settings(), &budget);
        let mut files = crate::pack::tests::files(&[("Pack.yaml", crate::pack::tests::MINIMAL)]);
        files.insert("bytes".to_owned(), vec![0xff, 0, 0x80]);
        let pack = crate::pack::from_files(files, &crate::pack::Limits::default()).unwrap();
        engine.add_global("files", crate::pack::render::engine::files::FilesOf::of(&pack, &budget));
        engine
    }
}

#[track_caller]
fn no_panic(expressions: impl Iterator<Item = String>) -> (usize, usize) {
    let (mut given, mut refused) = (0, 0);
    for (index, expression) in expressions.enumerate() {
        for strict in [true, false] {
            // Anew so that what one expression spends is not missing in the next.
            let session = Engine::new(strict);
            let engine = session.environment();
            let rendered = catch_unwind(AssertUnwindSafe(|| {
                engine
                    .render_str(&format!("{{{{ {expression} }}}}"), minijinja::context! {})
                    .map(|text| text.len())
            }));
            match rendered {
                Ok(Ok(length)) => {
                    given += 1;
                    assert!(length < 1 << 20, "{expression} gives {length} bytes");
                }
                Ok(Err(_)) => refused += 1,
                Err(_) => panic!("{index}: {expression} panics (strict: {strict})"),
            }
        }
    }
    (given, refused)
}

#[test]
fn every_name_of_the_published_engine_is_known() {
    let engine = Engine::new(true).environment();
    let check = |source: String| engine.render_str(&source, minijinja::context! {}).unwrap();
    for name in FILTERS.split_whitespace() {
        assert_eq!(check(format!("{{{{ '{name}' is filter }}}}")), "true", "filter {name}");
    }
    for name in TESTS.split_whitespace() {
        assert_eq!(check(format!("{{{{ '{name}' is test }}}}")), "true", "test {name}");
    }
    for name in FUNCTIONS.split_whitespace() {
        assert_eq!(check(format!("{{{{ {name} is defined }}}}")), "true", "function {name}");
    }
}

#[test]
fn no_filter_panics_whatever_it_is_given() {
    let filters = FILTERS.split_whitespace().flat_map(|filter| {
        let with =
            move |arguments: &'static str| INPUTS.map(|input| format!("({input}) | {filter}({arguments})"));
        ARGUMENTS.into_iter().flat_map(with)
    });
    // A third of them, another one for each filter and argument, keeps this within seconds.
    let (given, refused) =
        no_panic(filters.enumerate().filter(|(index, _)| index % 3 == 0).map(|(_, text)| text));
    assert!(given > 1_000 && refused > 1_000, "{given} given, {refused} refused");
}

#[test]
fn no_function_panics_whatever_it_is_given() {
    let functions = FUNCTIONS.split_whitespace().flat_map(|function| {
        let with = move |input: &'static str| {
            ARGUMENTS.map(|more| {
                let comma = if more.is_empty() { "" } else { ", " };
                format!("{function}({input}{comma}{more})")
            })
        };
        INPUTS.into_iter().flat_map(with).chain([format!("{function}()")])
    });
    let (given, refused) =
        no_panic(functions.enumerate().filter(|(index, _)| index % 2 == 0).map(|(_, text)| text));
    assert!(given > 500 && refused > 500, "{given} given, {refused} refused");
}

#[test]
fn no_test_panics_whatever_it_is_given() {
    let tests = TESTS.split_whitespace().flat_map(|test| {
        let with =
            move |arguments: &'static str| INPUTS.map(|input| format!("({input}) is {test}({arguments})"));
        ["", "0", "-1", "'ü'", "[1]", "missing", "1, 2"].into_iter().flat_map(with)
    });
    no_panic(tests);
}
