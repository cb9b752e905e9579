use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::Path;

use super::*;
use crate::testing::{Scenario, ScriptedAnswer, json as answer, stalled, status, text};

const KUBECONFIG: &str = r#"
apiVersion: v1
kind: Config
current-context: main
clusters:
- {name: c, cluster: {server: "SERVER"}}
users:
- {name: u, user: {token: wrong}}
contexts:
- {name: main, context: {cluster: c, user: u}}
- {name: broken, context: {cluster: nowhere, user: u}}
"#;

fn file(text: &str) -> tempfile::NamedTempFile {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), text).unwrap();
    file
}

fn named(file: &tempfile::NamedTempFile, context: Option<&str>) -> Options {
    Options {
        kubeconfig: Some(file.path().to_owned()),
        context: context.map(str::to_owned),
    }
}

/// The error's text, which is always one line, with the temporary file's path as FILE.
async fn error(options: &Options, environment: &Environment) -> String {
    let error = Connection::open(options, environment)
        .await
        .err()
        .expect("there is no connection")
        .to_string();
    assert!(!error.contains('\n'), "{error}");
    options.kubeconfig.iter().fold(error, |error, path| {
        error.replace(&path.display().to_string(), "FILE")
    })
}

#[tokio::test]
async fn a_file_that_is_missing_or_broken_is_named_with_what_to_do() {
    let missing = Options {
        kubeconfig: Some("missing/config".into()),
        ..Options::default()
    };
    let none = Environment::default();
    assert_eq!(
        error(&missing, &none).await,
        "kubeconfig FILE (named by a flag) does not exist: correct the path or create the file"
    );
    let broken = error(&named(&file("clusters: [\n  {"), None), &none).await;
    assert!(
        broken.starts_with("kubeconfig FILE is not valid: ")
            && broken.ends_with(": correct the file"),
        "{broken}"
    );
    let other = error(&named(&file("- a list\n- of things"), None), &none).await;
    assert!(
        other.starts_with("kubeconfig FILE is not valid: "),
        "{other}"
    );
}

#[tokio::test]
async fn an_unknown_context_is_answered_with_those_there_are() {
    let file = file(&KUBECONFIG.replace("SERVER", "http://127.0.0.1:1"));
    let none = Environment::default();
    assert_eq!(
        error(&named(&file, Some("other")), &none).await,
        "kubeconfig FILE has no context \"other\": choose one of main, broken"
    );
    let error_of_context = error(&named(&file, Some("broken")), &none).await;
    assert!(
        error_of_context.starts_with(
            "kubeconfig FILE, context \"broken\": failed to load the cluster of context"
        ),
        "{error_of_context}"
    );
}

#[tokio::test]
async fn a_file_without_a_current_context_asks_for_one() {
    let file = file(&KUBECONFIG.replace("current-context: main", ""));
    assert_eq!(
        error(&named(&file, None), &Environment::default()).await,
        "kubeconfig FILE has no current context: set one, or choose one of main, broken"
    );
}

#[tokio::test]
async fn without_any_configuration_all_places_are_named() {
    let nowhere = Environment {
        home: Some("home-of-nobody".into()),
        ..Environment::default()
    };
    let text = error(&Options::default(), &nowhere).await;
    assert!(
        text.contains("set KUBECONFIG, create home-of-nobody/.kube/config, or run in a pod"),
        "{text}"
    );
}

#[tokio::test]
async fn the_variable_may_name_several_files_of_which_some_are_missing() {
    let file = file(&KUBECONFIG.replace("SERVER", "http://127.0.0.1:1"));
    let join = |paths: &[&Path]| Some(std::env::join_paths(paths).unwrap());
    let environment = Environment {
        kubeconfig: join(&[Path::new("missing"), file.path()]),
        ..Environment::default()
    };
    let connection = Connection::open(&Options::default(), &environment)
        .await
        .unwrap();
    assert_eq!(connection.server, "http://127.0.0.1:1/");
    assert_eq!(connection.host, "127.0.0.1:1");
    assert_eq!(connection.origin, file.path().display().to_string());
    let environment = Environment {
        kubeconfig: join(&[Path::new("missing")]),
        ..Environment::default()
    };
    let text = error(&Options::default(), &environment).await;
    assert!(
        text.starts_with("kubeconfig missing (named by KUBECONFIG) does not exist"),
        "{text}"
    );
}

#[tokio::test]
async fn a_server_that_cannot_be_reached_is_named_with_the_cause() {
    let free = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let file = file(&KUBECONFIG.replace("SERVER", &format!("http://{free}")));
    let connection = Connection::open(&named(&file, None), &Environment::default())
        .await
        .unwrap();
    let text = connection
        .check(Duration::from_secs(5))
        .await
        .unwrap_err()
        .to_string();
    assert!(
        text.starts_with(&format!("API server http://{free}/ (from ")),
        "{text}"
    );
    assert!(
        text.contains("Connection refused") && !text.contains('\n'),
        "{text}"
    );
}

/// Runs the real client stack against a real socket, without kube's retry layer.
#[tokio::test]
async fn a_write_that_the_server_fails_is_sent_once_and_under_the_hosts_name() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let file = file(&KUBECONFIG.replace(
        "SERVER",
        &format!("http://{}", listener.local_addr().unwrap()),
    ));
    let server = std::thread::spawn(move || {
        let (mut socket, _) = listener.accept().unwrap();
        let mut seen = Vec::new();
        let mut buffer = [0; 4096];
        // Every request is answered; the loop ends when the dropped client closes the connection.
        while let Ok(length @ 1..) = socket.read(&mut buffer) {
            seen.push(String::from_utf8_lossy(&buffer[..length]).into_owned());
            socket
                .write_all(b"HTTP/1.1 504 Gateway Timeout\r\ncontent-length: 0\r\n\r\n")
                .unwrap();
        }
        seen
    });
    let connection = Connection::open(&named(&file, None), &Environment::default())
        .await
        .unwrap();
    let request = http::Request::post("/api/v1/namespaces/default/pods")
        .body(Vec::new())
        .unwrap();
    let error = connection
        .client
        .fetch_once(&request, Duration::from_secs(5), 1024)
        .await
        .unwrap_err();
    assert_eq!(error.code(), Some(504));
    drop(connection);
    let seen = tokio::task::spawn_blocking(|| server.join().unwrap())
        .await
        .unwrap();
    assert_eq!(seen.len(), 1, "{seen:?}");
    assert!(
        seen[0].contains(&format!(
            "user-agent: pilothouse/{}",
            env!("CARGO_PKG_VERSION")
        )),
        "{}",
        seen[0]
    );
}

fn connection(scenario: &Scenario) -> Connection {
    Connection {
        client: scenario.client().into(),
        server: "https://s/".into(),
        host: "s".into(),
        origin: "FILE".into(),
        namespace: "default".into(),
        config: Config::new("https://s/".parse().unwrap()),
    }
}

async fn check(answer: ScriptedAnswer) -> Result<String, String> {
    let connection = connection(&Scenario::new([answer]));
    connection
        .check(Duration::from_secs(5))
        .await
        .map_err(|error| error.to_string())
}

#[tokio::test(start_paused = true)]
async fn a_server_is_checked_by_its_version() {
    assert_eq!(
        check(answer(
            &serde_json::json!({"major": "1", "gitVersion": "v1.36.0"})
        ))
        .await
        .unwrap(),
        "v1.36.0"
    );
    assert!(
        check(status(403, "Forbidden", "no")).await.is_ok(),
        "it knows us and answers"
    );
    let unauthorized = check(status(401, "Unauthorized", "Unauthorized"))
        .await
        .unwrap_err();
    assert_eq!(
        unauthorized,
        "API server https://s/ refuses the credentials in FILE (401): renew the token or certificate (Unauthorized)"
    );
    for (code, reason) in [(429, "TooManyRequests"), (500, "InternalError"), (503, "")] {
        let starting = check(status(code, reason, "it is starting")).await;
        assert_eq!(
            starting.unwrap_err(),
            "API server https://s/ (from FILE) is not ready: it is starting"
        );
    }
    let other = check(text(200, "<html>hello</html>")).await.unwrap_err();
    assert!(
        other.starts_with("https://s/ (from FILE) does not answer like a Kubernetes API server: "),
        "{other}"
    );
    for silent in [ScriptedAnswer::Silence, stalled()] {
        assert_eq!(
            check(silent).await.unwrap_err(),
            "API server https://s/ (from FILE) cannot be reached: no answer within 5 s: check that it runs, its address and its certificate authority"
        );
    }
}
