//! `init`: the files of a new pack.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Path in the pack, and the text with [`NAME`] in place of the name.
const FILES: [(&str, &str); 11] = [
    ("Pack.yaml", include_str!("scaffold/Pack.yaml")),
    ("README.md", include_str!("scaffold/README.md")),
    ("values.yaml", include_str!("scaffold/values.yaml")),
    ("values.schema.yaml", include_str!("scaffold/values.schema.yaml")),
    ("templates/NOTES.txt", include_str!("scaffold/templates/NOTES.txt")),
    ("templates/_helpers.j2", include_str!("scaffold/templates/_helpers.j2")),
    ("templates/deployment.yaml", include_str!("scaffold/templates/deployment.yaml")),
    ("templates/ingress.yaml", include_str!("scaffold/templates/ingress.yaml")),
    ("templates/pdb.yaml", include_str!("scaffold/templates/pdb.yaml")),
    ("templates/service.yaml", include_str!("scaffold/templates/service.yaml")),
    ("templates/serviceaccount.yaml", include_str!("scaffold/templates/serviceaccount.yaml")),
];
/// What stands for the name of the pack.
const NAME: &str = "PACKNAME";

#[derive(Debug, clap::Args)]
pub(in crate::cli) struct Args {
    /// Directory to write; it must not exist or be empty.
    dir: PathBuf,
    /// Name of the pack; default: the name of the directory.
    #[arg(long)]
    name: Option<String>,
}

/// Exit code 2 when the directory is not empty, cannot be written, or gives no name.
#[expect(clippy::print_stderr, reason = "a command line prints")]
pub(in crate::cli) fn run(args: Args) -> ExitCode {
    match init(&args.dir, args.name.as_deref()) {
        Ok(name) => {
            eprintln!("wrote the pack `{name}` to {}", args.dir.display());
            ExitCode::SUCCESS
        }
        Err(message) => {
            eprintln!("error: {message}");
            ExitCode::from(2)
        }
    }
}

fn init(dir: &Path, name: Option<&str>) -> Result<String, String> {
    let name = match name {
        Some(name) => name.to_owned(),
        None => name_of(dir)?,
    };
    check(&name)?;
    let failed =
        |path: &Path, error: std::io::Error| format!("{} cannot be written: {error}", path.display());
    match std::fs::read_dir(dir).map(|mut entries| entries.next().is_some()) {
        Ok(true) => return Err(format!("{} is not empty: nothing was written", dir.display())),
        Ok(false) => {}
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
        Err(error) => return Err(format!("{} cannot be read: {error}", dir.display())),
    }
    std::fs::create_dir_all(dir.join("templates")).map_err(|error| failed(dir, error))?;
    for (path, text) in FILES {
        let path = dir.join(path);
        // Only what was not there: another process may have been faster.
        let file = std::fs::OpenOptions::new().write(true).create_new(true).open(&path);
        file.and_then(|mut file| file.write_all(text.replace(NAME, &name).as_bytes()))
            .map_err(|error| failed(&path, error))?;
    }
    Ok(name)
}

/// The last part of the path, with what cannot stand in a name of an object replaced.
fn name_of(dir: &Path) -> Result<String, String> {
    let full = std::path::absolute(dir).map_err(|error| format!("{}: {error}", dir.display()))?;
    let last = full.file_name().map(|name| name.to_string_lossy().to_lowercase()).unwrap_or_default();
    let plain = |c: char| if c.is_ascii_lowercase() || c.is_ascii_digit() { c } else { '-' };
    let name: String = last.chars().map(plain).collect();
    Ok(name.trim_matches('-').to_owned())
}

/// It becomes part of the names of objects.
fn check(name: &str) -> Result<(), String> {
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let starts = name.starts_with(|c: char| c.is_ascii_lowercase());
    if name.len() <= 53 && starts && name.chars().all(plain) && !name.ends_with('-') {
        return Ok(());
    }
    let shown = crate::pack::shown(name, 60);
    Err(format!(
        "`{shown}` cannot be the name of a pack: at most 53 lower-case letters, digits and `-`, a letter first; give one with --name"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_comes_from_the_directory_or_the_flag() {
        assert_eq!(name_of(Path::new("/tmp/My Shop_2")).unwrap(), "my-shop-2");
        for name in ["web", "a1-b"] {
            assert_eq!(check(name), Ok(()));
        }
        for name in ["", "1a", "-a", "a-", "a.b", "A", "a/b", &"a".repeat(54)] {
            assert!(check(name).is_err(), "{name}");
        }
    }
}
