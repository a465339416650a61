//! What `docker login` has stored for a registry: in the file of the user, or in a program that the file names.

use std::io::{ErrorKind, Read as _, Write as _};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use super::bounded;
use crate::cli::output::answer::Failure;
use crate::source::http::Credentials;
use crate::source::oci::{Artifact, Stored, of_helper, stored};

/// Bytes of the file, and of what a helper prints.
const CONFIG: u64 = 1 << 20;
const PRINTED: u64 = 64 << 10;
/// How long a helper may take: it may ask the user, or a server.
const PATIENCE: Duration = Duration::from_secs(60);
/// Between two looks whether it has ended.
const LOOK: Duration = Duration::from_millis(10);
/// What helpers print, and end with an error, when they know no credentials.
const NOT_FOUND: &str = "credentials not found";

/// The credentials for a registry; none without a login to it.
pub(super) fn credentials(artifact: &Artifact) -> Result<Credentials, Failure> {
    let Some(file) = file() else { return Ok(Credentials::default()) };
    let name = file.display().to_string();
    let config = match bounded(&file, CONFIG) {
        Ok(Some(config)) => config,
        Ok(None) => return Err(format!("{name} is no docker config: it has more than 1 MiB").into()),
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            return Ok(Credentials::default());
        }
        Err(error) => return Err(format!("{name} cannot be read: {error}").into()),
    };
    let Stored { helper, credentials } = stored(&config, &name, artifact)?;
    if let Some((helper, server)) = helper {
        let asked = ask(&helper, &server, PATIENCE);
        if let Some(found) = asked.map_err(|why| format!("`docker-credential-{helper}` of {name}: {why}"))? {
            return Ok(found);
        }
    }
    Ok(credentials.unwrap_or_default())
}

fn file() -> Option<PathBuf> {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let directory = set("DOCKER_CONFIG").or_else(|| Some(set("HOME")?.join(".docker")))?;
    Some(directory.join("config.json"))
}

/// Asks a helper, which gets `patience`; nothing when it knows no credentials.
fn ask(helper: &str, server: &str, patience: Duration) -> Result<Option<Credentials>, String> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    if !helper.bytes().all(plain) {
        return Err("it is no name of a program".to_owned());
    }
    let until = Instant::now() + patience;
    let mut command = Command::new(format!("docker-credential-{helper}"));
    let started = command.arg("get").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
    let mut child = started.map_err(|error| match error.kind() {
        ErrorKind::NotFound => "it is not in the PATH: install it, or log in without it".to_owned(),
        _ => format!("it cannot be started: {error}"),
    })?;
    let printed = talk(&mut child, server, until);
    let ended = printed.and_then(|printed| Ok((ended(&mut child, until)?, printed)));
    if ended.is_err() {
        // It may have ended by itself.
        let _ = child.kill();
        let _ = child.wait();
    }
    let (status, printed) = ended?;
    if status.success() {
        return of_helper(&printed).map(Some);
    }
    let said = String::from_utf8_lossy(&printed);
    if said.contains(NOT_FOUND) {
        return Ok(None);
    }
    let said = crate::pack::shown(said.trim(), 200);
    Err(format!("it fails ({status}): {said}"))
}

/// Tells it the server, and reads what it prints.
fn talk(child: &mut Child, server: &str, until: Instant) -> Result<Vec<u8>, String> {
    if let Some(mut stdin) = child.stdin.take() {
        // One that does not want to know has its reasons, and says them.
        let _ = stdin.write_all(format!("{server}\n").as_bytes());
    }
    let Some(stdout) = child.stdout.take() else { return Err("its output cannot be read".to_owned()) };
    let (printed_tx, printed_rx) = mpsc::sync_channel(1);
    // Not awaited: what the helper has started may hold the other end for as long as it likes.
    std::thread::spawn(move || {
        let mut printed = Vec::new();
        let read = stdout.take(PRINTED + 1).read_to_end(&mut printed);
        let _ = printed_tx.send(read.map(|_| printed));
    });
    match printed_rx.recv_timeout(until.saturating_duration_since(Instant::now())) {
        Ok(Ok(printed)) if printed.len() as u64 > PRINTED => Err("it prints more than 64 KiB".to_owned()),
        Ok(Ok(printed)) => Ok(printed),
        Ok(Err(error)) => Err(format!("its output cannot be read: {error}")),
        Err(_) => Err("it does not answer in time".to_owned()),
    }
}

fn ended(child: &mut Child, until: Instant) -> Result<ExitStatus, String> {
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return Ok(status),
            Ok(None) if Instant::now() < until => std::thread::sleep(LOOK),
            Ok(None) => return Err("it does not end in time".to_owned()),
            Err(error) => return Err(format!("nothing is known of its end: {error}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_plain_name_is_run() {
        for name in ["../x", "a/b", "a b", "a;b"] {
            assert_eq!(ask(name, "r", Duration::ZERO).unwrap_err(), "it is no name of a program", "{name}");
        }
        let error = ask("that-is-nowhere", "r", Duration::ZERO).unwrap_err();
        assert!(error.contains("not in the PATH"), "{error}");
    }

    /// A shell in place of a helper.
    fn shell(script: &str) -> Child {
        let mut command = Command::new("sh");
        command.args(["-c", script]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap()
    }

    #[test]
    fn a_helper_that_does_not_stop_is_not_waited_for() {
        let soon = || Instant::now() + Duration::from_millis(200);
        let far = Instant::now() + Duration::from_secs(60);
        let mut child = shell("read server; echo \"$server\"");
        assert_eq!(talk(&mut child, "r", far).unwrap(), b"r\n");
        assert!(ended(&mut child, far).unwrap().success());
        let mut child = shell("exec sleep 60");
        assert!(talk(&mut child, "r", soon()).unwrap_err().contains("in time"));
        child.kill().unwrap();
        child.wait().unwrap();
        let mut child = shell("exec >&-; exec sleep 60");
        assert_eq!(talk(&mut child, "r", far).unwrap(), b"");
        assert!(ended(&mut child, soon()).unwrap_err().contains("in time"));
        child.kill().unwrap();
        child.wait().unwrap();
        let mut child = shell("exec yes");
        assert!(talk(&mut child, "r", far).unwrap_err().contains("64 KiB"));
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
