//! The directory of a pack: what is below its `charts/`, and its `Pack.lock`.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::cli::output::answer::{Failure, story};
use crate::cli::packs::pull::write;
use crate::pack::lock::{FILE, Lock};
use crate::pack::{Dependency, Limits, read_archive};
use crate::source;

/// An archive that belongs below `charts/`.
pub(super) struct Vendored {
    pub name: String,
    pub version: String,
    pub bytes: Vec<u8>,
}

impl Vendored {
    fn file(&self) -> String {
        format!("{}-{}.tgz", self.name, self.version)
    }
}

pub(super) struct Directory {
    root: PathBuf,
    charts: PathBuf,
}

impl Directory {
    pub(super) fn of(root: &Path) -> Self {
        Self { root: root.to_owned(), charts: root.join("charts") }
    }

    /// The dependency is a directory below `charts/`.
    pub(super) fn has_directory_of(&self, dependency: &Dependency) -> bool {
        [Some(&dependency.name), dependency.alias.as_ref()]
            .into_iter()
            .flatten()
            .any(|name| self.charts.join(name).is_dir())
    }

    /// Writes archives and takes those away that they replace.
    pub(super) fn put(&self, archives: &[Vendored]) -> Result<(), Failure> {
        if !archives.is_empty() {
            fs::create_dir_all(&self.charts).map_err(|error| cannot(&self.charts, &error))?;
        }
        for archive in archives {
            write(&self.charts.join(archive.file()), &archive.bytes, true)?;
        }
        self.tidy(archives, false)
    }

    /// Takes archives of the same packs away: all of them, or those of other versions.
    pub(super) fn tidy(&self, archives: &[Vendored], all: bool) -> Result<(), Failure> {
        let entries = match fs::read_dir(&self.charts) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(cannot(&self.charts, &error)),
        };
        for entry in entries {
            let path = entry.map_err(|error| cannot(&self.charts, &error))?.path();
            let file = path.file_name().and_then(|name| name.to_str()).unwrap_or_default().to_owned();
            let is_archive = [".tgz", ".tar.gz"].iter().any(|ending| file.ends_with(ending));
            if !is_archive || !path.is_file() || !all && archives.iter().any(|one| one.file() == file) {
                continue;
            }
            let limits = Limits::default();
            let bytes = source::path::archive(&path, &file, &limits).map_err(|error| error.to_string())?;
            let Ok(pack) = read_archive(&bytes, &limits) else { continue };
            if archives.iter().any(|one| one.name == pack.metadata.name) {
                fs::remove_file(&path).map_err(|error| cannot(&path, &error))?;
                story(&format!("removed charts/{file}"));
            }
        }
        Ok(())
    }

    /// Without dependencies there is none.
    pub(super) fn write_lock(&self, lock: &Lock) -> Result<(), Failure> {
        let path = self.root.join(FILE);
        if !lock.dependencies.is_empty() {
            return write(&path, lock.text().as_bytes(), true);
        }
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(cannot(&path, &error)),
            _ => Ok(()),
        }
    }
}

fn cannot(path: &Path, error: &io::Error) -> Failure {
    format!("{} cannot be written: {error}", path.display()).into()
}
