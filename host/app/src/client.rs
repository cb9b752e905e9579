//! The commands that talk to a running host.
//!
//! Why not hyper's client: it takes more lines than the exchange here, and one more dependency.
//! Another program at the host's address may speak before it is asked, or answer with a malformed
//! status line. hyper has errors of its own for these; here they are answers like any other, and
//! the user is told that the program is not a host.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, bail};
use pilothouse_core::CommandVerb;
use pilothouse_core::text::escaped;
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpStream, UnixStream};

use crate::address::Address;
use crate::cli::{ListArgs, Output, PluginArgs};
use crate::http::{DIGEST, SERVER, socket};

/// A host that takes longer than this is not healthy.
const TIMEOUT: Duration = Duration::from_secs(30);

/// The most bytes that are read. No host has this much to report; another program might never stop
/// sending.
const MOST: u64 = 64 << 20;

/// `pilothouse plugins`.
pub async fn plugins(args: &ListArgs) -> anyhow::Result<String> {
    let body = ask(&args.host.host, "/plugins").await?;
    match args.output {
        Output::Json => Ok(body),
        Output::Table => table(&body),
    }
}

/// `pilothouse pause`, `resume`, `rollback`, `accept`.
pub async fn command(
    args: &PluginArgs,
    verb: CommandVerb,
    digest: Option<&str>,
) -> anyhow::Result<String> {
    let name = &args.plugin;
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
    if name.is_empty() || !name.bytes().all(is_plain) {
        bail!("{name:?} is not a plugin's name");
    }
    let query = digest.map(|digest| format!("?{DIGEST}{digest}"));
    let path = format!(
        "/plugins/{name}/{}{}",
        verb.word(),
        query.unwrap_or_default()
    );
    let host = &args.host.host;
    let said = args.command_socket.clone();
    let said = said.or_else(socket::of_environment);
    if said.is_none() && !host.is_this_machine() {
        bail!(
            "commands are taken where the host runs, and {host} may be elsewhere: say 127.0.0.1:{} there (in a cluster by kubectl exec), or --command-socket",
            host.port()
        );
    }
    let places = said.map_or_else(|| socket::usual_places(host.port()), |path| vec![path]);
    let body = tell(&places, host, &path).await?;
    Ok(escaped(body.trim_end(), usize::MAX))
}

/// Sends a request to a host's address.
async fn ask(host: &Address, path: &str) -> anyhow::Result<String> {
    let connect = TcpStream::connect(host.to_connect());
    let missing = || format!("no host at {host}; --host names the address that its --listen says");
    let answer = exchange(connect, "GET", path, &host.to_string()).await;
    read(&answer?.with_context(missing)?, "GET", path, host)
}

/// Sends a command to a host's socket, at the first of these paths that accepts a connection.
async fn tell(places: &[PathBuf], host: &Address, path: &str) -> anyhow::Result<String> {
    let mut problem = anyhow::anyhow!("no place is known");
    for place in places {
        let connect = UnixStream::connect(place);
        match exchange(connect, "POST", path, "localhost").await? {
            Ok(answer) => return read(&answer, "POST", path, host),
            Err(error) => {
                problem = anyhow::Error::new(error).context(format!("{}", place.display()));
            }
        }
    }
    Err(problem).with_context(|| {
        format!(
            "no host of this user takes commands here for port {}; --host names its port, --command-socket the place that it was given",
            host.port()
        )
    })
}

/// Sends a request without a body. HTTP/1.0 needs no more than this.
async fn exchange<S: AsyncRead + AsyncWrite + Unpin>(
    connect: impl Future<Output = std::io::Result<S>>,
    method: &str,
    path: &str,
    host: &str,
) -> anyhow::Result<std::io::Result<Vec<u8>>> {
    let exchange = async {
        let mut stream = connect.await?;
        let request =
            format!("{method} {path} HTTP/1.0\r\nHost: {host}\r\nContent-Length: 0\r\n\r\n");
        stream.write_all(request.as_bytes()).await?;
        let mut answer = Vec::new();
        stream.take(MOST).read_to_end(&mut answer).await?;
        Ok::<_, std::io::Error>(answer)
    };
    tokio::time::timeout(TIMEOUT, exchange)
        .await
        .with_context(|| format!("the host does not answer within {TIMEOUT:?}"))
}

fn read(answer: &[u8], method: &str, path: &str, host: &Address) -> anyhow::Result<String> {
    body(&String::from_utf8_lossy(answer)).map_err(|problem| match problem {
        Problem::Said(text) => anyhow::anyhow!(text),
        Problem::Stranger(answer) => anyhow::anyhow!(
            "{host} is not a pilothouse host: it answers {method} {path} with {answer}; --host names the address that a host's --listen says"
        ),
    })
}

/// Why an answer cannot be used.
#[derive(Debug, PartialEq)]
enum Problem {
    /// The host's error text.
    Said(String),
    /// The answer is that of another program.
    Stranger(String),
}

/// The body of a successful answer.
fn body(answer: &str) -> Result<String, Problem> {
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((answer, ""));
    let mut lines = head.lines();
    let first = lines.next().unwrap_or_default();
    let is_server = |line: &str| {
        let (name, value) = line.split_once(':').unwrap_or_default();
        name.eq_ignore_ascii_case("server") && value.trim() == SERVER
    };
    let Some(status) = first.strip_prefix("HTTP/1.").and_then(|rest| rest.get(2..)) else {
        let what = if answer.is_empty() {
            "nothing"
        } else {
            "what is not HTTP"
        };
        return Err(Problem::Stranger(what.to_owned()));
    };
    if !lines.any(is_server) {
        let status: String = status.chars().take(100).collect();
        return Err(Problem::Stranger(format!("{status:?}")));
    }
    if status.split(' ').next() != Some("200") {
        return Err(Problem::Said(body.trim_end().to_owned()));
    }
    Ok(body.to_owned())
}

const COLUMNS: [&str; 7] = [
    "NAME", "VERSION", "STATE", "QUEUED", "RUNNING", "FAILING", "REASON",
];

/// The number of characters of the last error that the table shows.
const LONGEST_REASON: usize = 120;

fn table(body: &str) -> anyhow::Result<String> {
    let plugins: Vec<Value> =
        serde_json::from_str(body).context("the host's answer is not a list of plugins")?;
    let mut rows = vec![COLUMNS.map(str::to_owned)];
    rows.extend(plugins.iter().map(row));
    // Two plugins that claim the same name are told apart by their files.
    let names: Vec<String> = rows.iter().map(|row| row[0].clone()).collect();
    for (row, plugin) in rows.iter_mut().skip(1).zip(&plugins) {
        let namesakes = names.iter().filter(|name| **name == row[0]).count();
        if let (2.., Some(file)) = (namesakes, plugin["file"].as_str()) {
            row[0] += &format!(" ({file})");
        }
    }
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max();
    let widths: Vec<usize> = (0..COLUMNS.len())
        .map(|column| width(column).unwrap_or_default())
        .collect();
    let lines = rows.iter().map(|row| {
        let cells = row.iter().zip(&widths);
        let cells: Vec<String> = cells
            .map(|(cell, width)| format!("{cell:width$}"))
            .collect();
        cells.join("   ").trim_end().to_owned()
    });
    Ok(lines.collect::<Vec<_>>().join("\n"))
}

fn row(plugin: &Value) -> [String; COLUMNS.len()] {
    let text = |path: &str| match plugin.pointer(path) {
        Some(Value::String(text)) => escaped(text, usize::MAX),
        Some(Value::Null) | None => String::new(),
        Some(other) => other.to_string(),
    };
    let or = |first: String, second: String| if first.is_empty() { second } else { first };
    let reasons = [text("/reason"), text("/problem")];
    let reasons: Vec<String> = reasons
        .into_iter()
        .filter(|reason| !reason.is_empty())
        .collect();
    [
        or(text("/name"), text("/file")),
        text("/version"),
        text("/state"),
        text("/keys/queued"),
        text("/keys/running"),
        text("/keys/failed"),
        or(reasons.join("; "), last_error(plugin)),
    ]
}

/// The last error of a plugin with failing keys, cut to fit into a table. The JSON output has the
/// whole text.
fn last_error(plugin: &Value) -> String {
    let is_failing = plugin["keys"]["failed"].as_u64() > Some(0);
    let last = &plugin["lastError"];
    let (Some(object), Some(message)) = (last["object"].as_str(), last["message"].as_str()) else {
        return String::new();
    };
    if !is_failing {
        return String::new();
    }
    let line = message.lines().next().unwrap_or_default();
    let mut text = escaped(&format!("{object}: {line}"), usize::MAX);
    if let Some((end, _)) = text.char_indices().nth(LONGEST_REASON) {
        text.truncate(end);
        text.push('…');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plugins_are_a_table_like_kubectls() {
        let body = r#"[
            {"file":"a.wasm","name":"endpoints","version":"1.0.0","state":"running","keys":{"queued":12,"running":1,"failed":0}},
            {"file":"b.wasm","state":"failed","reason":"is damaged","keys":{"queued":0,"running":0,"failed":0}}]"#;
        let expected = "\
NAME        VERSION   STATE     QUEUED   RUNNING   FAILING   REASON
endpoints   1.0.0     running   12       1         0
b.wasm                failed    0        0         0         is damaged";
        assert_eq!(table(body).unwrap(), expected);
    }

    #[test]
    fn two_files_of_one_name_are_told_apart() {
        let body = r#"[
            {"file":"a.wasm","name":"web","version":"1.0.0","state":"running"},
            {"file":"b.wasm","name":"web","version":"2.0.0","state":"failed","reason":"taken"},
            {"file":"c.wasm","name":"shop","version":"1.0.0","state":"running"}]"#;
        let table = table(body).unwrap();
        let first: Vec<&str> = table.lines().map(|line| line[..12].trim()).collect();
        assert_eq!(first, ["NAME", "web (a.wasm)", "web (b.wasm)", "shop"]);
    }

    #[test]
    fn a_watch_that_fails_does_not_hide_that_an_earlier_version_runs() {
        let body = r#"[{"file":"a.wasm","state":"running","reason":"no server",
            "problem":"running 1.0.0, NOT the file's 2.0.0: trap"}]"#;
        let table = table(body).unwrap();
        let wanted = "no server; running 1.0.0, NOT the file's 2.0.0: trap";
        assert!(table.ends_with(wanted), "{table}");
    }

    #[test]
    fn what_a_guest_says_neither_drives_a_terminal_nor_makes_a_row() {
        let row = row(&serde_json::json!({
            "file": "a.wasm", "name": "a", "version": "1\u{1b}[8m\nb", "state": "running",
            "problem": "\u{202e}", "keys": {}
        }));
        assert_eq!(row[1], r"1\u{1b}[8m\nb");
        assert_eq!(row[6], r"\u{202e}");
    }

    #[test]
    fn a_plugin_with_failing_keys_shows_the_last_error() {
        let row = |failed: u32, message: &str| {
            row(&serde_json::json!({
                "file": "a.wasm", "name": "a", "state": "running", "keys": {"failed": failed},
                "lastError": {"object": "default/x", "message": message, "secondsAgo": 1}
            }))
        };
        assert_eq!(
            row(1, "trap: out of fuel\nat 0x123")[6],
            "default/x: trap: out of fuel"
        );
        assert_eq!(row(0, "trap: out of fuel")[6], "", "it is over");
        let long = row(1, &"ä".repeat(500));
        assert_eq!(long[6].chars().count(), LONGEST_REASON + 1);
    }

    #[test]
    fn an_answer_of_another_program_is_told_from_the_hosts() {
        let ours = format!("HTTP/1.0 200 OK\r\nServer: {SERVER}\r\n\r\n[]");
        assert_eq!(body(&ours), Ok("[]".to_owned()));
        let refused =
            format!("HTTP/1.0 404 Not Found\r\nserver: {SERVER}\r\n\r\nthere is no plugin\n");
        let said = Problem::Said("there is no plugin".to_owned());
        assert_eq!(body(&refused), Err(said));
        for (answer, says) in [
            (
                "HTTP/1.1 404 Not Found\r\nServer: nginx\r\n\r\n",
                "\"404 Not Found\"",
            ),
            ("HTTP/1.1 200 OK\r\n\r\n[]", "\"200 OK\""),
            ("HTTP/1.1 ü", "\"ü\""),
            ("\u{15}\u{3}\u{3}", "what is not HTTP"),
            ("", "nothing"),
        ] {
            let stranger = Problem::Stranger(says.to_owned());
            assert_eq!(body(answer), Err(stranger), "{answer:?}");
        }
    }
}
