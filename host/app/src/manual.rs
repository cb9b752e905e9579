//! Output that is derived from the definition of the command line: completion scripts and manual
//! pages.

use anyhow::Context;
use clap::CommandFactory;

use crate::cli::{Cli, CompletionsArgs, ManArgs};

/// `pilothouse completions`.
pub fn completions(args: &CompletionsArgs) -> anyhow::Result<String> {
    let mut text = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "pilothouse", &mut text);
    Ok(String::from_utf8(text)?.trim_end().to_owned())
}

/// `pilothouse man`.
pub fn page(args: &ManArgs) -> anyhow::Result<String> {
    let mut program = Cli::command();
    // Passes the names and flags that commands inherit from the program on to them.
    program.build();
    let described = match &args.command {
        None => &program,
        Some(name) => program.find_subcommand(name).with_context(|| {
            let names = program.get_subcommands().map(clap::Command::get_name);
            let names = names.collect::<Vec<_>>().join(", ");
            format!("there is no command {name:?}; there are: {names}")
        })?,
    };
    let mut text = Vec::new();
    clap_mangen::Man::new(described.clone()).render(&mut text)?;
    Ok(String::from_utf8(text)?.trim_end().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::ValueEnum;
    use clap_complete::Shell;

    #[test]
    fn every_shell_gets_a_script_that_knows_the_commands_and_not_what_the_host_starts_itself_as() {
        for shell in Shell::value_variants() {
            let text = completions(&CompletionsArgs { shell: *shell }).unwrap();
            for word in ["rollback", "kubeconfig", "min-resync-period"] {
                assert!(text.contains(word), "{shell}: {word}");
            }
            assert!(!text.contains("-child"), "{shell}");
        }
    }

    #[test]
    fn each_command_has_a_manual_page_and_an_unknown_one_is_told_which_there_are() {
        let page = |command: Option<&str>| {
            page(&ManArgs {
                command: command.map(str::to_owned),
            })
        };
        let whole = page(None).unwrap();
        assert!(whole.contains(".TH pilothouse 1"), "{whole}");
        assert!(whole.contains("pilothouse\\-run(1)"), "{whole}");
        let run = page(Some("run")).unwrap();
        assert!(run.contains(".TH pilothouse-run 1"), "{run}");
        assert!(run.contains("min\\-resync\\-period"), "{run}");
        let error = page(Some("rum")).unwrap_err().to_string();
        assert!(
            error.contains("run") && error.contains("rollback"),
            "{error}"
        );
    }
}
