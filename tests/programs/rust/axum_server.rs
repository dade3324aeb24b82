//! A server with axum that streams each answer as server-sent events. A client that disconnects cancels its turn.

use std::convert::Infallible;

use axum::extract::{Json, Request};
use axum::http::{StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use axum::{Router, routing::post};
use kimi_agent::Session;
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;

#[derive(serde::Deserialize)]
struct Question {
    question: String,
}

/// Sends events to one client.
type Client = mpsc::Sender<Result<Event, Infallible>>;

async fn send(client: &Client, name: &str, data: &str) {
    let event = Event::default().event(name).json_data(data).unwrap_or_default();
    // `ask` notices a client that has disconnected.
    let _ = client.send(Ok(event)).await;
}

/// Streams the answer. Returns the status of the turn.
async fn answer(question: &str, client: &Client) -> kimi_agent::Result<&'static str> {
    let session = Session::builder().work_dir(".").start().await?;
    let mut turn = session.prompt(question)?;
    let mut pieces = turn.text_stream();
    while let Some(piece) = pieces.next().await {
        send(client, "text", &piece?).await;
    }
    let status = turn.result().await?.status;
    session.close().await?;
    Ok(status.as_str())
}

async fn ask(Json(Question { question }): Json<Question>) -> impl IntoResponse {
    let (client, events) = mpsc::channel(16);
    tokio::spawn(async move {
        tokio::select! {
            // Dropping `answer` cancels the turn and closes the session.
            () = client.closed() => {}
            done = answer(&question, &client) => match done {
                Ok(status) => send(&client, "end", status).await,
                Err(error) => {
                    eprintln!("the turn failed: {error}");
                    send(&client, "error", error.code()).await;
                }
            }
        }
    });
    Sse::new(ReceiverStream::new(events)).keep_alive(KeepAlive::default())
}

/// Refuses pages of other sites that reach the server by a host name of their own. `Json` refuses their forms.
async fn only_this_host(request: Request, next: Next) -> Response {
    let host = request.headers().get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    match host.split(':').next() {
        Some("127.0.0.1" | "localhost") => next.run(request).await,
        _ => StatusCode::FORBIDDEN.into_response(),
    }
}

#[tokio::main]
async fn main() -> std::io::Result<()> {
    let app = Router::new().route("/ask", post(ask)).layer(middleware::from_fn(only_this_host));
    let port = std::env::var("PORT").ok().and_then(|port| port.parse().ok()).unwrap_or(3000);
    let listener = TcpListener::bind(("127.0.0.1", port)).await?;
    println!("http://{}", listener.local_addr()?);
    axum::serve(listener, app).await
}
