//! The output and the exit status of the commands that end by themselves.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use anyhow::Result;
use pilothouse_tests::{
    Host, HostOptions, RUNTIME_DIRECTORY, Server, guest, named_fickle, plugin_directory,
};

fn pilothouse() -> Command {
    Command::new(std::env::var("PILOTHOUSE_BIN").expect("PILOTHOUSE_BIN is not set"))
}

fn run(arguments: &[&str]) -> Result<Output> {
    Ok(pilothouse().args(arguments).output()?)
}

fn text(path: &Path) -> &str {
    path.to_str().expect("a path of letters")
}

/// Runs a command that must succeed without a complaint. Returns what it prints.
fn printed(arguments: &[&str]) -> Result<String> {
    let output = run(arguments)?;
    let complaint = String::from_utf8(output.stderr)?;
    assert!(output.status.success(), "{arguments:?}: {complaint}");
    assert_eq!(complaint, "", "{arguments:?}");
    Ok(String::from_utf8(output.stdout)?)
}

/// Runs a command that must fail. Returns its exit status and its error output.
fn refused(arguments: &[&str]) -> Result<(Option<i32>, String)> {
    let output = run(arguments)?;
    assert!(!output.status.success(), "{arguments:?}");
    Ok((output.status.code(), String::from_utf8(output.stderr)?))
}

/// As with `| head -n 0`, the reader goes away before anything is written.
#[test]
fn a_reader_that_goes_away_ends_a_command_in_silence_with_its_usual_status() -> Result<()> {
    let (good, bad) = (guest("hello-rust"), tempfile::NamedTempFile::new()?);
    let (good, bad) = (text(&good), text(bad.path()));
    for (arguments, status) in [
        (&["check", good][..], 0),
        (&["check", good, bad], 1),
        (&["rbac", good], 0),
        (&["completions", "bash"], 0),
        (&["man"], 0),
        (&["--help"], 0),
    ] {
        let (reader, writer) = std::io::pipe()?;
        drop(reader);
        let child = pilothouse()
            .args(arguments)
            .stdout(writer)
            .stderr(Stdio::piped())
            .spawn()?;
        let output = child.wait_with_output()?;
        let complaint = String::from_utf8(output.stderr)?;
        assert_eq!(
            output.status.code(),
            Some(status),
            "{arguments:?}: {complaint}"
        );
        assert!(!complaint.contains("pipe"), "{arguments:?}: {complaint}");
    }
    Ok(())
}

/// Answers one request with these bytes. Returns the address.
fn answers_once(answer: &'static [u8]) -> Result<String> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?.to_string();
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept()?;
        let mut request = [0; 1024];
        let _ = stream.read(&mut request)?;
        stream.write_all(answer)
    });
    Ok(address)
}

#[test]
fn a_server_that_is_no_pilothouse_is_named_as_one() -> Result<()> {
    for (answer, says) in [
        (
            &b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"[..],
            "404 Not Found",
        ),
        (b"HTTP/1.1 200 OK\r\n\r\n<html></html>", "200 OK"),
        (b"\x15\x03\x01\xff\xfe", "not HTTP"),
        (b"", "nothing"),
    ] {
        let address = answers_once(answer)?;
        let (status, complaint) = refused(&["plugins", "--host", &address])?;
        assert_eq!(status, Some(1));
        for part in ["is not a pilothouse host", &address, says, "--host"] {
            assert!(complaint.contains(part), "{part:?}: {complaint}");
        }
        assert_eq!(complaint.lines().count(), 1, "{complaint}");
    }
    Ok(())
}

#[tokio::test]
async fn a_host_is_found_by_name_and_by_url() -> Result<()> {
    let (server, plugins) = (Server::start().await?, plugin_directory(&["hello-rust"]));
    let mut host = Host::start(&HostOptions {
        plugins: plugins.path().into(),
        kubeconfig: server.kubeconfig().into(),
        arguments: vec!["--listen".into(), ":0".into()],
        ..HostOptions::default()
    })
    .await?;
    host.wait_until_ready().await?;
    let port = host.address().port();
    for address in [
        format!(":{port}"),
        format!("localhost:{port}"),
        format!("127.0.0.1:{port}"),
        format!("http://127.0.0.1:{port}/"),
    ] {
        let table = printed(&["plugins", "--host", &address])?;
        assert!(table.contains("hello-rust"), "{address}: {table}");
        let refused = pilothouse()
            .args(["pause", "nobody", "--host", &address])
            .env(RUNTIME_DIRECTORY, host.runtime_directory())
            .output()?;
        assert_eq!(
            String::from_utf8(refused.stderr)?,
            "error: there is no plugin \"nobody\"; there are: hello-rust\n"
        );
    }
    Ok(())
}

#[test]
fn check_takes_a_directory_and_says_what_each_plugin_in_it_is() -> Result<()> {
    let plugins = plugin_directory(&["hello-rust", "fickle"]);
    let directory = text(plugins.path());
    let said = printed(&["check", directory])?;
    for part in ["fickle.wasm\n", "hello-rust.wasm\n"] {
        assert!(said.contains(part), "{said}");
    }
    std::fs::write(plugins.path().join("bad.wasm"), "hello")?;
    let (status, complaint) = refused(&["check", directory])?;
    assert_eq!(status, Some(1));
    assert!(
        complaint.contains("bad.wasm: is not WebAssembly"),
        "{complaint}"
    );
    let empty = tempfile::tempdir()?;
    let (_, complaint) = refused(&["check", text(empty.path())])?;
    assert!(complaint.contains("has no *.wasm file"), "{complaint}");
    Ok(())
}

#[test]
fn rbac_takes_a_directory_as_check_does() -> Result<()> {
    let plugins = plugin_directory(&["hello-rust", "fickle"]);
    let files = ["hello-rust", "fickle"].map(|name| plugins.path().join(format!("{name}.wasm")));
    let of_directory = printed(&["rbac", text(plugins.path())])?;
    let of_files = printed(&["rbac", text(&files[1]), text(&files[0])])?;
    assert_eq!(of_directory, of_files);
    let empty = tempfile::tempdir()?;
    let (_, complaint) = refused(&["rbac", text(empty.path())])?;
    assert!(complaint.contains("has no *.wasm file"), "{complaint}");
    Ok(())
}

#[test]
fn check_refuses_what_run_would_refuse_and_prints_settings_with_which_it_runs() -> Result<()> {
    let plugins = plugin_directory(&["keyring"]);
    let (file, settings) = ("keyring.wasm", plugins.path().join("keyring.toml"));
    let output = run(&["check", text(&plugins.path().join(file))])?;
    assert_eq!(output.status.code(), Some(1));
    let complaint = String::from_utf8(output.stderr)?;
    let refused = "\"keyring\" reads the values of Secrets: allow it with secret-values = true";
    assert!(complaint.contains(refused), "{complaint}");
    let said = String::from_utf8(output.stdout)?;
    let (_, table) = said.split_once("above any [table]:").expect("a table");
    std::fs::write(&settings, table)?;
    printed(&["check", text(&plugins.path().join(file))])?;

    std::fs::copy(plugins.path().join(file), plugins.path().join("twin.wasm"))?;
    std::fs::copy(&settings, plugins.path().join("twin.toml"))?;
    let output = run(&["check", text(plugins.path())])?;
    assert_eq!(output.status.code(), Some(1));
    let complaint = String::from_utf8(output.stderr)?;
    let second = "twin.wasm: a plugin named \"keyring\" is already loaded: keyring.wasm";
    assert!(complaint.contains(second), "{complaint}");
    Ok(())
}

#[test]
fn check_warns_of_settings_beside_a_file_that_are_not_read() -> Result<()> {
    let plugins = plugin_directory(&["hello-rust"]);
    let file = plugins.path().join("hello-rust.wasm");
    let warning =
        "hello_rust.toml is not read: the settings of hello-rust.wasm are in hello-rust.toml";
    assert!(!printed(&["check", text(&file)])?.contains("is not read"));
    std::fs::write(plugins.path().join("hello_rust.toml"), "")?;
    let said = printed(&["check", text(&file)])?;
    assert!(said.contains(warning), "{said}");
    Ok(())
}

#[test]
fn check_says_each_thing_once() -> Result<()> {
    let good = printed(&["check", text(&guest("hello-rust"))])?;
    let interface = "pilothouse:controller/log@";
    assert_eq!(good.matches(interface).count(), 1, "{good}");
    assert!(
        !good.lines().any(|line| line.trim() == "exports"),
        "an empty line says nothing: {good}"
    );
    let of_python = printed(&["check", text(&guest("hello-python"))])?;
    assert!(!of_python.contains("wasi:"), "{of_python}");
    assert!(of_python.contains(" of WASI, which grant nothing"));
    let plugins = tempfile::tempdir()?;
    let file = plugins.path().join("fickle.wasm");
    std::fs::write(&file, named_fickle("Not a name", "1.0.0", "nothing-bad"))?;
    let (_, complaint) = refused(&["check", text(&file)])?;
    assert_eq!(complaint.matches("Not a name").count(), 1, "{complaint}");
    Ok(())
}

#[tokio::test]
async fn check_asks_the_cluster_that_is_named_whether_it_serves_the_kinds() -> Result<()> {
    let server = Server::start().await?;
    if !server.is_own() {
        return Ok(());
    }
    let kubeconfig = text(server.kubeconfig());
    let hello = guest("hello-rust");
    let said = printed(&["check", text(&hello), "--kubeconfig", kubeconfig])?;
    assert!(
        said.contains("serves all that it reads and writes"),
        "{said}"
    );
    let widgets = guest("widgets");
    let output = run(&[
        "check",
        text(&widgets),
        text(&hello),
        "--kubeconfig",
        kubeconfig,
    ])?;
    assert_eq!(output.status.code(), Some(1));
    let complaint = String::from_utf8(output.stderr)?;
    assert!(
        complaint.contains("widgets.wasm: the server has no kind example.dev/v1/Widget"),
        "{complaint}"
    );
    // The reports of both plugins are printed nevertheless.
    let said = String::from_utf8(output.stdout)?;
    for part in ["widgets 1.0.0", "hello-rust"] {
        assert!(said.contains(part), "{said}");
    }
    let absent = "/nowhere/kubeconfig";
    let (_, complaint) = refused(&["check", text(&hello), "--kubeconfig", absent])?;
    assert!(complaint.contains(absent), "{complaint}");
    Ok(())
}

#[test]
fn the_version_says_what_a_report_of_a_fault_should() -> Result<()> {
    assert_eq!(printed(&["-V"])?.lines().count(), 1);
    let long = printed(&["--version"])?;
    for part in [
        "pilothouse 0.",
        "contract: pilothouse:controller@",
        "wasmtime: ",
    ] {
        assert!(long.contains(part), "{long}");
    }
    Ok(())
}

/// `bash -n` must read the script without a complaint.
#[test]
fn the_completions_for_bash_are_a_script_that_bash_takes() -> Result<()> {
    let script = printed(&["completions", "bash"])?;
    let mut bash = Command::new("bash")
        .arg("-n")
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    let stdin = bash.stdin.take();
    stdin.expect("it is piped").write_all(script.as_bytes())?;
    let output = bash.wait_with_output()?;
    let complaint = String::from_utf8(output.stderr)?;
    assert!(
        output.status.success() && complaint.is_empty(),
        "{complaint}"
    );
    Ok(())
}
