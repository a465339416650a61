//! `cli.md`, from the definitions of the command line.

use clap::{Arg, Command, CommandFactory as _};

use super::cell;
use crate::cli::Cli;

pub(super) fn page() -> String {
    let mut command = Cli::command();
    command.build();
    let mut body = String::from(
        "Stdout is the result, stderr tells about the work. Exit codes: 0 fine, 1 findings, 2 usage or IO. The program in the PATH as \
         `kubectl-sherpack` is also `kubectl sherpack …`.\n",
    );
    describe(&command, "sherpack-operator", &mut body);
    super::page("Command line", "the definitions of its flags", &body)
}

fn describe(command: &Command, path: &str, body: &mut String) {
    for sub in command.get_subcommands().filter(|sub| sub.get_name() != "help" && !sub.is_hide_set()) {
        let path = format!("{path} {}", sub.get_name());
        body.push_str(&format!("\n## {}\n\n", path.trim_start_matches("sherpack-operator ")));
        let about = sub.get_long_about().or_else(|| sub.get_about()).map(ToString::to_string);
        body.push_str(&format!("{}\n\n", about.unwrap_or_default().trim()));
        let usage = sub.clone().bin_name(&path).render_usage().to_string();
        let usage = usage.trim_start_matches("Usage: ").trim().to_owned();
        body.push_str(&format!("```text\n{usage}\n```\n"));
        flags(sub, body);
        describe(sub, &path, body);
    }
}

fn flags(command: &Command, body: &mut String) {
    let shown = |arg: &&Arg| !arg.is_hide_set() && !matches!(arg.get_id().as_str(), "help" | "version");
    let args: Vec<&Arg> = command.get_arguments().filter(shown).collect();
    if args.is_empty() {
        return;
    }
    body.push_str("\n| | environment | default | |\n|---|---|---|---|\n");
    for arg in args {
        let help =
            arg.get_long_help().or_else(|| arg.get_help()).map(ToString::to_string).unwrap_or_default();
        let environment =
            arg.get_env().map(|name| format!("`{}`", name.to_string_lossy())).unwrap_or_default();
        let defaults: Vec<String> =
            arg.get_default_values().iter().map(|value| format!("`{}`", value.to_string_lossy())).collect();
        let defaults = if arg.get_action().takes_values() { defaults.join(", ") } else { String::new() };
        body.push_str(&format!(
            "| `{}` | {environment} | {defaults} | {} |\n",
            cell(&name(arg)),
            cell(&help)
        ));
    }
}

/// `--flag VALUE`, `-n, --namespace NAMESPACE` or `RELEASE`.
fn name(arg: &Arg) -> String {
    let values = arg.get_value_names().unwrap_or_default().join(" ");
    let values = if arg.get_action().takes_values() { values } else { String::new() };
    let short = arg.get_short().map(|short| format!("-{short}"));
    let long = arg.get_long().map(|long| format!("--{long}"));
    let flags: Vec<String> = short.into_iter().chain(long).collect();
    [flags.join(", "), values].into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" ")
}
