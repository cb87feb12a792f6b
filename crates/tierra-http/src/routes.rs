//! What is where.

use std::sync::Arc;

use axum::extract::rejection::{PathRejection, QueryRejection};
use axum::extract::{Path, Query, State};
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, StatusCode};
use axum::middleware::from_fn_with_state;
use axum::response::IntoResponse;
use axum::routing::{get, post};
use axum::{Extension, Json, Router};
use serde::{Deserialize, Serialize};

use crate::fault::Fault;
use crate::gate::Gate;
use crate::guard::{User, guard};
use crate::metrics::{Format, Text};
use crate::records::{Records, SharedRecords};
use crate::samples::Answer;
use crate::shared::Shared;
use crate::{backup, metrics, page, sql, state};

/// The routes of a database.
pub(crate) fn of_database(shared: Arc<Shared>, gate: Arc<Gate>) -> Router {
    let routes = page::routes(page::DATABASE)
        .route("/sql", post(sql::post))
        .route("/backup", post(backup::post))
        .route("/metrics", get(scrape))
        .route("/api/state", get(now))
        .route("/api/samples", get(samples))
        .route("/api/queries/{id}/cancel", post(cancel))
        .with_state(shared);
    guarded(routes, gate)
}

/// The routes of a server of records.
pub(crate) fn of_records<R: Records>(records: Arc<SharedRecords<R>>, gate: Arc<Gate>) -> Router {
    let routes = page::routes(page::RECORDS)
        .route("/metrics", get(scrape_records::<R>))
        .route("/api/samples", get(samples_of_records::<R>))
        .with_state(records);
    guarded(routes, gate)
}

/// The same with what every request must pass, and an answer to those that have no route.
fn guarded(routes: Router, gate: Arc<Gate>) -> Router {
    routes
        .fallback(nothing)
        .method_not_allowed_fallback(wrong_method)
        .layer(from_fn_with_state(gate, guard))
}

async fn nothing() -> Fault {
    Fault::new(StatusCode::NOT_FOUND, "there is nothing of this name")
}

async fn wrong_method() -> Fault {
    Fault::new(StatusCode::METHOD_NOT_ALLOWED, "not with this method")
}

async fn scrape(State(shared): State<Arc<Shared>>, headers: HeaderMap) -> impl IntoResponse {
    told(&headers, move |text| metrics::write(&shared, text))
}

async fn scrape_records<R: Records>(
    State(shared): State<Arc<SharedRecords<R>>>,
    headers: HeaderMap,
) -> impl IntoResponse {
    told(&headers, move |text| shared.records.write_metrics(text))
}

/// Metrics in the format that the client reads.
fn told<W: FnOnce(&mut Text)>(headers: &HeaderMap, write: W) -> impl IntoResponse + use<W> {
    let mut text = Text::new(Format::wanted(headers));
    write(&mut text);
    ([(CONTENT_TYPE, text.format().name())], text.finish())
}

async fn now(State(shared): State<Arc<Shared>>) -> Json<state::State> {
    Json(state::State::read(&shared))
}

#[derive(Deserialize)]
struct Since {
    /// Milliseconds: samples up to then are not sent.
    #[serde(default)]
    since: u64,
}

async fn samples(
    State(shared): State<Arc<Shared>>,
    since: Result<Query<Since>, QueryRejection>,
) -> Result<Json<Answer>, Fault> {
    Ok(Json(shared.samples.since(wanted(since)?)))
}

async fn samples_of_records<R: Records>(
    State(shared): State<Arc<SharedRecords<R>>>,
    since: Result<Query<Since>, QueryRejection>,
) -> Result<Json<Answer>, Fault> {
    Ok(Json(shared.samples.since(wanted(since)?)))
}

fn wanted(since: Result<Query<Since>, QueryRejection>) -> Result<u64, Fault> {
    let Query(Since { since }) = since.map_err(|error| wrong(&error.body_text()))?;
    Ok(since)
}

/// What a request asks for is not of its type.
fn wrong(message: &str) -> Fault {
    Fault::new(StatusCode::BAD_REQUEST, message)
}

#[derive(Serialize)]
struct Cancelled {
    cancelled: u64,
}

/// Cancels a statement. Who may only read may cancel statements of the same user.
async fn cancel(
    State(shared): State<Arc<Shared>>,
    Extension(user): Extension<User>,
    id: Result<Path<u64>, PathRejection>,
) -> Result<Json<Cancelled>, Fault> {
    let Path(id) = id.map_err(|error| wrong(&error.body_text()))?;
    let owner = shared.monitor.user_of(id);
    if user.reads_only && owner.as_ref().is_some_and(|owner| *owner != user.name) {
        let message = "a user who may only read may cancel what the same user runs";
        return Err(Fault::of_statement("42501", message));
    }
    match owner.is_some() && shared.monitor.cancel(id) {
        true => Ok(Json(Cancelled { cancelled: id })),
        false => Err(Fault::new(
            StatusCode::NOT_FOUND,
            format!("no statement with the number {id} runs"),
        )),
    }
}
