//! Runs a command in a pod, over a websocket, and tells how it ended.

use futures::future;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Status;
use kube::api::{Api, AttachParams};
use tokio::io::{AsyncRead, AsyncReadExt};

use crate::cluster::{Cluster, Error};
use crate::manifest::ObjectId;

/// What is kept of an output: its end.
const KEPT: usize = 1024;
/// A command that writes more than this is ended.
const OUTPUT: usize = 1 << 20;
/// Characters of a line of output that is told.
const LINE: usize = 200;

/// How a command ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ran {
    /// With this exit code, and the last line that it wrote, shortened.
    Exited { code: i32, said: Option<String> },
    /// It is not known, or it did not begin: why, in the kubelet's words.
    Broke(String),
}

impl Cluster {
    /// Runs a command in a container, without input. The caller bounds the time: when this is dropped, so is the
    /// connection.
    ///
    /// # Errors
    /// The API server refused it, or was not reached.
    pub async fn exec(&self, pod: &ObjectId, container: &str, command: &[String]) -> Result<Ran, Error> {
        let api: Api<Pod> =
            Api::namespaced(self.client().clone(), pod.namespace.as_deref().unwrap_or_default());
        let params = AttachParams { container: Some(container.to_owned()), ..AttachParams::default() };
        let mut process = api
            .exec(&pod.name, command.to_vec(), &params)
            .await
            .map_err(|source| Error::Api { verb: "exec in", id: pod.clone(), source: Box::new(source) })?;
        let status = process.take_status();
        let (stdout, stderr) = (process.stdout(), process.stderr());
        // A reader that does not read both keeps the other waiting, too; and a command that writes without end does not end.
        let all = future::try_join3(
            async {
                // Without one the outputs have no end either.
                let status = match status {
                    Some(status) => status.await,
                    None => None,
                };
                status.ok_or(Cut::Broken)
            },
            tail(stdout),
            tail(stderr),
        );
        let (status, stdout, stderr) = match all.await {
            Ok(all) => all,
            Err(cut) => return Ok(Ran::Broke(cut.to_string())),
        };
        let said = last_line(&stderr).or_else(|| last_line(&stdout));
        Ok(ended(&status, said))
    }
}

/// Why a command was not heard to its end.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
enum Cut {
    #[error("it wrote more than {} KiB", OUTPUT >> 10)]
    TooMuch,
    #[error("the connection ended before the command did")]
    Broken,
}

/// The end of what is read.
async fn tail(stream: Option<impl AsyncRead + Unpin>) -> Result<Vec<u8>, Cut> {
    let mut kept = Vec::new();
    let Some(mut stream) = stream else { return Ok(kept) };
    let mut all = 0;
    let mut piece = vec![0; KEPT];
    // An error is the end of the connection; the status says how it came to that.
    while let Ok(read @ 1..) = stream.read(&mut piece).await {
        all += read;
        if all > OUTPUT {
            return Err(Cut::TooMuch);
        }
        kept.extend_from_slice(piece.get(..read).unwrap_or_default());
        let surplus = kept.len().saturating_sub(KEPT);
        kept.drain(..surplus);
    }
    Ok(kept)
}

fn last_line(output: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(output);
    let line = text.lines().rev().map(str::trim).find(|line| !line.is_empty())?;
    let plain = line.chars().filter(|character| !character.is_control());
    Some(plain.take(LINE).collect())
}

/// What the kubelet's status says. The exit code stands in a cause.
fn ended(status: &Status, said: Option<String>) -> Ran {
    if status.status.as_deref() == Some("Success") {
        return Ran::Exited { code: 0, said };
    }
    let causes = status.details.iter().flat_map(|details| details.causes.iter().flatten());
    let code = causes
        .filter(|cause| cause.reason.as_deref() == Some("ExitCode"))
        .find_map(|cause| cause.message.as_deref()?.parse().ok());
    match code {
        Some(code) => Ran::Exited { code, said },
        None => {
            let message = status.message.as_deref().unwrap_or("the kubelet does not say why it failed");
            let mut message: String = message.chars().filter(|c| !c.is_control()).take(2 * LINE).collect();
            if let Some(said) = said {
                message = format!("{message}: {said}");
            }
            Ran::Broke(message)
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn told(status: serde_json::Value, said: &str) -> Ran {
        let said = Some(said.to_owned()).filter(|said| !said.is_empty());
        ended(&serde_json::from_value(status).unwrap(), said)
    }

    /// What a kubelet writes into the status channel.
    #[test]
    fn the_exit_code_is_read_from_the_causes() {
        assert_eq!(told(json!({"status": "Success"}), ""), Ran::Exited { code: 0, said: None });
        let failed = json!({"status": "Failure", "reason": "NonZeroExitCode",
            "message": "command terminated with non-zero exit code: exit status 3",
            "details": {"causes": [{"reason": "ExitCode", "message": "3"}]}});
        assert_eq!(
            told(failed, "no database"),
            Ran::Exited { code: 3, said: Some("no database".to_owned()) }
        );
    }

    #[test]
    fn a_command_that_could_not_run_says_why() {
        let failed =
            json!({"status": "Failure", "reason": "InternalError", "message": "exec: \"x\": not found"});
        assert_eq!(told(failed.clone(), ""), Ran::Broke("exec: \"x\": not found".to_owned()));
        assert_eq!(told(failed, "sh"), Ran::Broke("exec: \"x\": not found: sh".to_owned()));
        assert!(matches!(told(json!({"status": "Failure"}), ""), Ran::Broke(_)));
    }

    #[test]
    fn the_last_line_is_found_and_shortened() {
        assert_eq!(last_line(b"a\n b \r\n\n \n").as_deref(), Some("b"));
        assert_eq!(last_line(b"\x1b[31mred\x1b[0m").as_deref(), Some("[31mred[0m"));
        assert_eq!(last_line(b"\n\n"), None);
        assert_eq!(last_line("ä".repeat(500).as_bytes()).map(|line| line.chars().count()), Some(LINE));
    }

    #[tokio::test]
    async fn only_the_end_of_an_output_is_kept_and_too_much_ends_it() {
        let long = [vec![b'a'; 5000], b"end".to_vec()].concat();
        let kept = tail(Some(long.as_slice())).await.unwrap();
        assert!(kept.len() == KEPT && kept.ends_with(b"end"));
        assert_eq!(tail(None::<&[u8]>).await, Ok(Vec::new()));
        assert_eq!(tail(Some(vec![b'a'; OUTPUT + 1].as_slice())).await, Err(Cut::TooMuch));
    }
}
