//! `dependency list`.

use serde::Serialize;

use crate::cli::output::answer::{Answer, Format, pretty};
use crate::cli::output::table::columns;
use crate::pack::lock::{Lock, Origin};
use crate::pack::{Dependency, Error, Pack, subpacks};

#[derive(Serialize)]
struct Row {
    name: String,
    version: String,
    locked: String,
    repository: String,
    state: &'static str,
}

pub(super) fn answer(pack: &Pack, output: Format) -> Answer {
    let lock = Lock::read(&pack.files);
    let rows: Vec<Row> = pack.dependencies.iter().map(|dependency| row(dependency, pack, &lock)).collect();
    let text = match output {
        Format::Table => {
            let cells: Vec<[String; 5]> = rows
                .into_iter()
                .map(|Row { name, version, locked, repository, state }| {
                    [name, version, locked, repository, state.to_owned()]
                })
                .collect();
            columns(["NAME", "VERSION", "LOCKED", "REPOSITORY", "STATE"], &cells)
        }
        Format::Json => pretty(&rows),
    };
    text.into()
}

/// `vendored`: below `charts/`. `locked`: the operator fetches it. `stale`: `Pack.lock` does not fit. `unsupported`: its repository
/// is of no form that is known. `missing`: neither.
fn row(dependency: &Dependency, pack: &Pack, lock: &Result<Option<Lock>, Error>) -> Row {
    let entry = match lock {
        Ok(Some(lock)) => Some(lock.entry(dependency)),
        Ok(None) => None,
        Err(error) => Some(Err(error.clone())),
    };
    let locked = match &entry {
        Some(Ok(locked)) => locked.version.clone(),
        _ => String::new(),
    };
    let origin = Origin::of(&dependency.name, dependency.repository.as_deref());
    let state = match (subpacks::is_vendored(dependency, pack), origin, entry) {
        (true, ..) => "vendored",
        (false, Err(_), _) => "unsupported",
        (false, Ok(Origin::Local), _) | (false, Ok(_), None) => "missing",
        (false, Ok(_), Some(Ok(_))) => "locked",
        (false, Ok(_), Some(Err(_))) => "stale",
    };
    Row {
        name: dependency.effective_name().to_owned(),
        version: dependency.version.clone(),
        locked,
        repository: dependency.repository.clone().unwrap_or_default(),
        state,
    }
}
